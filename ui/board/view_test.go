package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// world has one of everything that a board can list, and notes what is done to it. other is what an agent,
// or another approver, made of each of them; empty is that all of them went.
type world struct {
	Approver
	other, empty bool
	more         int // calls under way beside the first
	hits         int
	did          []string
}

func (w *world) said(as, is string) string {
	if w.other {
		return is
	}
	return as
}

func (w *world) do(what string) error {
	w.did = append(w.did, what)
	return nil
}

// unless has one thing, or none.
func unless[T any](empty bool, one ...T) []T {
	if empty {
		return nil
	}
	return one
}

func (w *world) Calls(context.Context) ([]protocol.CallInfo, error) {
	args, _ := json.Marshal(map[string]string{"command": w.said("make test", "rm -rf src")}) // a string always is JSON
	list := unless(w.empty, protocol.CallInfo{ID: "c1", SessionID: "s1", Agent: "coder", Tool: "shell", Args: args})
	for i := range w.more {
		list = append(list, protocol.CallInfo{ID: fmt.Sprint("more", i), SessionID: "s1", Agent: "coder", Tool: "shell", Args: args})
	}
	return list, nil
}

func (w *world) Sessions(context.Context) ([]protocol.SessionInfo, error) {
	return unless(w.empty, protocol.SessionInfo{ID: "s1", Agent: w.said("coder", "admin"), Calls: w.hits}), nil
}

func (w *world) rule() protocol.RuleSpec {
	return protocol.RuleSpec{ID: "r1", Effect: protocol.CheckAllow, Tool: "x", Match: []string{w.said("x", "xy")}} // which no row shows
}

func (w *world) Rules(context.Context) (protocol.RulesList, error) {
	return protocol.RulesList{Rules: unless(w.empty, protocol.Rule{Tier: "user", RuleSpec: w.rule()})}, nil
}

func (w *world) SuggestRules(context.Context, protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return protocol.RulesSuggested{Suggestions: unless(w.empty, protocol.Suggestion{Rule: protocol.RuleSpec{Effect: protocol.CheckAllow, Shell: "ls"}, Also: unless(!w.other, "shell ls /")})}, nil
}

func (w *world) Remembered(context.Context) ([]protocol.RememberedAnswer, error) {
	return unless(w.empty, protocol.RememberedAnswer{ID: "m1", Decision: protocol.Allow, Scope: approval.Global, Tool: "shell", Text: w.said("make", "every command"), Hits: w.hits}), nil
}

func (w *world) Audit(context.Context, protocol.AuditQuery) (protocol.AuditEntries, error) {
	return protocol.AuditEntries{}, nil
}

func (w *world) Status(context.Context) (protocol.Status, error) { return protocol.Status{}, nil }

func (w *world) Changed() ([]Changed, error) {
	one := Changed{ID: "1", Workspace: "/w", Session: "s", Tool: "shell", What: "make", Files: []File{{Sign: "~", Path: w.said("a", "b")}}}
	two := one
	two.ID = "2"
	three := one
	three.ID = "3"
	return append(unless(w.empty, one, two), unless(w.empty || !w.other, three)...), nil
}

func (w *world) List() ([]Kept, error) {
	return append(unless(w.empty, Kept{Item: "i", Entry: 1, Path: "/w/x", Why: w.said("a hook", "a note")}), unless(w.empty || !w.other, Kept{Item: "i", Entry: 2, Path: "/w/y"})...), nil
}

func (w *world) Kill(_ context.Context, id string) error { return w.do("kill " + id) }

func (w *world) CloseSession(_ context.Context, id protocol.SessionID) (protocol.SessionClosed, error) {
	return protocol.SessionClosed{}, w.do("close " + string(id))
}

func (w *world) AddRule(_ context.Context, r protocol.RuleSpec) (protocol.Rule, error) {
	return protocol.Rule{RuleSpec: r}, w.do("add " + ruleText(r))
}

func (w *world) ReplaceRule(_ context.Context, id string, r protocol.RuleSpec, _ *protocol.RuleSpec) (protocol.Rule, error) {
	return protocol.Rule{RuleSpec: r}, w.do("replace " + id)
}

func (w *world) RemoveRule(_ context.Context, id string, _ *protocol.RuleSpec) (protocol.Rule, error) {
	return protocol.Rule{}, w.do("remove " + id)
}

