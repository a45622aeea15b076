package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
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
	v := at(New(s, Stores{}), Rules)
	it := v.board.Sections[0].Items[0]
	if it.Text != `Run without asking, if the agent "ci-*" asks, calls of WebSearch` || it.Actions[0].Text != "allow tool WebSearch of agent ci-*" {
		t.Errorf("%+v", it)
	}
	if said, err := v.press("Edit", it.Actions[0].Text, 1); err != nil || !strings.Contains(string(said), string(it.Text)) {
		t.Error(said, err)
	}
	if diff := cmp.Diff([]string{"replace old: allow tool WebSearch of agent ci-* [WebSearch]"}, s.told); diff != "" {
		t.Error(diff)
	}
	s.refuse = errors.New("it would loosen")
	if said, err := v.press("Edit", it.Actions[0].Text, 1); err == nil || len(s.told) != 2 {
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
	said, err := at(New(s, Stores{}), Rules).press("Try a rule on the log", "deny shell git push", 0)
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
		v := at(New(s, Stores{}), Rules)
		for words, questions := range map[string]int{"Add a rule": 1, "Edit": 1, "Try a rule on the log": 0} {
			if said, err := v.press(words, "allow shell python3", questions); err != nil || strings.Contains(string(said), "Caution: "+why) != (caution != "") {
				t.Errorf("%s: %q, %v", words, said, err)
			}
		}
		list := v.board
		if it := list.Sections[0].Items[0]; it.Careful != (caution != "") || strings.Contains(string(it.Under), `caution: "`+why) != (caution != "") {
			t.Errorf("%+v", it)
		}
		if said, err := v.press("Try a call", "shell ls", 0); err != nil || !strings.Contains(string(said), `It would run, by r. The kernel confines it to: "`+s.ceiling) {
			t.Errorf("%q, %v", said, err)
		}
	}
}

// person is one in front of a board, with a clock.
type person struct {
	*View
	board Board
	clock time.Time
}

// at opens a board.
func at(s *Source, name string) *person {
	p := &person{clock: time.Now()}
	p.View = s.View(func() time.Time { return p.clock })
	p.look(name)
	return p
}

func (p *person) look(name string) {
	var err error
	if p.board, err = p.Load(context.Background(), Look{Name: name, Drawn: p.board.Version, Fresh: true}); err != nil {
		panic(err)
	}
}

// act is the action with these words, the first of the board.
func (p *person) act(words string) Act {
	for at := range p.board.actions() {
		if at.Words == words {
			return Act{Shown: at.Shown}
		}
	}
	panic("there is no " + words)
}

// press does one, and answers so many questions with yes.
func (p *person) press(words, text string, questions int) (present.Sentence, error) {
	act := p.act(words)
	act.Text = text
	for ; ; questions-- {
		said, err := p.Do(context.Background(), act)
		var q Question
		if !errors.As(err, &q) || questions == 0 {
			return said, err
		}
		act.Yes = q.Sure
		p.clock = p.clock.Add(guard.Settle)
	}
}

// TestARuleIsASentenceBeforeItHolds: no line of text is a rule by itself, nor with the sentence
// of another one. With its own it is.
func TestARuleIsASentenceBeforeItHolds(t *testing.T) {
	for _, words := range []string{"Add a rule", "Edit"} {
		s := &supervisor{list: []protocol.Rule{{Tier: "user", RuleSpec: protocol.RuleSpec{ID: "py", Effect: protocol.CheckAllow, Shell: "python3"}}}}
		v := at(New(s, Stores{}), Rules)
		_, err := v.press(words, "allow shell rm -rf src", 0)
		var q Question
		if !errors.As(err, &q) || !strings.HasSuffix(string(q.Sure), `in every session and for every agent, until you remove it? Run without asking commands that begin with "rm -rf src"`) {
			t.Fatalf("%s: %v", words, err)
		}
		act := v.act(words)
		v.clock = v.clock.Add(guard.Settle)
		if _, err := v.Do(t.Context(), Act{Shown: act.Shown, Text: "allow shell rm", Yes: q.Sure}); !errors.As(err, new(Question)) || len(s.told) != 0 {
			t.Errorf("%s: %v, %v", words, err, s.told)
		}
		if _, err := v.Do(t.Context(), Act{Shown: act.Shown, Text: "allow shell rm -rf src", Yes: q.Sure}); err != nil || len(s.told) != 1 {
			t.Errorf("%s: %v, %v", words, err, s.told)
		}
	}
	_, err := at(New(&supervisor{}, Stores{}), Rules).press("Add a rule", "allow tool WebSearch of agent researcher", 0)
	if err == nil || !strings.Contains(err.Error(), `in every session, until you remove it? Run without asking, if the agent researcher asks,`) {
		t.Error(err)
	}
}

