package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/ui/guard"
)

// What a person goes on typing in the middle of a sentence: letters that are answers, and the
// keys that press buttons.
const typedOn = "you may not, no: run make and yes try it Next oh ay NADRrvex"

// among is one of a text's letters, by chance.
func among(text string) string { return string(text[rand.IntN(len(text))]) }

// upTo is a time by chance.
func upTo(d time.Duration) time.Duration { return rand.N(d) }

// A hand types and waits, on the page or in a terminal.
type hand interface {
	key(name string) // Enter, Escape and letters
	see(text string)
}

func (p *person) hand() hand { return pageHand{p} }

type pageHand struct{ *person }

func (h pageHand) key(name string) { h.press(name, false) }

type screenHand struct{ *screen }

func (h screenHand) key(name string) {
	switch name {
	case "Enter", "Escape", "PageDown", "PageUp", "Up", "Down":
		h.tmux("send-keys", name)
	default:
		h.tmux("send-keys", "-l", name)
	}
}

// goOn types on for a while, in no hurry and in a hurry.
func goOn(h hand, keys int, enter bool) {
	for range keys {
		time.Sleep(upTo([]time.Duration{60, 300, 900}[rand.IntN(3)] * time.Millisecond))
		if enter && rand.IntN(4) == 0 {
			h.key("Enter")
		} else {
			h.key(among(typedOn))
		}
	}
}

// withdrawnText is one try: a request is withdrawn while somebody writes about it, who goes on
// writing. Nothing of that is an answer to the one behind it, nor is what comes as soon as
// they have let go; a moment later it is answered.
func withdrawnText(t *testing.T, h hand, agent *client.Session, i int, write func(), tomb func(), settled func(<-chan ended) (ended, bool)) (wrong bool) {
	t.Helper()
	p := &person{t: t}
	ctx, withdraw := context.WithCancel(t.Context())
	defer withdraw()
	bait := call(ctx, agent, "shell", map[string]any{"command": fmt.Sprintf("echo bait-%d", i)})
	h.see(fmt.Sprintf("echo bait-%d", i))
	other := call(t.Context(), agent, "shell", map[string]any{"command": fmt.Sprintf("echo other-%d", i)})
	settled(nil)
	write()
	early := time.AfterFunc(upTo(1500*time.Millisecond), withdraw)
	goOn(h, 8, false)
	early.Stop()
	withdraw()
	if e := <-bait; e.err == nil {
		t.Errorf("try %d: what was written about a request has allowed it", i)
		wrong = true
	}
	goOn(h, 3, false)
	tomb()
	goOn(h, 8, true)
	time.Sleep(guard.Settle + 100*time.Millisecond)
	begun := time.Now()
	h.key("Escape")
	time.Sleep(upTo(guard.Other))
	h.key("y")
	pressed := time.Since(begun)
	answered := func(e ended) bool {
		if wrong = wrong || pressed < guard.Other; wrong { // on a busy machine the key was late
			t.Errorf("try %d: a sentence about another request has answered this after %v: %+v", i, pressed, e)
		}
		return wrong
	}
	select {
	case e := <-other:
		return answered(e)
	case <-time.After(time.Second):
	}
	for try := 0; ; try++ {
		e, over := settled(other)
		switch {
		case over && try == 0: // that answer's end was under way
			return answered(e)
		case over:
			return wrong
		}
		h.key("y")
		select {
		case e := <-other:
			if e.err != nil {
				t.Errorf("try %d: %v", i, e.err)
			}
			return wrong
		case <-time.After(10 * time.Second): // an answer that counts can take as long on a busy machine
			if try == 10 {
				p.t.Fatalf("try %d: it cannot be answered any more", i)
			}
			h.key("Escape") // on a busy machine that came too soon
		}
	}
}

