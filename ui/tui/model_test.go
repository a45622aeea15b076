package tui

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

var update = flag.Bool("update", false, "rewrite the golden screens")

var start = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

// A desk is a screen with a person at it whose every move is known. Commands run
// at once, and what the supervisor would say back is said by the test.
type desk struct {
	m       *model
	now     time.Time
	full    map[protocol.ApprovalID]protocol.Approval // what Show answers
	decided []protocol.ApprovalsDecide
	shows   int // how often Show was asked
	refuse  error
	asked   []protocol.ApprovalsPreview
	preview func(protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error)
	other   []tea.Msg // quit, bell, pager
	timers  []timer
	mute    bool // the terminal answers nothing
	slow    bool // previews take until late
	late    []tea.Msg
}

// A timer goes off when wait comes to its time.
type timer struct {
	at time.Time
	do func(time.Time) tea.Msg
}

func newDesk(width, height int) *desk {
	d := &desk{}
	d.reset(width, height)
	return d
}

func (d *desk) reset(width, height int) {
	d.now, d.full, d.decided = start, map[protocol.ApprovalID]protocol.Approval{}, nil
	over := make(chan client.Event)
	close(over) // waiting for events returns at once, and is ignored by do
	d.m = newModel(context.Background(), Options{Approver: d, Events: over, Pager: "cat", Notify: Notify{Bell: true}}, func() time.Time { return d.now })
	d.m.alone = func(_ time.Duration, f func(time.Time) tea.Msg) tea.Cmd { return func() tea.Msg { return f(d.now) } }
	d.timers = nil
	d.m.after = func(in time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
		d.timers = append(d.timers, timer{d.now.Add(in), f})
		return nil
	}
	d.do(tea.WindowSizeMsg{Width: width, Height: height})
	d.wait(0)
}

func (d *desk) Show(_ context.Context, id protocol.ApprovalID) (protocol.Approval, error) {
	d.shows++
	a, ok := d.full[id]
	if !ok {
		return a, protocol.Errorf(protocol.CodeUnknownApproval, "no request %q is pending", id)
	}
	return a, nil
}

func (d *desk) Decide(_ context.Context, a protocol.ApprovalsDecide) ([]protocol.Decided, error) {
	d.decided = append(d.decided, a)
	return nil, d.refuse
}

func (d *desk) Preview(_ context.Context, ask protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error) {
	d.asked = append(d.asked, ask)
	return d.preview(ask)
}

// do gives a message, and runs what comes of it.
func (d *desk) do(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	d.run(cmd)
}

func (d *desk) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil, closedMsg:
	case previewedMsg:
		if d.slow {
			d.late = append(d.late, msg)
		} else {
			d.do(msg)
		}
	case tea.BatchMsg:
		for _, c := range msg {
			d.run(c)
		}
	case shownMsg, decidedMsg, pagedMsg, notifiedMsg, editedMsg, colouredMsg, aloneMsg, boardMsg, actedMsg:
		d.do(msg)
	case tea.RawMsg:
		if msg.Msg != ansi.RequestPrimaryDeviceAttributes {
			d.other = append(d.other, msg)
		} else if !d.mute {
			d.do(uv.PrimaryDeviceAttributesEvent{62})
		}
	default:
		d.other = append(d.other, msg)
	}
}

// request is one that a test asks about.
func request(n int, change func(*protocol.Approval)) protocol.Approval {
	a := protocol.Approval{
		ID: protocol.ApprovalID(fmt.Sprintf("req-ab-%d", n)), SessionID: "s-QWERTYUIOPASDFG1", Agent: "coder", Tool: "shell",
		Description: fmt.Sprintf("Run go test %d", n), Payload: map[string]any{"command": fmt.Sprintf("go test %d", n)},
		Presentation: &approval.Presentation{Type: approval.Command, Content: fmt.Sprintf("go test %d", n), Language: "bash"},
		Details: map[string]string{
			"rule": "shell.default", "may write": "/w", "network": "none", "directory": "/w", "program": "/usr/bin/bash",
		},
		PlanDigest: "sha256:ffaec9287b4306facee32afedda06ca09acf2e8bbb109306a50669acb388347b",
		Created:    start.Add(-65 * time.Second), Expires: start.Add(235 * time.Second),
	}
	if change != nil {
		change(&a)
	}
	return a
}

// arrive has requests come in.
func (d *desk) arrive(list ...protocol.Approval) {
	var batch eventsMsg
	for _, a := range list {
		d.full[a.ID] = a
		a.Presentation = nil
		batch = append(batch, client.Event{Kind: client.Requested, Approval: a})
	}
	d.do(batch)
}

// ends has a request answered elsewhere.
func (d *desk) ends(n int) {
	a := request(n, nil)
	delete(d.full, a.ID)
	d.do(eventsMsg{{Kind: client.Resolved, Approval: a, Decision: &approval.Decision{Action: approval.Denied, Approver: "uid 7"}}})
}

func (d *desk) wait(t time.Duration) {
	d.now = d.now.Add(t)
	due := d.timers
	d.timers = nil
	for _, x := range due {
		if x.at.After(d.now) {
			d.timers = append(d.timers, x)
		} else {
			d.do(x.do(d.now))
		}
	}
}

// settle is longer than answers ever have to wait, whatever stood there before.
const settle = guard.Other

// read lets enough time pass for a request to be seen.
func (d *desk) read() { d.wait(settle) }

