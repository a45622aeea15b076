package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/explain"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
	"github.com/sandgate/sandgate/tools/shell"
)

// withRules gives f the tool shell and a rule book with an empty file.
func (f *fixture) withRules(t *testing.T) *explain.RuleService {
	t.Helper()
	profile := confinetest.Profile(t, f.ws)
	paths := tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.ws, Write: true, WriteApproval: true, Position: "sandgate.yaml:4:5"}}}
	no := false
	own := []shell.Rule{{Pattern: "ls", Approval: &no, Position: "sandgate.yaml:8:5"}, {Pattern: "rm", Allowed: &no, Reason: "use the trash tool", Position: "sandgate.yaml:9:5"}}
	def := shell.Default{Allowed: true, Approval: true}
	sh, err := shell.New(shell.Config{Default: def, Rules: own, Paths: paths, Profile: profile, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := tools.NewRegistry(append(files.New(files.Config{Paths: paths, Profile: profile}), sh)...)
	if err != nil {
		t.Fatal(err)
	}
	book, err := rulebook.Open([]config.RulesTier{{Tier: config.TierUser, Path: filepath.Join(t.TempDir(), config.RulesFileName)}},
		rulebook.Bounds{Default: def, Shell: own, Dangerous: []string{"shell"}}, sh, f.approvals)
	if err != nil {
		t.Fatal(err)
	}
	f.cfg.Tools, f.cfg.Rules = registry, book
	return f.ruleService()
}

// decisions are the decision entries of the log.
func (f *fixture) decisions(t *testing.T) []audit.Entry {
	t.Helper()
	var list []audit.Entry
	for e, err := range audit.Query(f.logPath, audit.Filter{Kinds: []audit.Kind{audit.KindDecision}}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// TestDecisionsAreRecordedWhole makes one call for each way to decide. The log
// says of each what was decided, by which step and rule, by whom and why, about
// which plan; and enough to decide it again.
func TestDecisionsAreRecordedWhole(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive, timeout: 50 * time.Millisecond})
	service := f.withRules(t)
	if _, err := service.Add(self, protocol.RuleSpec{Effect: protocol.CheckDeny, Tool: "grep", ID: "nogrep", Reason: "slow"}); err != nil {
		t.Fatal(err)
	}
	answers := map[string]approval.Answer{
		"make a": {Allow: true}, "make s": {Allow: true, Scope: approval.Session}, "make n": {Feedback: "not now", Reject: approval.RejectSoft},
	}
	f.answer(t, func(p approval.Pending) {
		command, _ := p.Payload["command"].(string)
		answer, ok := answers[command]
		answer.Approver = "uid 7"
		switch {
		case ok:
			go f.approvals.Answer(p.ID, answer)
		case command == "make d":
			go f.approvals.Dismiss(p.ID, "uid 7")
		}
	})
	for _, c := range []struct {
		tool, args string
		action     approval.Action
		source     approval.Source
		rule, who  string
		planned    bool
		past       tools.Effect
	}{
		{"shell", `{"command":"ls"}`, approval.NotNeeded, approval.SourceNotNeeded, `shell.rules[0] "ls"`, "", true, tools.Allow},
		{"shell", `{"command":"rm x"}`, approval.BlockedAction, approval.SourceBlocked, `shell.rules[1] "rm"`, "", false, tools.Deny},
		{"grep", `{"pattern":"x"}`, approval.Denied, approval.SourceDenyRule, "rules.nogrep", "", true, tools.Deny},
		{"shell", `{"command":"make a"}`, approval.Approved, approval.SourceAsk, "shell.default", "uid 7", true, tools.Ask},
		{"shell", `{"command":"make s"}`, approval.SessionApproved, approval.SourceAsk, "shell.default", "uid 7", true, tools.Ask},
		{"shell", `{"command":"make s"}`, approval.SessionApproved, approval.SourceRememberedAllow, "", "uid 7", true, tools.Ask},
		{"shell", `{"command":"make n"}`, approval.Denied, approval.SourceAsk, "shell.default", "uid 7", true, tools.Ask},
		{"shell", `{"command":"make d"}`, approval.Dismissed, approval.SourceAsk, "shell.default", "uid 7", true, tools.Ask},
		{"shell", `{"command":"make t"}`, approval.TimedOut, approval.SourceAsk, "shell.default", "", true, tools.Ask},
		{"write_file", `{"path":"a","content":"SECRET CONTENT"}`, approval.TimedOut, approval.SourceAsk, "sandbox.paths.workspace", "", true, tools.Ask},
	} {
		before := len(f.decisions(t))
		_, _ = f.call(context.Background(), c.tool, c.args)
		list := f.decisions(t)
		if len(list) != before+1 {
			t.Fatalf("%s %s: %d decisions in the log, want one more than %d", c.tool, c.args, len(list), before)
		}
		e := list[before]
		var in history.DecisionEntry
		if err := json.Unmarshal(e.Data, &in); err != nil {
			t.Fatal(err)
		}
		d := in.Decision
		if d.ID == "" || d.Reason == "" || d.Time.IsZero() || d.Action != c.action && !(c.action == approval.SessionApproved && d.Action.State() == approval.StateApproved) || d.Source != c.source || d.Approver != c.who {
			t.Errorf("%s %s: %+v", c.tool, c.args, d)
		}
		if rule := d.Rule; rule != c.rule && in.Rule != c.rule && c.rule != "" {
			t.Errorf("%s %s: rule %q or %q, want %q", c.tool, c.args, d.Rule, in.Rule, c.rule)
		}
		if (e.Digest != "") != c.planned || d.Digest != e.Digest || c.source == approval.SourceAsk && d.RequestID == "" {
			t.Errorf("%s %s: digests %q and %q, request %q", c.tool, c.args, e.Digest, d.Digest, d.RequestID)
		}
		if strings.Contains(string(e.Data), "SECRET CONTENT") {
			t.Errorf("%s %s: the content of a file is in the log", c.tool, c.args)
		}
		f.checkHistory(t, before, c.past)
	}
}

// TestContentIsNotLogged writes a file, with content that the approver replaces:
// neither is in the log, and the approver's is in the file.
func TestContentIsNotLogged(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	f.answer(t, func(p approval.Pending) {
		go f.approvals.Answer(p.ID, approval.Answer{Allow: true, Approver: "uid 7", Args: json.RawMessage(`{"path":"a.txt","content":"SECRET of the approver"}`)})
	})
	if _, err := f.call(context.Background(), "write_file", `{"path":"a.txt","content":"SECRET of the agent"}`); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(f.ws, "a.txt")); err != nil || string(got) != "SECRET of the approver" {
		t.Errorf("the file has %q, %v", got, err)
	}
	log, err := os.ReadFile(f.logPath)
	if err != nil || strings.Contains(string(log), "SECRET") || strings.Count(string(log), `"sha256":`) != 2 {
		t.Errorf("%v, the log:\n%s", err, log)
	}
}