// TestSwapsOnTextsOfThePage: whenever the request goes that somebody writes about, the rest of
// what they write answers nothing.
func TestSwapsOnTextsOfThePage(t *testing.T) {
	p := openPage(t, pageConfig)
	wrong := 0
	for i := range tries(2) {
		write := func() {
			p.until("document.querySelectorAll('.row[data-id]').length === 2")
			p.settled()
			switch i % 3 {
			case 0:
				p.press("t", false)
				p.until("document.activeElement.id === 'feedback'")
			case 1:
				p.press("e", false)
				p.until("document.activeElement.id === 'arguments'")
			case 2:
				p.press("r", false)
				p.click(".remember label", "begins with")
				p.until("!!document.querySelector('#pattern')")
				p.eval("document.querySelector('#pattern').focus()")
			}
		}
		tomb := func() { p.until("!!document.querySelector('section.tomb')") }
		if withdrawnText(t, p.hand(), p.session, i, write, tomb, p.settledOr) {
			wrong++
		}
		p.idle()
	}
	t.Logf("%d tries, %d wrong", tries(2), wrong)
}

// TestSwapsOnTextsInATerminal is the same in a terminal.
func TestSwapsOnTextsInATerminal(t *testing.T) {
	needsScreens(t)
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "")
	s := newServing(t, pageConfig)
	agent := s.session("coder")
	x := newScreen(t, s.operator, 100, 30)
	x.see("nothing is waiting")
	wrong := 0
	for i := range tries(2) {
		write := func() {
			x.see("1 of 2 waiting")
			x.press([]string{"t", "e"}[i%2], []string{"write to the model", "> {"}[i%2])
		}
		tomb := func() { x.see("Your text was about that request") }
		settled := func(ch <-chan ended) (ended, bool) {
			time.Sleep(aMoment)
			select {
			case e := <-ch:
				return e, true
			default:
				return ended{}, false
			}
		}
		if withdrawnText(t, screenHand{x}, agent, i, write, tomb, settled) {
			wrong++
		}
		x.see("nothing is waiting")
	}
	t.Logf("%d tries, %d wrong", tries(2), wrong)
}

// TestSwapsOnRulesInATerminal: a text that is typed or pasted without brackets, at whatever
// moment after a request came and at whatever pace, makes no rule of it, nor does what is typed
// on at once. With a person who reads the sentence it is one.
func TestSwapsOnRulesInATerminal(t *testing.T) {
	needsScreens(t)
	s := newServing(t, pageConfig)
	p := &person{serving: s, t: t}
	x := newScreen(t, s.operator, 100, 30)
	agent := s.session("coder")
	x.see("nothing is waiting")
	h := screenHand{x}
	made := func() int { // rules of the person's
		a, err := client.DialApprover(t.Context(), s.operator)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		list, err := a.Rules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range list.Rules {
			if r.Tier == "user" {
				n++
			}
		}
		return n
	}
	opened := 0
	for i := range tries(4) {
		ch := call(t.Context(), agent, "shell", map[string]any{"command": fmt.Sprintf("touch evil-%d", i)})
		x.see(fmt.Sprintf("touch evil-%d", i))
		time.Sleep(upTo([]time.Duration{10, 2500}[i%2] * time.Millisecond))
		keys := []string{"USER", "Enter"}
		if i%4 > 1 {
			keys = strings.Split("USER", "")
			keys = append(keys, "Enter")
		}
		for _, k := range keys {
			h.key(k)
			if i%4 > 1 {
				time.Sleep(upTo(300 * time.Millisecond))
			}
		}
		entered := time.Now()
		if x.shows("The rule: EFFECT", 0) || x.shows("Add this rule", 0) {
			opened++
		}
		if made() > 0 {
			t.Fatalf("try %d: a line is a rule:\n%s", i, x.text())
		}
		for range 1 + rand.IntN(3) {
			time.Sleep(upTo(guard.Settle - 100*time.Millisecond))
			h.key("y")
		}
		slow := time.Since(entered) >= guard.Other // on a busy machine the question has stood for long enough
		time.Sleep(4 * burst)
		switch n := made(); {
		case n > 0 && slow:
			t.Skipf("try %d: the machine is too busy for typing on at once", i)
		case n > 0:
			t.Fatalf("try %d: a text is a rule:\n%s", i, x.text())
		}
		p.denyAll()
		p.ran(ch)
		for left := 30; !x.shows("2 to 8 what", time.Second); left-- {
			if left == 0 {
				t.Fatalf("try %d: the board does not go:\n%s", i, x.text())
			}
			h.key("Escape")
		}
	}
	t.Logf("%d tries, a line or a question came up in %d", tries(4), opened)
	ch := call(t.Context(), agent, "shell", map[string]any{"command": "touch good"})
	x.see("touch good")
	x.press("R", "> allow shell touch good")
	h.key("Enter")
	x.see("Add this rule, in every session and for every agent")
	x.press("y", "Added: Run without asking commands that begin with \"touch good\"")
	if made() != 1 {
		t.Error("a person cannot make a rule")
	}
	p.denyAll()
	p.ran(ch)
}

