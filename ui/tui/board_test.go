package tui

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/present"
)

// boards are as a test says, and note what is done.
type boards struct {
	done  []board.Act
	now   *board.Board // what there is, nil for the two items
	looks []board.Look
}

// questions are what these acts ask first.
var questions = map[string]board.Question{"end 1": {Words: "End", Sure: "End the first?"}}

func (b *boards) Load(_ context.Context, l board.Look) (board.Board, error) {
	b.looks = append(b.looks, l)
	if b.now != nil {
		return *b.now, nil
	}
	return board.Board{Name: l.Name, Version: 1, Sections: []board.Section{{Heading: "Open " + present.Sentence(l.Name), Items: []board.Item{
		{ID: "1", Text: "first", Under: "below it", Now: "2s ago", Actions: []board.Action{{Shown: "end 1", Words: "End"}}},
		{ID: "2", Text: "second", Careful: true, Actions: []board.Action{{Shown: "edit 2", Words: "Edit", Text: "old", Label: "The rule", Hint: "words"}}},
	}, Actions: []board.Action{{Shown: "reload", Words: "Read again"}}}}}, nil
}

func (b *boards) Do(_ context.Context, a board.Act) (present.Sentence, error) {
	if q, ok := questions[a.Shown]; ok && a.Yes != q.Sure {
		return "", q
	}
	b.done = append(b.done, a)
	return "It is done.", nil
}

// offers has the open board be another one by now.
func (d *desk) offers(b *boards, now board.Board) {
	now.Name = d.m.board.name
	b.now = &now
	d.polls()
}

// polls is a tick, without the wait for the next one.
func (d *desk) polls() { d.run(d.m.loadBoard(false)) }

// TestTheOpenBoardIsNamed: on a screen without room for all names it is that one's that stands there.
func TestTheOpenBoardIsNamed(t *testing.T) {
	for _, width := range []int{40, 60, 80, 120} {
		d := newDesk(width, 24)
		d.m.opts.Boards = &boards{}
		for i, name := range board.Names() {
			d.press(fmt.Sprint(i + 2))
			first, _, _ := strings.Cut(d.screen(), "\n")
			if !strings.Contains(first, fmt.Sprintf("[%d %s]", i+2, name)) || !strings.Contains(first, fmt.Sprint(len(board.Names())+1)) {
				t.Errorf("%d columns: %q", width, first)
			}
		}
	}
}

// TestBoards: digits lead to them; what ends something is asked about, and what needs a
// text takes it; a key that comes too soon does nothing.
func TestBoards(t *testing.T) {
	d := newDesk(80, 24)
	b := &boards{}
	d.m.opts.Boards = b
	d.arrive(request(1, nil))
	d.read()
	d.press("3")
	golden(t, "board.txt", d.screen())
	d.press("a") // at once
	if len(b.done) != 0 || d.m.board.asked != nil {
		t.Error(b.done)
	}
	d.read()
	d.press("a")
	if !strings.Contains(d.screen(), "End the first?") {
		t.Error(d.screen())
	}
	d.press("y") // as soon as it is asked
	d.read()
	d.press("y", "down")
	d.read()
	d.press("a")
	d.write("new")
	d.read()
	d.press("A")
	want := []board.Act{{Shown: "end 1", Yes: "End the first?"}, {Shown: "edit 2", Text: "new"}, {Shown: "reload"}}
	if diff := cmp.Diff(want, b.done); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(d.screen(), "It is done.") {
		t.Error(d.screen())
	}
	expect(t, d) // no key of a board is an answer
	d.press("1")
	d.press("y")
	expect(t, d)
	if !strings.Contains(d.screen(), "│ go test 1") {
		t.Error(d.screen())
	}
	fitsScreen(t, d.screen(), 80, 24)
}