func keyNamed(name string) tea.KeyPressMsg {
	special := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd,
		"right": tea.KeyRight, "left": tea.KeyLeft, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "home": tea.KeyHome, "pgup": tea.KeyPgUp, "tab": tea.KeyTab,
	}
	if code, ok := special[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

func (d *desk) press(keys ...string) {
	for _, k := range keys {
		d.wait(burst)
		d.do(keyNamed(k))
	}
}

// answers gives the answers so far and forgets them.
func (d *desk) answers() []protocol.ApprovalsDecide {
	a := d.decided
	d.decided = nil
	return a
}

func (d *desk) screen() string {
	var lines []string
	for line := range strings.SplitSeq(ansi.Strip(d.m.View().Content), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func expect(t *testing.T, d *desk, want ...protocol.ApprovalsDecide) {
	t.Helper()
	got := d.answers()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s\n%s", diff, d.screen())
	}
}

// TestOtherDenialsOnlyDeny: where the other denials stand in the place of the request no key and no click allows it. Back at the
// request one does.
func TestOtherDenialsOnlyDeny(t *testing.T) {
	for _, key := range []string{"y", "enter", "A", "click"} {
		d := newDesk(80, 24)
		d.arrive(request(1, func(a *protocol.Approval) { a.GroupID = "g" }))
		d.read()
		act := func() {
			d.read()
			switch key {
			case "enter":
				d.press("right", "right")
				d.read()
				d.press("enter")
			case "click":
				at := tea.Mouse{X: d.m.width - 2, Y: d.m.height - footerRows, Button: tea.MouseLeft}
				d.do(tea.MouseClickMsg(at))
				d.do(tea.MouseReleaseMsg(at))
			default:
				d.press(key)
			}
			if key == "A" {
				d.read()
				d.press(key)
			}
		}
		d.press("o")
		act()
		expect(t, d)
		if !strings.Contains(d.screen(), "Other ways to deny") || strings.Contains(d.screen(), present.AllowOnce.Words) {
			t.Errorf("%s: %s", key, d.screen())
		}
		d.press("esc")
		d.m.focus = 0
		act()
		if got := d.answers(); len(got) != 1 || got[0].Decision != protocol.Allow {
			t.Errorf("%s at the request: %+v\n%s", key, got, d.screen())
		}
	}
}

// TestKeysAnswer: each key gives its answer, for the request under the cursor.
func TestKeysAnswer(t *testing.T) {
	id := request(1, nil).ID
	allow := func(s approval.Scope) protocol.ApprovalsDecide {
		return protocol.ApprovalsDecide{ID: id, Decision: protocol.Allow, Scope: s}
	}
	deny := func(m approval.RejectMode, feedback string) protocol.ApprovalsDecide {
		return protocol.ApprovalsDecide{ID: id, Decision: protocol.Deny, Mode: m, Feedback: feedback}
	}
	for name, c := range map[string]struct {
		keys []string // "..." lets a moment pass
		want protocol.ApprovalsDecide
	}{
		"once":          {[]string{"y"}, allow(approval.Once)},
		"session":       {[]string{"r", "...", "y"}, allow(approval.Session)},
		"agent":         {[]string{"r", "a", "...", "y"}, allow(approval.Agent)},
		"every agent":   {[]string{"r", "g", "...", "y"}, allow(approval.Global)},
		"deny always":   {[]string{"r", "g", "tab", "...", "N"}, protocol.ApprovalsDecide{ID: id, Decision: protocol.Deny, Scope: approval.Global}},
		"deny":          {[]string{"N"}, deny(approval.RejectHard, "")},
		"deny one":      {[]string{"n"}, deny(approval.RejectSoft, "")},
		"enter denies":  {[]string{"enter"}, deny(approval.RejectHard, "")},
		"mark and back": {[]string{"right", "left", "enter"}, deny(approval.RejectHard, "")},
		"mark once":     {[]string{"right", "right", "enter"}, allow(approval.Once)},
		"from the list": {[]string{"o", "...", "n"}, deny(approval.RejectSoft, "")},
		"with a reason": {[]string{"t", "n", "o", "enter"}, deny(approval.RejectHard, "no")},
		"end the turn":  {[]string{"i"}, protocol.ApprovalsDecide{ID: id, Decision: protocol.Deny, Mode: approval.RejectHard, Interrupt: true}},
		"dismiss":       {[]string{"d"}, protocol.ApprovalsDecide{ID: id, Decision: protocol.Dismiss}},
		"explain":       {[]string{"x", "w", "h", "y", "z", "backspace", "?", "enter"}, deny(approval.RejectExplain, "why?")},
		"after help":    {[]string{"?", "y", "...", "y"}, allow(approval.Once)},
		"after no":      {[]string{"r", "esc", "...", "y"}, allow(approval.Once)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(80, 24)
			d.arrive(request(1, nil), request(2, nil))
			d.read()
			for _, k := range c.keys {
				if k == "..." {
					d.read()
				} else {
					d.press(k)
				}
			}
			expect(t, d, c.want)
			if d.m.current != request(2, nil).ID || d.m.focus != 0 {
				t.Errorf("the next is %s with focus %d, not the second request with deny", d.m.current, d.m.focus)
			}
		})
	}
}

// TestTheSameWords: the screen has the keys and words that the page has.
func TestTheSameWords(t *testing.T) {
	d := newDesk(100, 40)
	d.arrive(request(1, nil))
	d.read()
	say := func(words ...string) {
		t.Helper()
		screen := strings.Join(strings.Fields(d.screen()), " ")
		for _, w := range words {
			if !strings.Contains(screen, w) {
				t.Errorf("no %q in\n%s", w, d.screen())
			}
		}
	}
	say(present.Deny.Key+" "+present.Deny.Words, present.RememberKey+" "+present.RememberWords, present.AllowOnce.Key+" "+present.AllowOnce.Words)
	d.press(present.DenialsKey)
	for _, c := range present.Denials() {
		say(c.Key + " " + c.Words + ": " + c.Title)
	}
	d.press("esc", present.RememberKey)
	for _, s := range present.Scopes() {
		say(s.Key + " " + s.Words)
	}
	say("["+present.AllowOnce.Key+"] Allow and remember", "From now on shell runs without asking, until this session ends: exactly this call: go test 1")
	d.press("tab")
	say("["+present.Deny.Key+"] Deny and remember", "is refused without asking")
	d.press("esc", "?")
	for _, c := range present.Choices() {
		say(c.Key, strings.ToLower(c.Words))
	}
}

// TestNoTypeAhead: keys that were typed before a request was on the screen, however
// many, do not answer it; the same key after a moment does.
func TestNoTypeAhead(t *testing.T) {
	for _, key := range []string{"y", "n", "N", "i", "d", "enter", "D"} {
		d := newDesk(80, 24)
		d.press(key)
		d.arrive(request(1, func(a *protocol.Approval) { a.GroupID = "g" }))
		for range 50 { // a key that is held down repeats faster than the moment is long
			d.press(key)
			d.wait(settle / 10)
		}
		if got := d.answers(); got != nil {
			t.Errorf("%s was typed ahead and answered: %+v", key, got)
		}
		d.read()
		d.press(key)
		if got := d.answers(); len(got) != 1 {
			t.Errorf("%s after a moment: %+v", key, got)
		}
	}
}

// TestARunningTextAnswersNothing: who types on in the wrong window answers no request that comes
// meanwhile, however slowly, and remembers nothing. After a pause one key is enough.
func TestARunningTextAnswersNothing(t *testing.T) {
	for _, text := range []string{"git apply fix", "echo for family", "a map far family", "tar for family", "by any day", "kkkkkkkkyjjjjjjjyy", "NNNNNNNNNNNyyyyyyyyyyy"} {
		for _, each := range []time.Duration{150, 400, 900} {
			for came := 1; came < 6; came++ {
				d := newDesk(80, 24)
				d.read()
				for i, key := range text {
					if i == came {
						d.arrive(request(1, nil))
					}
					d.wait(each * time.Millisecond)
					d.do(keyNamed(string(key)))
				}
				if got := d.answers(); len(got) > 0 {
					t.Errorf("%q, a key each %d ms, came before key %d: %+v", text, each, came, got)
				}
			}
		}
	}
	for _, moves := range [][]string{{"down", "up", "pgdown"}, {"j", "k", "j"}} { // who moves about may go on to the answer
		d := newDesk(80, 24)
		d.arrive(request(1, nil))
		d.read()
		for _, key := range moves {
			d.press(key)
			d.wait(100 * time.Millisecond)
		}
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
	}
	d := newDesk(80, 24)
	d.press("p", "o")
	d.arrive(request(1, nil))
	d.press("p", "y")
	expect(t, d)
	if s := d.screen(); !strings.Contains(s, "pause, then press") {
		t.Error(s)
	}
	d.wait(guard.Pause)
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
}

// TestKeysReadLate: a key that was typed too soon and is read late, because the program did
// not run or the network is slow, answers nothing: the terminal's answer comes after it.
func TestKeysReadLate(t *testing.T) {
	answer := uv.PrimaryDeviceAttributesEvent{62}
	d := newDesk(80, 24)
	d.arrive(request(1, nil))
	d.mute = true // what it says is still on its way
	d.read()
	d.press("y")
	d.do(answer)
	expect(t, d)
	d.wait(guard.Pause)
	d.press("y") // before the answer to the question about this moment
	expect(t, d)
	d.wait(guard.Pause)
	d.do(answer) // to the question before
	d.press("y")
	expect(t, d)
	d.wait(guard.Pause)
	d.do(answer)
	d.do(answer)
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
}

// TestASilentTerminal: where the terminal never answers, a key began when it was read, but
// for the first moments, in which it might yet answer. Answers that another program has read
// are not waited for.
func TestASilentTerminal(t *testing.T) {
	d := &desk{mute: true}
	d.reset(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.press("y")
	expect(t, d)
	d.read()
	d.press("k") // somebody is there
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})

	d = newDesk(80, 24)
	d.arrive(request(1, nil))
	d.mute = true
	d.read()
	d.press("v") // the pager has read it
	d.do(pagedMsg{id: "req-ab-1"})
	d.mute = false
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
	d.arrive(request(2, nil))
	d.mute = true
	d.read() // this answer is lost
	d.mute = false
	d.press("y")
	expect(t, d)
	for range lost/time.Second + 1 {
		d.wait(time.Second)
		d.do(tickMsg{})
	}
	d.press("y") // the answer to the question before was taken for that to this
	expect(t, d)
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-2", Decision: protocol.Allow, Scope: approval.Once})
}