func (w *world) Forget(_ context.Context, id string) error { return w.do("forget " + id) }

func (w *world) Reload(context.Context) (protocol.Reloaded, error) {
	return protocol.Reloaded{}, w.do("reload")
}

func (*world) TryRule(context.Context, protocol.RulesTry) (protocol.RulesTried, error) {
	return protocol.RulesTried{}, nil
}

func (*world) TestRules(context.Context, protocol.RulesTest) (protocol.RulesTested, error) {
	return protocol.RulesTested{}, nil
}

func (w *world) Undo(_ string, ids []string) (present.Sentence, error) {
	return "", w.do(fmt.Sprint("undo ", ids))
}

func (w *world) Restore(item string, entry int) error {
	return w.do(fmt.Sprint("restore ", item, entry))
}

func (w *world) Drop(item string) error { return w.do("drop " + item) }

// texts are what is written in the lines of actions that take one.
var texts = map[string]string{"rule.add": "allow tool y", "rule.edit": "deny tool x", "rule.try": "allow tool x", "rule.test": "shell ls"}

// TestEveryActIsForTheRowThatWasShown walks all actions of all boards, and finds those that it has not: each asks first, in a
// sentence that ends with its row; a yes at once is none; where the row is another one by now or has gone nothing is
// done, before the question and after it; and what a person meant is done.
func TestEveryActIsForTheRowThatWasShown(t *testing.T) {
	walked := map[string]bool{}
	for _, name := range Names() {
		first := at(New(&world{}, Stores{Quarantine: &world{}, Changes: &world{}}), name)
		for of := range first.board.actions() {
			walked[of.Do] = true
			t.Run(name+" "+of.Do+" "+of.Words, func(t *testing.T) {
				open := func() (*person, *world, Act) {
					w := &world{}
					return at(New(w, Stores{Quarantine: w, Changes: w}), name), w, Act{Shown: of.Shown, Text: texts[of.Do]}
				}
				refused := func(when string, p *person, w *world, act Act, want string) {
					t.Helper()
					if _, err := p.Do(t.Context(), act); err == nil || errors.As(err, new(Question)) || !strings.Contains(err.Error(), want) || len(w.did) != 0 {
						t.Errorf("%s: %v; done: %q", when, err, w.did)
					}
				}
				p, w, act := open()
				refused("never shown", p, w, Act{Shown: "x", Text: act.Text}, "not on the board")
				p.board.Version = 0
				p.look(Status)
				p.look(Status)
				refused("another board is open", p, w, act, "not on the board")

				if !of.reads && (of.item != nil || of.state != nil) {
					p, w, act = open()
					w.other = true
					refused("another row", p, w, act, "different now")
					w.other, w.empty = false, true
					refused("no row", p, w, act, "has gone")
				}
				p, w, act = open()
				_, err := p.Do(t.Context(), act)
				if of.reads {
					if err != nil || len(w.did) != 0 {
						t.Errorf("it reads: %v, %q", err, w.did)
					}
					return
				}
				for n := 0; ; n++ {
					var q Question
					if !errors.As(err, &q) || n == 3 {
						break
					}
					if of.item != nil && of.Label == "" && !strings.HasSuffix(string(q.Sure), " "+string(of.item.Text)) || len(w.did) != 0 {
						t.Errorf("%q names no row; done: %q", q.Sure, w.did)
					}
					act.Yes = q.Sure
					for _, early := range []time.Duration{0, guard.Settle - time.Millisecond} { // each asks again
						p.clock = p.clock.Add(early)
						if _, err := p.Do(t.Context(), act); !errors.As(err, new(Question)) || len(w.did) != 0 {
							t.Errorf("a yes after %v: %v, %q", early, err, w.did)
						}
					}
					p.clock = p.clock.Add(guard.Settle)
					if of.item != nil || of.state != nil {
						w.other = true
						refused("another row behind the question", p, w, act, "different now")
						w.other = false
					}
					_, err = p.Do(t.Context(), act)
				}
				if act.Yes == "" {
					t.Error("it asks nothing")
				}
				if err != nil || len(w.did) != 1 {
					t.Errorf("a person cannot do it: %v, %q", err, w.did)
				}
				yes := act.Yes
				p, w, act = open()
				act.Yes = yes
				if _, err := p.Do(t.Context(), act); !errors.As(err, new(Question)) || len(w.did) != 0 {
					t.Errorf("a yes to what was not asked: %v, %q", err, w.did)
				}
			})
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, kind := range regexp.MustCompile(`(?:\bDo: +|AddRule = )"([a-z.]+)"`).FindAllStringSubmatch(string(text), -1) {
			if kinds++; !walked[kind[1]] {
				t.Errorf("no board of this test has the action %s", kind[1])
			}
		}
		if n := strings.Count(string(text), "Words:"); n > 0 && strings.Count(string(text), "Do:") < n {
			t.Errorf("%s: an action has no kind", f)
		}
	}
	if kinds < 12 {
		t.Errorf("only %d kinds of action found", kinds)
	}
}

// TestAnActionThatAsksNothingIsNotDone: it is what a new one is that forgets to.
func TestAnActionThatAsksNothingIsNotDone(t *testing.T) {
	did := false
	v := New(&world{}, Stores{}).View(time.Now)
	_, err := v.do(t.Context(), place{&Action{Do: "new", do: func(context.Context, string) (present.Sentence, error) { did = true; return "", nil }}, &Section{}, nil}, Act{})
	if err == nil || did {
		t.Error(err, did)
	}
}

// lines are what of a list is not told anew.
func lines(b Board) (list []string) {
	for _, s := range b.Sections {
		list = append(list, string(s.Heading))
		for _, it := range s.Items {
			list = append(list, string(it.Text+" "+it.Under))
		}
	}
	return list
}

// TestAListStandsWhileAPersonIsAtIt: whatever agents do meanwhile, it has the same rows in the same places, and says how it
// differs; what changes by itself is told anew. When nobody has been there for a while, or when asked to, it is
// the list as it is now.
func TestAListStandsWhileAPersonIsAtIt(t *testing.T) {
	for _, name := range []string{Activity, Sessions, Rules, Remembered, Changes, Quarantine} {
		w := &world{more: 2}
		v := New(w, Stores{Quarantine: w, Changes: w}).View(time.Now)
		look := func(l Look) Board {
			t.Helper()
			l.Name = name
			b, err := v.Load(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		was := look(Look{})
		if b := look(Look{Drawn: was.Version, Idle: time.Hour.Milliseconds()}); b.Version != was.Version || b.News != "" {
			t.Errorf("%s: nothing has changed: %+v", name, b)
		}
		for i, change := range []func(){func() { w.more = 5 }, func() { w.other = true }, func() { w.empty, w.more = true, 0 }, func() { w.empty, w.hits = false, 7 }} {
			change()
			b := look(Look{Drawn: was.Version, Idle: Still.Milliseconds() - 1})
			if !slices.Equal(lines(b), lines(was)) || b.Version != was.Version {
				t.Errorf("%s, change %d: %q", name, i, lines(b))
			}
			if i > 0 && b.News == "" {
				t.Errorf("%s, change %d: nothing is said of it", name, i)
			}
		}
		for _, l := range []Look{{Drawn: was.Version, Idle: Still.Milliseconds()}, {Drawn: was.Version, Fresh: true}, {}} {
			if b := look(l); b.Version == was.Version || b.News != "" || slices.Equal(lines(b), lines(was)) {
				t.Errorf("%s: the list does not come: %+v", name, b)
			}
		}
		// A screen that has not drawn what it was sent still has the list before, and it stands.
		if b := look(Look{Drawn: was.Version}); b.Version != was.Version || !slices.Equal(lines(b), lines(was)) {
			t.Errorf("%s: a list that was not drawn has come: %+v", name, b)
		}
	}
}

func TestWhatIsNewIsCounted(t *testing.T) {
	w := &world{}
	v := New(w, Stores{}).View(time.Now)
	was, err := v.Load(t.Context(), Look{Name: Activity})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func()
		news   present.Sentence
		now    string
	}{
		{func() { w.more = 3 }, "3 new", "requested"},
		{func() { w.other = true }, "3 new, 1 changed", "requested"},
		{func() { w.empty = true }, "3 new, 1 gone", "gone by now"},
		{func() { *w = world{} }, "", "requested"},
	} {
		c.change()
		b, err := v.Load(t.Context(), Look{Name: Activity, Drawn: was.Version})
		if err != nil || b.News != c.news || !strings.HasPrefix(string(b.Sections[0].Items[0].Now), c.now) {
			t.Errorf("%q, %+v, %v; want %q", b.News, b.Sections[0].Items[0], err, c.news)
		}
	}
}