// TestATextOnABoardIsItsOwn: nothing that happens to requests takes a text on a board away,
// or has its keys answer one. Whatever takes a text away takes all keys with it.
func TestATextOnABoardIsItsOwn(t *testing.T) {
	writing := func() (*desk, *boards) {
		d, b := newDesk(80, 24), &boards{}
		d.m.opts.Boards = b
		return d, b
	}
	for name, happens := range map[string]func(*desk){
		"a first request":      func(d *desk) { d.arrive(request(1, nil)) },
		"one that has ended":   func(d *desk) { d.arrive(request(1, nil)); d.ends(1) },
		"another one":          func(d *desk) { d.arrive(request(1, nil), request(2, nil)); d.ends(1) },
		"an answer has failed": func(d *desk) { d.do(decidedMsg{ids: nil, err: protocol.Errorf(protocol.CodeInternal, "no")}) },
		"the board again":      func(d *desk) { d.do(tickMsg{}) },
	} {
		t.Run(name, func(t *testing.T) {
			d, b := writing()
			d.press("3", "down")
			d.read()
			d.press("a", "ctrl+u", "n")
			happens(d)
			d.read()
			for _, k := range []string{"y", "N", "r", "y"} {
				d.press(k)
				d.read()
			}
			expect(t, d)
			if !strings.Contains(d.screen(), "> nyNry") {
				t.Error(d.screen())
			}
			d.press("enter")
			if diff := cmp.Diff([]board.Act{{Shown: "edit 2", Text: "nyNry"}}, b.done); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("taken away", func(t *testing.T) {
		d, b := writing()
		d.arrive(request(1, nil))
		d.press("3", "down")
		d.read()
		d.press("a", "x")
		d.m.board = nil // by whatever it may be
		d.do(tickMsg{})
		for _, k := range []string{"y", "enter", "y", "r", "y"} {
			d.read()
			d.press(k)
		}
		expect(t, d)
		d.press("esc")
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
		if len(b.done) != 0 {
			t.Error(b.done)
		}
	})
}

// ruled is a supervisor that takes rules.
type ruled struct {
	board.Approver
	added []protocol.RuleSpec
}

func (r *ruled) Rules(context.Context) (protocol.RulesList, error) { return protocol.RulesList{}, nil }

func (r *ruled) SuggestRules(context.Context, protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return protocol.RulesSuggested{}, nil
}

func (r *ruled) AddRule(_ context.Context, spec protocol.RuleSpec) (protocol.Rule, error) {
	r.added = append(r.added, spec)
	return protocol.Rule{RuleSpec: spec}, nil
}

// TestTypedTextIsNoRule: however fast a text is typed or pasted without brackets, whichever
// keys it has, its line end makes no rule; nor does a yes that goes on at once. A person who
// reads the sentence makes one.
func TestTypedTextIsNoRule(t *testing.T) {
	const gap = burst + 10*time.Millisecond
	open := func() (*desk, *ruled) {
		d, r := newDesk(100, 30), &ruled{}
		d.m.opts.Boards = board.New(r, board.Stores{}).View(d.m.now)
		d.arrive(request(1, nil))
		return d, r
	}
	typed := func(d *desk, text string, gap time.Duration) {
		var late []tea.Cmd
		for _, k := range strings.Split(text, "") {
			d.wait(gap)
			if k == "\n" {
				k = "enter"
			}
			_, cmd := d.m.Update(keyNamed(k))
			if gap >= burst { // what comes of a key comes before the next one
				d.run(cmd)
			} else {
				late = append(late, cmd)
			}
		}
		for _, cmd := range late {
			d.run(cmd)
		}
	}
	for _, text := range []string{"R\n", "USER\n", "PR\nyes\n", "R\ny\n", "R\nyyy"} {
		for _, wait := range []time.Duration{0, 100 * time.Millisecond, settle} {
			for _, between := range []time.Duration{time.Millisecond, gap, 300 * time.Millisecond} {
				d, r := open()
				d.wait(wait)
				typed(d, text, between)
				if len(r.added) != 0 {
					t.Errorf("%q, %v after the request, %v between its keys: %v", text, wait, between, r.added)
				}
				expect(t, d)
			}
		}
	}
	t.Run("before the request has stood", func(t *testing.T) {
		d, _ := open()
		d.press("R")
		if d.m.edit != nil {
			t.Error("a line is open")
		}
	})
	t.Run("with a person", func(t *testing.T) {
		d, r := open()
		d.read()
		d.press("R", "enter")
		if len(r.added) != 0 || !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(d.screen(), "┆", "")), " "), `for every agent, until you remove it? Run without asking commands that begin with "go test 1"`) {
			t.Errorf("%v\n%s", r.added, d.screen())
		}
		d.press("x")
		d.read()
		if d.press("y"); len(r.added) != 0 {
			t.Errorf("after another key: %v", r.added)
		}
		d.read()
		d.press("A", "ctrl+u")
		for _, k := range "allow shell ls" {
			d.press(string(k))
		}
		d.press("enter")
		d.read()
		d.press("y")
		if diff := cmp.Diff([]protocol.RuleSpec{{Effect: protocol.CheckAllow, Shell: "ls"}}, r.added); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a question that comes late", func(t *testing.T) {
		d, r := open()
		d.read()
		d.press("R")
		_, cmd := d.m.Update(keyNamed("enter"))
		d.press("esc") // back to the requests
		d.run(cmd)
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
		if len(r.added) != 0 {
			t.Error(r.added)
		}
	})
}

