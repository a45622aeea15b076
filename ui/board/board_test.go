package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// supervisor is one whose answers a test knows, and that notes what it is told.
type supervisor struct {
	Approver
	told   []string
	list   []protocol.Rule
	refuse error
	seen   *protocol.RuleSpec // of the last change
	// caution is what it says of each rule, and ceiling of each call.
	caution, ceiling string
}

func (s *supervisor) Rules(context.Context) (protocol.RulesList, error) {
	return protocol.RulesList{Rules: s.list}, nil
}

func (s *supervisor) SuggestRules(context.Context, protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return protocol.RulesSuggested{}, nil
}

func (s *supervisor) ReplaceRule(_ context.Context, id string, r protocol.RuleSpec, seen *protocol.RuleSpec) (protocol.Rule, error) {
	s.seen = seen
	s.told = append(s.told, fmt.Sprintf("replace %s: %s %v", id, ruleText(r), r.Match))
	return protocol.Rule{RuleSpec: r, Caution: s.caution}, s.refuse
}

func (s *supervisor) TryRule(_ context.Context, t protocol.RulesTry) (protocol.RulesTried, error) {
	s.told = append(s.told, "try "+ruleText(t.Rule))
	return protocol.RulesTried{Caution: s.caution, Decisions: 41, Matches: 2, Skipped: 3, Covered: []protocol.CoveredCall{
		{Agent: "coder", Tool: "shell", Subject: "git push \u202e", Action: approval.Approved}, {Tool: "shell", Subject: "git push -f", Action: approval.TimedOut}}}, nil
}

func (s *supervisor) AddRule(_ context.Context, r protocol.RuleSpec) (protocol.Rule, error) {
	s.told = append(s.told, "add "+ruleText(r))
	r.ID = "new"
	return protocol.Rule{RuleSpec: r, Caution: s.caution}, s.refuse
}

func (s *supervisor) RemoveRule(_ context.Context, id string, seen *protocol.RuleSpec) (protocol.Rule, error) {
	s.seen = seen
	s.told = append(s.told, "remove "+id)
	return protocol.Rule{RuleSpec: protocol.RuleSpec{ID: id, Effect: protocol.CheckDeny, Tool: "x"}}, nil
}

func (s *supervisor) TestRules(_ context.Context, t protocol.RulesTest) (protocol.RulesTested, error) {
	s.told = append(s.told, "test "+string(t.Tool)+" "+string(t.Args))
	if s.ceiling != "" {
		return protocol.RulesTested{Decision: protocol.CheckAllow, Rule: "r", Ceiling: s.ceiling}, nil
	}
	return protocol.RulesTested{Decision: protocol.CheckDeny, Rule: "r", Reason: "no \x1b"}, nil
}

func (s *supervisor) Remembered(context.Context) ([]protocol.RememberedAnswer, error) {
	return []protocol.RememberedAnswer{{ID: "m1", Decision: protocol.Allow, Scope: approval.Global, Tool: "shell", Text: "every \u202e", Approver: "uid 7", Hits: 2}}, nil
}

func (s *supervisor) Forget(_ context.Context, id string) error {
	s.told = append(s.told, "forget "+id)
	return nil
}

