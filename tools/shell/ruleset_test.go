package shell

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// bothWays gives p with rules that are all asked, and with rules that are all looked up.
func bothWays(p *Policy) (plain, indexed *Policy) {
	with := func(look bool) *Policy {
		q := p.In(p.files.Start() + "/elsewhere").In(p.files.Start())
		q.rules = newRuleSet(p.rules.list, everyRule)
		q.rules.denies.stems, q.rules.others.heads = nil, nil
		if look {
			q.rules.denies.byStem(q.rules.list)
			q.rules.others.build(q.rules.list)
		}
		return q
	}
	return with(false), with(true)
}

// aliases are programs that a name which says nothing of them leads to.
type aliases struct{ systemPrograms }

func (a aliases) Identify(name, dir string) (string, bool) {
	switch name {
	case "./alias", "/opt/git/alias":
		return "git", true
	case "/opt/ls":
		return "", false
	}
	return a.systemPrograms.Identify(name, dir)
}

var (
	ruledPrograms = []string{"ls", "git", "rm", "find", "curl", "foo", "make", "a", "./a", "bin/../a", "/usr/bin/git", "/usr//bin/./git", "/opt/ls", "./alias",
		"'find -delete'", "'a b'", ".", "/", "..", "LS", "sh", "timeout", "export"}
	ruledWords = []string{"push", "status", "-r", "-rf", "-fr", "--force", "-", "--", "x", "-C", "''", "'x y'", "--exec", "-delete", "ls", "rm", "git", "a=b", "*x"}
	givenWords = []string{"push", "status", "-r", "-f", "-rf", "-R", "--force", "--force=1", "-", "--", "x", "-C", ".", "-C/tmp", "''", "'x y'", "-c", "a.b=c", "*", "x*", "-*",
		"$v", "$v*", "x$v", "-$v", `"$v"`, `p"$v"`, "$(rm x)", "`git push`", "<(ls)", "rm", "ls", "git", "./a", "/bin/rm", "bin/../a", "/opt/ls", "~/a", "{push,x}", "p{u,}sh",
		"-exec", "-delete", ";", "\\;", "A=1", "a"}
	ruledFrames = []string{"%", "%", "%; %", "% | %", "% && % || %", "(%)", "$(%)", "env A=1 %", "timeout 5 %", "xargs %", "sh -c '%'", "for v in push x; do %; done",
		"v=push; %", "cd sub; %", "foo %", "foo -x %", "sudo %", "find . -exec % \\;", "f() { %; }; f; %", "% <<E\n$(%)\nE", "A=%", "export A=$(%)", "! %", "eval %", "\"$v\" %"}
)

func drawnRule(t *rapid.T) Rule {
	words := append([]string{rapid.SampledFrom(ruledPrograms).Draw(t, "program")}, rapid.SliceOfN(rapid.SampledFrom(ruledWords), 0, 3).Draw(t, "words")...)
	r := Rule{Pattern: strings.Join(words, " "), Exact: rapid.IntRange(0, 4).Draw(t, "exact") == 0}
	off := false
	switch rapid.IntRange(0, 3).Draw(t, "effect") {
	case 0:
		r.Allowed = &off
	case 1:
		r.Approval = &off
	case 2:
		r.Approval, r.ReadOnly = &off, true
	}
	if rapid.IntRange(0, 3).Draw(t, "ceiling") == 0 {
		c := sandboxprofile.Top()
		r.Bound = &c
	}
	return r
}

func drawnCommand(t *rapid.T, corpus []string) string {
	if rapid.IntRange(0, 3).Draw(t, "of the corpus") == 0 {
		return rapid.SampledFrom(corpus).Draw(t, "command")
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range spellings {
			if !yield(n) {
				return
			}
		}
	})
	command := rapid.SampledFrom(ruledFrames).Draw(t, "frame")
	for strings.Contains(command, "%") {
		program := strings.Trim(rapid.SampledFrom(ruledPrograms).Draw(t, "program"), "'")
		switch rapid.IntRange(0, 5).Draw(t, "spelled") {
		case 0:
			program = spellings[rapid.SampledFrom(names).Draw(t, "spelling")](t, program)
		case 1:
			program = rapid.SampledFrom([]string{"/bin/", "./", "sub/../", "~/", "/opt/x/", "$v"}).Draw(t, "directory") + path.Base(program)
		}
		words := append([]string{program}, rapid.SliceOfN(rapid.SampledFrom(givenWords), 0, 5).Draw(t, "words")...)
		command = strings.Replace(command, "%", strings.Join(words, " "), 1)
	}
	return command
}

