package shell

import (
	"iter"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

func TestOffer(t *testing.T) {
	d, list := rulesOf(t, "git status;deny:git push;ask:make deploy")
	p := mustPolicy(t, d, list)
	for _, c := range []struct {
		command string
		want    []string // "=" before a pattern that is exact
	}{
		{"go test ./...", []string{"go test"}},
		{"pytest -q tests", []string{"pytest"}},
		{"go vet ./... && go test ./...", []string{"go vet", "go test"}},
		{"git status; make check", []string{"make check"}},
		{"go test a; go test b", []string{"go test"}},
		{"rm build/x", []string{"=rm build/x"}},
		{"timeout 60 go test ./...", []string{"go test"}},
		// never: interpreters, shells, what runs other programs, programs without their sub-command
		{"python3 x.py", nil}, {"bash -c 'ls'; bash x.sh", nil}, {"env FOO=1 ./x", nil}, {"sudo ls", nil}, {"git", nil}, {"git -c a=b log", nil}, {"make", nil}, {"go run ./x", nil},
		{"find . -delete", nil}, {"xargs rm", nil}, {"npm run build", nil}, {"npx cowsay", nil}, {"curl https://example.com", nil}, {"uv run x", nil},
		{"./configure", nil}, {"/tmp/x y", nil}, {"$x y", nil}, {"eval ls", nil}, {"ls > f", nil}, {"rm $x", nil},
		// nothing to gain: allowed, denied, or asked about by a rule
		{"git status", nil}, {"git push", nil}, {"make deploy", nil}, {"git push; go test", nil},
	} {
		got := p.Offer(c.command)
		if len(got) != len(c.want) {
			t.Errorf("%q: %+v, want %q", c.command, got, c.want)
			continue
		}
		for i, r := range got {
			pattern := r.Pattern
			if r.Exact {
				pattern = "=" + pattern
			}
			if pattern != c.want[i] || r.Effect() != tools.Allow {
				t.Errorf("%q: rule %d is %v %q, want allow %q", c.command, i, r.Effect(), pattern, c.want[i])
			}
		}
	}
}

// TestOffersDoWhatTheySay adds what is offered for any command: the command then
// runs unasked, nothing that a rule decided changes, and no interpreter does.
func TestOffersDoWhatTheySay(t *testing.T) {
	commands := corpusCommands(t)
	offered := 0
	rapid.Check(t, func(rt *rapid.T) {
		d, list := rulesOf(t, drawRules(rt))
		p := mustPolicy(t, d, list)
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		rules := p.Offer(command)
		if rules == nil {
			return
		}
		offered++
		with := p
		for _, r := range rules {
			next, err := with.With(r)
			if err != nil {
				rt.Fatal(err)
			}
			with = next
		}
		if got := with.Decide(command, "bash"); got.Effect != tools.Allow {
			rt.Fatalf("%q with %+v: %v", command, rules, got.Effect)
		}
		for _, dangerous := range []string{"python3 -c x", "sh -c x", "env x", "git x", "sudo x", "xargs x", "find . -exec x ;", "ls > ../x"} {
			if before, after := p.Decide(dangerous, "bash").Effect, with.Decide(dangerous, "bash").Effect; after > before {
				rt.Fatalf("%q with %+v: %v was %v", dangerous, rules, after, before)
			}
		}
	})
	if offered == 0 {
		t.Error("nothing was offered")
	}
}

// TestWhatRunsOthersIsNoPattern holds approval's tables against those of the analysis:
// no program that runs another one, or code, may be remembered by its name alone.
func TestWhatRunsOthersIsNoPattern(t *testing.T) {
	variants := fieldSet("vim.tiny vim.basic bash-static original-awk perl5.36.0 lua5.4 python3.11 ruby2.7 php8.2 ts-node nodemon")
	for _, names := range []iter.Seq[string]{maps.Keys(known().wrappers), maps.Keys(known().lists["shells"]), maps.Keys(known().coded), maps.Keys(variants)} {
		for name := range names {
			if strings.Contains(name, "/") {
				continue
			}
			if (approval.Pattern{Kind: approval.ArgvPrefix, Value: name}).Check() == nil {
				t.Errorf("%q may be remembered", name)
			}
			if prefix, _ := approval.StandingPrefix([]string{name}); prefix != nil {
				t.Errorf("%q is offered", name)
			}
		}
	}
}