// TestRulesAreWrittenAsTheyAreRead: what stands in the line of an edit reads as the rule
// that it was made from.
func TestRulesAreWrittenAsTheyAreRead(t *testing.T) {
	word := rapid.StringMatching(`[a-z*_./-]{1,8}( [a-z-]{1,5}){0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		r := protocol.RuleSpec{Effect: rapid.SampledFrom([]protocol.CheckDecision{protocol.CheckAllow, protocol.CheckAsk, protocol.CheckDeny}).Draw(t, "effect"),
			Reason: rapid.StringMatching(`([a-z]{1,6}( [a-z]{1,4})?)?`).Draw(t, "reason")}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			r.Shell = word.Draw(t, "shell")
		case 1:
			r.Shell, r.Exact = word.Draw(t, "shell"), true
		case 2:
			r.Shell, r.ReadOnly = word.Draw(t, "shell"), true
		case 3:
			r.Agent = rapid.StringMatching(`([a-z*]{1,6}( [a-z]{1,3})?)?`).Draw(t, "agent")
			r.Tool = rapid.StringMatching(`[a-z_*]{1,8}`).Draw(t, "tool")
		case 4:
			r.Agent = rapid.StringMatching(`([a-z*]{1,6}( [a-z]{1,3})?)?`).Draw(t, "agent")
			r.Connector, r.Tool = rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "connector"), rapid.StringMatching(`[a-z_*]{0,5}`).Draw(t, "tool")
		}
		back, err := parseRule(ruleText(r))
		if err != nil || cmp.Diff(r, back) != "" {
			t.Fatalf("%q: %v %s", ruleText(r), err, cmp.Diff(r, back))
		}
	})
	for _, text := range []string{"", "allow", "allow shell", "allow git log", "perhaps shell git", "allow shell  # why"} {
		if r, err := parseRule(text); err == nil {
			t.Errorf("%q reads as %+v", text, r)
		}
	}
}

// TestAnEditIsOneStep: the new rule takes the place of the old one at once, for the same
// agents and with the same examples; if it cannot, the old one stays.
func TestAnEditIsOneStep(t *testing.T) {
	old := protocol.Rule{Tier: "user", RuleSpec: protocol.RuleSpec{ID: "old", Effect: protocol.CheckAllow, Tool: "WebSearch", Agent: "ci-*", Match: []string{"WebSearch"}}}
	s := &supervisor{list: []protocol.Rule{old}}
	b, err := New(s, Stores{}).Load(t.Context(), Rules)
	if err != nil {
		t.Fatal(err)
	}
	it := b.Sections[0].Items[0]
	if it.Text != `Run without asking, if the agent "ci-*" asks, calls of WebSearch` || it.Actions[0].Text != "allow tool WebSearch of agent ci-*" {
		t.Errorf("%+v", it)
	}
	_, err = New(s, Stores{}).Do(t.Context(), it.Actions[0].Act)
	edit := yes(err)
	if said, err := New(s, Stores{}).Do(t.Context(), edit); err != nil || !strings.Contains(string(said), string(it.Text)) {
		t.Error(said, err)
	}
	if diff := cmp.Diff([]string{"replace old: allow tool WebSearch of agent ci-* [WebSearch]"}, s.told); diff != "" {
		t.Error(diff)
	}
	s.refuse = errors.New("it would loosen")
	if said, err := New(s, Stores{}).Do(t.Context(), edit); err == nil || len(s.told) != 2 {
		t.Error(said, err, s.told)
	}
}

// TestWhatReadsAsAnotherRuleIsNotEdited: a rule that a person wrote into the file by hand,
// and whose text would be read as another, has no text to start from.
func TestWhatReadsAsAnotherRuleIsNotEdited(t *testing.T) {
	for _, r := range []protocol.RuleSpec{
		{Effect: protocol.CheckAllow, Tool: "x of agent y"}, {Effect: protocol.CheckAllow, Shell: "grep # x"}, {Effect: protocol.CheckAllow, Tool: "x", Agent: "a # b"},
		{Effect: protocol.CheckDeny, Tool: "x", Reason: " by hand"}, {Effect: protocol.CheckAllow, Shell: "ls", Exact: true, ReadOnly: true},
	} {
		if text, whole := editable(r); whole {
			t.Errorf("%+v is offered as %q", r, text)
		}
	}
	if text, whole := editable(protocol.RuleSpec{ID: "a", Effect: protocol.CheckAsk, Connector: "git*", Tool: "push_*", Agent: "me too", Reason: "why"}); !whole || text != "ask connector git* push_* of agent me too # why" {
		t.Error(text, whole)
	}
}

// TestARuleForARequestIsNoWiderThanItsLine: a request whose text would be read as another
// rule begins with no line; its twin does with its own.
func TestARuleForARequestIsNoWiderThanItsLine(t *testing.T) {
	for _, c := range []struct {
		tool protocol.ToolName
		args map[string]any
		want string
	}{
		{"shell", map[string]any{"command": "git log #1 "}, "allow shell git log #1"},
		{"shell", map[string]any{"command": "rm # -rf build"}, ""},
		{"shell", map[string]any{"command": "ls\nrm x"}, ""},
		{"shell", map[string]any{"command": "ls \u202e"}, ""},
		{"shell", map[string]any{"command": ""}, ""},
		{"shell", nil, ""},
		{"WebSearch", nil, "allow tool WebSearch"},
		{"a # b", nil, ""},
		{"a of agent b", nil, ""},
		{"*", nil, ""},
	} {
		got := RuleFor(&protocol.Approval{Tool: c.tool, Payload: c.args})
		if got != c.want {
			t.Errorf("%s %v: %q, want %q", c.tool, c.args, got, c.want)
		}
		if _, err := parseRule(got); (err == nil) != (c.want != "") {
			t.Errorf("%q: %v", got, err)
		}
	}
}

// TestARuleIsHeldAgainstTheLog, and told in a sentence that nothing from the log could end.
func TestARuleIsHeldAgainstTheLog(t *testing.T) {
	s := &supervisor{}
	said, err := New(s, Stores{}).Do(t.Context(), Act{Do: "rule.try", Text: "deny shell git push"})
	if err != nil || said != "It covers 2 of 41 decisions in the log (3 could not be checked: their arguments were redacted or truncated), latest first: coder: shell \"git push <U+202E>\" (approved); an agent without a name: shell \"git push -f\" (timed_out). Nothing was added." {
		t.Error(said, err)
	}
	if diff := cmp.Diff([]string{"try deny shell git push"}, s.told); diff != "" {
		t.Error(diff)
	}
}

// TestARuleSaysWhatItDoesNotCover: wherever a rule is written or tried, and where it stands
// in the list; and a call that would run says what the kernel holds it to.
func TestARuleSaysWhatItDoesNotCover(t *testing.T) {
	const why = "python3 runs the code that its other words name"
	r := protocol.Rule{Tier: "user", Caution: why, RuleSpec: protocol.RuleSpec{ID: "py", Effect: protocol.CheckAllow, Shell: "python3"}}
	for _, caution := range []string{why, ""} {
		r.Caution = caution
		s := &supervisor{list: []protocol.Rule{r}, caution: caution, ceiling: "read: only python3 is executed"}
		b := New(s, Stores{})
		for _, do := range []string{"rule.add", "rule.edit", "rule.try"} {
			act := Act{Do: do, Target: targetOf(r.RuleSpec), Text: "allow shell python3"}
			if _, err := b.Do(t.Context(), act); errors.As(err, new(Question)) {
				act = yes(err)
			}
			if said, err := b.Do(t.Context(), act); err != nil || strings.Contains(string(said), "Caution: "+why) != (caution != "") {
				t.Errorf("%s: %q, %v", do, said, err)
			}
		}
		list, err := b.Load(t.Context(), Rules)
		if err != nil {
			t.Fatal(err)
		}
		if it := list.Sections[0].Items[0]; it.Careful != (caution != "") || strings.Contains(string(it.Under), `caution: "`+why) != (caution != "") {
			t.Errorf("%+v", it)
		}
		if said, err := b.Do(t.Context(), Act{Do: "rule.test", Text: "shell ls"}); err != nil || !strings.Contains(string(said), `It would run, by r. The kernel confines it to: "`+s.ceiling) {
			t.Errorf("%q, %v", said, err)
		}
	}
}