// TestLookedUpRulesDecideAsAll: that only the rules are asked which could match makes
// no difference, whatever the rules and the command line are.
func TestLookedUpRulesDecideAsAll(t *testing.T) {
	corpus := corpusCommands(t)
	rapid.Check(t, func(t *rapid.T) {
		d := Default{Allowed: rapid.IntRange(0, 3).Draw(t, "allowed") > 0, Approval: rapid.Bool().Draw(t, "approval")}
		p, err := NewPolicy(d, rapid.SliceOfN(rapid.Custom(drawnRule), 0, 20).Draw(t, "rules"), nil, aliases{})
		if err != nil {
			t.Skip(err)
		}
		plain, indexed := bothWays(p)
		if rapid.Bool().Draw(t, "as a program") {
			plain, indexed = plain.denying(), indexed.denying()
			_, indexed = bothWays(indexed)
			plain, _ = bothWays(plain)
		}
		patterns := rapid.SliceOfN(rapid.SampledFrom([]approval.Pattern{
			{Kind: approval.ArgvPrefix, Value: "git"}, {Kind: approval.ArgvPrefix, Value: "git push"}, {Kind: approval.ArgvPrefix, Value: "foo"}, {Kind: approval.Host, Value: "a.b:1"},
		}), 0, 2).Draw(t, "patterns")
		for range 4 {
			command := drawnCommand(t, corpus)
			want, got := plain.Decide(command, "bash"), indexed.Decide(command, "bash")
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: %+v, and of all rules %+v", command, got, want)
			}
			if want, got := before(plain, patterns).Decide(command, "bash"), indexed.with(patterns).Decide(command, "bash"); got.Effect != want.Effect || asks(got) != asks(want) {
				t.Fatalf("%q answered by %v: %+v, and of all rules %+v", command, patterns, got, want)
			}
		}
	})
}

// before is with, spelled out: the patterns are rules like all others, and the first.
func before(p *Policy, patterns []approval.Pattern) *Policy {
	q := p.with(patterns)
	if q == p {
		return p
	}
	q.rules = newRuleSet(slices.Concat(q.answers, p.rules.list), everyRule)
	q.rules.denies.stems, q.rules.others.heads, q.answers = nil, nil, nil
	return q
}

// TestIndexLeavesOut: of many rules, only those that speak of the words are asked.
func TestIndexLeavesOut(t *testing.T) {
	_, list := rulesOf(t, "git;git push;git pull;git push -f;deny:git rm;deny:git -f;deny:rm;npm run a;npm run b;deny:rm x;deny:foo a;deny:foo b")
	p := mustPolicy(t, Default{}, list)
	for command, want := range map[string][]int{
		"git":            {0, 4, 5, 6, 9}, // git clean does what rm does
		"git push":       {0, 1, 4, 5, 6, 9},
		"git push -f":    {0, 1, 3, 4, 5, 6, 9},
		"git -x rm":      {0, 4, 5, 6, 9},
		"git $x":         {0, 1, 2, 3, 4, 5, 6, 9},
		"npm run b":      {8},
		"foo b":          {10, 11},
		"foo $b":         {10, 11},
		"unlink x":       {6, 9},
		"unknown git rm": {4, 5, 6, 9},
		"/x/rm x":        {6, 9},
	} {
		a := &analysis{p: p}
		var words []word
		for w := range strings.FieldsSeq(command) {
			words = append(words, word{text: w, literal: len(w), dynamic: w[0] == '$'})
			if w[0] == '$' {
				words[len(words)-1].text, words[len(words)-1].literal = "", 0
			}
		}
		cmd := simpleCommand{words: words}
		found := append(slices.Clone(a.opening(nil, cmd, a.views(cmd))), a.denying(nil, cmd)...)
		slices.Sort(found)
		if !slices.Equal(found, want) {
			t.Errorf("%q: %v, want %v", command, found, want)
		}
	}
}
