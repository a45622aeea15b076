package shell

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/tools"
)

// everydayWords are commands whose words may be spelled in other ways.
var everydayWords = [][]string{
	{"ls", "-la"}, {"git", "status", "--short"}, {"git", "push", "origin"}, {"rm", "-r", "build"}, {"sort", "-u", "f.txt"}, {"sort", "-o", "out", "f.txt"},
	{"find", ".", "-name", "a*b"}, {"find", ".", "-delete"}, {"timeout", "5", "rm", "x"}, {"env", "A=1", "ls"}, {"echo", "a;b"}, {"sed", "s/a/b/", "f"},
	{"sed", "w out", "f"}, {"xargs", "rm"}, {"bash", "-c", "rm x"}, {"python3", "x.py"}, {"cat", ".env"}, {"nice", "-n", "3", "ls"}, {"make", "test"},
}

const everydayRules = "ls;git status;deny:git push;deny:rm;ro:sort;ro:find;ro:sed;ro:cat;echo;ask:make"

// spellings give the same word in other ways, each drawing what it needs.
var spellings = map[string]func(*rapid.T, string) string{
	"single quotes": func(_ *rapid.T, w string) string { return "'" + w + "'" },
	"double quotes": func(_ *rapid.T, w string) string { return `"` + w + `"` },
	"backslashes": func(_ *rapid.T, w string) string {
		var b strings.Builder
		for _, c := range w {
			b.WriteString(`\` + string(c))
		}
		return b.String()
	},
	"ANSI-C": func(_ *rapid.T, w string) string {
		var b strings.Builder
		for i := range len(w) {
			b.WriteString(`\x` + string("0123456789abcdef"[w[i]>>4]) + string("0123456789abcdef"[w[i]&15]))
		}
		return "$'" + b.String() + "'"
	},
	"spliced": func(t *rapid.T, w string) string {
		at := rapid.IntRange(0, len(w)).Draw(t, "splice")
		return "'" + w[:at] + `'"` + w[at:] + `"`
	},
	"continued": func(t *rapid.T, w string) string {
		at := rapid.IntRange(1, len(w)).Draw(t, "break")
		return `"` + w[:at] + "\\\n" + w[at:] + `"`
	},
}

// TestSpellingChangesNothing holds equivalent spellings of a command against each
// other: quotes, spaces, comments, continuations and grouping are not content.
func TestSpellingChangesNothing(t *testing.T) {
	d, list := rulesOf(t, everydayRules)
	p := mustPolicy(t, d, list)
	names := make([]string, 0, len(spellings))
	for n := range spellings {
		names = append(names, n)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom(everydayWords).Draw(t, "words")
		plain, spelled := make([]string, len(words)), make([]string, len(words))
		for i, w := range words {
			plain[i] = "'" + w + "'"
			spelled[i] = spellings[rapid.SampledFrom(names).Draw(t, "spelling")](t, w)
		}
		space := rapid.SampledFrom([]string{" ", "  ", "\t", " \\\n "}).Draw(t, "space")
		frame := rapid.SampledFrom([]string{"%", " % ", "%;", "# c\n%", "% # c", "{ %; }", "( % )", "%\n", "true; %", "% 2>/dev/null", "if true; then %; fi"}).Draw(t, "frame")
		want := p.Decide(strings.Join(plain, " "), "bash")
		command := strings.Replace(frame, "%", strings.Join(spelled, space), 1)
		if got := p.Decide(command, "bash"); got.Effect != want.Effect || got.RuleIndex != want.RuleIndex {
			t.Fatalf("%q: %v (rule %d), but %q: %v (rule %d)\n%+v", command, got.Effect, got.RuleIndex, plain, want.Effect, want.RuleIndex, got.Parts)
		}
	})
}

func drawRules(t *rapid.T) string {
	pool := []string{"ls", "git status", "deny:git push", "deny:rm", "ro:sort", "ask:make", "echo", "deny:rm -rf", "git", "ask:git", "exact:ls -la", "deny:ls", "cat", "sh", "deny:touch"}
	rules := rapid.SliceOfN(rapid.SampledFrom(pool), 0, 5).Draw(t, "rules")
	return rapid.SampledFrom([]string{"", "allow:*;", "deny:*;"}).Draw(t, "default") + strings.Join(rules, ";")
}

func corpusCommands(t testing.TB) []string {
	var commands []string
	for _, c := range readCases(t, "testdata/cases.jsonl") {
		commands = append(commands, c.Command)
	}
	for _, w := range everydayWords {
		commands = append(commands, strings.Join(w, " "))
	}
	return commands
}

// TestAnotherDenyNeverLoosens adds a rule that denies, anywhere, to any rules:
// no decision may become less strict.
func TestAnotherDenyNeverLoosens(t *testing.T) {
	commands := corpusCommands(t)
	rapid.Check(t, func(rt *rapid.T) {
		rules := drawRules(rt)
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		d, list := rulesOf(t, rules)
		at := rapid.IntRange(0, len(list)).Draw(rt, "at")
		no := false
		pattern := rapid.SampledFrom([]string{"ls", "rm", "git", "git push", "sh", "touch", "echo -n", "find"}).Draw(rt, "deny")
		more := slices.Insert(slices.Clone(list), at, Rule{Pattern: pattern, Allowed: &no})
		before := mustPolicy(t, d, list).Decide(command, "bash")
		after := mustPolicy(t, d, more).Decide(command, "bash")
		if after.Effect > before.Effect {
			rt.Fatalf("rules %q: %q is %v, and %v with deny %q", rules, command, before.Effect, after.Effect, pattern)
		}
	})
}

// TestMoreCommandsNeverLoosen joins two commands: the result is no less strict
// than either.
func TestMoreCommandsNeverLoosen(t *testing.T) {
	commands := corpusCommands(t)
	commands = slices.DeleteFunc(commands, func(c string) bool { return strings.ContainsAny(c, "#=") || strings.Contains(c, "<<") })
	rapid.Check(t, func(rt *rapid.T) {
		d, list := rulesOf(t, drawRules(rt))
		p := mustPolicy(t, d, list)
		a := rapid.SampledFrom(commands).Draw(rt, "a")
		b := rapid.SampledFrom([]string{"ls", "rm x", "make", "sort -o x y", "$x", "touch x"}).Draw(rt, "b")
		joined := b + rapid.SampledFrom([]string{"\n", "; ", " && ", " || "}).Draw(rt, "operator") + a
		want := min(p.Decide(a, "bash").Effect, p.Decide(b, "bash").Effect)
		if got := p.Decide(joined, "bash"); got.Effect > want {
			rt.Fatalf("%q is %v, its parts %v", joined, got.Effect, want)
		}
	})
}

// FuzzDecide feeds arbitrary text. Whatever it is, a decision is made without a
// panic, has a reason unless it allows, is the strictest of its parts, and is
// made again the same way.
func FuzzDecide(f *testing.F) {
	for _, c := range corpusCommands(f) {
		f.Add(c)
	}
	source, err := os.ReadFile("classes_test.go")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.SplitSeq(string(source), ", \"") { // not the exact cases, and as good as seeds
		f.Add(line)
	}
	d, list := rulesOf(f, everydayRules)
	p := mustPolicy(f, d, list)
	f.Fuzz(func(t *testing.T, command string) {
		got := p.analyse(command, "bash", nil) // what Decide does, but a panic shows
		if got.Effect != tools.Allow && got.Reason == "" {
			t.Errorf("%q: %v without a reason", command, got.Effect)
		}
		for _, part := range got.Parts {
			if part.Effect < got.Effect {
				t.Errorf("%q: %v, but a part is %v", command, got.Effect, part.Effect)
			}
		}
		if again := p.Decide(command, "bash"); again.Effect != got.Effect || again.Rule != got.Rule {
			t.Errorf("%q: %v, then %v", command, got.Effect, again.Effect)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for name, command := range map[string]string{
		"plain":    "ls -la src",
		"readonly": "git log --oneline -n 20 -- src",
		"pipeline": "npm run build 2>&1 | grep -E 'error|warn' | sort | uniq -c | tail -n 20",
		"loop":     "for f in a b c; do wc -l \"$f\" 2>/dev/null || echo \"none: $f\"; done",
	} {
		b.Run(name, func(b *testing.B) {
			d, list := rulesOf(b, "deny:rm;deny:git push;npm run build;grep;sort;uniq;tail;wc;echo;ls;ro:git")
			p := mustPolicy(b, d, list)
			b.ReportAllocs()
			for b.Loop() {
				if p.Decide(command, "bash").Effect != tools.Allow {
					b.Fatal("not allowed")
				}
			}
		})
	}
}