// yes is the act of a question, answered.
func yes(err error) Act {
	var q Question
	errors.As(err, &q)
	return q.Act
}

// TestARuleIsASentenceBeforeItHolds: no line of text is a rule by itself, nor with the sentence
// of another one. With its own it is.
func TestARuleIsASentenceBeforeItHolds(t *testing.T) {
	for _, do := range []string{"rule.add", "rule.edit"} {
		s := &supervisor{}
		b := New(s, Stores{})
		_, err := b.Do(t.Context(), Act{Do: do, Target: targetOf(protocol.RuleSpec{ID: "py"}), Text: "allow shell rm -rf src"})
		var q Question
		if !errors.As(err, &q) || !strings.Contains(string(q.Sure), `in every session and for every agent, until you remove it? Run without asking commands that begin with "rm -rf src"`) {
			t.Fatalf("%s: %v", do, err)
		}
		other := q.Act
		other.Text = "allow shell rm"
		if _, err := b.Do(t.Context(), other); !errors.As(err, new(Question)) || len(s.told) != 0 {
			t.Errorf("%s: %v, %v", do, err, s.told)
		}
		if _, err := b.Do(t.Context(), q.Act); err != nil || len(s.told) != 1 {
			t.Errorf("%s: %v, %v", do, err, s.told)
		}
	}
	_, err := New(&supervisor{}, Stores{}).Do(t.Context(), Act{Do: "rule.add", Text: "allow tool WebSearch of agent researcher"})
	if sure := yes(err).Yes; !strings.Contains(string(sure), `in every session, until you remove it? Run without asking, if the agent researcher asks,`) {
		t.Error(err)
	}
}