func TestActs(t *testing.T) {
	s := &supervisor{list: []protocol.Rule{{Tier: "user", RuleSpec: protocol.RuleSpec{ID: "old", Effect: protocol.CheckDeny, Tool: "x"}}}}
	for _, c := range []struct {
		board, words, text string
		questions          int
		told, said         string
	}{
		{Rules, "Remove", "", 1, "remove old", "Removed"},
		{Rules, "Try a call", "shell git push \"x\"", 0, `test shell {"command":"git push \"x\""}`, "It would be refused, by r: \"no <U+001B>\""},
		{Rules, "Try a call", `write_file {"path":"x"}`, 0, `test write_file {"path":"x"}`, "It would be refused"},
		{Remembered, "Forget", "", 1, "forget m1", "asks again"},
	} {
		s.told = nil
		said, err := at(New(s, Stores{}), c.board).press(c.words, c.text, c.questions)
		if err != nil || !strings.Contains(string(said), c.said) || len(s.told) != 1 || s.told[0] != c.told {
			t.Errorf("%+v: %q %v %q", c, said, err, s.told)
		}
	}
	v := at(New(s, Stores{}), Rules)
	for words, text := range map[string]string{"Try a call": "write_file {", "Edit": "allow", "Add a rule": "perhaps tool x"} {
		if said, err := v.press(words, text, 0); err == nil || errors.As(err, new(Question)) {
			t.Errorf("%s: %q, %v", words, said, err)
		}
	}
	for _, act := range []Act{{}, {Shown: "rule.remove"}} {
		if said, err := v.Do(t.Context(), act); err == nil {
			t.Errorf("%+v: %q", act, said)
		}
	}
	if _, err := v.Load(t.Context(), Look{Name: "nothing"}); err == nil {
		t.Error("a board that there is not")
	}
}

// TestARuleIsChangedAsItWasListed: the yes to an edit or a removal goes to the supervisor with the rule that stood
// in the list, and not with its name alone.
func TestARuleIsChangedAsItWasListed(t *testing.T) {
	listed := protocol.Rule{Tier: "user", RuleSpec: protocol.RuleSpec{ID: "py", Effect: protocol.CheckAllow, Tool: "x", Match: []string{"x"}}}
	for _, words := range []string{"Edit", "Remove"} {
		s := &supervisor{list: []protocol.Rule{listed}}
		if _, err := at(New(s, Stores{}), Rules).press(words, "allow tool x", 1); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&listed.RuleSpec, s.seen); diff != "" || len(s.told) != 1 {
			t.Errorf("%s: %s, %q", words, diff, s.told)
		}
	}
}

