package rulebook_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// A world is a book with the two that apply its rules.
type world struct {
	*rulebook.Book
	path      string
	shell     *shell.Tool
	approvals *approval.Controller
}

var asksByDefault = shell.Default{Allowed: true, Approval: true}

func configured() []shell.Rule {
	no := false
	return []shell.Rule{
		{Pattern: "git status", Approval: &no, Position: "sandgate.yaml:3:5"},
		{Pattern: "git push", Position: "sandgate.yaml:4:5"},
		{Pattern: "rm", Allowed: &no, Position: "sandgate.yaml:5:5"},
	}
}

func open(t testing.TB, files []config.RulesTier, d shell.Default) (*world, error) {
	t.Helper()
	sh, err := shell.New(shell.Config{Default: d, Rules: configured()})
	if err != nil {
		t.Fatal(err)
	}
	c := approval.NewController(approval.Options{Mode: approval.ApproveAll})
	b, err := rulebook.Open(files, rulebook.Bounds{Default: d, Shell: configured(), Dangerous: []string{"shell", "write_file", "db_*"}}, sh, c)
	w := &world{b, files[len(files)-1].Path, sh, c}
	return w, err
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w, err := open(t, []config.RulesTier{{Tier: config.TierUser, Path: filepath.Join(t.TempDir(), "conf", config.RulesFileName)}}, asksByDefault)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) command(t testing.TB, line string) tools.Effect {
	t.Helper()
	return w.shell.Policy().Decide(line, "bash").Effect
}

func (w *world) tool(name string) approval.Verdict {
	return w.approvals.Check(approval.Call{ToolName: name, Request: &approval.Request{ToolName: name}})
}

func change(record func(string, rulebook.Rule) error) rulebook.Change {
	if record == nil {
		record = func(string, rulebook.Rule) error { return nil }
	}
	return rulebook.Change{By: "uid 1, pid 2", Now: time.Unix(1e9, 0), Record: record}
}