func TestActs(t *testing.T) {
	s := &supervisor{}
	b := New(s, Stores{})
	for _, c := range []struct {
		act        Act
		told, said string
	}{
		{Act{Do: "rule.remove", Target: targetOf(protocol.RuleSpec{ID: "old"})}, "remove old", "Removed"},
		{Act{Do: "rule.test", Text: "shell git push \"x\""}, `test shell {"command":"git push \"x\""}`, "It would be refused, by r: \"no <U+001B>\""},
		{Act{Do: "rule.test", Text: `write_file {"path":"x"}`}, `test write_file {"path":"x"}`, "It would be refused"},
		{Act{Do: "answer.forget", Target: "m1"}, "forget m1", "asks again"},
	} {
		s.told = nil
		said, err := b.Do(t.Context(), c.act)
		if err != nil || !strings.Contains(string(said), c.said) || len(s.told) != 1 || s.told[0] != c.told {
			t.Errorf("%+v: %q %v %q", c.act, said, err, s.told)
		}
	}
	for _, act := range []Act{{Do: ""}, {Do: "format"}, {Do: "kept.drop", Target: "x"}, {Do: "kept.restore", Target: "x/1"}, {Do: "kept.restore", Target: "x"}, {Do: "rule.test", Text: "write_file {"}, {Do: "rule.remove", Target: "old"}, {Do: "rule.edit", Target: "{}", Text: "allow tool x"}} {
		if said, err := b.Do(t.Context(), act); err == nil {
			t.Errorf("%+v: %q", act, said)
		}
	}
	if _, err := b.Load(t.Context(), "nothing"); err == nil {
		t.Error("a board that there is not")
	}
}

// TestRememberedAnswersAreSentences, with what would end them, and never JSON.
// TestARuleIsChangedAsItWasListed: the yes to an edit or a removal goes to the supervisor with the rule that stood
// in the list, and not with its name alone.
func TestARuleIsChangedAsItWasListed(t *testing.T) {
	listed := protocol.Rule{Tier: "user", RuleSpec: protocol.RuleSpec{ID: "py", Effect: protocol.CheckAllow, Tool: "x", Match: []string{"x"}}}
	for _, words := range []string{"Edit", "Remove"} {
		s := &supervisor{list: []protocol.Rule{listed}}
		b := New(s, Stores{})
		list, err := b.Load(t.Context(), Rules)
		if err != nil {
			t.Fatal(err)
		}
		actions := list.Sections[0].Items[0].Actions
		act := actions[slices.IndexFunc(actions, func(a Action) bool { return a.Words == words })].Act
		s.list = nil // another approver's doing: what the board knows is what it showed
		if _, err := b.Do(t.Context(), act); errors.As(err, new(Question)) {
			act = yes(err)
			if _, err := b.Do(t.Context(), act); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&listed.RuleSpec, s.seen); diff != "" || len(s.told) != 1 {
			t.Errorf("%s: %s, %q", words, diff, s.told)
		}
	}
}

func TestRememberedAnswersAreSentences(t *testing.T) {
	b, err := New(&supervisor{}, Stores{}).Load(t.Context(), Remembered)
	if err != nil || len(b.Sections) != 1 || len(b.Sections[0].Items) != 1 {
		t.Fatal(b, err)
	}
	it := b.Sections[0].Items[0]
	if it.Text != "shell runs without asking, whichever agent asks, until you remove it: every <U+202E>" || it.Under != "used 2 times, given by uid 7" || !it.Careful {
		t.Errorf("%+v", it)
	}
	if a := it.Actions[0]; a.Target != "m1" || !strings.Contains(string(a.Sure), string(it.Text)) {
		t.Errorf("%+v", a)
	}
}

