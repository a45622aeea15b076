package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
)

// TestPageHoldsAnswersBack: each way in which an answer could be given to something that was
// not on the screen, or is not meant any more, with the twin that is an answer.
// TestPageNewRequestsStandApart: the line below the answers says that what it names is another request, which came now, and
// does not stay there: below "Allow once" it would read as what is allowed.
func TestPageNewRequestsStandApart(t *testing.T) {
	p := openPage(t, pageConfig)
	shown := p.ask("echo shown")
	other := call(t.Context(), p.session, "shell", map[string]any{"command": "echo other"})
	p.until(`document.getElementById("notice").textContent === "New request: echo other"`)
	p.within(10*time.Second, `document.getElementById("notice").textContent === ""`)
	for _, ch := range []<-chan ended{shown, other} {
		p.settled()
		p.press("y", false)
		p.ran(ch)
	}
	p.until(`document.getElementById("notice").textContent.startsWith("Allowed (once)")`) // the twin: what became of it stays
}

// TestPageNothingMovesUnderAPointer: an agent that ends one session after the other moves the buttons of a board up. Not
// while a person points at one: it still ends the session that it was of. Who does not point sees the sessions go.
func TestPageNothingMovesUnderAPointer(t *testing.T) {
	p := openPage(t, pageConfig)
	p.window(1280, 1600, "light")
	open := func(agent string) *client.Agent {
		t.Helper()
		a, err := client.DialAgent(t.Context(), p.agent)
		if err == nil {
			_, err = a.OpenSession(t.Context(), protocol.SessionOpen{Agent: agent})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	var early []*client.Agent
	for i := range 10 {
		early = append(early, open(fmt.Sprintf("early%d", i)))
	}
	open("late")
	p.click("nav button", "Sessions")
	p.see("late, session")
	p.until("!document.querySelector('.things button[aria-disabled=true]')")
	at := func() (float64, float64) {
		const last = "(([...document.querySelectorAll('.things button')].at(-1)).getBoundingClientRect())"
		x, _ := p.eval(last + ".x + 20").(float64)
		y, _ := p.eval(last + ".y + 20").(float64)
		return x, y
	}
	x, y := at()
	p.clickAt(point{x, y}, 1)
	p.see("kill every call that it runs by then? late, session")
	p.press("Escape", false) // and the pointer rests there
	for _, a := range early {
		a.Close()
		time.Sleep(400 * time.Millisecond)
	}
	if _, now := at(); now != y {
		t.Errorf("the button has moved from %v to %v", y, now)
	}
	p.clickAt(point{x, y}, 1)
	p.see("kill every call that it runs by then? late, session")
	p.until("!document.querySelector('.sure .deny[aria-disabled=true]')")
	p.click(".sure .deny", "End")
	p.see("The session has ended")
	p.until("!document.querySelector('.things').textContent.includes('early')") // the twin
}

func TestPageHoldsAnswersBack(t *testing.T) {
	b := newBrowser(t)
	s := newServing(t, pageConfig)
	p := &person{browser: b, serving: s, t: t, session: s.session("coder")}
	b.window(1200, 800, "light")
	b.open(s.link())
	b.see("Nothing is waiting")
	fresh := func() {
		b.reload()
		b.see("Requests")
		// What the server says to this question comes when the test lets it.
		b.eval(`(() => {
			const send = WebSocket.prototype.send;
			window.slow = false; window.late = [];
			WebSocket.prototype.send = function (m) { if (window.slow && m.includes('"preview"')) window.late.push(() => send.call(this, m)); else send.call(this, m); };
		})()`)
	}
	for _, step := range []struct {
		name string
		do   func(*person)
	}{
		{"TextElsewhere", pageTakesNoTextForAnswers},
		{"TextBegins", pageTakesNoBeginningForAnAnswer},
		{"GroupGrows", pageLetsNoGroupMoveAnswers},
		{"ListInFront", pageAnswersNothingBehindTheList},
		{"SentenceOutOfSight", pageRemembersNothingUnsaid},
		{"EditUnderWay", pageAnswersNothingWhileAnEditIsLookedAt},
		{"PatternUnderWay", pageAnswersNothingWhileAPatternIsLookedAt},
		{"TallBlock", pageCountsEachLine},
		{"KeysOfPanels", pageKeysInPanels},
		{"InputMethods", pageLeavesKeysToInputMethods},
		{"BoardThatChanges", pageBoardThatChanges},
		{"Direction", pageIsolatesDirection},
		{"WrappedLines", pageHangsWhatContinuesALine},
		{"AnswersThatMove", pageAnswersNothingThatMoved},
		{"BoardThatMoves", pageBoardThatMoves},
	} {
		p.test(t)
		fresh()
		t.Run(step.name, func(t *testing.T) {
			p.test(t)
			defer func() {
				if t.Failed() {
					b.picture("failed-" + step.name)
					p.denyAll()
				}
			}()
			step.do(p)
			p.idle()
			if complaints := p.complaints(); complaints != "" {
				t.Errorf("the browser complains: %s", complaints)
			}
			b.forgive()
		})
	}
	p.test(t)
}

// denyAll has nothing wait any more, over the operator socket.
func (p *person) denyAll() {
	a, err := client.DialApprover(context.Background(), p.operator)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer a.Close()
	list, _ := a.List(context.Background())
	for _, x := range list {
		a.Decide(context.Background(), protocol.ApprovalsDecide{ID: x.ID, Decision: protocol.Deny, Mode: approval.RejectSoft})
	}
}

// refused says that no answer counts as things are, however long one waits.
func (p *person) refused(ch <-chan ended, why string, keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.moment()
		p.moment()
		p.moment()
		p.press(k, false)
	}
	p.waits(ch, why)
}

// inSight is whether the whole sentence that holds from then on is on the screen.
const inSight = `(() => {
	const r = document.querySelector(".sentence").getBoundingClientRect(), n = document.querySelector(".notes").getBoundingClientRect();
	let top = 0, bottom = innerHeight;
	for (const e of [document.querySelector(".answers"), document.querySelector("main")]) {
		if (getComputedStyle(e).overflowY === "visible") continue;
		const b = e.getBoundingClientRect();
		top = Math.max(top, b.top); bottom = Math.min(bottom, b.bottom);
	}
	return Math.min(r.top, n.top) >= top - 1 && Math.max(r.bottom, n.bottom) <= bottom + 1;
})()`

func pageRemembersNothingUnsaid(p *person) {
	defer p.window(1200, 800, "light")
	long := strings.Repeat("a-long-name-of-a-directory/", 5)
	for _, size := range [][2]int{{1280, 620}, {1200, 800}, {390, 844}, {1280, 330}, {320, 256}} {
		p.idle() // the last one's row is gone
		p.window(size[0], size[1], "light")
		command := fmt.Sprintf("wc -l %sx%d-%d", long, size[0], size[1])
		ch := call(p.t.Context(), p.session, "shell", map[string]any{"command": command})
		p.until("!!document.querySelector('.row[data-id]')")
		if p.eval("document.querySelector('.requests').dataset.pane === 'list' && getComputedStyle(document.querySelector('.pager')).display !== 'none'") == true {
			p.click(".list button", "wc -l")
		}
		p.see(command)
		p.until("!!document.querySelector('.answers button')")
		p.press("r", false)
		p.press("g", false)
		p.see("whichever agent asks, until you remove it")
		p.eval("document.querySelector('.answers').scrollTop = 0; scrollTo(0, 0)")
		if p.eval(inSight) != true {
			p.refused(ch, fmt.Sprintf("%v: remembered with its sentence out of sight", size), "y")
			p.eval("document.querySelector('.sentence').scrollIntoView({block: 'start'})")
			p.moment()
			p.eval("document.querySelector('.notes').scrollIntoView({block: 'end'})")
		} else if size[1] < 400 {
			p.t.Errorf("%v: the sentence is in sight, so nothing was tried", size)
		}
		p.picture(fmt.Sprintf("remember-%d-%d", size[0], size[1]))
		// The twin: one scrolls through all of the request, and back to the sentence.
		p.press("Escape", false)
		p.eval("scrollTo(0, 0); document.querySelector('.detail').scrollTop = 0")
		p.moment()
		p.scrollThrough()
		p.eval(`(async () => { for (let i = 0; i < 60; i++) { scrollBy(0, innerHeight / 2); await new Promise((done) => setTimeout(done, 40)); } })()`)
		p.press("r", false)
		p.press("s", false)
		p.see("until this session ends")
		p.eval("document.querySelector('.sentence').scrollIntoView({block: 'start'})")
		p.moment()
		p.eval("document.querySelector('.notes').scrollIntoView({block: 'end'})")
		p.settled()
		p.press("y", false)
		if text, e := p.ran(ch); e != nil || text == "" {
			p.t.Errorf("%v: %q %v; %s", size, text, e, p.text())
		}
	}
}

// pageTakesNoTextForAnswers: who types on in the wrong window answers no request that comes
// meanwhile. After a pause one key is enough, and keys that only move take nothing from it.
func pageTakesNoTextForAnswers(p *person) {
	for i, text := range []string{"git apply fix", "a map far family", "tar for family"} {
		p.idle()
		var ch <-chan ended
		for n, key := range text {
			if n == 1 {
				ch = call(p.t.Context(), p.session, "shell", map[string]any{"command": fmt.Sprint("echo typed-", i)})
			}
			p.press(string(key), false)
			time.Sleep(150 * time.Millisecond)
		}
		p.waits(ch, "the end of a text has answered: "+text)
		p.press("Escape", false)
		p.settled()
		p.press("PageDown", false)
		p.press("ArrowUp", false)
		p.press("y", false)
		if got, e := p.ran(ch); got != fmt.Sprintf("typed-%d\n", i) {
			p.t.Errorf("%q %v; %s", got, e, p.text())
		}
	}
}

// pageTakesNoBeginningForAnAnswer: a text that is typed into the page while a request has long been there answers nothing,
// whatever letter it begins with.
func pageTakesNoBeginningForAnAnswer(p *person) {
	for i, text := range []string{"yarn add left-pad", "no, use npm", "if it works", "do not run that", "Now stop"} {
		p.idle()
		ch := p.ask(fmt.Sprint("echo begun-", i))
		p.moment()
		for _, key := range text {
			p.press(string(key), false)
			time.Sleep(150 * time.Millisecond)
		}
		if p.eval("!document.querySelector('.row[data-id]')") == true {
			p.t.Errorf("%q has answered: %+v", text, <-ch)
			continue
		}
		for range 2 { // out of what the letters have opened
			p.press("Escape", false)
		}
		p.settled()
		p.press("y", false)
		if got, e := p.ran(ch); got != fmt.Sprintf("begun-%d\n", i) {
			p.t.Errorf("%q: %q %v; %s", text, got, e, p.text())
		}
	}
}

// pageLetsNoGroupMoveAnswers: an agent that adds to its group all the time takes no text that is being written, and
// keeps nobody from answering.
func pageLetsNoGroupMoveAnswers(p *person) {
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	ch := p.ask("echo grows", client.WithGroup("growing"))
	p.press("t", false)
	p.until("document.activeElement.id === 'feedback'")
	p.write("not so many")
	added := make(chan struct{})
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			once, withdraw := context.WithCancel(ctx)
			call(once, p.session, "shell", map[string]any{"command": fmt.Sprint("echo more-", i)}, client.WithGroup("growing"))
			time.Sleep(350 * time.Millisecond)
			if i%2 == 0 {
				withdraw()
			}
			context.AfterFunc(ctx, withdraw)
			if i == 3 {
				close(added)
			}
		}
	}()
	<-added
	if text := p.eval("(document.querySelector('#feedback') || {}).value"); text != "not so many" {
		p.t.Errorf("the draft is %v", text)
	}
	p.press("Escape", false)
	p.see("Pending in its group")
	for try := 0; ; try++ {
		p.moment()
		p.moment()
		p.press("n", false)
		select {
		case e := <-ch:
			if e.err == nil {
				p.t.Error("it ran")
			}
			stop()
			p.idle()
			for p.eval("!!document.querySelector('section.tomb')") == true {
				p.moment()
				p.press("Escape", false)
			}
			return
		case <-time.After(guard.Settle):
			if try == 8 {
				p.t.Fatalf("a group that grows is not answered: %s", p.text())
			}
		}
	}
}