// TestARequestThatEndsBehindABoard is still told of when the board is left.
func TestARequestThatEndsBehindABoard(t *testing.T) {
	d, b := newDesk(80, 24), &boards{}
	d.m.opts.Boards = b
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.press("3")
	d.ends(1)
	d.read()
	d.press("A") // the board goes on
	if len(b.done) != 1 {
		t.Error(b.done)
	}
	d.press("1")
	if !strings.Contains(d.screen(), "Denied by uid 7. Nothing ran.") {
		t.Error(d.screen())
	}
	d.read()
	d.press("y")
	expect(t, d)
	d.read()
	d.press("enter")
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-2", Decision: protocol.Allow, Scope: approval.Once})
}

// TestABoardActsOnWhatStood: what takes another's place under the mark is not what a key was meant for; times that are
// told anew are no other list. The mark stays on its row wherever that is.
func TestABoardActsOnWhatStood(t *testing.T) {
	on := func(version int64, now string, names ...string) board.Board {
		b := board.Board{Version: version, Sections: []board.Section{{Heading: "Open"}}}
		for _, n := range names {
			b.Sections[0].Items = append(b.Sections[0].Items, board.Item{ID: n, Text: present.Say("session %s", n), Now: present.Sentence(now), Actions: []board.Action{{Shown: "close " + n, Words: "End"}}})
		}
		return b
	}
	d, b := newDesk(80, 24), &boards{}
	d.m.opts.Boards = b
	d.press("3")
	for i := range 40 { // each 100 ms another time: no key would count if that began the wait anew
		d.offers(b, on(2, strings.Repeat("x", i%3), "1"))
		d.wait(100 * time.Millisecond)
	}
	d.offers(b, on(3, "", "2"))
	d.press("a")
	if len(b.done) != 0 {
		t.Errorf("a key for one session has ended another: %v", b.done)
	}
	d.read()
	d.press("a")
	want := []board.Act{{Shown: "close 2"}}
	if diff := cmp.Diff(want, b.done); diff != "" {
		t.Error(diff)
	}
	d.offers(b, on(4, "", "1", "2", "3"))
	d.press("down")
	d.read()
	d.offers(b, on(5, "", "0", "1", "2", "3"))
	if !strings.Contains(d.screen(), "▸ session 3") {
		t.Error(d.screen())
	}
}

// TestABoardAsksForAListThatStands: each look says which list is on the screen and since when nobody has been
// there; r asks for the list as it is now, and what came of that is told beside the list.
func TestABoardAsksForAListThatStands(t *testing.T) {
	d, b := newDesk(80, 24), &boards{}
	d.m.opts.Boards = b
	last := func() board.Look { return b.looks[len(b.looks)-1] }
	d.press("3")
	if l := last(); l.Drawn != 0 || l.Idle != 0 {
		t.Errorf("%+v", l)
	}
	d.wait(3 * time.Second)
	d.polls()
	if l := last(); l.Drawn != 1 || l.Idle < 3000 || l.Idle > 4000 || l.Fresh {
		t.Errorf("%+v", l)
	}
	for _, msg := range []tea.Msg{keyNamed("down"), tea.MouseMotionMsg{}, tea.FocusMsg{}, tea.PasteMsg{Content: "x"}} {
		d.wait(3 * time.Second)
		d.do(msg)
		d.polls()
		if l := last(); l.Idle > 100 {
			t.Errorf("%T: %+v", msg, l)
		}
	}
	d.press("r")
	if l := last(); !l.Fresh {
		t.Errorf("%+v", l)
	}
	now, _ := b.Load(t.Context(), board.Look{})
	now.News = "3 new"
	d.offers(b, now)
	if !strings.Contains(d.screen(), "\n3 new: press r\n") {
		t.Error(d.screen())
	}
	// A person has turned to it while another list was on its way, or it is not about what is on the screen.
	now.Version, now.News = 2, "late"
	d.wait(time.Second)
	late := boardMsg{board: now, look: board.Look{Name: board.Sessions, Drawn: 1}, begun: d.m.at()}
	d.wait(time.Millisecond)
	d.do(tea.MouseMotionMsg{})
	d.do(late)
	late.look.Drawn, late.begun = 7, d.m.at()
	d.do(late)
	if strings.Contains(d.screen(), "late") {
		t.Error(d.screen())
	}
	late.look.Drawn = 1
	d.do(late)
	if !strings.Contains(d.screen(), "late") { // the twin
		t.Error(d.screen())
	}
}