// checkHistory reads decision n back, and plans it again.
func (f *fixture) checkHistory(t *testing.T, n int, past tools.Effect) {
	t.Helper()
	i := 0
	for d, err := range history.Decisions(audit.Query(f.logPath, audit.Filter{})) {
		if err != nil {
			t.Fatal(err)
		}
		if i++; i-1 != n {
			continue
		}
		if d.Unfit != "" || d.Past() != past || d.Subject() == "" && d.Entry.Tool != "grep" {
			t.Errorf("decision %d read back: %+v, past %v, want %v", n, d, d.Past(), past)
		}
		if _, err := f.cfg.Tools.Plan(tools.Call{Tool: d.Entry.Tool, Args: d.Args}); err != nil && !approval.IsBlocked(err) {
			t.Errorf("decision %d cannot be planned again: %v", n, err)
		}
	}
}

// TestReplayFindsWhatChanged decides the past again after rules were added.
func TestReplayFindsWhatChanged(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive, timeout: 20 * time.Millisecond})
	service := f.withRules(t)
	for _, c := range []string{"ls", "rm x", "make a", "make b"} {
		_, _ = f.call(context.Background(), "shell", string(must.JSON(map[string]string{"command": c})))
	}
	replay := func() (lines []string, sum explain.ReplaySummary) {
		sum, err := service.Replay(context.Background(), history.Decisions(audit.Query(f.logPath, audit.Filter{})), func(r explain.Replayed) error {
			lines = append(lines, r.Subject+": "+string(r.Was)+" -> "+string(r.Now)+" by "+r.NowRule)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines, sum
	}
	if lines, sum := replay(); lines != nil || sum.Same != 4 || sum.Answered != 2 {
		t.Errorf("under the same rules: %q, %+v", lines, sum)
	}
	for _, r := range []protocol.RuleSpec{{Effect: protocol.CheckAsk, Shell: "ls"}, {Effect: protocol.CheckAllow, Shell: "make a"}, {Effect: protocol.CheckDeny, Shell: "make b"}} {
		if _, err := service.Add(self, r); err != nil {
			t.Fatal(err)
		}
	}
	lines, sum := replay()
	want := []string{"ls: allow -> ask by rules.ask-ls", "make a: ask -> allow by rules.allow-make-a", "make b: ask -> deny by rules.deny-make-b"}
	if !slices.Equal(lines, want) || sum.Same != 1 || sum.Looser != 1 || sum.Stricter != 2 {
		t.Errorf("got %q, %+v\nwant %q", lines, sum, want)
	}
	if want := map[string]int{"allow -> ask": 1, "ask -> allow": 1, "ask -> deny": 1}; !maps.Equal(sum.Became, want) {
		t.Errorf("counts %v, want %v", sum.Became, want)
	}
}

// TestReplayFindsAnotherClass: a call that runs unasked then and now, and is held otherwise.
func TestReplayFindsAnotherClass(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	service := f.withRules(t)
	if _, err := f.call(context.Background(), "shell", `{"command":"ls"}`); err != nil {
		t.Fatal(err)
	}
	for _, held := range []sandboxprofile.Class{sandboxprofile.ClassRead, sandboxprofile.ClassWorkspace} {
		decisions := func(yield func(history.Decision, error) bool) {
			for d, err := range history.Decisions(audit.Query(f.logPath, audit.Filter{})) {
				if d.Held != sandboxprofile.ClassRead {
					t.Errorf("the log says %v", d.Held)
				}
				d.Held = held
				if !yield(d, err) {
					return
				}
			}
		}
		var lines []string
		sum, err := service.Replay(context.Background(), decisions, func(r explain.Replayed) error {
			lines = append(lines, string(r.Now)+": "+r.WasHeld+" -> "+r.NowHeld)
			return nil
		})
		same := held == sandboxprofile.ClassRead
		if err != nil || sum.Same == 1 != same || sum.Held == 1 == same || !same && !slices.Equal(lines, []string{"allow: workspace -> read"}) {
			t.Errorf("held to %v then: %+v, %q, %v", held, sum, lines, err)
		}
	}
}

// TestWhyAgreesWithCheck asks both about the same calls.
func TestWhyAgreesWithCheck(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	service := f.withRules(t)
	for _, r := range []protocol.RuleSpec{{Effect: protocol.CheckDeny, Tool: "glob"}, {Effect: protocol.CheckDeny, Shell: "make deploy"}, {Effect: protocol.CheckAllow, Shell: "make test"}} {
		if _, err := service.Add(self, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ tool, args, origin string }{
		{"shell", `{"command":"ls"}`, "sandgate.yaml:8:5"},
		{"shell", `{"command":"rm x"}`, "sandgate.yaml:9:5"},
		{"shell", `{"command":"make deploy now"}`, "rules.yaml:"},
		{"shell", `{"command":"make test"}`, "rules.yaml:"},
		{"shell", `{"command":"make x; ls"}`, ""},
		{"shell", `{"command":"eval x"}`, ""},
		{"glob", `{"pattern":"*"}`, "rules.yaml:"},
		{"read_file", `{"path":"a"}`, "sandgate.yaml:4:5"},
		{"write_file", `{"path":"a","content":""}`, "sandgate.yaml:4:5"},
		{"read_file", `{"path":"/etc/passwd"}`, ""},
	} {
		checked, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c", Tool: protocol.ToolName(c.tool), Args: json.RawMessage(c.args)})
		if err != nil {
			t.Fatal(err)
		}
		why, err := service.Test(self, protocol.RulesTest{Tool: protocol.ToolName(c.tool), Args: json.RawMessage(c.args)})
		if err != nil {
			t.Fatal(err)
		}
		if why.Decision != checked.Decision || why.PlanDigest != checked.PlanDigest || checked.Rule != "" && why.Rule != checked.Rule {
			t.Errorf("%s %s: why says %s by %q of %s, check %s by %q of %s", c.tool, c.args, why.Decision, why.Rule, why.PlanDigest, checked.Decision, checked.Rule, checked.PlanDigest)
		}
		if c.origin == "" && why.Origin != "" || !strings.Contains(why.Origin, c.origin) {
			t.Errorf("%s %s: written at %q, want %q", c.tool, c.args, why.Origin, c.origin)
		}
		if why.Change == nil || why.Change.How == "" || why.Change.To == why.Decision {
			t.Errorf("%s %s: %s, and to change it %+v", c.tool, c.args, why.Decision, why.Change)
		}
	}
	if n := len(f.decisions(t)); n != 0 {
		t.Errorf("%d decisions were recorded: why asks and runs nothing", n)
	}
}

// TestChangesDoWhatTheySay follows what why says about commands, and asks again.
func TestChangesDoWhatTheySay(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	service := f.withRules(t)
	for _, command := range []string{"make check", "ls", "ls -la; make x", "go vet ./... && go test ./..."} {
		ask := protocol.RulesTest{Tool: "shell", Args: must.JSON(map[string]string{"command": command})}
		before, err := service.Test(self, ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(before.Change.Add) == 0 {
			t.Fatalf("%q: nothing to add: %+v", command, before.Change)
		}
		var ids []string
		for _, r := range before.Change.Add {
			added, err := service.Add(self, r)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, added.ID)
		}
		after, err := service.Test(self, ask)
		if err != nil || after.Decision != before.Change.To {
			t.Errorf("%q with %+v: %s, want %s: %v", command, before.Change.Add, after.Decision, before.Change.To, err)
		}
		for _, id := range ids {
			if _, err := service.Remove(self, protocol.RulesRemove{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAYesIsForTheRuleThatWasShown: what removes or replaces a rule that somebody has looked at does nothing to
// another one that has its name by then.
func TestAYesIsForTheRuleThatWasShown(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	service := f.withRules(t)
	shown, err := service.Add(self, protocol.RuleSpec{ID: "x", Effect: protocol.CheckAllow, Tool: "y", Match: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	deny := protocol.RuleSpec{Effect: protocol.CheckDeny, Tool: "y"}
	if _, err := service.Replace(self, protocol.RulesReplace{ID: "x", Rule: deny, Seen: &shown.RuleSpec}); err != nil {
		t.Fatalf("the rule that was shown: %v", err)
	}
	var e *protocol.Error
	if _, err := service.Remove(self, protocol.RulesRemove{ID: "x", Seen: &shown.RuleSpec}); !errors.As(err, &e) || e.Code != protocol.CodeRuleRefused || !strings.Contains(e.Message, "the rule has changed since it was shown") {
		t.Errorf("another rule is removed: %v", err)
	}
	if _, err := service.Replace(self, protocol.RulesReplace{ID: "x", Rule: protocol.RuleSpec{Effect: protocol.CheckAllow, Tool: "y"}, Seen: &shown.RuleSpec}); !errors.As(err, &e) || e.Code != protocol.CodeRuleRefused {
		t.Errorf("another rule is replaced: %v", err)
	}
	list := service.List().Rules
	at := slices.IndexFunc(list, func(r protocol.Rule) bool { return r.ID == "x" })
	if at < 0 || list[at].Effect != protocol.CheckDeny {
		t.Fatalf("the denial is gone: %+v", list)
	}
	if _, err := service.Remove(self, protocol.RulesRemove{ID: "x", Seen: &list[at].RuleSpec}); err != nil { // the twin
		t.Errorf("the rule that was shown: %v", err)
	}
}

// TestRuleChangesAreRecorded proves that a change of the rules is in the log with
// who made it, and that without a log none happens.
func TestRuleChangesAreRecorded(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	service := f.withRules(t)
	if _, err := service.Add(self, protocol.RuleSpec{Effect: protocol.CheckDeny, Tool: "x", ID: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Remove(self, protocol.RulesRemove{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	var events []string
	for e, err := range audit.Query(f.logPath, audit.Filter{Kinds: []audit.Kind{audit.KindRules}}) {
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Event string
			Rule  protocol.RuleSpec
		}
		if err := json.Unmarshal(e.Data, &in); err != nil || e.Peer == nil || int(e.Peer.PID) != self.PID {
			t.Errorf("%v by %+v: %s", err, e.Peer, e.Data)
		}
		events = append(events, in.Event+" "+in.Rule.ID)
	}
	if !slices.Equal(events, []string{"add x", "remove x"}) {
		t.Errorf("the log has %q", events)
	}
	if err := f.log.Close(); err != nil {
		t.Fatal(err)
	}
	var e *protocol.Error
	if _, err := service.Add(self, protocol.RuleSpec{Effect: protocol.CheckDeny, Tool: "y"}); !errors.As(err, &e) || e.Code != protocol.CodeAuditUnavailable {
		t.Errorf("without a log: %v", err)
	}
	if n := len(f.cfg.Rules.Rules()); n != 0 {
		t.Errorf("%d rules are in force", n)
	}
}