// pageAnswersNothingBehindTheList: on a narrow screen the list takes the place of the request, and no key answers what is
// behind it.
func pageAnswersNothingBehindTheList(p *person) {
	defer p.window(1200, 800, "light")
	p.window(390, 844, "light")
	ch := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo behind"})
	p.until("!!document.querySelector('.row[data-id]')")
	p.moment()
	if p.eval("document.querySelector('.requests').dataset.pane === 'list'") == true {
		p.click(".list button", "echo behind")
	}
	p.settled()
	p.press("r", false)
	p.see("until this session ends")
	p.settled()
	p.click("button", "All requests")
	p.refused(ch, "answered behind the list", "y", "y")
	p.click(".list button", "echo behind")
	p.settled()
	p.press("N", false)
	if _, e := p.ran(ch); e == nil {
		p.t.Error("it ran")
	}
}

func pageAnswersNothingWhileAnEditIsLookedAt(p *person) {
	ch := p.ask("echo agents")
	p.press("e", false)
	p.until("document.activeElement.id === 'arguments'")
	p.eval(`window.slow = true; document.activeElement.value = '{"command": "echo mine"}'`)
	p.click("button", "Preview the edited call")
	p.until("window.late.length === 1")
	p.refused(ch, "the old thing was answered while its edit was looked at", "y", "N")
	p.press("Escape", false) // leaves it
	p.settled()
	p.press("e", false)
	p.click("button", "Preview the edited call")
	p.until("window.late.length === 2")
	p.click("textarea", "") // and goes on writing
	p.until("document.activeElement.id === 'arguments'")
	p.eval("window.late.forEach((f) => f()); window.late = []")
	p.see("You were writing when the preview came")
	for _, k := range []string{"y", "N", "y"} {
		p.press(k, false)
	}
	p.waits(ch, "a text that was taken away has answered")
	if text, _ := p.eval("document.querySelector('#arguments').value").(string); !strings.Contains(text, "yNy") {
		p.t.Errorf("the text is gone: %q", text)
	}
	p.eval(`window.slow = false; document.querySelector('#arguments').value = '{"command": "echo mine"}'`)
	p.click("button", "Preview the edited call")
	p.see("Edited by you")
	p.settled()
	p.press("y", false)
	if text, e := p.ran(ch); text != "mine\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

func pageAnswersNothingWhileAPatternIsLookedAt(p *person) {
	ch := p.ask("wc -c a b")
	p.press("r", false)
	p.click(".remember label", "begins with")
	p.until("!!document.querySelector('#pattern')")
	p.eval("window.slow = true; document.querySelector('#pattern').focus(); document.querySelector('#pattern').value = 'wc -c a'")
	p.press("Enter", false)
	p.until("window.late.length === 1")
	p.refused(ch, "the wider pattern was remembered while the edited one was looked at", "y")
	p.eval("window.slow = false; window.late.forEach((f) => f()); window.late = []")
	p.see(`"wc -c a"`)
	p.settled()
	p.press("y", false)
	if _, e := p.ran(ch); e != nil {
		p.t.Error(e)
	}
	ch = p.ask("wc -c other") // what the wider one would have covered is asked about
	p.press("N", false)
	if _, e := p.ran(ch); e == nil {
		p.t.Error("the wider pattern is remembered")
	}
}

// pageCountsEachLine: a jump to the end of a block that is taller than the screen is no look
// at it.
func pageCountsEachLine(p *person) {
	ch := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo tall # " + strings.Repeat("of one very long line ", 600)})
	p.see("of one very long line")
	p.settled()
	p.eval("document.querySelector('.detail').scrollTop = 1e6")
	p.moment()
	p.press("y", false)
	p.see("Not all of the request has been on the screen")
	p.waits(ch, "allowed after a jump")
	p.press("Escape", false)
	p.eval("document.querySelector('.detail').scrollTop = 0")
	p.scrollThrough()
	p.settled()
	p.press("y", false)
	if text, e := p.ran(ch); text != "tall\n" {
		p.t.Errorf("%q %v; %s", text, e, p.text())
	}
}

// pageKeysInPanels: no key has a meaning in a panel that is not that panel's, and none makes
// the page complain.
func pageKeysInPanels(p *person) {
	ch := p.ask("echo panels")
	for _, open := range []string{"o", "e", "r", "t"} {
		p.settled()
		p.press(open, false)
		p.moment()
		p.eval("document.activeElement.blur()")
		for _, k := range []string{"q", "z", "5", "v", "e", "R", "A"} {
			p.press(k, false)
		}
		p.press("Escape", false)
		p.press("Escape", false)
	}
	p.waits(ch, "a key of no meaning has answered")
	p.settled()
	p.press("N", false)
	if _, e := p.ran(ch); e == nil || e.Code != protocol.CodeDenied {
		p.t.Error(e)
	}
}

// pageLeavesKeysToInputMethods: the Enter and the Esc that end a word of an input method are that
// word's, in a field of the requests and of a board. The next Enter is the person's.
func pageLeavesKeysToInputMethods(p *person) {
	word := func() {
		c := p.engine.(chromium)
		for _, key := range []string{"Enter", "Escape"} {
			c.must("Input.imeSetComposition", map[string]any{"text": "にほん", "selectionStart": 3, "selectionEnd": 3}, nil)
			c.must("Input.dispatchKeyEvent", map[string]any{"type": "rawKeyDown", "key": key, "windowsVirtualKeyCode": 229}, nil)
			c.must("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": 229}, nil)
		}
		p.write("日本") // ends the composition
	}
	ch := p.ask("echo composed")
	p.settled()
	p.press("t", false)
	p.until("document.activeElement.id === 'feedback'")
	p.moment()
	word()
	p.waits(ch, "the end of a word has sent the text")
	p.until("document.activeElement.id === 'feedback' && document.activeElement.value === '日本'")
	p.moment()
	p.press("Enter", false)
	if _, e := p.ran(ch); e == nil || !strings.Contains(e.HintText, "日本") {
		p.t.Errorf("%+v", e)
	}
	p.idle()
	p.click("nav button", "Rules")
	p.ready()
	p.click("button", "Try a call")
	p.until("document.activeElement.id === 'line'")
	p.ready()
	word()
	p.moment()
	p.until("document.activeElement.id === 'line' && document.activeElement.value === '日本' && !document.querySelector('.result')")
	p.press("Enter", false)
	p.until("!!document.querySelector('.result')")
	p.press("Escape", false)
	p.click("nav button", "Requests")
}