// TestATombstoneLetsGo: where the terminal's answer was lost, another press is enough.
func TestATombstoneLetsGo(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.ends(1)
	d.mute = true
	d.read() // this answer is lost
	d.mute = false
	d.press("enter")
	if s := d.screen(); !strings.Contains(s, "Nothing ran.") {
		t.Errorf("a key that was typed nobody knows when let go:\n%s", s)
	}
	d.wait(burst)
	d.press("enter")
	if s := d.screen(); !strings.Contains(s, "│ go test 2") {
		t.Error(s)
	}
}

// TestWhatIsAnsweredIsLeft: the end of what a person has answered takes them on, wherever
// they went meanwhile, and what comes after that is shown.
func TestWhatIsAnsweredIsLeft(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.press("y", "up")
	d.ends(1)
	if s := d.screen(); !strings.Contains(s, "│ go test 2") {
		t.Error(s)
	}
	d.read()
	d.press("y", "up")
	d.ends(2)
	d.arrive(request(3, nil))
	if s := d.screen(); !strings.Contains(s, "│ go test 3") {
		t.Error(s)
	}
}

// TestAReplacementIsNotAnswered: a request ends just before the key that was meant
// for it comes. The one that takes its place does not get it.
func TestAReplacementIsNotAnswered(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.ends(1)
	for range 5 {
		d.press("y")
		d.read()
		d.press("y", "N", "D")
	}
	expect(t, d)
	if s := d.screen(); !strings.Contains(s, "Denied by uid 7. Nothing ran.") || !strings.Contains(s, "│ go test 1") {
		t.Error(s)
	}
	d.press("enter") // the end of that text
	if s := d.screen(); !strings.Contains(s, "Denied by uid 7. Nothing ran.") {
		t.Error(s)
	}
	d.read()
	d.press("enter", "y")
	expect(t, d)
	d.wait(guard.Other - guard.Settle)
	d.press("y")
	expect(t, d)
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: request(2, nil).ID, Decision: protocol.Allow, Scope: approval.Once})
}

// TestAQuestionEndsWithItsRequest: the second press of a key is for the request
// that the first was for, or for none.
func TestAQuestionEndsWithItsRequest(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.press("g")
	d.read()
	d.ends(1)
	d.press("g")
	d.read()
	d.press("x")
	d.press("h")
	d.ends(2)
	expect(t, d)
}

// TestTextForAnEndedRequest: what is typed on into a text whose request has ended
// is not taken for answers to the next, however slowly it comes.
func TestTextForAnEndedRequest(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	d.read()
	d.press("x", "t", "r")
	d.ends(1)
	for _, k := range []string{"y", "s", "n"} {
		d.read()
		d.press(k)
	}
	expect(t, d)
	if !strings.Contains(d.screen(), "is not sent") {
		t.Error(d.screen())
	}
	d.press("enter") // the end of the text
	d.read()
	d.press("n")
	expect(t, d)
	d.press("esc")
	d.read()
	d.press("n")
	expect(t, d, protocol.ApprovalsDecide{ID: request(2, nil).ID, Decision: protocol.Deny, Mode: approval.RejectSoft})
}

func TestPasteAnswersNothing(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil))
	d.read()
	d.do(tea.PasteMsg{Content: "y\ny"})
	expect(t, d)
	held := d.m.alone
	var later []tea.Cmd
	d.m.alone = func(w time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
		later = append(later, held(w, f))
		return nil
	}
	for _, k := range []string{"y", "e", "s", "y"} { // without brackets: several keys in one moment
		d.do(keyNamed(k))
	}
	for _, cmd := range later {
		d.wait(burst)
		d.run(cmd)
	}
	d.m.alone = held
	expect(t, d)
	d.press("esc")
	d.read()
	d.press("x")
	d.do(tea.PasteMsg{Content: "say\n\x1b[2J why"})
	d.press("enter")
	expect(t, d, protocol.ApprovalsDecide{ID: request(1, nil).ID, Decision: protocol.Deny, Mode: approval.RejectExplain, Feedback: "say  [2J why"})
}