// TestRulesAreInForceAtOnce adds, removes, and opens again.
func TestRulesAreInForceAtOnce(t *testing.T) {
	w := newWorld(t)
	if e := w.tool("github_push").Effect; e != approval.Allow {
		t.Fatalf("before: %v", e)
	}
	for _, r := range []config.StandingRule{
		{Effect: config.Deny, Tool: "github_*", Reason: "by hand", Match: []string{"github_push"}},
		{Effect: config.Deny, Shell: "make deploy"},
		{Effect: config.Ask, Shell: "git status"},
		{Effect: config.Allow, Shell: "make test", Match: []string{"make test -j4"}},
	} {
		if _, err := w.Add(r, change(nil)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(w *world) {
		t.Helper()
		if v := w.tool("github_push"); v.Effect != approval.Deny || v.Rule != "rules.deny-github" || !strings.Contains(v.Reason, "by hand") {
			t.Errorf("github_push: %+v", v)
		}
		if v := w.tool("gitlab_push"); v.Effect != approval.Allow {
			t.Errorf("gitlab_push, which no rule is about: %+v", v)
		}
		for line, want := range map[string]tools.Effect{
			"make deploy": tools.Deny, "git status": tools.Ask, "make test": tools.Allow, "make other": tools.Ask, "rm x": tools.Deny,
		} {
			if got := w.command(t, line); got != want {
				t.Errorf("%s: %v, want %v", line, got, want)
			}
		}
	}
	check(w)
	again, err := open(t, []config.RulesTier{{Tier: config.TierUser, Path: w.path}}, asksByDefault)
	if err != nil {
		t.Fatal(err)
	}
	check(again)
	if info, err := os.Stat(w.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}

	if r, err := w.Remove("deny-github", change(nil)); err != nil || r.Tool != "github_*" || r.By != "uid 1, pid 2" {
		t.Errorf("remove: %+v, %v", r, err)
	}
	if v := w.tool("github_push"); v.Effect != approval.Allow {
		t.Errorf("github_push after removing: %+v", v)
	}
	if err := again.Reload(); err != nil {
		t.Fatal(err)
	}
	if v := again.tool("github_push"); v.Effect != approval.Allow {
		t.Errorf("github_push in another process that reloaded: %+v", v)
	}
}

// TestWhatCannotBeLoosened adds rules that would loosen what is not theirs. Each
// is refused by name, nothing is written, and its twin is taken.
func TestWhatCannotBeLoosened(t *testing.T) {
	for _, c := range []struct {
		name      string
		def       shell.Default
		rule      config.StandingRule
		want      string // "" is taken
		withTwin  config.StandingRule
		wontAllow string // a command
	}{
		{"a rule that asks", asksByDefault, config.StandingRule{Effect: config.Allow, Shell: "git push origin"}, `sandgate.yaml:4:5: the rule "git push" of the configuration asks about it`,
			config.StandingRule{Effect: config.Allow, Shell: "git pull"}, "git push origin"},
		{"a rule that denies", asksByDefault, config.StandingRule{Effect: config.Allow, Shell: "rm"}, `sandgate.yaml:5:5: the rule "rm" of the configuration denies it`,
			config.StandingRule{Effect: config.Deny, Shell: "rm -rf"}, "rm x"},
		{"a default that denies", shell.Default{}, config.StandingRule{Effect: config.Allow, Shell: "ls"}, "shell.default denies every command",
			config.StandingRule{Effect: config.Deny, Shell: "ls"}, "ls"},
		{"a default that denies, by asking", shell.Default{}, config.StandingRule{Effect: config.Ask, Shell: "ls"}, "shell.default denies every command",
			config.StandingRule{Effect: config.Deny, Shell: "ls"}, "ls"},
		{"a dangerous tool", asksByDefault, config.StandingRule{Effect: config.Allow, Tool: "sh*"}, `approval.dangerous_tools names "shell"`,
			config.StandingRule{Effect: config.Deny, Tool: "sh*"}, "make x"},
		{"a dangerous tool, by any connector", asksByDefault, config.StandingRule{Effect: config.Allow, Tool: "write_file", Connector: "*"}, `approval.dangerous_tools names "write_file"`,
			config.StandingRule{Effect: config.Allow, Tool: "write_file", Connector: "github"}, "make x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := []config.RulesTier{{Tier: config.TierUser, Path: filepath.Join(t.TempDir(), config.RulesFileName)}}
			w, err := open(t, files, c.def)
			if err != nil {
				t.Fatal(err)
			}
			before := w.command(t, c.wontAllow)
			_, err = w.Add(c.rule, change(func(string, rulebook.Rule) error { t.Error("recorded"); return nil }))
			var refused *rulebook.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || refused.Hint() == "" {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(w.path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file was written: %v", err)
			}
			if _, err := w.Add(c.withTwin, change(nil)); err != nil {
				t.Errorf("the twin: %v", err)
			}

			// The same rule in a file has no effect, and says so.
			data, err := config.AppendRule(nil, withID(c.rule))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(w.path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := w.Reload(); err != nil {
				t.Fatal(err)
			}
			if got := w.Rules(); len(got) != 1 || !strings.Contains(got[0].Inactive, c.want) {
				t.Errorf("in a file: %+v", got)
			}
			if after := w.command(t, c.wontAllow); after > before {
				t.Errorf("%s: %v, was %v", c.wontAllow, after, before)
			}
		})
	}
}

func withID(r config.StandingRule) config.StandingRule {
	r.ID = "x"
	return r
}

// TestAdministratorsRulesStay has rules in both files: what the administrator
// denies holds whatever the user allows, and cannot be removed.
func TestAdministratorsRulesStay(t *testing.T) {
	dir := t.TempDir()
	admin, user := filepath.Join(dir, "admin.yaml"), filepath.Join(dir, "user.yaml")
	write(t, admin, "version: 1\nrules:\n- {id: floor, effect: deny, tool: 'github_*'}\n- {id: ask-make, effect: ask, shell: make}\n")
	write(t, user, "version: 1\nrules:\n- {id: a, effect: allow, tool: github_push}\n- {id: b, effect: allow, shell: make test}\n")
	w, err := open(t, []config.RulesTier{{Tier: config.TierAdmin, Path: admin}, {Tier: config.TierUser, Path: user}}, asksByDefault)
	if os.Getuid() != 0 { // the file is not root's, so it is not the administrator's
		if untrusted := (*config.UntrustedError)(nil); !errors.As(err, &untrusted) {
			t.Errorf("a user's file as the administrator's: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if v := w.tool("github_push"); v.Effect != approval.Deny {
		t.Errorf("github_push: %+v", v)
	}
	if got := w.command(t, "make test"); got != tools.Ask {
		t.Errorf("make test: %v", got)
	}
	if _, err := w.Remove("floor", change(nil)); err == nil || !strings.Contains(err.Error(), "the administrator's: "+admin+":3:3") {
		t.Errorf("removing it: %v", err)
	}
	if _, err := w.Remove("a", change(nil)); err != nil {
		t.Errorf("removing the user's own: %v", err)
	}
	if _, err := w.Add(config.StandingRule{ID: "floor", Effect: config.Allow, Tool: "x"}, change(nil)); err == nil {
		t.Error("a rule took the name of the administrator's")
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenRulesAreNotLoaded edits the file by hand: what does not load stops a
// start, and leaves a book that is open as it was.
func TestBrokenRulesAreNotLoaded(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Add(config.StandingRule{Effect: config.Deny, Tool: "x"}, change(nil)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"syntax":           "version: 1\nrules: [",
		"a key":            "version: 1\nrules: [{id: a, efect: deny, tool: y}]\n",
		"a failed example": "version: 1\nrules: [{id: a, effect: allow, shell: ls, match: [rm x]}]\n",
	} {
		write(t, w.path, text)
		if err := w.Reload(); err == nil || !strings.Contains(err.Error(), w.path) {
			t.Errorf("%s: %v", name, err)
		}
		if v := w.tool("x"); v.Effect != approval.Deny {
			t.Errorf("%s: the rule of before is gone: %+v", name, v)
		}
		if _, err := w.Add(config.StandingRule{Effect: config.Deny, Tool: "y"}, change(nil)); err == nil {
			t.Errorf("%s: the file was written over", name)
		}
		if _, err := open(t, []config.RulesTier{{Tier: config.TierUser, Path: w.path}}, asksByDefault); err == nil {
			t.Errorf("%s: a supervisor would start without the rules", name)
		}
	}
	if got, err := os.ReadFile(w.path); err != nil || !strings.HasPrefix(string(got), "version: 1\nrules: [") {
		t.Errorf("the file is now %q, %v", got, err)
	}
}

// TestUnrecordedChangesDoNotHappen fails the record of each change.
func TestUnrecordedChangesDoNotHappen(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Add(config.StandingRule{ID: "keep", Effect: config.Deny, Tool: "keep"}, change(nil)); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space")
	failing := change(func(string, rulebook.Rule) error { return full })
	if _, err := w.Add(config.StandingRule{Effect: config.Deny, Tool: "x"}, failing); !errors.Is(err, full) {
		t.Errorf("add: %v", err)
	}
	if _, err := w.Remove("keep", failing); !errors.Is(err, full) {
		t.Errorf("remove: %v", err)
	}
	if rules, _, err := config.ReadRules(config.RulesTier{Tier: config.TierUser, Path: w.path}); err != nil || len(rules) != 1 || len(w.Rules()) != 1 {
		t.Errorf("%+v, %v", rules, err)
	}
}

// TestBooksShareAFile adds rules from several books at once: none is lost.
func TestBooksShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), config.RulesFileName)
	const books, each = 4, 5
	var wg sync.WaitGroup
	for n := range books {
		w, err := open(t, []config.RulesTier{{Tier: config.TierUser, Path: path}}, asksByDefault)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := range each {
				if _, err := w.Add(config.StandingRule{Effect: config.Deny, Tool: fmt.Sprintf("t%d_%d", n, i)}, change(nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rules, _, err := config.ReadRules(config.RulesTier{Tier: config.TierUser, Path: path})
	if err != nil || len(rules) != books*each {
		t.Errorf("%d rules, want %d: %v", len(rules), books*each, err)
	}
}

// TestRulesAreBounded: a program that adds rules in a loop is stopped, and what a person
// has written by hand stays in force.
func TestRulesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), config.RulesFileName)
	var text strings.Builder
	text.WriteString("version: 1\nrules:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - {id: r%d, effect: deny, tool: t%d}\n", i, i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := open(t, []config.RulesTier{{Tier: config.TierUser, Path: path}}, asksByDefault)
	if err != nil {
		t.Fatal(err)
	}
	one := config.StandingRule{Effect: config.Deny, Tool: "one_more"}
	var e *rulebook.Error
	if _, err := w.Add(one, change(nil)); !errors.As(err, &e) || !strings.Contains(e.Reason, "no more than 1000") || e.HintText == "" {
		t.Fatalf("the rule after the 1,000th: %v", err)
	}
	if v := w.tool("one_more"); v.Effect != approval.Allow {
		t.Errorf("it is in force: %+v", v)
	}
	if _, err := w.Remove("r7", change(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(one, change(nil)); err != nil {
		t.Errorf("in the place of one that was removed: %v", err)
	}
	if v := w.tool("t999"); v.Effect != approval.Deny {
		t.Errorf("a rule of the file: %+v", v)
	}
}

func TestConsider(t *testing.T) {
	w := newWorld(t)
	for _, r := range []config.StandingRule{
		{ID: "a", Effect: config.Allow, Tool: "github_*"},
		{ID: "d1", Effect: config.Deny, Tool: "github_push"},
		{ID: "d2", Effect: config.Deny, Tool: "*_push"},
		{ID: "c", Effect: config.Deny, Connector: "linear"},
	} {
		if _, err := w.Add(r, change(nil)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]tools.Outcome{"rules.a": tools.Matches, "rules.d1": tools.Decides, "rules.d2": tools.Matches, "rules.c": tools.NoMatch}
	for _, c := range w.Consider(approval.Call{ToolName: "github_push"}) {
		if c.Outcome != want[c.Rule] || c.Outcome != tools.Decides && c.Why == "" || !strings.HasPrefix(c.Position, w.path+":") {
			t.Errorf("%+v, want %s", c, want[c.Rule])
		}
	}
}

// decisions makes a history: each command is followed by y or n for what a person
// said, or - for one that was allowed by other means.
func decisions(lines ...string) iter.Seq2[history.Decision, error] {
	return func(yield func(history.Decision, error) bool) {
		for i, line := range lines {
			command, answer, _ := strings.Cut(line, " => ")
			answer, dir, _ := strings.Cut(answer, " in ")
			d := history.Decision{
				Entry: audit.Entry{Tool: "shell", Time: time.Unix(int64(i), 0)},
				Args:  map[string]any{"command": command, "dir": dir},
				Record: approval.Decision{Source: approval.SourceAsk, Action: map[string]approval.Action{
					"y": approval.Approved, "n": approval.Denied, "t": approval.TimedOut}[answer]},
			}
			switch answer {
			case "-":
				d.Record = approval.Decision{Source: approval.SourceMode, Action: approval.Approved}
			case "?":
				d.Unfit = "redacted"
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func TestSuggest(t *testing.T) {
	w := newWorld(t)
	survey, err := w.Suggest(decisions(
		"go test ./a => y", "go test ./b => y", "go test ./a => y", "go test ./c => -",
		"go vet ./... => y", "go vet ./... => y", // two are too few
		"make build => y", "make build => y", "make build => y", "make build -j2 => n", // once denied
		"ruff check a => y", "ruff check a => y", "ruff check a => y", "ruff check b => t", // once unanswered
		"python3 x.py => y", "python3 x.py => y", "python3 x.py => y",
		"rm -r build => y", "rm -r build => y", "rm -r build => y", // a rule of the configuration denies it
		"mkdir -p out/a => y", "mkdir -p out/a => y", "mkdir -p out/a => y",
		"cargo test => y", "cargo build => y", "cargo test => y", "git status && cargo test --all => y",
		"mytool --token x => ?",
	), 3)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range survey.Suggestions {
		got = append(got, fmt.Sprintf("%s exact=%v saved=%d also=%d", s.Rule.Pattern, s.Rule.Exact, s.Saved, len(s.Also)))
	}
	want := []string{"cargo test exact=false saved=3 also=0", "go test exact=false saved=3 also=1", "mkdir -p out/a exact=true saved=3 also=0"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if survey.Skipped != 1 || survey.Decisions != 28 {
		t.Errorf("%d of %d skipped", survey.Skipped, survey.Decisions)
	}
	if got := len(w.Rules()); got != 0 {
		t.Errorf("%d rules were added", got)
	}
}

// TestSuggestHearsEveryDenial: a command that a person denied keeps a rule that would allow it from being proposed,
// however the agent wrote it, in whatever directory, and after however many other commands.
func TestSuggestHearsEveryDenial(t *testing.T) {
	w := newWorld(t)
	flood := make([]string, 20_000) // as many as are kept
	for i := range flood {
		flood[i] = fmt.Sprintf("echo %d => -", i)
	}
	for name, denied := range map[string]string{
		"as it is": "go test ./x => n", "quoted": `g""o test ./x => n`, "escaped": `g\o test ./x => n`, "coded": `$'\x67o' test ./x => n`,
		"continued": "g\\\no test ./x => n", "in another directory": "go test ./x => n in sub", "another one": "ls => n",
	} {
		lines := []string{"go test ./a => y", "go test ./b => y", "go test ./c => y"}
		if name == "as it is" {
			lines = append(lines, flood...)
		}
		survey, err := w.Suggest(decisions(append(lines, denied)...), 3)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(survey.Suggestions), map[bool]int{true: 1}[name == "another one"]; got != want {
			t.Errorf("%s: %+v", name, survey.Suggestions)
		}
	}
}