// pageBoardThatChanges: what is told anew beside a button takes none of its time away, and
// what moves or resizes it does.
func pageBoardThatChanges(p *person) {
	for _, name := range []string{"a1", "a2"} {
		s := p.serving.session(name)
		ctx := p.t.Context()
		go func() { // the number of its calls is told anew each time
			var e *protocol.Error
			for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
				if _, err := s.Call(ctx, "no_such_tool", nil); !errors.As(err, &e) || e.Code == protocol.CodeUnknownSession {
					return
				}
			}
		}()
	}
	p.click("nav button", "Sessions")
	p.see("a1, session")
	p.eval(`window.seen = new Set(); window.watch = setInterval(() => window.seen.add(document.body.innerText), 100)`)
	p.until("window.seen.size > 5")
	p.eval("clearInterval(window.watch)")
	p.ready()
	p.window(1100, 800, "light")
	at := fmt.Sprintf(".things li:nth-child(%v) button", p.eval(`[...document.querySelectorAll(".things li")].findIndex((li) => li.innerText.includes("a1, session")) + 1`))
	p.click(at, "End")
	p.until("!document.querySelector('.sure')") // at once after it moved
	p.ready()
	p.click(at, "End")
	p.see("kill every call that it runs by then? a1, session")
	p.click(".sure button", "End") // at once after it appeared
	p.moment()
	p.see("kill every call that it runs by then? a1, session")
	p.ready()
	p.click(".sure button", "End")
	p.until(`!document.body.innerText.includes("a1, session")`)
	p.see("a2, session")
	p.window(1200, 800, "light")
	p.click("nav button", "Requests")
}