// TestAnAgentDoesNotHoldTheTerminal: what an agent says of the calls that come next takes a few lines, and what stands there
// is drawn once, until anything that decides how it looks is another.
func TestAnAgentDoesNotHoldTheTerminal(t *testing.T) {
	d := newDesk(100, 30)
	r := request(1, nil)
	r.BatchRemaining = append(slices.Repeat([]string{"shell ls"}, 100_000), strings.Repeat("shell \u03b1\u0301b ", 1<<20))
	d.arrive(r)
	d.read()
	lines := d.m.essence()
	if len(lines) > 60 || !strings.Contains(strings.Join(lines, "\n"), "<99981 more calls>") {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines[:min(len(lines), 60)], "\n"))
	}
	first := &lines[0]
	d.press("down")
	if now := d.m.essence(); &now[0] != first {
		t.Error("the same is drawn again")
	}
	it := d.m.cursor()
	for name, change := range map[string]func(){
		"width":   func() { d.m.width = 80 },
		"light":   func() { d.m.light = true },
		"like":    func() { it.like = "the same" },
		"problem": func() { it.problem = "gone" },
		"edited":  func() { it.args = json.RawMessage("{}") },
		"shown":   func() { one := *it.shown; it.shown = &one },
		"colours": func() { it.parts = [][]highlight.Part{{{Text: "x"}}} },
		"group":   func() { it.GroupID = "g"; other := request(2, nil); other.GroupID = "g"; d.m.add(other) },
	} {
		before := &d.m.essence()[0]
		if change(); &d.m.essence()[0] == before {
			t.Errorf("with another %s the old lines stand there", name)
		}
	}
}

// TestQueueIsInTurns: what comes later and has an earlier turn is next, and takes nothing from what is in sight.
func TestQueueIsInTurns(t *testing.T) {
	d := newDesk(80, 24)
	for n := range 5 {
		r := request(n+1, nil)
		r.Turn = uint64(n)
		d.arrive(r)
	}
	d.read()
	r := request(9, nil)
	r.Turn = 0
	d.arrive(r)
	if d.m.current != request(1, nil).ID {
		t.Errorf("%s is in sight", d.m.current)
	}
	if got := d.m.queue[1].ID; got != r.ID {
		t.Errorf("the next is %s", got)
	}
	d.press("y")
	if d.m.current != r.ID {
		t.Errorf("%s is in sight after an answer", d.m.current)
	}
}

// TestALetterThatAnswersIsAlone: a letter that allows or denies by itself does so half a second later, and not if
// another key follows it: it began a text. One that opens a text acts at once.
func TestALetterThatAnswersIsAlone(t *testing.T) {
	for _, c := range append(present.Choices(), present.Choice{Key: "D"}, present.Choice{Key: "enter"}) {
		d := newDesk(80, 24)
		for n := 1; n <= 2; n++ {
			r := request(n, nil)
			r.GroupID = "g"
			d.arrive(r)
		}
		d.read()
		held := d.m.alone
		var first tea.Cmd
		var wait time.Duration
		d.m.alone = func(w time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
			if first == nil {
				first, wait = held(w, f), w
			}
			return nil
		}
		d.do(keyNamed(c.Key))
		if c.Writes {
			if wait > burst {
				t.Errorf("%s waits for %v", c.Key, wait)
			}
			continue
		}
		if wait < guard.Lone {
			t.Errorf("%s waits for %v", c.Key, wait)
		}
		d.wait(150 * time.Millisecond)
		d.do(keyNamed("h"))
		d.wait(guard.Lone)
		d.run(first)
		expect(t, d)
	}
}

// TestTheRestOfATextAnswersNothing: the window in which a person typed has gone, and the rest of
// their word comes to the one with the requests, which has heard nothing of its beginning.
func TestTheRestOfATextAnswersNothing(t *testing.T) {
	for _, text := range []string{"y it", "y,", "y."} {
		d := newDesk(80, 24)
		d.arrive(request(1, nil))
		d.read()
		held := d.m.alone
		var later []tea.Cmd
		d.m.alone = func(w time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
			if len(later) == 0 && w < guard.Lone { // the first is
				t.Errorf("a key that allows waits for %v", w)
			}
			later = append(later, held(w, f))
			return nil
		}
		for _, key := range text {
			d.do(keyNamed(string(key)))
			d.wait(150 * time.Millisecond)
		}
		for _, cmd := range later {
			d.run(cmd)
		}
		expect(t, d)
		d.m.alone = held
		d.wait(guard.Pause)
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
	}
	d := newDesk(80, 24)
	d.arrive(request(1, nil))
	d.read()
	d.do(tea.FocusMsg{})
	d.wait(700 * time.Millisecond)
	d.press("y")
	expect(t, d)
	d.wait(guard.Pause)
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
}

// TestAQuitInATextIsNone: a q with keys behind it does not leave the screen, and the rest of the
// text to the shell below; one that is alone does.
func TestAQuitInATextIsNone(t *testing.T) {
	for text, leaves := range map[string]bool{"cat a.sql": false, "q": true} {
		d := newDesk(80, 24)
		d.arrive(request(1, nil))
		d.read()
		var later []func() tea.Msg
		d.m.alone = func(w time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
			later = append(later, func() tea.Msg { d.wait(w); return f(d.now) })
			return nil
		}
		quit := false
		for _, key := range text {
			_, cmd := d.m.Update(keyNamed(string(key)))
			quit = quit || cmd != nil
			d.wait(150 * time.Millisecond)
		}
		for _, msg := range later {
			_, cmd := d.m.Update(msg())
			if cmd != nil {
				_, is := cmd().(tea.QuitMsg)
				quit = quit || is
			}
		}
		if quit != leaves {
			t.Errorf("%q leaves: %v", text, quit)
		}
	}
}