// TestSwapsOnReconnects: whenever the connection goes and comes back while somebody writes on
// the page, each key goes into the text, and none is an answer.
func TestSwapsOnReconnects(t *testing.T) {
	b := newBrowser(t, throughTunnel)
	s := newServing(t, pageConfig)
	p := &person{browser: b, serving: s, t: t, session: s.session("coder"), tunnel: newTunnel(t, s.address)}
	b.window(1200, 800, "light")
	b.open(s.link())
	b.see("Nothing is waiting")
	wrong := 0
	for i := range tries(2) {
		ch := p.ask(fmt.Sprintf("echo evil-%d | sh", i))
		field := []string{"feedback", "arguments"}[i%2]
		p.press([]string{"t", "e"}[i%2], false)
		p.until(fmt.Sprintf("document.activeElement.id === '%s'", field))
		p.eval(fmt.Sprintf("document.querySelector('#%s').value = ''", field))
		cuts := 1 + rand.IntN(3)
		typed := ""
		for n := range 25 {
			if cuts > 0 && rand.IntN(8) == 0 || n == 18 {
				p.cut()
				cuts--
			}
			time.Sleep(upTo([]time.Duration{60, 200, 1200}[rand.IntN(3)] * time.Millisecond))
			letter := among(typedOn)
			p.press(letter, false)
			typed += letter
		}
		select {
		case e := <-ch:
			wrong++
			t.Errorf("try %d: a text has answered: %+v", i, e)
			continue
		default:
		}
		p.within(time.Minute, "document.body.dataset.link === 'open'")
		if text, _ := p.eval(fmt.Sprintf("(document.querySelector('#%s') || {}).value", field)).(string); text != typed {
			t.Errorf("try %d: typed %q, and the draft is %q", i, typed, text)
		}
		p.eval(fmt.Sprintf("document.querySelector('#%s').focus()", field))
		if i%2 == 0 {
			p.settled()
			p.press("Enter", false)
		} else {
			p.press("Escape", false)
			p.settled()
			p.press("N", false)
		}
		if _, e := p.ran(ch); e == nil || i%2 == 0 && (e.Decision == nil || strings.Join(strings.Fields(e.Decision.Feedback), " ") != strings.Join(strings.Fields(typed), " ")) {
			t.Errorf("try %d: %+v", i, e)
		}
		p.idle()
		p.forgive()
	}
	t.Logf("%d tries, %d wrong", tries(2), wrong)
}

