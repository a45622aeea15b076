package shell

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/tools"
)

// within fails if a function takes more memory than most, in bytes, all that it gives back
// included. What an analysis allocates is what it looks at, on every machine.
func within(t *testing.T, most uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("it took %d MiB, of which %d are allowed", took>>20, most>>20)
	}
}

// TestWorkOfOneLineIsBounded: a line that makes much of little is asked about, and costs no
// more than a long one; lines as people and agents write them are read to their end.
func TestWorkOfOneLineIsBounded(t *testing.T) {
	no := false
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, []Rule{{Pattern: "echo", Approval: &no}, {Pattern: "cat", Approval: &no}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	numbers := "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31"
	nested := func(body string) string {
		return "for a in " + numbers + "; do for b in " + numbers + "; do " + body + "; done; done"
	}
	many := func(s string, n int) string { return strings.TrimSpace(strings.Repeat(s, n)) }
	for name, c := range map[string]struct {
		command string
		want    tools.Effect
	}{
		"nested loops over many words":      {nested("echo " + many("x ", 30_000)), tools.Ask},
		"nested loops over many paths":      {nested("cat " + many("a/b/c/d/e ", 5500)), tools.Ask},
		"nested loops over one long word":   {nested("echo " + many("x", 60_000)), tools.Ask},
		"nested loops over a here document": {nested("cat <<E\n" + many("$a ", 15_000) + "\nE\n"), tools.Ask},
		"nested loops over a script":        {nested("bash -c '" + many("echo x;", 8000) + "'"), tools.Ask},
		"nested loops over expansions":      {nested("echo " + many("$c", 20_000)), tools.Ask},
		"values in values":                  {"a=" + many("x", 1000) + "\n" + doubling() + "echo $z", tools.Ask},
		"a value many times":                {"a=" + many("x", 20_000) + "\necho " + many("$a", 15_000), tools.Ask},
		"wrappers in wrappers":              {many("env ", 16_000) + " echo", tools.Ask},
		"braces":                            {"cat " + many("{a,b,c,d,e,f,g,h}{1,2,3,4,5,6,7,8} ", 1700), tools.Ask},
		"many words":                        {"echo " + many("x ", 30_000), tools.Allow},
		"a long word":                       {"echo " + many("x", 60_000), tools.Allow},
		"a long loop":                       {"for a in " + numbers + "; do echo " + many("$a word ", 100) + "; done", tools.Allow},
		"nested loops":                      {nested("echo $a $b"), tools.Allow},
		"many files":                        {"cat " + many("dir/name-of-a-file.go ", 1000), tools.Allow},
		"a long script":                     {many("echo some words\n", 1500), tools.Allow},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 256 << 20
			within(t, most, func() {
				if d := p.Decide(c.command, "bash"); d.Effect != c.want {
					t.Errorf("%d bytes: %v, want %v: %s", len(c.command), d.Effect, c.want, d.Reason)
				}
			})
			within(t, most, func() { p.starts(c.command) })
		})
	}
}

// doubling sets b to z, each to ten times the one before.
func doubling() string {
	var b strings.Builder
	for c := 'b'; c <= 'z'; c++ {
		b.WriteString(string(c) + "=" + strings.Repeat("$"+string(c-1), 10) + "\n")
	}
	return b.String()
}

// TestACancelledCallIsNotReadOn: whoever gives a call up has no plan of it, neither its line
// nor the files that it starts are read to their end, and no rule that allows has the word.
// The twin, that somebody waits for, is planned.
func TestACancelledCallIsNotReadOn(t *testing.T) {
	no := false
	p := mustPolicy(t, Default{Allowed: true, Approval: true}, []Rule{{Pattern: "ls", Approval: &no}})
	command := strings.Repeat("ls;", 1000)
	done := make(chan struct{})
	if d := p.until(done).Decide(command, "bash"); d.Effect != tools.Allow || len(d.Parts) != 1000 {
		t.Errorf("%v, %d parts", d.Effect, len(d.Parts))
	}
	close(done)
	if d := p.until(done).Decide(command, "bash"); d.Effect == tools.Allow || len(d.Parts) > 2 || d.Analysis.Class != Unknown {
		t.Errorf("given up: %v, %d parts", d.Effect, len(d.Parts))
	}
}