// TestAllowingTheUnseenAsks: what was not all on the screen is allowed with the
// second press only; denying needs none, and after scrolling one press does.
func TestAllowingTheUnseenAsks(t *testing.T) {
	long := request(1, func(a *protocol.Approval) {
		a.Presentation.Content = strings.Repeat("echo fine\n", 60) + "rm -rf ~\n"
	})
	allowed := protocol.ApprovalsDecide{ID: long.ID, Decision: protocol.Allow, Scope: approval.Once}
	t.Run("asks", func(t *testing.T) {
		d := newDesk(80, 24)
		d.arrive(long)
		d.read()
		d.press("y")
		expect(t, d)
		if !strings.Contains(d.screen(), "50 lines have not been on the screen") {
			t.Error(d.screen())
		}
		d.press("y") // a bounce
		expect(t, d)
		d.read()
		d.press("y")
		expect(t, d, allowed)
	})
	t.Run("much that no screen shows", func(t *testing.T) { // the question has room
		for _, size := range [][2]int{{60, 20}, {80, 24}, {200, 50}} {
			d := newDesk(size[0], size[1])
			d.arrive(request(1, func(a *protocol.Approval) {
				a.Presentation.Metadata = map[string]any{approval.Unshown: "what becomes of 3 names: " + strings.Repeat("+ a (link to \"x/x/x/x/x/x/\"), ", 400) + "+ z"}
			}))
			d.m.item().read = true
			d.read()
			d.press("y")
			if s := d.screen(); !strings.Contains(s, "No screen can show what becomes") || !strings.Contains(s, "+ z") {
				t.Errorf("%v:\n%s", size, s)
			}
			expect(t, d)
			d.read()
			d.press("y")
			expect(t, d, allowed)
		}
	})
	t.Run("scrolled", func(t *testing.T) {
		d := newDesk(80, 24)
		d.arrive(long)
		d.press("end", "pgdown")
		d.read()
		if strings.Contains(d.screen(), "rm -rf") {
			t.Fatal("End skipped lines:\n", d.screen())
		}
		d.press("end", "end", "end")
		if !strings.Contains(d.screen(), "rm -rf") {
			t.Fatal(d.screen())
		}
		d.press("y")
		expect(t, d, allowed)
	})
	t.Run("pager", func(t *testing.T) {
		d := newDesk(80, 24)
		d.arrive(long)
		d.do(pagedMsg{id: long.ID})
		d.press("y")
		expect(t, d)
		d.read()
		d.press("y")
		expect(t, d, allowed)
	})
	t.Run("what no screen shows", func(t *testing.T) {
		unshown := func(a *protocol.Approval) {
			a.GroupID, a.Presentation.Metadata = "g", map[string]any{approval.Unshown: "what it starts: app (Binary)"}
		}
		d := newDesk(80, 40)
		d.arrive(request(1, unshown), request(2, unshown))
		d.do(pagedMsg{id: "req-ab-1"})
		d.read()
		d.press("A")
		expect(t, d)
		if !strings.Contains(d.screen(), "No screen can show all of one of the group") {
			t.Error(d.screen())
		}
		d.press("y")
		expect(t, d)
		if !strings.Contains(d.screen(), "No screen can show what it starts: app (Binary)") {
			t.Error(d.screen())
		}
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
		d.read()
		d.press("r")
		if !strings.Contains(d.screen(), "No screen can show what it starts: app (Binary)") {
			t.Error(d.screen())
		}
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-2", Decision: protocol.Allow, Scope: approval.Session})
	})
	t.Run("deny", func(t *testing.T) {
		d := newDesk(80, 24)
		d.arrive(long)
		d.read()
		d.press("N")
		expect(t, d, protocol.ApprovalsDecide{ID: long.ID, Decision: protocol.Deny, Mode: approval.RejectHard})
	})
	t.Run("cut", func(t *testing.T) {
		d := newDesk(80, 24)
		d.arrive(request(1, func(a *protocol.Approval) { a.Presentation.Metadata = map[string]any{"full_content": "x"} }))
		d.read()
		d.press("y")
		expect(t, d)
		if !strings.Contains(d.screen(), "The text was cut") {
			t.Error(d.screen())
		}
	})
}

// TestGroupIsWhatWasListed: allowing a group allows the requests that were seen and
// listed, of this session, and not one that came with the same name meanwhile.
func TestGroupIsWhatWasListed(t *testing.T) {
	in := func(n int, session protocol.SessionID) protocol.Approval {
		return request(n, func(a *protocol.Approval) { a.GroupID, a.SessionID = "turn", session })
	}
	d := newDesk(80, 24)
	d.arrive(in(1, "s-1"), in(2, "s-1"), in(3, "s-2"), request(4, nil))
	d.read()
	d.press("A")
	expect(t, d)
	if s := d.screen(); !strings.Contains(s, "1 of 2 have not been shown in full") || !strings.Contains(s, "│ go test 2") {
		t.Error(s)
	}
	d.read()
	d.press("A")
	if s := d.screen(); !strings.Contains(s, "allows Run go test 2") || strings.Contains(s, "allows Run go test 3") {
		t.Error(s)
	}
	d.arrive(in(5, "s-1"))
	d.read()
	d.press("A")
	expect(t, d, protocol.ApprovalsDecide{IDs: []protocol.ApprovalID{"req-ab-1", "req-ab-2"}, Decision: protocol.Allow})
	d.read()
	d.press("D") // the cursor is on the third
	expect(t, d, protocol.ApprovalsDecide{IDs: []protocol.ApprovalID{"req-ab-3"}, Decision: protocol.Deny})
	d.read()
	d.press("A")
	expect(t, d)
	if !strings.Contains(d.screen(), "no group") {
		t.Error(d.screen())
	}
}

func TestALargeGroupIsNotAllowedUnseen(t *testing.T) {
	d := newDesk(80, 24)
	var all []protocol.Approval
	for n := range 30 {
		all = append(all, request(n, func(a *protocol.Approval) { a.GroupID = "g" }))
	}
	d.arrive(all...)
	d.read()
	d.press("A")
	d.read()
	d.press("A")
	expect(t, d)
	if !strings.Contains(d.screen(), "30 are too many") {
		t.Error(d.screen())
	}
}

// TestALookalikeSaysSo: what looks like a request that was just withdrawn.
func TestALookalikeSaysSo(t *testing.T) {
	d := newDesk(80, 24)
	like := func(n int, command string) protocol.Approval {
		return request(n, func(a *protocol.Approval) {
			a.Payload, a.Presentation.Content = map[string]any{"command": command}, command
		})
	}
	d.arrive(like(1, "npm install left-pad@1.3.0 --save-exact"), like(2, "npm install left-pam@1.3.0 --save-exact"))
	d.read()
	d.do(eventsMsg{{Kind: client.Resolved, Approval: like(1, "npm install left-pad@1.3.0 --save-exact"), Decision: &approval.Decision{Action: approval.Dismissed, Reason: "cancelled"}}})
	d.read()
	d.press("enter")
	if s := d.screen(); !strings.Contains(s, "look twice") || !strings.Contains(s, "left-pad@1.3.0 before") {
		t.Error(s)
	}
}