// TestAQuestionOfABoardStandsWhole: where it does not fit nothing is done; where it does y
// does it.
func TestAQuestionOfABoardStandsWhole(t *testing.T) {
	sure := "Put these 2 files back to what they were before `" + strings.Repeat("very long ", 15) + "`? " + strings.Repeat("~ some/very/long/path ", 20) + "THE END"
	for _, c := range []struct {
		width, height int
		done          int
	}{{40, 14, 0}, {80, 24, 1}} {
		d, b := newDesk(c.width, c.height), &boards{}
		d.m.opts.Boards = b
		d.press("3")
		questions["long"] = board.Question{Words: "Undo", Sure: present.Sentence(sure)}
		d.offers(b, board.Board{Version: 2, Sections: []board.Section{{Heading: "Open", Items: []board.Item{{Text: "x", Actions: []board.Action{{Shown: "long", Words: "Undo"}}}}}}})
		d.read()
		d.press("a")
		d.read()
		d.press("y")
		fitsScreen(t, d.screen(), c.width, c.height)
		if len(b.done) != c.done {
			t.Errorf("%dx%d: %v\n%s", c.width, c.height, b.done, d.screen())
		}
	}
}

// TestANoticeHidesNoQuestion: an agent withdraws requests all the time, which is told below. The question of a board stands
// there whole all the same, and is answered.
func TestANoticeHidesNoQuestion(t *testing.T) {
	d, b := newDesk(60, 20), &boards{}
	d.m.opts.Boards = b
	d.press("3")
	questions["flood"] = board.Question{Words: "Kill", Sure: present.Sentence("End this call? " + strings.Repeat("<U+202E>", 70) + " THE END")}
	d.offers(b, board.Board{Version: 2, Sections: []board.Section{{Heading: "Open", Items: []board.Item{{Text: "x", Actions: []board.Action{{Shown: "flood", Words: "Kill"}}}}}}})
	d.read()
	d.press("a")
	for i := range 3 {
		long := request(i+10, func(a *protocol.Approval) { a.Description = strings.Repeat("withdrawn all the time ", 30) })
		d.arrive(long)
		d.ends(i + 10)
		d.read()
	}
	if s := d.screen(); !strings.Contains(s, "THE END") || !strings.Contains(s, "y kill") || !strings.Contains(s, "Nothing ran") {
		t.Error(s)
	}
	d.press("y")
	if len(b.done) != 1 {
		t.Errorf("%v\n%s", b.done, d.screen())
	}
	fitsScreen(t, d.screen(), 60, 20)
}

// TestASectionsKeyIsItsOwn: an agent opens as many sessions as it likes, each a section with an action. A key of the marked
// row does what the row has, a key of a section what the section has in which the mark is, and no other.
func TestASectionsKeyIsItsOwn(t *testing.T) {
	var now board.Board
	for i := range 60 {
		id := fmt.Sprint(i)
		now.Sections = append(now.Sections, board.Section{Heading: present.Sentence("session " + id), Actions: []board.Action{{Shown: "all " + id, Words: "Undo all of it"}},
			Items: []board.Item{{ID: id, Text: present.Sentence("call " + id), Actions: []board.Action{{Shown: "one " + id, Words: "Undo"}}}}})
	}
	now.Version = 2
	b := &boards{now: &now}
	d := newDesk(80, 24)
	d.m.opts.Boards = b
	d.press("6")
	for i := range now.Sections {
		id := fmt.Sprint(i)
		for key, want := range map[string]string{"a": "one " + id, "A": "all " + id} {
			d.read()
			b.done = nil
			d.press(key)
			if len(b.done) != 1 || b.done[0].Shown != want {
				t.Errorf("row %d: %s does %v, want %s", i, key, b.done, want)
			}
		}
		if keys := d.m.board.actions(); len(keys) != 2 {
			t.Errorf("row %d: %v", i, keys)
		}
		d.press("down")
	}
}