// pageIsolatesDirection: no element lets a text from outside turn the order of what stands
// beside it.
func pageIsolatesDirection(p *person) {
	const loose = `[...document.querySelectorAll("main *")].filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())
		&& getComputedStyle(e).unicodeBidi !== "isolate-override" && !e.closest(".content .line")).map((e) => e.outerHTML.slice(0, 200)).join("\n")`
	ch := p.ask("echo direction")
	look := func(where string) {
		p.t.Helper()
		if text, _ := p.eval(loose).(string); text != "" {
			p.t.Errorf("%s: %s", where, text)
		}
	}
	look("request")
	for _, k := range []string{"o", "r", "e", "t"} {
		p.settled()
		p.press(k, false)
		look(k)
		p.press("Escape", false)
		p.press("Escape", false)
	}
	p.click("nav button", "Sessions")
	p.see("coder, session")
	p.ready()
	p.click(".things button", "End")
	p.see("kill every call that it runs by then?")
	look("board")
	p.click("nav button", "Requests")
	p.settled()
	p.press("N", false)
	p.ran(ch)
}

// pageHangsWhatContinuesALine: at no width does a row of text from outside begin where lines
// do, though the window may break it in front of what looks like a line of ours.
func pageHangsWhatContinuesALine(p *person) {
	const rows = `(() => {
		let first = new Set(), inside = 1e9, wrapped = 0;
		for (const l of document.querySelectorAll(".content .line")) {
			const r = document.createRange();
			r.selectNodeContents(l);
			const tops = new Map();
			for (const b of r.getClientRects()) if (b.width > 0) tops.set(Math.round(b.top / 6), Math.min(b.left, tops.get(Math.round(b.top / 6)) ?? 1e9));
			const [begins, ...more] = [...tops].sort((a, b) => a[0] - b[0]).map((t) => t[1]);
			if (begins === undefined) continue;
			if (l.classList.contains("more")) more.push(begins);
			else first.add(Math.round(begins));
			wrapped += more.length;
			for (const left of more) inside = Math.min(inside, left);
		}
		const style = getComputedStyle(document.querySelector(".content .line"));
		const bar = matchMedia("(forced-colors: active)").matches && style.forcedColorAdjust !== "none" ? "none" : style.backgroundImage; // left out
		return [first.size, wrapped, Math.round(inside - Math.max(...first)), bar.includes("gradient")].join(" ");
	})()`
	defer p.window(1200, 800, "light")
	long := strings.Repeat("-", 130) + " ── lib.sh, which must not have changed when the call starts " + strings.Repeat("─", 200) + " │ make check " + strings.Repeat("·", 1200)
	content := "#!/bin/sh\n# see the notes " + strings.Repeat("m", 97) + " * ~ docs/examples/how-to.txt\n\tset -e\n" + long + "\n"
	for tool, args := range map[protocol.ToolName]map[string]any{
		"shell":      {"command": "echo --title=" + long + "\necho second"},
		"write_file": {"path": "deploy.sh", "content": content},
	} {
		ch := call(p.t.Context(), p.session, tool, args)
		p.until("!!document.querySelector('.content .line')")
		for _, size := range [][2]int{{1500, 900}, {2560, 1300}, {1200, 800}, {700, 900}, {390, 844}, {320, 500}} {
			for _, scheme := range []string{"light", "dark", "light forced", "dark forced"} {
				p.window(size[0], size[1], scheme)
				p.eval("document.querySelector('.requests').dataset.pane = 'detail'") // a narrow one shows the list first
				p.picture(fmt.Sprintf("wrapped-%s-%d-%s", tool, size[0], scheme))
				said, _ := p.eval(rows).(string)
				var firsts, wrapped, indent int
				var bar bool
				if _, err := fmt.Sscan(said, &firsts, &wrapped, &indent, &bar); err != nil || firsts != 1 || wrapped < 4 || indent < 20 || !bar {
					p.t.Errorf("at %d px, %s: %s (columns in which lines begin, rows that continue one, pixels that these are further in, with a bar)", size[0], scheme, said)
				}
			}
		}
		p.window(1200, 800, "light")
		p.settled()
		p.press("N", false)
		p.ran(ch)
		p.idle()
	}
}

