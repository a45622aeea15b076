package shell

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

func patterns(values ...string) []approval.Pattern {
	var list []approval.Pattern
	for _, v := range values {
		list = append(list, approval.Pattern{Kind: approval.ArgvPrefix, Value: v})
	}
	return list
}

func reachOf(p *Policy, command string) approval.Reach {
	return new(Tool).reach(p, command, "/", p.Decide(command, "bash"))
}

// asking is a policy with rules of each effect, whose default asks.
func asking(t testing.TB) *Policy {
	t.Helper()
	no := false
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, []Rule{
		{Pattern: "ls", Approval: &no}, {Pattern: "git commit"}, {Pattern: "git push --force", Allowed: &no},
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPatternsAreHeldAgainstTheWholeLine: a remembered beginning allows what a
// rule with these words would, by the same analysis, and never by the text.
func TestPatternsAreHeldAgainstTheWholeLine(t *testing.T) {
	p := asking(t)
	for _, tt := range []struct {
		command  string
		patterns []string
		covered  bool
	}{
		{"go test ./...", []string{"go test"}, true},
		{"'go' te'st' ./...", []string{"go test"}, true},
		{"go test ./... 2>&1 | ls", []string{"go test"}, true},
		{"timeout 60 go test ./...", []string{"go test"}, true},
		{"(go test ./a; go test ./b) && ls", []string{"go test"}, true},
		{"go test ./... && npm run lint", []string{"go test"}, false},
		{"go test ./... && npm run lint", []string{"go test", "npm run lint"}, true},
		{"git commit -m x", []string{"git commit"}, true}, // the answer to a rule that asks
		{"go test", []string{"go testing"}, false},
		{"go", []string{"go test"}, false},

		{"go test ./...; rm -rf x", []string{"go test"}, false},
		{"go test $(rm -rf x)", []string{"go test"}, false},
		{"go test `rm x`", []string{"go test"}, false},
		{"go test ./...\nrm x", []string{"go test"}, false},
		{"go test ./... & rm x", []string{"go test"}, false},
		{"go test > ../outside", []string{"go test"}, false},
		{"go test -exec ./evil ./...", []string{"go test"}, false},
		{"GOFLAGS=-exec=./evil go test", []string{"go test"}, false},
		{"PATH=. go test", []string{"go test"}, false},
		{"./go test", []string{"go test"}, false},
		{"$x go test", []string{"go test"}, false},
		{"go $x", []string{"go test"}, false},
		{"eval go test", []string{"go test"}, false},
		{"cd /tmp && git commit", []string{"git commit"}, false},
		{"echo 'go test'; rm x", []string{"go test"}, false},
		{"go test \\\n; rm x", []string{"go test"}, false},
		{"git push --force", []string{"git push"}, false},
		{"git push -f", []string{"git push"}, false},
		{"go(){ rm x; }; go test", []string{"go test"}, false},
		{"alias go=rm; go test", []string{"go test"}, false},
	} {
		r := reachOf(p, tt.command)
		if got := r.Left(patterns(tt.patterns...)); (got == 0) != tt.covered {
			t.Errorf("%q with %q: %d left to ask about, want covered=%v", tt.command, tt.patterns, got, tt.covered)
		}
	}
}

// TestPatternsHoldWhereTheCommandRuns: in another directory the same words read other
// files and run other programs, so a pattern is held against the line as it stands there.
func TestPatternsHoldWhereTheCommandRuns(t *testing.T) {
	f := newFixture(t)
	f.must(t, os.WriteFile(f.path("bin/git"), []byte("#!/bin/sh\n"), 0o755))
	for _, c := range []struct {
		command, dir, pattern string
		covered               bool
	}{
		{"ls", ".", "ls", true},
		{"ls", "sub", "ls", true},
		{"git log", ".", "git log", true},
		{"git log", "sub", "git log", false}, // by another repository's configuration
	} {
		p, err := f.tool(t).Plan(call(map[string]any{"command": c.command, "dir": c.dir}))
		f.must(t, err)
		if left := p.Reach.Left(patterns(c.pattern)); (left == 0) != c.covered {
			t.Errorf("%q in %s with %q: %d left, want covered=%v", c.command, c.dir, c.pattern, left, c.covered)
		}
	}
}

// TestProgramsAreReachedLikeCommandLines: a program that is run without a shell is
// covered by the patterns that would cover its words on a command line, and by no
// rule that allows.
func TestProgramsAreReachedLikeCommandLines(t *testing.T) {
	no := false
	f := newFixture(t, allowing("ls"), Rule{Pattern: "dir --all", Allowed: &no})
	tool, err := New(f.config)
	f.must(t, err)
	for _, c := range []struct {
		argv    []string
		pattern string
		covered bool
	}{
		{[]string{"ls", "a.txt"}, "ls", true},
		{[]string{"ls", "a b; c", "$x", "*", "`y`"}, "ls", true}, // no shell reads these
		{[]string{f.path("bin/ls"), "a.txt"}, "ls", true},
		{[]string{"./ls", "a.txt"}, "ls", false}, // a file of that name in the workspace
		{[]string{"ls", "a.txt"}, "", false},     // a rule for command lines allows no program
		{[]string{"dir"}, "dir", true},
		{[]string{"dir", "--all"}, "dir", false},
		{[]string{"bash", "-c", "ls; dir"}, "ls", false},
		{[]string{"bash", "-c", "ls"}, "bash -c", false},
		{[]string{"env", "X=1", "ls"}, "env", false},
	} {
		r := tool.Reach(c.argv, f.path("ws"))
		var list []approval.Pattern
		if c.pattern != "" {
			list = patterns(c.pattern)
		}
		if left := r.Left(list); (left == 0) != c.covered {
			t.Errorf("%q with %q: %d left, want covered=%v", c.argv, c.pattern, left, c.covered)
		}
	}
	offered := tool.Reach([]string{"ls", "a.txt"}, f.path("ws")).Offers()
	if !slices.Equal(offered, patterns("ls", "ls a.txt")) {
		t.Errorf("offered are %v", offered)
	}
}

// TestLongCommandsAreNotAllowedByPatterns, and are denied by them.
func TestLongCommandsAreNotAllowedByPatterns(t *testing.T) {
	p := asking(t)
	long := "go test ./" + strings.Repeat("x", maxReach)
	if r := reachOf(p, long); r.Left(patterns("go test")) == 0 || len(r.Elements) == 0 {
		t.Errorf("%d left, %d elements", r.Left(patterns("go test")), len(r.Elements))
	}
	if r := reachOf(p, long[:maxReach]); r.Left(patterns("go test")) != 0 {
		t.Errorf("a command that is just short enough: %d left", r.Left(patterns("go test")))
	}
}

// TestElementsAreEveryReading: a deny finds a command however it is spelled.
func TestElementsAreEveryReading(t *testing.T) {
	p := asking(t)
	for _, command := range []string{
		"git push origin", "/usr/bin/git push", "git -C x push", "git --no-pager push", "timeout 5 git push", "sudo git push", "ls && git push",
		"echo $(git push)", "'g'it pu\"sh\"", "bash -c 'git push'", "if true; then git push; fi", "git push $x", "env A=1 git push", "x=1 git push",
		"ls | xargs git push", "./git push",
	} {
		found := slices.ContainsFunc(reachOf(p, command).Elements, func(e approval.Element) bool {
			return len(e.Words) >= 2 && e.Words[0] == "git" && e.Words[1] == "push"
		})
		if !found {
			t.Errorf("%q has the elements %q", command, reachOf(p, command).Elements)
		}
	}
}

func TestOffersForCommands(t *testing.T) {
	p := asking(t)
	for command, want := range map[string]string{
		"go test ./... | ls":        "go test, go test ./...",
		"npm run lint && ls":        "npm run lint",
		"git commit -m 'two words'": "git commit, git commit -m two words",
		"ls":                        "",
		"rm -rf x":                  "rm -rf x",
		"python3 -c 'x'":            "python3 -c x",
		"python3 gen.py":            "python3 gen.py",
		"$x":                        "",
	} {
		var got []string
		for _, o := range reachOf(p, command).Offers() {
			got = append(got, o.Value)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q offers %q, want %q", command, strings.Join(got, ", "), want)
		}
	}
	// What is no narrow pattern does not get past approval, as in TestWidePatternsAreRefused.
	for _, wide := range []string{"rm -rf x", "python3 -c x"} {
		if (approval.Pattern{Kind: approval.ArgvPrefix, Value: wide}).Check() == nil {
			t.Errorf("%q may be remembered", wide)
		}
	}
}

// TestPatternsLoosenOnlyWhatTheyCover: with patterns, no command is judged more
// loosely than with rules of the same words, and nothing that is denied is allowed.
func TestPatternsLoosenOnlyWhatTheyCover(t *testing.T) {
	p := asking(t)
	piece := rapid.SampledFrom([]string{"go test ./a", "go vet", "ls", "git push --force", "git commit", "rm x", "$x", "go test -exec y", "> f", "A=1 go test"})
	joint := rapid.SampledFrom([]string{" && ", "; ", " | ", "\n"})
	value := rapid.SampledFrom([]string{"go test", "go vet", "git push", "git commit", "rm x"})
	rapid.Check(t, func(t *rapid.T) {
		command := piece.Draw(t, "first")
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			command += joint.Draw(t, "joint") + piece.Draw(t, "next")
		}
		some := rapid.SliceOfN(value, 0, 3).Draw(t, "patterns")
		r, bare := reachOf(p, command), p.Decide(command, "bash")
		left := r.Left(patterns(some...))
		if bare.Effect == tools.Deny && left == 0 {
			t.Fatalf("%q is denied, and covered by %q", command, some)
		}
		if left > r.Left(nil) {
			t.Fatalf("%q: %q leave more to ask about than nothing does", command, some)
		}
		for _, part := range bare.Parts {
			known := slices.ContainsFunc(some, func(s string) bool { return strings.HasPrefix(part.Text+" ", s+" ") })
			if part.Effect == tools.Ask && !known && left == 0 {
				t.Fatalf("%q is covered by %q, though none of them is about %q", command, some, part.Text)
			}
		}
	})
}

// TestADeniedCommandInCompany: a denial of a line is known by its commands, and each command of
// another line is looked up as a line of its own.
func TestADeniedCommandInCompany(t *testing.T) {
	d, list := rulesOf(t, "")
	p := mustPolicy(t, d, list)
	for _, c := range []struct {
		denied, line string
		holds        bool
	}{
		{"touch z y", "true; touch z y", true}, {"touch z y", "touch z y </dev/null", true}, {"touch z y", "'touch' z y", true},
		{"touch z y", "echo x | timeout 5 touch z y", true}, {"touch z y", "sh -c 'touch z y'", true}, {"touch z y", ": && touch z y || false", true},
		{"cd sub && make", "cd sub; make", true}, {"cd sub && make", "ls; cd sub && make; ls", true}, {"touch z y; true", "touch z y", true},
		{"touch z y", "touch z", false}, {"touch z y", "touch y z", false}, {"cd sub && make", "make", false}, {"true", "touch z", false},
		{"A=1 make", "make", false}, {"x=1", "true", false}, {"touch z y; ls", "touch z y", false},
	} {
		denied, line := reachOf(p, c.denied), reachOf(p, c.line)
		if got := line.Same == denied.Same || slices.Contains(line.Inside, denied.Same); got != c.holds {
			t.Errorf("%q is denied: %q is denied too: %v, want %v (%q, %q)", c.denied, c.line, got, c.holds, denied.Same, line.Inside)
		}
	}
}