// TestResizeAndSleepStartAnew: a key right after the screen was resized, or after the
// machine slept, is no answer.
func TestResizeAndSleepStartAnew(t *testing.T) {
	for name, do := range map[string]func(*desk){
		"resized": func(d *desk) { d.do(tea.WindowSizeMsg{Width: 100, Height: 30}) },
		"focused": func(d *desk) { d.do(tea.FocusMsg{}) },
		"slept":   func(d *desk) { d.wait(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(80, 24)
			d.arrive(request(1, func(a *protocol.Approval) { a.Expires = start.Add(3 * time.Hour) }))
			d.read()
			do(d)
			d.press("y")
			expect(t, d)
			d.wait(guard.Pause)
			d.press("y")
			expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
		})
	}
}

// TestMouse: a button counts where it was pressed and let go, once the request has stood.
func TestMouse(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil), request(2, nil))
	at := func(key string) tea.Mouse {
		_, zones := d.m.zones()
		for _, z := range zones {
			if z.key == key {
				return tea.Mouse{X: z.from + 1, Y: d.m.height - footerRows, Button: tea.MouseLeft}
			}
		}
		t.Fatal("no zone for", key)
		return tea.Mouse{}
	}
	press := func(key string) { d.do(tea.MouseClickMsg(at(key))) }
	release := func(key string) { d.do(tea.MouseReleaseMsg(at(key))) }
	press("y")
	d.read()
	release("y") // pressed too soon
	expect(t, d)
	d.read()
	press("N")
	release("y") // let go elsewhere
	expect(t, d)
	press("y")
	release("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
	press("y")
	release("y") // a double click
	expect(t, d)
	d.read()
	press("N")
	release("N")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-2", Decision: protocol.Deny, Mode: approval.RejectHard})
}

func TestAnswerThatFails(t *testing.T) {
	d := newDesk(80, 24)
	d.refuse = protocol.Errorf(protocol.CodeAlreadyDecided, "decided by \x1b[31muid 7")
	d.arrive(request(1, nil))
	d.read()
	d.press("y")
	if s := d.screen(); len(d.answers()) != 1 || !strings.Contains(s, "decided by <U+001B>[31muid 7") || strings.Contains(s, "answering") {
		t.Error(s)
	}
	d.refuse = nil
	d.read()
	d.press("y")
	if len(d.answers()) != 1 {
		t.Error("cannot be answered any more")
	}
}

func TestLostConnectionEndsTheScreen(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil))
	d.do(decidedMsg{err: client.ErrClosed})
	if !errors.Is(d.m.err, client.ErrClosed) || !slices.ContainsFunc(d.other, isQuit) {
		t.Errorf("%v %v", d.m.err, d.other)
	}
	d = newDesk(80, 24)
	_, cmd := d.m.Update(closedMsg{})
	d.run(cmd)
	if !errors.Is(d.m.err, client.ErrClosed) || !slices.ContainsFunc(d.other, isQuit) {
		t.Errorf("%v %v", d.m.err, d.other)
	}
}

// TestLostConnectionKeepsTheKeysOfAText: the rest of a sentence is no command of the shell
// below. The screen stays until the person ends it.
func TestLostConnectionKeepsTheKeysOfAText(t *testing.T) {
	for name, lost := range map[string]tea.Msg{"events": closedMsg{}, "answer": decidedMsg{err: client.ErrClosed}} {
		for _, how := range []string{"esc", "click"} {
			d := newDesk(80, 24)
			d.arrive(request(1, nil))
			d.read()
			d.press("t", "n", "o")
			_, cmd := d.m.Update(lost)
			d.run(cmd)
			d.wait(guard.Settle)
			d.press("y", "enter", "space")
			if slices.ContainsFunc(d.other, isQuit) || !strings.Contains(d.screen(), "Esc or a click continues") || !strings.Contains(d.screen(), "closed") {
				t.Errorf("%s: %v\n%s", name, d.other, d.screen())
			}
			if how == "esc" {
				d.press("esc")
			} else {
				d.do(tea.MouseClickMsg{Button: tea.MouseLeft})
				d.do(tea.MouseReleaseMsg{Button: tea.MouseLeft})
			}
			if !slices.ContainsFunc(d.other, isQuit) || !errors.Is(d.m.err, client.ErrClosed) {
				t.Errorf("%s: %s does not leave: %v", name, how, d.m.err)
			}
		}
	}
}

func isQuit(msg tea.Msg) bool { _, ok := msg.(tea.QuitMsg); return ok }

func isBell(msg tea.Msg) bool { raw, ok := msg.(tea.RawMsg); return ok && raw.Msg == "\a" }

func TestKeysThatLeave(t *testing.T) {
	for _, key := range []string{"q", "ctrl+c", "ctrl+d"} {
		d := newDesk(80, 24)
		d.arrive(request(1, nil))
		d.press(key)
		if !slices.ContainsFunc(d.other, isQuit) || d.answers() != nil {
			t.Errorf("%s: %v", key, d.other)
		}
	}
}

func TestBell(t *testing.T) {
	d := newDesk(80, 24)
	rings := func() (n int) {
		for _, msg := range d.other {
			if isBell(msg) {
				n++
			}
		}
		d.other = nil
		return n
	}
	d.arrive(request(1, nil))
	if rings() != 1 {
		t.Error("no bell for a request")
	}
	for n := range 100 {
		d.arrive(request(n+2, nil))
	}
	if rings() != 0 {
		t.Error("a flood rings on")
	}
	d.wait(notifyEvery)
	d.arrive(request(1, nil)) // known
	d.ends(1)
	if rings() != 0 {
		t.Error("a bell for nothing new")
	}
	d.arrive(request(500, nil))
	if rings() != 1 {
		t.Error("no bell after the flood")
	}
}

// hostile is text that would move the cursor, reverse the line, or hide a word.
const hostile = "a\x1b[2J\x1b]0;t\a\r\n\tb\u202ec\u200bd\x9b1me\xff"