// TestSwapsOnLostConnections: whenever the connection goes while somebody writes in a terminal,
// the rest answers nothing, and is no command of the shell below.
func TestSwapsOnLostConnections(t *testing.T) {
	needsScreens(t)
	s := newServing(t, pageConfig)
	agent := s.session("coder")
	leaked := 0
	for i := range tries(2) {
		way := fmt.Sprintf("%s/w%d.sock", s.dir, i)
		w := newTunnelOf(t, "unix", way, s.operator)
		// What the screen does not take is printed below it.
		x := newScreenOf(t, "", "sandgate approve --operator-socket "+way+"; echo it has ended; exec cat", 100, 30)
		x.see("nothing is waiting")
		ctx, withdraw := context.WithCancel(t.Context())
		ch := call(ctx, agent, "shell", map[string]any{"command": fmt.Sprintf("echo evil-%d | sh", i)})
		x.see(fmt.Sprintf("echo evil-%d | sh", i))
		x.press("t", "write to the model")
		cut := time.AfterFunc(upTo(1500*time.Millisecond), w.cut)
		goOn(screenHand{x}, 6, false)
		cut.Stop()
		w.cut()
		goOn(screenHand{x}, 6, false)
		x.see("Esc leaves")
		goOn(screenHand{x}, 6, true)
		if strings.Contains(x.text(), "it has ended") {
			leaked++
			t.Errorf("try %d: what was written goes to the shell:\n%s", i, x.text())
		}
		select {
		case e := <-ch:
			t.Errorf("try %d: a text has answered: %+v", i, e)
		default:
		}
		x.press("Escape", "it has ended")
		x.see("closed")
		withdraw()
		<-ch
		x.tmux("kill-server")
	}
	t.Logf("%d tries, %d wrong", tries(2), leaked)
}

// TestSwapsOnGroupsOfThePage: whatever is pressed and scrolled at whatever moment, no group is
// allowed of which one member was not opened, and no request that joined it later.
func TestSwapsOnGroupsOfThePage(t *testing.T) {
	p := openPage(t, pageConfig)
	wrong := 0
	for i := range tries(2) {
		agent, group := p.serving.session("coder"), client.WithGroup("g")
		ask := func(n int) <-chan ended {
			return call(t.Context(), agent, "shell", map[string]any{"command": fmt.Sprintf("touch evil-%d-%d", i, n)}, group)
		}
		size := 2 + rand.IntN(6)
		if i%10 == 9 {
			size = 21 // too many for a look
		}
		var members []<-chan ended
		for n := range size {
			members = append(members, ask(n))
		}
		p.see(fmt.Sprintf("Pending in its group: %d.", size))
		p.settled()
		opened := 0
		joined := -1
		for range 12 {
			time.Sleep(upTo(500 * time.Millisecond))
			switch rand.IntN(6) {
			case 0, 1:
				p.press("A", false)
			case 2:
				p.eval("(() => { const d = document.querySelector('.detail'); d.scrollTop = Math.random() * d.scrollHeight; })()")
			case 3:
				p.eval("document.querySelector('.detail').scrollTop = 1e6")
			case 4:
				if at, ok := p.eval(placeOf("button.allow", "Allow all")).([]any); ok {
					p.clickAt(point{at[0].(float64), at[1].(float64)}, 1+rand.IntN(2))
				}
			case 5:
				if opened >= size-1 || size > 20 { // one stays closed
					continue
				}
				if at, ok := p.eval(placeOf("button", "Open: it can change things")).([]any); ok {
					p.clickAt(point{at[0].(float64), at[1].(float64)}, 1)
					opened++
				}
			}
			if joined < 0 && rand.IntN(12) == 0 {
				joined = len(members)
				members = append(members, ask(joined))
			}
		}
		time.Sleep(guard.Lone + 2*burst)
		for n, ch := range members {
			select {
			case e := <-ch:
				wrong++
				t.Errorf("try %d: member %d of %d was answered, %d were opened: %+v", i, n, size, opened, e)
			default:
			}
		}
		if t.Failed() {
			return
		}
		p.press("Escape", false)
		p.settled()
		late := -1
		if size <= 20 && i%2 == 0 { // the twin: all are opened and seen, and allowed as they were listed
			for p.eval("!document.querySelector('.todo')") == true { // the first may come too soon
				p.press("A", false)
				p.moment()
			}
			if rand.IntN(2) == 0 {
				late = len(members)
				members = append(members, ask(late))
				p.until(fmt.Sprintf("document.querySelectorAll('.row[data-id]').length === %d", len(members)))
			}
			for p.eval("[...document.querySelectorAll('button')].some((b) => b.innerText.includes('Open: it can'))") == true {
				p.moment()
				p.click("button", "Open: it can change things")
			}
			p.scrollThrough()
			p.see("All of them have been on the screen")
			p.settled()
			p.press("A", false)
			for n, ch := range members {
				if n == late {
					p.waits(ch, "allowed with a group that it had joined later")
				} else if _, e := p.ran(ch); e != nil {
					t.Errorf("try %d: member %d: %v", i, n, e)
				}
			}
			members = members[:0]
		}
		p.denyAll()
		for _, ch := range members {
			p.ran(ch)
		}
		p.idle()
		for p.eval("!!document.querySelector('section.tomb')") == true {
			time.Sleep(100 * time.Millisecond)
			p.press("Escape", false)
		}
	}
	t.Logf("%d tries, %d wrong", tries(2), wrong)
}