// pageAnswersNothingThatMoved: on a low window the answers are a part of the page, and what is
// above them can push "Allow once" below a pointer that was over something else.
func pageAnswersNothingThatMoved(p *person) {
	p.window(856, 598, "light")
	defer p.window(1200, 800, "light")
	for w := 650; w <= 1100; w += 15 {
		p.window(w, 598, "light")
		if p.eval(`(() => {
			const t = document.querySelector("[data-tab=requests]"), of = (s) => { t.textContent = s; return document.querySelector("header").offsetHeight; };
			const was = t.textContent, same = of("Requests") === of("Requests (10)") && of("Requests (9)") === of("Requests (100)");
			t.textContent = was;
			return same;
		})()`) != true {
			p.t.Errorf("at %d px the number of requests moves what is below the tabs", w)
		}
	}
	p.window(856, 598, "light")
	ch := p.ask("echo moved")
	p.moment()
	p.moment() // the list is drawn, and stands
	p.settled()
	at := p.middle("button", "Allow once")
	p.moment() // it has scrolled
	p.settled()
	p.eval(`document.querySelector("header").style.marginBottom = "38px"`) // nothing is told of it
	if now, ok := p.eval(`document.querySelector("button.allow").getBoundingClientRect().top`).(float64); ok {
		p.clickAt(point{at.x, now + 10}, 1) // wherever it is by now
	}
	p.waits(ch, "answered by a click at a button that had only just come there")
	p.settled()
	p.eval(`document.querySelector("header").style.marginBottom = ""`)
	p.press("y", false)
	p.waits(ch, "answered by a key in the moment in which the answers moved")
	p.settled()
	at = p.middle("button", "Allow once")
	p.moment() // it has scrolled
	p.settled()
	p.clickAt(at, 1)
	if text, e := p.ran(ch); text != "moved\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageBoardThatMoves is the same on a board: what is above it moves all of it.
func pageBoardThatMoves(p *person) {
	ch := p.ask("wc -c page.html")
	p.press("r", false)
	p.see("From now on")
	p.settled()
	p.press("y", false)
	p.ran(ch)
	p.click("nav button", "Remembered")
	p.see("Forget")
	p.ready()
	at := p.middle(".board button", "Forget")
	p.moment() // it has scrolled
	p.ready()
	p.eval(`document.querySelector("header").style.marginBottom = "38px"`)
	if now, ok := p.eval(`[...document.querySelectorAll(".board button")].find(b => b.textContent === "Forget").getBoundingClientRect().top`).(float64); ok {
		p.clickAt(point{at.x, now + 10}, 1) // wherever it is by now
	} else {
		p.t.Error("no button to press")
	}
	p.moment()
	if strings.Contains(p.text(), "Forget this, and ask again?") {
		p.t.Error("a button that had only just come there was pressed")
	}
	p.ready()
	p.eval(`document.querySelector("header").style.marginBottom = ""`)
	p.moment()
	at = p.middle(".board button", "Forget")
	p.moment() // it has scrolled
	p.ready()
	p.clickAt(at, 1)
	p.see("Forget this, and ask again?")
	p.click("nav button", "Requests")
}

// TestPageCountsWhatIsZoomedIn: with two fingers a person sees a part of the window, and the
// rest has not been on the screen.
func TestPageCountsWhatIsZoomedIn(t *testing.T) {
	p := openIn(t, newBrowser(t), pageConfig)
	c := p.engine.(chromium)
	c.must("Emulation.setDeviceMetricsOverride", map[string]any{"width": 800, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	zoom := func(by float64) {
		c.must("Emulation.setPageScaleFactor", map[string]any{"pageScaleFactor": by}, nil)
		p.until(fmt.Sprintf("Math.abs(visualViewport.scale - %v) < 0.01", by))
		p.moment()
	}
	zoom(3)
	ch := call(t.Context(), p.session, "shell", map[string]any{"command": "echo one\n# 2\n# 3\n# 4\n# 5\n# 6\n# 7\n# 8\necho last"})
	p.see("echo last")
	p.moment()
	p.moment()
	p.press("y", false)
	p.waits(ch, "allowed by what was not on the screen")
	if !strings.Contains(p.text(), "has been on the screen") && !strings.Contains(p.text(), "not on the screen") && !strings.Contains(p.text(), "Not all") {
		p.t.Errorf("nothing says why:\n%s", p.text())
	}
	p.press("Escape", false)
	zoom(1)
	p.settled()
	p.press("y", false)
	if text, e := p.ran(ch); text != "one\nlast\n" {
		t.Errorf("%q %v; %s", text, e, p.text())
	}
}