// TestNothingHostileReachesTheScreen puts it wherever text comes from outside.
func TestNothingHostileReachesTheScreen(t *testing.T) {
	bad := request(1, func(a *protocol.Approval) {
		a.Agent, a.Tool, a.Description, a.GroupID = hostile, hostile, hostile, hostile
		a.Payload = map[string]any{hostile: hostile}
		a.Details = map[string]string{"rule": hostile, "network": hostile, "warnings": hostile, hostile: hostile}
		a.Presentation = &approval.Presentation{Type: approval.Diff, Content: hostile + "\n+" + hostile, Language: hostile,
			Metadata: map[string]any{"full_content": hostile}}
		a.BatchRemaining = []string{hostile}
		a.SessionID, a.PlanDigest = hostile, hostile
	})
	d := newDesk(100, 60)
	d.arrive(bad)
	d.read()
	screens := []string{d.m.View().Content, present.Text(d.m.cursor().shown, start, true)}
	for _, k := range []string{"r", "o", "tab", "A", "x"} {
		d.press(k)
		screens = append(screens, d.m.View().Content)
		d.press("esc")
		d.read()
	}
	d.do(eventsMsg{{Kind: client.Resolved, Approval: bad, Decision: &approval.Decision{Action: "approved", Reason: hostile, Approver: hostile}}})
	screens = append(screens, d.m.View().Content)
	for _, s := range screens {
		plain := ansi.Strip(s)
		if strings.ContainsAny(plain, "\x1b\a\r\t\u202e\u200b\u009b") || strings.Contains(s, "\x1b[2J") || strings.Contains(s, "\x1b]") || !utf8.ValidString(s) {
			t.Errorf("%q", s)
		}
		if !strings.Contains(plain, "<U+202E>") {
			t.Errorf("hidden instead of shown:\n%s", plain)
		}
	}
}