// placeOf is where the first such element can be pressed, if there is one.
func placeOf(selector, text string) string {
	return fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%s)].find((e) => e.innerText.includes(%s) && e.offsetParent);
		if (!e) return null;
		const r = e.getBoundingClientRect();
		const at = [r.x + r.width / 2, r.y + r.height / 2];
		return e.contains(document.elementFromPoint(...at)) ? at : null;
	})()`, quoteJS(selector), quoteJS(text))
}

// TestSwapsOnGroupsInATerminal: one member of each group is taller than the screen, and is never
// scrolled through.
func TestSwapsOnGroupsInATerminal(t *testing.T) {
	needsScreens(t)
	s := newServing(t, pageConfig)
	p := &person{serving: s, t: t}
	x := newScreen(t, s.operator, 100, 30)
	x.see("nothing is waiting")
	wrong := 0
	for i := range tries(2) {
		agent := s.session("coder")
		size, tall := 2+rand.IntN(6), rand.IntN(2)
		if i%10 == 9 {
			size = 21
		}
		var members []<-chan ended
		for n := range size {
			command := fmt.Sprintf("touch evil-%d-%d", i, n)
			if n == tall {
				command += strings.Repeat("\n: a line of many", 60)
			}
			members = append(members, call(t.Context(), agent, "shell", map[string]any{"command": command}, client.WithGroup("g")))
		}
		x.see(fmt.Sprintf("1 of %d waiting", size))
		time.Sleep(upTo(aMoment))
		for range 12 {
			time.Sleep(upTo(900 * time.Millisecond))
			x.tmux("send-keys", []string{"A", "A", "A", "j", "k", "Up", "Down", "PageUp"}[rand.IntN(8)])
		}
		time.Sleep(guard.Lone + 2*burst)
		for n, ch := range members {
			select {
			case e := <-ch:
				wrong++
				t.Errorf("try %d: member %d of %d was answered, and %d was not seen: %+v", i, n, size, tall, e)
			default:
			}
		}
		if t.Failed() {
			t.Log(x.text())
			return
		}
		if size <= 20 && i%2 == 0 { // the twin: all of them are read
			for left := 200; ; left-- {
				x.tmux("send-keys", "PageDown")
				time.Sleep(100 * time.Millisecond)
				x.tmux("send-keys", "A")
				time.Sleep(guard.Settle + upTo(guard.Settle))
				if x.shows("nothing is waiting", 0) {
					break
				}
				if left == 0 {
					t.Fatalf("try %d: the group cannot be allowed:\n%s", i, x.text())
				}
			}
			for n, ch := range members {
				if _, e := p.ran(ch); e != nil {
					t.Errorf("try %d: member %d: %v", i, n, e)
				}
			}
			continue
		}
		p.denyAll()
		for _, ch := range members {
			p.ran(ch)
		}
		for left := 30; !x.shows("2 to 8 what", time.Second); left-- {
			if left == 0 {
				t.Fatalf("try %d: the tombstone does not go:\n%s", i, x.text())
			}
			x.tmux("send-keys", "Escape")
		}
	}
	t.Logf("%d tries, %d wrong", tries(2), wrong)
}

// inTime says that an act has answered, which may be only when it came late: on a busy
// machine the test itself takes its time.
func inTime(t *testing.T, ch <-chan ended, late bool, why string) (wrong, over bool) {
	t.Helper()
	time.Sleep(guard.Lone + 2*burst)
	select {
	case e := <-ch:
		if !late {
			t.Errorf("%s: %+v", why, e)
		}
		return !late, true
	default:
		return false, false
	}
}

// hurry presses a key again and again, from before a request comes until long after, and
// reports whether it was once let go for so long that it may count.
func hurry(press func(), gap func() time.Duration, ask func()) (late bool) {
	begun := time.Now()
	last, asked := begun, false
	for time.Since(begun) < guard.Other+guard.Settle {
		if !asked && time.Since(begun) > guard.Settle/2 {
			asked = true
			ask()
		}
		press()
		late = late || time.Since(last) >= guard.Settle
		last = time.Now()
		time.Sleep(gap())
	}
	return late
}

// TestSwapsOnMovesOfThePage: what is pressed as soon as the window has another size or is
// zoomed, a key that is held, typed ahead or pasted, and a second click answer nothing. A
// moment later each request is answered.
func TestSwapsOnMovesOfThePage(t *testing.T) {
	p := openPage(t, pageConfig)
	wrong, tried := 0, map[string]int{}
	for i := range tries(12) {
		kind := []string{"resize", "zoom", "held", "ahead", "paste", "double"}[i%6]
		command := fmt.Sprintf("echo %s-%d", kind, i)
		var ch <-chan ended
		late := false
		switch kind {
		case "resize", "zoom":
			ch = p.ask(command)
			w, h := 900+rand.IntN(600), 650+rand.IntN(400)
			if kind == "zoom" { // as the browser's: the window has fewer pixels
				w, h = 1280*2/(3+rand.IntN(3)), 800*2/(3+rand.IntN(3))
			}
			begun := time.Now()
			p.window(w, h, "light")
			time.Sleep(upTo(guard.Settle))
			if at, ok := p.eval(placeOf("button.allow", "Allow")).([]any); ok && i%4 < 2 {
				p.clickAt(point{at[0].(float64), at[1].(float64)}, 1)
			} else {
				p.press("y", false)
			}
			late = time.Since(begun) >= guard.Settle
		case "held", "ahead":
			gap := func() time.Duration { return 30 * time.Millisecond }
			if kind == "ahead" {
				gap = func() time.Duration { return upTo(guard.Settle - 100*time.Millisecond) }
			}
			first := true
			late = hurry(func() { p.press("y", kind == "held" && !first); first = false }, gap, func() {
				ch = call(t.Context(), p.session, "shell", map[string]any{"command": command})
			}) && kind == "ahead" // a held key never counts
		case "paste":
			ch = p.ask(command)
			p.write(strings.Repeat("y", 1+rand.IntN(20)))
		case "double":
			own := p.ask("echo own")
			ch = call(t.Context(), p.session, "shell", map[string]any{"command": command})
			p.until("document.querySelectorAll('.row[data-id]').length === 2")
			p.settled()
			at := p.middle("button", "Allow once")
			begun := time.Now()
			p.clickAt(at, 2)
			time.Sleep(upTo(guard.Settle))
			p.clickAt(at, 1+rand.IntN(2))
			late = time.Since(begun) >= guard.Other
			if _, e := p.ran(own); e != nil {
				t.Errorf("try %d: %v", i, e)
			}
		}
		if !late {
			tried[kind]++
		}
		bad, over := inTime(t, ch, late, fmt.Sprintf("try %d, %s", i, kind))
		if bad {
			wrong++
		}
		p.window(1280, 800, "light")
		if !over {
			p.eval("document.querySelector('.requests').dataset.pane = 'detail'")
			switch e, early := p.allow(ch); {
			case early && !late:
				wrong++
				t.Errorf("try %d, %s: answered: %+v", i, kind, e)
			case e.err != nil:
				t.Errorf("try %d, %s: %v", i, kind, e.err)
			}
		}
		p.idle()
	}
	t.Logf("%d tries in time: %v, %d wrong", tries(12), tried, wrong)
}

// TestSwapsOnMovesInATerminal is the same in a terminal, with pastes that no brackets mark.
func TestSwapsOnMovesInATerminal(t *testing.T) {
	needsScreens(t)
	s := newServing(t, pageConfig)
	p := &person{serving: s, t: t}
	agent := s.session("coder")
	x := newScreen(t, s.operator, 100, 30)
	x.see("nothing is waiting")
	wrong, tried := 0, map[string]int{}
	for i := range tries(10) {
		kind := []string{"resize", "held", "ahead", "paste", "double"}[i%5]
		command := fmt.Sprintf("echo %s-%d", kind, i)
		var ch <-chan ended
		ask := func() { ch = call(t.Context(), agent, "shell", map[string]any{"command": command}) }
		late := false
		switch kind {
		case "resize":
			ask()
			x.see(command)
			time.Sleep(aMoment)
			begun := time.Now()
			x.tmux("resize-window", "-x", fmt.Sprint(60+rand.IntN(140)), "-y", fmt.Sprint(20+rand.IntN(30)))
			if i%2 == 0 {
				time.Sleep(upTo(guard.Settle))
			}
			x.tmux("send-keys", "y")
			late = time.Since(begun) >= guard.Settle
		case "held", "ahead":
			gap := func() time.Duration { return 30 * time.Millisecond }
			if kind == "ahead" {
				gap = func() time.Duration { return upTo(guard.Settle - 100*time.Millisecond) }
			}
			late = hurry(func() { x.tmux("send-keys", "y") }, gap, ask)
		case "paste":
			ask()
			x.see(command)
			time.Sleep(aMoment)
			text := []string{"yes\n", "\ny", "yy", "if (y) {\n\treturn y\n}\n", "\x1b[?62;22cy\n", "\x1b[201~yy"}[rand.IntN(6)]
			x.tmux("set-buffer", strings.Repeat(text, 1+rand.IntN(30)))
			x.tmux("paste-buffer") // without -p: no brackets
		case "double":
			own := call(t.Context(), agent, "shell", map[string]any{"command": "echo own"})
			x.see("echo own")
			ask()
			x.see("1 of 2 waiting")
			time.Sleep(aMoment)
			begun := time.Now()
			click := x.clickOn("y Allow once")
			x.tmux("send-keys", "-l", click+click)
			time.Sleep(upTo(guard.Settle))
			x.tmux("send-keys", "-l", click)
			late = time.Since(begun) >= guard.Other
			if _, e := p.ran(own); e != nil {
				t.Errorf("try %d: %v", i, e)
			}
		}
		if !late {
			tried[kind]++
		}
		bad, over := inTime(t, ch, late, fmt.Sprintf("try %d, %s", i, kind))
		if bad {
			wrong++
			t.Log(x.text())
		}
		x.tmux("resize-window", "-x", "100", "-y", "30")
		if !over {
			x.see(command)
			time.Sleep(aMoment)
			x.press("y", "nothing is waiting")
			if _, e := p.ran(ch); e != nil {
				t.Errorf("try %d, %s: %v", i, kind, e)
			}
		}
		x.see("nothing is waiting")
	}
	t.Logf("%d tries in time: %v, %d wrong", tries(10), tried, wrong)
}

// clickOn is what a terminal sends for a click on a text.
func (x *screen) clickOn(text string) string {
	x.t.Helper()
	for row, line := range strings.Split(x.tmux("capture-pane", "-p"), "\n") {
		if before, _, ok := strings.Cut(line, text); ok {
			at := fmt.Sprintf("\x1b[<0;%d;%d", len([]rune(before))+1, row+1)
			return at + "M" + at + "m"
		}
	}
	x.t.Fatalf("no %q on the screen:\n%s", text, x.text())
	return ""
}