// TestSentences: one for each call, with how it was decided, how it ended and what was
// refused, the latest first.
func TestSentences(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.Local)
	entry := func(n int, kind, call, data string) protocol.AuditEntry {
		return protocol.AuditEntry{Seq: uint64(n), Time: at.Add(time.Duration(n) * time.Second), Kind: kind, Session: "s", Call: protocol.CallID(call), Agent: "coder", Tool: "shell", Data: json.RawMessage(data)}
	}
	items := Sentences([]protocol.AuditEntry{
		entry(1, "start", "", `{"version":"1"}`),
		entry(2, "session", "", `{"event":"open"}`),
		entry(3, "decision", "c1", `{"args":{"command":"npm test\u202e"},"decision":{"action":"approved","scope":"once","approver":"uid 7"}}`),
		entry(4, "decision", "c2", `{"args":{"command":"rm x"},"decision":{"action":"denied","rule":"shell.rules[1]"}}`),
		entry(5, "end", "c1", `{"exit_code":3,"duration_ms":1500,"violations":[{"kind":"file","right":"write_file","path":"/etc/x"},{"kind":"file"}]}`),
		entry(6, "refused", "c3", `{"error":{"message":"no sandbox"}}`),
	})
	var got []string
	for _, it := range items {
		got = append(got, string(it.Text+" | "+it.Under))
	}
	want := []string{
		`coder: shell | 10:00:06, "no sandbox"`,
		"coder: \"npm test<U+202E>\" | 10:00:03  allowed by uid 7, failed with 3 after 1.5s, the sandbox refused write_file /etc/x and 1 more",
		`coder: "rm x" | 10:00:04  denied by the rule "shell.rules[1]"`,
		"coder: session opened | 10:00:02",
		"sandgate started | 10:00:01",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzSentences: whatever a log says, its sentences are escaped.
func FuzzSentences(f *testing.F) {
	f.Add("decision", "coder", "shell", `{"args":{"command":"x\u001b"},"decision":{"action":"approved"}}`)
	f.Add("rules", "", "", `{"event":"added","rule":{"effect":"deny","tool":"\u202e"}}`)
	f.Add("end", "\x1b", "\n", `{"error":{"message":"\u0007"},"violations":[{"path":"\u200b"}]}`)
	f.Fuzz(func(t *testing.T, kind, agent, tool, data string) {
		for _, it := range Sentences([]protocol.AuditEntry{{Kind: kind, Agent: agent, Tool: protocol.ToolName(tool), Data: json.RawMessage(data)}}) {
			if approval.EscapeLine(string(it.Text)) != string(it.Text) || approval.EscapeLine(string(it.Under)) != string(it.Under) {
				t.Fatalf("%q %q", it.Text, it.Under)
			}
		}
	})
}

// changed is what calls changed, and hears what is to be undone.
type changed struct {
	list   []Changed
	undone [][]string
}

func (c *changed) Changed() ([]Changed, error) { return c.list, nil }

func (c *changed) Undo(workspace string, ids []string) (present.Sentence, error) {
	c.undone = append(c.undone, append([]string{workspace}, ids...))
	return "It is back.", nil
}

// TestALongTextPushesNothingOut: whatever a text of others is like, what is asked stands
// there to its last word, and so do the other texts. What an undo leaves out takes a second answer.
func TestALongTextPushesNothingOut(t *testing.T) {
	long := strings.Repeat("long ", 200)
	s := New(&supervisor{}, Stores{})
	c := Changed{ID: "1", Workspace: "/w", Session: "s", Tool: "shell", What: "what` " + long + "end", Files: []File{{Sign: "~", Path: "first/" + long}, {Sign: "-", Path: "second/" + long + "end"}, {Sign: "+", Path: "third"}}}
	undo := s.change(c).Actions[0]
	for _, want := range []string{"Restore 3 files to their state before this call? ~ \"first/", " more characters> \"", "long end\", + third; the call: \"what` "} {
		if !strings.Contains(string(undo.Sure), want) {
			t.Errorf("no %q in %q", want, undo.Sure)
		}
	}
	if len(undo.Sure) > 1000 {
		t.Errorf("nothing was cut: %q", undo.Sure)
	}
	if again := undo.Asked(); again == nil || !strings.Contains(string(again.Sure), "not everything") || again.Asked() != nil {
		t.Errorf("it was cut, and is asked about once: %+v", undo)
	}
	c.What, c.Files = "touch x", c.Files[2:]
	if again := s.change(c).Actions[0].Asked(); again != nil { // the twin
		t.Errorf("nothing is left out, and it is asked about twice: %+v", again)
	}
	for _, r := range []protocol.Rule{
		{RuleSpec: protocol.RuleSpec{Effect: "deny", Shell: long + "end", ReadOnly: true, Agent: "coder"}},
		{RuleSpec: protocol.RuleSpec{Effect: "deny", Reason: long + "end"}},
	} {
		if got := ruleSentence(r, present.Name); !strings.HasPrefix(string(got), "Refuse") || !strings.HasSuffix(string(got), " end\"") || len(got) > 400 {
			t.Errorf("%q", got)
		}
		if got := ruleSentence(r, present.Whole); !strings.Contains(string(got), long) {
			t.Errorf("a rule that is to be removed is cut: %q", got)
		}
	}
	items := s.underWay([]protocol.CallInfo{{Agent: "coder", Tool: "shell", Args: json.RawMessage(`{"command":"` + long + `"}`)}}, nil)
	if got := items[0].Actions[0].Sure; !strings.HasPrefix(string(got), "End this call of coder and everything that it started? \"long") {
		t.Errorf("%q", got)
	}
}

// TestChangesAreUndoneByCallAndBySession: each call that is not undone yet has an undo of
// its own, a session one of all of them, and what an agent wrote is escaped.
func TestChangesAreUndoneByCallAndBySession(t *testing.T) {
	c := &changed{list: []Changed{
		{ID: "4", Workspace: "/w", Session: "-", Tool: "undo", What: "undo of 2", Undo: true, Files: []File{{Sign: "~", Path: "b"}}},
		{ID: "3", Workspace: "/w", Session: "s", Agent: "a", Tool: "shell", What: "x\x1b[2J", Files: []File{{Sign: "+", Path: "1"}, {Sign: "+", Path: "2"}, {Sign: "+", Path: "3"}, {Sign: "+", Path: "4"}, {Sign: "+", Path: "5"}}, With: 1},
		{ID: "2", Workspace: "/w", Session: "s", Agent: "a", Tool: "shell", What: "y", Files: []File{{Sign: "~", Path: "b"}}, Undone: true},
		{ID: "1", Workspace: "/w", Session: "s", Agent: "a", Tool: "edit_file", What: "z", Files: []File{{Sign: "-", Path: "c"}}},
	}}
	s := New(&supervisor{}, Stores{Changes: c})
	b, err := s.Load(t.Context(), Changes)
	if err != nil || len(b.Sections) != 2 || len(b.Sections[1].Items) != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	session := b.Sections[1]
	first := session.Items[0]
	if strings.ContainsRune(string(first.Text), 0x1b) || !strings.Contains(string(first.Under), "and 1 more") || !strings.Contains(string(first.Under), "may be theirs") || first.Actions[0].Sure == "" {
		t.Errorf("%+v", first)
	}
	if it := session.Items[1]; len(it.Actions) != 0 || !strings.Contains(string(it.Under), "undone") {
		t.Errorf("an undone call: %+v", it)
	}
	for _, a := range []Action{first.Actions[0], session.Actions[0], b.Sections[0].Items[0].Actions[0]} {
		if said, err := s.Do(t.Context(), a.Act); err != nil || strings.ContainsRune(string(said), 0x1b) {
			t.Errorf("%q, %v", said, err)
		}
	}
	if want := [][]string{{"/w", "3"}, {"/w", "3", "1"}, {"/w", "4"}}; !reflect.DeepEqual(c.undone, want) {
		t.Errorf("undone: %v, want %v", c.undone, want)
	}
	for _, target := range []string{"", "/w", "/w\x00"} {
		if _, err := s.Do(t.Context(), Act{Do: "changes.undo", Target: target}); err == nil {
			t.Errorf("%q names a call", target)
		}
	}
	if _, err := New(&supervisor{}, Stores{}).Do(t.Context(), Act{Do: "changes.undo", Target: "/w\x003"}); err == nil {
		t.Error("undone without a store")
	}
}

// TestOurWordsAreNotQuoted: what sandgate says itself stands without quotes, and the same words of
// others in them.
func TestOurWordsAreNotQuoted(t *testing.T) {
	own := protocol.Rule{RuleSpec: protocol.RuleSpec{Effect: protocol.CheckAsk, Reason: "commands that no rule matches"}, Name: "shell.default", Tier: "config"}
	if got := ruleSentence(own, present.Name); got != "Ask about commands that no rule matches" {
		t.Error(got)
	}
	own.Tier = "user"
	if got := ruleSentence(own, present.Name); !strings.HasSuffix(string(got), `: "commands that no rule matches"`) {
		t.Error(got)
	}
	const why = "the tool needs no approval"
	if got := decided(approval.Decision{Action: approval.NotNeeded, Reason: "x"}); got != "allowed: "+why {
		t.Error(got)
	}
	if got := decided(approval.Decision{Action: approval.Approved, Reason: why}); got != `allowed: "`+why+`"` {
		t.Error(got)
	}
}