// TestRememberedAnswersAreSentences, with what would end them, and never JSON.
func TestRememberedAnswersAreSentences(t *testing.T) {
	v := at(New(&supervisor{}, Stores{}), Remembered)
	it := v.board.Sections[0].Items[0]
	if it.Text != "shell runs without asking, whichever agent asks, until you remove it: every <U+202E>" || it.Under != "given by uid 7" || it.Now != "used 2 times" || !it.Careful {
		t.Errorf("%+v", it)
	}
	if _, err := v.press("Forget", "", 0); err == nil || !strings.HasSuffix(err.Error(), string(it.Text)) {
		t.Error(err)
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
	c := &changed{list: []Changed{{ID: "1", Workspace: "/w", Session: "s", Tool: "shell", What: "what` " + long + "end", Files: []File{{Sign: "~", Path: "first/" + long}, {Sign: "-", Path: "second/" + long + "end"}, {Sign: "+", Path: "third"}}}}}
	s := New(&supervisor{}, Stores{Changes: c})
	v := at(s, Changes)
	_, err := v.press("Undo", "", 0)
	for _, want := range []string{"Restore 3 files to their state before this call? ~ \"first/", " more characters> \"", "long end\", + third; the call: \"what` "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("nothing was cut: %q", err)
	}
	if _, err := v.press("Undo", "", 1); err == nil || !strings.Contains(err.Error(), "not everything") || len(c.undone) != 0 {
		t.Errorf("it was cut, and is asked about once: %v", err)
	}
	if _, err := v.press("Undo", "", 2); err != nil || len(c.undone) != 1 {
		t.Errorf("a person cannot undo it: %v", err)
	}
	c.list[0].What, c.list[0].Files = "touch x", c.list[0].Files[2:]
	if _, err := at(s, Changes).press("Undo", "", 1); err != nil || len(c.undone) != 2 { // the twin
		t.Errorf("nothing is left out, and it is asked about twice: %v", err)
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
	for _, waiting := range []bool{true, false} { // what waits for an answer does not read as running
		item := s.underWay([]protocol.CallInfo{{Agent: "coder", Tool: "shell", Waiting: waiting}})[0]
		if strings.Contains(string(item.Now), "waits for an answer") != waiting {
			t.Errorf("%v: %s", waiting, item.Now)
		}
	}
	item := s.underWay([]protocol.CallInfo{{Agent: "coder", Tool: "shell", Args: json.RawMessage(`{"command":"` + long + `"}`)}})[0]
	if !strings.HasPrefix(string(item.Text), "coder: \"long") || len(item.Text) > 400 {
		t.Errorf("%q", item.Text)
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
	v := at(s, Changes)
	b := v.board
	if len(b.Sections) != 2 || len(b.Sections[1].Items) != 3 {
		t.Fatalf("%+v", b)
	}
	session := b.Sections[1]
	first := session.Items[0]
	if strings.ContainsRune(string(first.Text), 0x1b) || !strings.Contains(string(first.Under), "and 1 more") || !strings.Contains(string(first.Under), "may be theirs") {
		t.Errorf("%+v", first)
	}
	if it := session.Items[1]; len(it.Actions) != 0 || !strings.Contains(string(it.Under), "undone") {
		t.Errorf("an undone call: %+v", it)
	}
	for _, a := range []Action{first.Actions[0], session.Actions[0], b.Sections[0].Items[0].Actions[0]} {
		act := Act{Shown: a.Shown}
		said, err := v.Do(t.Context(), act)
		for q := (Question{}); errors.As(err, &q); said, err = v.Do(t.Context(), act) {
			if strings.ContainsRune(string(q.Sure), 0x1b) {
				t.Fatalf("%q", q.Sure)
			}
			act.Yes = q.Sure
			v.clock = v.clock.Add(guard.Settle)
		}
		if err != nil || strings.ContainsRune(string(said), 0x1b) {
			t.Errorf("%q, %v", said, err)
		}
	}
	if want := [][]string{{"/w", "3"}, {"/w", "3", "1"}, {"/w", "4"}}; !reflect.DeepEqual(c.undone, want) {
		t.Errorf("undone: %v, want %v", c.undone, want)
	}
	if none := at(New(&supervisor{}, Stores{}), Changes).board; none.acts() {
		t.Errorf("undone without a store: %+v", none)
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