// TestScreens compares whole screens, 80 by 24 unless named otherwise.
func TestScreens(t *testing.T) {
	diff := request(1, func(a *protocol.Approval) {
		a.Tool, a.Description = "write_file", "Write to workspace:fib.py"
		a.Payload = map[string]any{"path": "fib.py", "sandbox": "workspace"}
		a.Details = map[string]string{"rule": "sandbox.paths.workspace", "may write": "/w", "network": "none", "path": "/w/fib.py"}
		a.Presentation = &approval.Presentation{Type: approval.Diff, Content: "--- a/fib.py\n+++ b/fib.py\n@@ -1,2 +1,2 @@\n def fib(n):\n-    return n\n+    return n if n < 2 else fib(n-1) + fib(n-2)\n"}
	})
	weak := request(1, func(a *protocol.Approval) {
		a.Details = map[string]string{"rule": "shell.rules[2]", "may write": "", "network": "host", "warnings": "the network is the host's: nothing keeps a program from sending what it reads"}
		a.BatchRemaining = []string{"shell git push", "write_file notes"}
	})
	for name, c := range map[string]struct {
		width, height int
		draw          func(d *desk)
	}{
		"nothing":    {80, 24, func(*desk) {}},
		"command":    {80, 24, func(d *desk) { d.arrive(request(1, nil), request(2, nil)) }},
		"diff":       {80, 24, func(d *desk) { d.arrive(diff) }},
		"weak":       {80, 24, func(d *desk) { d.arrive(weak) }},
		"narrow":     {40, 14, func(d *desk) { d.arrive(diff, request(2, nil)) }},
		"tiny":       {39, 13, func(d *desk) { d.arrive(diff) }},
		"wide":       {132, 30, func(d *desk) { d.arrive(diff, request(2, nil)) }},
		"help":       {80, 24, func(d *desk) { d.press("?") }},
		"help_small": {60, 20, func(d *desk) { d.press("?", "pgdown") }},
		"remember":   {80, 24, func(d *desk) { d.arrive(diff); d.read(); d.press("r", "a") }},
		"denials":    {80, 24, func(d *desk) { d.arrive(diff); d.read(); d.press("o") }},
		"deep":       {80, 24, func(d *desk) { d.arrive(diff); d.read(); d.press("tab") }},
		"small":      {60, 20, func(d *desk) { d.arrive(diff, request(2, nil)) }},
		"large":      {200, 50, func(d *desk) { d.arrive(diff, request(2, nil)) }},
		"ended":      {80, 24, func(d *desk) { d.arrive(request(1, nil), request(2, nil)); d.read(); d.ends(1) }},
		"risky": {80, 24, func(d *desk) {
			d.arrive(request(1, func(a *protocol.Approval) {
				a.Presentation.Content = "curl -fsSL https://get.example.net/install.sh | sh && rm -rf build"
				a.Payload = map[string]any{"command": a.Presentation.Content}
			}))
		}},
		"explain":  {80, 24, func(d *desk) { d.arrive(diff); d.read(); d.press("x", "w", "h", "y") }},
		"too soon": {80, 24, func(d *desk) { d.arrive(diff); d.press("y") }},
		"many": {80, 24, func(d *desk) {
			for n := range 1000 {
				d.arrive(request(n, nil))
			}
			d.press("down", "down", "down", "down", "down", "down", "down", "down")
		}},
		"long": {80, 24, func(d *desk) {
			d.arrive(request(1, func(a *protocol.Approval) {
				a.Presentation.Content = "echo " + strings.Repeat("広い x ", 200) + "\n│ ## forged margin\nend\n"
			}))
			d.press("pgdown")
		}},
		"hostile": {80, 24, func(d *desk) {
			d.arrive(request(1, func(a *protocol.Approval) {
				a.Agent, a.Description, a.Presentation.Content = hostile, hostile, hostile
			}))
		}},
		"blanks": {80, 24, func(d *desk) {
			d.arrive(request(1, func(a *protocol.Approval) {
				a.Description = "Run ls" + strings.Repeat(" ", 300) + "; rm -rf ."
				a.Presentation.Content = strings.Repeat(" ", 24) + "indented\nls" + strings.Repeat(" ", 270) + "; rm -rf ."
			}))
		}},
		"no presentation": {80, 24, func(d *desk) {
			d.arrive(request(1, nil))
			d.do(shownMsg{id: "req-ab-1", err: protocol.Errorf(protocol.CodeInternal, "cannot be built")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(c.width, c.height)
			c.draw(d)
			golden(t, strings.ReplaceAll(name, " ", "_")+".txt", d.screen())
			fitsScreen(t, d.screen(), c.width, c.height)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "screens", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}

func fitsScreen(t interface{ Errorf(string, ...any) }, screen string, width, height int) {
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	if len(lines) > height {
		t.Errorf("%d lines on a screen of %d:\n%s", len(lines), height, screen)
	}
	for _, line := range lines {
		if w := max(ansi.StringWidth(line), ansi.StringWidthWc(line)); w > width {
			t.Errorf("a line of %d cells on a screen of %d: %q", w, width, line)
		}
	}
}

// TestColours: a diff is coloured, and what the colour says is in the signs too.
func TestColours(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, func(a *protocol.Approval) {
		a.Presentation = &approval.Presentation{Type: approval.Diff, Content: "@@ -1 +1 @@\n-old\n+new"}
	}))
	for _, want := range []string{"\x1b[31m-old", "\x1b[32m+new", "\x1b[36m@@"} {
		if !strings.Contains(d.m.View().Content, want) {
			t.Errorf("no %q in %q", want, d.m.View().Content)
		}
	}
}

// TestAnyKeysOnAnyScreen: whatever is pressed and whatever happens, the screen
// fits its size, a request is answered once at most, and one is allowed only if
// it is waiting, has been shown, and had been in sight for the moment.
func TestAnyKeysOnAnyScreen(t *testing.T) {
	keys := []string{"y", "s", "a", "g", "r", "o", "t", "tab", "n", "N", "x", "A", "D", "v", "e", "?", "enter", "esc", "up", "down", "pgdown", "pgup", "home", "end", "right", "left", "backspace"}
	d := &desk{preview: func(protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error) {
		return protocol.ApprovalsPreviewed{}, protocol.Errorf(protocol.CodeInvalidArguments, "no")
	}}
	rapid.Check(t, func(rt *rapid.T) {
		width, height := rapid.IntRange(1, 120).Draw(rt, "width"), rapid.IntRange(1, 50).Draw(rt, "height")
		d.reset(width, height)
		answered := map[protocol.ApprovalID]bool{}
		for i := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			ready := d.m.guard.Ready(d.m.at())
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				d.arrive(request(i, func(a *protocol.Approval) {
					a.GroupID = rapid.SampledFrom([]string{"", "g"}).Draw(rt, "group")
					if rapid.Bool().Draw(rt, "more") {
						a.Args, a.Patterns = json.RawMessage(`{"a":1}`), []approval.Offer{{Kind: approval.ArgvPrefix, Value: "a b", Text: "a b"}}
					}
					a.Presentation.Content = strings.Repeat("line\n", rapid.IntRange(0, 60).Draw(rt, "lines"))
				}))
			case 1:
				if n := len(d.m.queue); n > 0 {
					var num int
					fmt.Sscanf(string(d.m.queue[rapid.IntRange(0, n-1).Draw(rt, "ends")].ID), "req-ab-%d", &num)
					d.ends(num)
				}
			case 2:
				d.wait(settle)
			default:
				before := d.m.current
				d.press(rapid.SampledFrom(keys).Draw(rt, "key"))
				for _, a := range d.answers() {
					checkAnswer(rt, d, a, before, ready, answered)
				}
			}
			fitsScreen(rt, d.screen(), max(width, minWidth), max(height, 2))
		}
	})
}

func checkAnswer(rt *rapid.T, d *desk, a protocol.ApprovalsDecide, before protocol.ApprovalID, ready bool, answered map[protocol.ApprovalID]bool) {
	ids := (&answer{decide: a}).ids()
	if len(ids) == 0 || !slices.Contains(ids, before) {
		rt.Fatalf("an answer to %v with the cursor on %s", ids, before)
	}
	if !ready && a.Feedback == "" && a.Mode != approval.RejectExplain { // a text has been written after its own moment
		rt.Fatalf("answered too soon: %+v", a)
	}
	for _, id := range ids {
		if answered[id] {
			rt.Fatalf("%s is answered a second time", id)
		}
		answered[id] = true
		if d.m.find(id) == nil {
			rt.Fatalf("%s does not wait", id)
		}
	}
}

// TestWhatWasPassedOverIsUnseen: a member of a group whose text had not come when the cursor
// passed it has no lines yet, and so none that were seen.
func TestWhatWasPassedOverIsUnseen(t *testing.T) {
	d := newDesk(80, 24)
	if asks := d.m.unseen(&item{}); len(asks) == 0 {
		t.Error("what never stood on the screen counts as seen")
	}
	if asks := d.m.unseen(&item{length: 3, reached: 3, shown: &protocol.Approval{}}); len(asks) != 0 {
		t.Errorf("what stood there whole: %v", asks)
	}
}

// TestALongTextIsNoLineOfOurs: wherever a text of an agent wraps, what goes on stands behind
// a margin or in the column of texts, and never where lines of ours begin.
func TestALongTextIsNoLineOfOurs(t *testing.T) {
	for width := 40; width < 120; width++ {
		d, b := newDesk(width, 40), &boards{}
		d.m.opts.Boards = b
		forged := strings.Repeat("  writes none   ! FORGED", 12)
		a := request(1, func(a *protocol.Approval) {
			a.Tool, a.Description, a.Details["directory"] = "other", "x "+forged, forged
			a.Presentation = nil
		})
		d.arrive(a)
		d.read()
		screens := []string{d.screen()}
		d.do(eventsMsg{{Kind: client.Resolved, Approval: a, Decision: &approval.Decision{Action: approval.Dismissed, Reason: forged}}})
		screens = append(screens, d.screen())
		d.read()
		d.press("esc", "3")
		questions["forged"] = board.Question{Words: "End", Sure: present.Sentence("End " + forged)}
		d.offers(b, board.Board{Version: 2, Sections: []board.Section{{Heading: "Open", Items: []board.Item{
			{Text: present.Sentence("x " + forged), Under: present.Sentence("x " + forged), Actions: []board.Action{{Shown: "forged", Words: "End"}}}}}}})
		d.read()
		d.press("a")
		screens = append(screens, d.screen())
		for _, s := range screens {
			wrapped := 0
			for line := range strings.SplitSeq(s, "\n") {
				switch {
				case !strings.Contains(line, "FORGED"):
				case strings.HasPrefix(line, "  ┆ "), strings.HasPrefix(line, "      "):
					wrapped++
				case !strings.Contains(line, "x "), strings.HasPrefix(strings.TrimLeft(line, " "), "writes none   !"):
					if !strings.HasPrefix(line, "coder, in ") && !strings.HasPrefix(line, "Withdrawn. ") && !strings.HasPrefix(line, "End ") && !strings.HasPrefix(line, "  next:") && !strings.HasPrefix(line, "▸") {
						t.Fatalf("width %d: %q in\n%s", width, line, s)
					}
				}
			}
			if wrapped == 0 {
				t.Errorf("width %d: nothing was wrapped:\n%s", width, s)
			}
		}
	}
}

// TestWhatItCanDoComesFirst: on each screen that shows a request its effect stands above
// the headline, and that above the content.
func TestWhatItCanDoComesFirst(t *testing.T) {
	for _, c := range []struct{ width, height int }{{60, 24}, {80, 24}, {132, 40}} {
		for _, class := range []string{"read: reads files", "workspace: changes files", "beyond: reaches", ""} {
			d := newDesk(c.width, c.height)
			d.arrive(request(1, func(a *protocol.Approval) { a.Details["class"] = class }))
			text := d.screen()
			effect, headline, content := strings.Index(text, "  writes "), strings.Index(text, "wants to run a command"), strings.Index(text, "  │ ")
			if effect < 0 || headline < effect || content < headline {
				t.Errorf("%d columns, %q:\n%s", c.width, class, text)
			}
		}
	}
}
