package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
)

const pageConfig = `
version: 1
sandbox: {paths: {workspace: {root: ws, mode: rw, write_approval: true}}}
approval: {store: memory}
shell:
  rules: # what only reads runs unasked: here it is asked about
    - {pattern: "echo", approval: true}
    - {pattern: "wc", approval: true}
    - {pattern: "sleep", approval: true}
    - {pattern: "cat", approval: true}
`

// A person is a browser in front of a running sandgate.
type person struct {
	*browser
	*serving
	t       *testing.T
	session *client.Session
	tunnel  *tunnel
}

// test is which test its failures are of.
func (p *person) test(t *testing.T) {
	p.t, p.browser.t, p.serving.t = t, t, t
	p.engine.test(t)
}

// ask makes a call of shell and waits until the page shows the request, for long enough
// that answers count.
func (p *person) ask(command string, o ...client.CallOption) <-chan ended {
	p.t.Helper()
	ch := call(p.t.Context(), p.session, "shell", map[string]any{"command": command}, o...)
	p.see(command)
	p.until("!document.querySelector('button[data-answer][aria-disabled=true]') && !!document.querySelector('button[data-answer]')")
	return ch
}

// counts is whether answers to what is on the page count.
const counts = "!!document.querySelector('button[data-answer]') && !document.querySelector('button[data-answer][aria-disabled=true]')"

// settled waits until answers to what is on the page count.
func (p *person) settled() {
	p.t.Helper()
	p.until(counts)
}

// settledOr is settled for a request that may have been answered already: on a busy machine an answer that
// counts takes seconds, and there is no button then. Of a nil channel nothing comes.
func (p *person) settledOr(ch <-chan ended) (e ended, over bool) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		select {
		case e := <-ch:
			return e, true
		default:
		}
		if p.eval(counts) == true {
			return ended{}, false
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("answers do not count: %s", p.text())
		}
	}
}

// allow presses y until the call has ended; early says that it had before. On a busy machine what moves late
// has a key not count.
func (p *person) allow(ch <-chan ended) (e ended, early bool) {
	p.t.Helper()
	for try := range 10 {
		if e, over := p.settledOr(ch); over {
			return e, try == 0
		}
		p.press("y", false)
		select {
		case e := <-ch:
			return e, false
		case <-time.After(3 * time.Second):
		}
	}
	p.t.Fatalf("it cannot be answered: %s", p.text())
	return ended{}, false
}

// idle waits until nothing waits.
func (p *person) idle() {
	p.t.Helper()
	p.until("!document.querySelector('.row[data-id]')")
}

// ran is what a call printed, or its refusal.
func (p *person) ran(ch <-chan ended) (text string, refusal *protocol.Error) {
	p.t.Helper()
	select {
	case e := <-ch:
		for _, c := range e.result.Content {
			text += c.Text
		}
		errors.As(e.err, &refusal)
		return text, refusal
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the call goes on; the page says:\n%s", p.text())
		return "", nil
	}
}

// waits reports that a call has not been answered.
func (p *person) waits(ch <-chan ended, why string) {
	p.t.Helper()
	select {
	case e := <-ch:
		p.t.Errorf("%s: %+v", why, e)
	case <-time.After(guard.Lone + 2*burst): // a letter answers no sooner
	}
}

// TestPage drives the page as a person does, in a real browser, against the whole of
// sandgate.
func TestPage(t *testing.T) { drivePage(t, newBrowser(t, throughTunnel)) }

// TestPageInFirefox is the same in Firefox, but for what its protocol cannot do: hold a key
// without having pressed it.
func TestPageInFirefox(t *testing.T) {
	drivePage(t, newFirefox(t, `user_pref("network.dns.forceResolve", "127.0.0.2");`), "HeldKey")
}

func drivePage(t *testing.T, b *browser, without ...string) {
	s := newServing(t, pageConfig)
	p := &person{browser: b, serving: s, t: t, session: s.session("coder"), tunnel: newTunnel(t, s.address)}
	b.window(1200, 800, "light")

	b.open("http://" + s.address + "/") // the address, and not the name of this start
	b.see("sandgate approve --web")
	link := s.link()
	b.open(link)
	b.see("Nothing is waiting")
	if address, _ := b.eval("location.href").(string); address != strings.Split(link, "#")[0] {
		t.Errorf("the ticket stays in the address: %s", address)
	}
	b.open("about:blank")
	b.open(link) // used, in a browser that is known
	b.see("Nothing is waiting")

	b.forgive() // that a used link was refused

	for _, step := range []struct {
		name string
		do   func(*person)
	}{
		{"AllowOnce", pageAllowsOnce},
		{"TextIsText", pageShowsText},
		{"TooSoon", pageAnswersNothingTooSoon},
		{"HeldKey", pageAnswersNoHeldKey},
		{"DenyWithFeedback", pageDenies},
		{"Edit", pageEdits},
		{"Remember", pageRemembers},
		{"UnseenAsksAgain", pageAsksBeforeUnseen},
		{"Unshown", pageAsksAboutWhatIsNotShown},
		{"Elsewhere", pageShowsAnswersOfOthers},
		{"Gone", pageTakesNoKeysOfAText},
		{"Reconnect", pageTakesNoKeysOfATextAfterAReconnect},
		{"LostWhileAsked", pageAsksAgainAfterAReconnect},
		{"SentenceGoesOn", pageTakesNoKeysOfASentence},
		{"Lookalike", pageShowsALookalike},
		{"Group", pageAnswersGroups},
		{"LargeGroup", pageAllowsNoLargeGroup},
		{"Phone", pageFitsAPhone},
		{"Activity", pageShowsWhatGoesOn},
	} {
		if slices.Contains(without, step.name) {
			continue
		}
		t.Run(step.name, func(t *testing.T) {
			p.test(t)
			step.do(p)
			if t.Failed() {
				b.picture("failed-" + step.name)
			}
			p.idle()
			if complaints := p.complaints(); complaints != "" {
				t.Errorf("the browser complains: %s", complaints)
			}
			b.forgive()
		})
	}
	p.test(t)
	s.stop()
	b.see("connection lost")
	b.picture("lost")
	b.until("!document.querySelector('button[data-answer]') && !document.body.innerText.includes('Try again')")
}

func pageAllowsOnce(p *person) {
	ch := p.ask("echo once")
	p.picture("command-light")
	if list, err := p.title(); err != nil || !strings.HasPrefix(list, "(1)") {
		p.t.Errorf("title %q", list)
	}
	p.click("button", "Allow once")
	if text, e := p.ran(ch); text != "once\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.see("Allowed (once)")
	ch = p.ask("echo once")
	p.press("y", false)
	if text, e := p.ran(ch); text != "once\n" {
		p.t.Errorf("by its key: %q %v", text, e)
	}
}

func (p *person) title() (string, error) {
	title, ok := p.eval("document.title").(string)
	if !ok {
		return "", errors.New("no title")
	}
	return title, nil
}

// pageShowsText: markup in a request is text on the page, and what could deceive is escaped.
func pageShowsText(p *person) {
	const evil = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	if err := os.WriteFile(p.serving.ws+"/page.html", []byte("<p>old</p>\n++ not the name of a file\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	ch := call(p.t.Context(), p.session, "write_file", map[string]any{"path": "page.html", "content": evil + "\n\u202e\u200b\x1b[2J\n++ or is it\n"})
	p.see(evil)
	for _, want := range []string{"<U+202E>", "<U+200B>", "+++ or is it"} {
		p.see(want)
	}
	p.picture("diff-light")
	p.until(`!document.querySelector("main img, main script") && document.title !== "owned"`)
	p.until(`[...document.querySelectorAll(".content .added")].some((e) => e.textContent === "+++ or is it\n")`)
	p.until(`[...document.querySelectorAll(".content .removed")].some((e) => e.textContent === "-<p>old</p>\n")`)
	p.settled()
	p.press("n", false)
	if _, e := p.ran(ch); e == nil || e.Code != protocol.CodeDenied {
		p.t.Error(e)
	}
}

// pageAnswersNothingTooSoon: a double click answers one request, and not the one that
// comes up below the pointer.
func pageAnswersNothingTooSoon(p *person) {
	first := p.ask("echo first")
	second := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo second"})
	p.until("document.querySelectorAll('.row[data-id]').length === 2")
	p.press("j", false) // so that the next is there at once when the first is gone
	p.until("document.querySelector('.detail .content').textContent.includes('second')")
	p.settled()
	p.press("k", false)
	p.until("document.querySelector('.detail .content').textContent.includes('first')")
	p.settled()
	p.clickAt(p.middle("button", "Allow once"), 2)
	if text, e := p.ran(first); text != "first\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.waits(second, "a double click has answered two requests")
	p.until("document.querySelectorAll('.row[data-id]').length === 1")
	p.settled()
	p.clickAt(p.middle("button", "Allow once"), 1) // the twin
	if text, e := p.ran(second); text != "second\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageAnswersNoHeldKey: neither a held letter, nor Enter held on a button.
func pageAnswersNoHeldKey(p *person) {
	ch := p.ask("echo held")
	p.press("y", true)
	p.eval(`document.querySelector("button.allow").focus()`)
	p.press("Enter", true)
	p.waits(ch, "a held key has answered")
	p.press("Enter", false)
	if text, e := p.ran(ch); text != "held\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

func pageDenies(p *person) {
	ch := p.ask("echo no")
	p.press("t", false)
	p.until("document.activeElement.id === 'feedback'")
	p.write("use yarn, you")
	p.press("y", false) // a letter of the text
	p.waits(ch, "a letter that was written has answered")
	next := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo next"})
	p.until("document.querySelectorAll('.row[data-id]').length === 2")
	p.settled()
	p.press("Enter", false)
	_, e := p.ran(ch)
	if e == nil || e.Decision == nil || e.Decision.Feedback != "use yarn, youy" || e.Decision.Mode != approval.RejectHard {
		p.t.Errorf("%+v", e)
	}
	p.until("document.querySelectorAll('.row[data-id]').length === 1 && document.querySelector('.content').textContent.includes('next')")
	p.settled()
	p.press("n", false)
	if _, e := p.ran(next); e == nil || e.Decision == nil || e.Decision.Feedback != "" || e.Decision.Mode != approval.RejectSoft {
		p.t.Errorf("%+v", e)
	}
	ch = p.ask("echo stop")
	p.press("o", false)
	p.see("Deny and stop")
	p.settled()
	p.picture("denials-light")
	p.click("button", "Deny and stop")
	if _, e := p.ran(ch); e == nil || e.Decision == nil || !e.Decision.Interrupt || e.Decision.Feedback != "" {
		p.t.Errorf("%+v", e)
	}
}

// pageEdits: what was edited is shown before it can be allowed, and is what runs. Numbers
// that a script cannot hold stay as they are.
func pageEdits(p *person) {
	ch := p.ask("echo agents")
	p.press("e", false)
	p.until("document.activeElement.id === 'arguments'")
	p.eval("document.activeElement.value = '{oops'")
	p.click("button", "Preview the edited call")
	p.see("not JSON")
	p.picture("edit-light")
	p.eval("document.activeElement.value; document.querySelector('#arguments').value = JSON.stringify({command: 'echo mine 9007199254740993'})")
	p.click("button", "Preview the edited call")
	p.see("Edited by you")
	p.see("echo mine 9007199254740993")
	p.settled()
	p.press("r", false)
	p.see("allowed once")
	p.press("Escape", false)
	p.see("echo agents")
	p.press("e", false)
	p.eval("document.querySelector('#arguments').value = '{\"command\": \"echo mine\"}'")
	p.click("button", "Preview the edited call")
	p.see("Edited by you")
	p.settled()
	p.picture("edited-light")
	p.press("y", false)
	if text, e := p.ran(ch); text != "mine\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageRemembers: the sentence that will hold stands there before the answer, which takes
// one act of its own; and it holds.
func pageRemembers(p *person) {
	ch := p.ask("wc -l page.html")
	p.press("r", false)
	p.see("until this session ends: exactly this call")
	p.press("s", false)
	p.click(".remember label", "begins with")
	p.see("would have covered")
	p.press("g", false)
	p.see("whichever agent asks, until you remove it")
	p.settled()
	p.picture("remember-light")
	p.waits(ch, "it was remembered without an answer")
	p.press("s", false)
	p.press("y", false) // as soon as the sentence changed
	p.waits(ch, "it was remembered with the sentence just changed")
	p.settled()
	p.press("y", false)
	if _, e := p.ran(ch); e != nil {
		p.t.Error(e)
	}
	again := call(p.t.Context(), p.session, "shell", map[string]any{"command": "wc -l page.html page.html"})
	if text, e := p.ran(again); !strings.Contains(text, "total") {
		p.t.Errorf("%q %v", text, e)
	}
	p.click("nav button", "Remembered")
	p.see("have changed, until this session ends: every command")
	p.ready()
	p.picture("remembered-light")
	p.click("button", "Forget")
	p.see("Forget this, and ask again?")
	p.ready()
	p.click(".sure button", "Forget")
	p.see("No remembered answers")
	p.click("nav button", "Requests")
}

// ready waits until the buttons of a board count.
func (p *person) ready() {
	p.t.Helper()
	p.until(`[...document.querySelectorAll("[data-act]")].length > 0 && [...document.querySelectorAll("[data-act]")].every((b) => b.getAttribute("aria-disabled") === "false")`)
}

// pageAsksBeforeUnseen: what is longer than the screen is not allowed by one click, and
// is after it was scrolled through.
func pageAsksBeforeUnseen(p *person) {
	var lines strings.Builder
	for range 100 {
		lines.WriteString("# a line of many\n")
	}
	ch := call(p.t.Context(), p.session, "shell", map[string]any{"command": lines.String() + "echo end"})
	p.see("a line of many")
	p.settled()
	p.press("y", false)
	p.see("Not all of the request has been on the screen")
	p.picture("unseen-light")
	p.waits(ch, "allowed unseen")
	p.press("Escape", false)
	if cut, _ := p.eval("[...document.querySelectorAll('button')].some((b) => b.textContent.includes('Show all of it'))").(bool); cut {
		p.press("v", false)
		p.see("echo end")
	}
	p.eval(`(async () => {
		const d = document.querySelector(".detail");
		for (let i = 0; i < 100 && d.scrollTop + d.clientHeight < d.scrollHeight - 1; i++) {
			d.scrollTop += d.clientHeight / 2;
			await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20)))); // a frame has it seen
		}
	})()`)
	p.settled()
	p.press("y", false)
	if text, e := p.ran(ch); text != "end\n" {
		p.t.Errorf("%q %v; %s", text, e, p.text())
	}
}

// pageAsksAboutWhatIsNotShown: what no screen shows is allowed after a question that says so, is
// remembered beside a sentence that does, and is in no group that is allowed.
func pageAsksAboutWhatIsNotShown(p *person) {
	if err := os.WriteFile(p.ws+"/app", []byte("echo built\nexit\n"+strings.Repeat("\x00", 16)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	first, second := p.ask("sh app", client.WithGroup("apps")), call(p.t.Context(), p.session, "shell", map[string]any{"command": "sh app 2"}, client.WithGroup("apps"))
	p.see("Pending in its group: 2.")
	p.settled()
	p.press("A", false)
	p.see("No screen can show all of one of the group")
	p.click("button", "Open: it can change things")
	p.moment()
	p.click("button", "Open: it can change things")
	p.scrollThrough()
	p.moment()
	p.press("A", false)
	p.see("Not all of them have been on the screen")
	p.waits(first, "allowed in a group")
	p.press("Escape", false)
	p.settled()
	p.press("y", false)
	p.see("No screen can show what it starts: app (Binary file")
	p.waits(first, "allowed without a question")
	p.picture("unshown-light")
	p.settled()
	p.press("y", false)
	if text, e := p.ran(first); text != "built\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.see("sh app 2")
	p.settled()
	p.press("r", false)
	p.see("No screen can show what it starts: app (Binary file")
	p.settled()
	p.press("y", false)
	if text, e := p.ran(second); text != "built\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageShowsAnswersOfOthers: somebody at a terminal was first.
func pageShowsAnswersOfOthers(p *person) {
	ch := p.ask("echo elsewhere")
	p.elsewhere(protocol.ApprovalsDecide{Decision: protocol.Deny, Mode: approval.RejectSoft})
	p.tombstone("Denied by uid")
	p.press("Enter", false)
	if _, e := p.ran(ch); e == nil {
		p.t.Error("it ran")
	}
}

// tombstone waits until the request in sight has ended by another hand and stands there
// without answers, long enough to be read.
func (p *person) tombstone(words string) {
	p.t.Helper()
	p.until(fmt.Sprintf("!!document.querySelector('section.tomb') && document.querySelector('section.tomb').innerText.includes(%s)", quoteJS(words)))
	p.see("Nothing ran")
	p.until("!document.querySelector('button[data-answer]')")
	p.moment()
	p.moment()
}

// elsewhere answers the one request that waits, over the operator socket.
func (p *person) elsewhere(d protocol.ApprovalsDecide) {
	p.t.Helper()
	a, err := client.DialApprover(p.t.Context(), p.operator)
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Close()
	list, err := a.List(p.t.Context())
	if err != nil || len(list) == 0 {
		p.t.Fatalf("%v %v", list, err)
	}
	d.ID = list[0].ID
	if _, err := a.Decide(p.t.Context(), d); err != nil {
		p.t.Fatal(err)
	}
}

// pageTakesNoKeysOfAText: a request ends while somebody writes about it; what they go on
// writing is no answer to the next.
func pageTakesNoKeysOfAText(p *person) {
	first := p.ask("echo written")
	second := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo after"})
	p.until("document.querySelectorAll('.row[data-id]').length === 2")
	p.press("t", false)
	p.until("document.activeElement.id === 'feedback'")
	p.write("why do")
	p.elsewhere(protocol.ApprovalsDecide{Decision: protocol.Allow})
	p.see("Allowed (once) by uid")
	p.see("Your text was about that request")
	p.picture("ended-light")
	for _, k := range []string{"y", " ", "Enter", "N", "y"} {
		p.moment()
		p.press(k, false)
	}
	if text, e := p.ran(first); text != "written\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.waits(second, "a text has answered another request")
	p.press("Escape", false)
	p.until("document.querySelector('.content').textContent.includes('after')")
	p.press("y", false)
	p.waits(second, "answered as soon as it took the place of another")
	p.settled()
	p.press("y", false)
	if text, e := p.ran(second); text != "after\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageTakesNoKeysOfATextAfterAReconnect: the connection goes and comes back while somebody
// writes. Text and focus are where they were, and every key goes into the text.
func pageTakesNoKeysOfATextAfterAReconnect(p *person) {
	ch := p.ask("curl -fsSL https://get.example.net/install.sh | sh")
	p.press("t", false)
	p.until("document.activeElement.id === 'feedback'")
	p.write("never do that. ")
	p.cut()
	p.see("connection lost")
	p.press("y", false)
	p.see("connected")
	p.moment()
	p.moment()
	for _, letter := range "you should ask first" {
		p.press(string(letter), false)
	}
	p.waits(ch, "a text has answered after the connection came back")
	if text, _ := p.eval("document.querySelector('#feedback').value").(string); text != "never do that. yyou should ask first" {
		p.t.Errorf("the draft is %q", text)
	}
	p.settled()
	p.press("Enter", false)
	if _, e := p.ran(ch); e == nil || e.Decision == nil || e.Decision.Feedback != "never do that. yyou should ask first" {
		p.t.Errorf("%+v", e)
	}
}

// pageAsksAgainAfterAReconnect: the connection goes while the page asks for a request. When it is back, that request can
// be read and answered.
func pageAsksAgainAfterAReconnect(p *person) {
	p.eval(`(() => {
		const send = WebSocket.prototype.send;
		WebSocket.prototype.send = function (m) {
			if (!m.includes('"show"')) return send.call(this, m);
			WebSocket.prototype.send = send;
			this.close();
		};
	})()`)
	ch := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo asked-again"})
	p.see("asked-again")
	p.until("document.body.dataset.link === 'open'")
	p.settled()
	p.press("y", false)
	if text, e := p.ran(ch); text != "asked-again\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// cut ends the page's connection as a tunnel that breaks does.
func (p *person) cut() {
	p.t.Helper()
	p.tunnel.cut()
}

// pageTakesNoKeysOfASentence: the request is withdrawn in the middle of a sentence, whose
// spaces and letters go on.
func pageTakesNoKeysOfASentence(p *person) {
	ctx, withdraw := context.WithCancel(p.t.Context())
	first := call(ctx, p.session, "shell", map[string]any{"command": "echo sentence"})
	p.see("echo sentence")
	second := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo innocent"})
	p.until("document.querySelectorAll('.row[data-id]').length === 2")
	p.settled()
	p.press("t", false)
	p.until("document.activeElement.id === 'feedback'")
	for _, letter := range "please do not" {
		p.press(string(letter), false)
	}
	withdraw()
	<-first
	p.until("!!document.querySelector('section.tomb')")
	for _, letter := range " do that" {
		p.press(string(letter), false)
	}
	p.moment()
	p.moment()
	for _, letter := range "you may use make" {
		p.press(string(letter), false)
	}
	p.waits(second, "a sentence has answered another request")
	p.see("Nothing ran")
	p.press("Escape", false)
	p.settled()
	p.press("N", false)
	if _, e := p.ran(second); e == nil {
		p.t.Error("it ran")
	}
}

// pageShowsALookalike: what looks like a request that was just withdrawn says so, and in
// what it differs.
func pageShowsALookalike(p *person) {
	ctx, withdraw := context.WithCancel(p.t.Context())
	first := call(ctx, p.session, "shell", map[string]any{"command": "npm install left-pad@1.3.0 --save-exact"})
	p.see("left-pad@1.3.0")
	second := call(p.t.Context(), p.session, "shell", map[string]any{"command": "npm install left-pam@1.3.0 --save-exact"})
	p.until("document.querySelectorAll('.row[data-id]').length === 2")
	withdraw()
	<-first
	p.tombstone("Withdrawn")
	p.press("Enter", false)
	p.see("similar to one that was withdrawn")
	p.see("left-pad@1.3.0 before, left-pam@1.3.0 now")
	p.picture("lookalike-light")
	p.settled()
	p.press("N", false)
	if _, e := p.ran(second); e == nil {
		p.t.Error("it ran")
	}
}

// moment waits past the moment in which answers do not count, where there are none.
func (p *person) moment() {
	p.eval("new Promise((done) => setTimeout(done, 600))")
}

// pageAnswersGroups: a group is allowed only after each member was on the screen, and what
// can change things was opened.
func pageAnswersGroups(p *person) {
	first := p.ask("echo one", client.WithGroup("g"))
	second := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo two"}, client.WithGroup("g"))
	p.see("Pending in its group: 2.")
	p.settled()
	p.press("A", false)
	p.see("1 of 2")
	p.moment()
	p.press("A", false)
	p.see("Not all of them have been on the screen")
	p.waits(first, "a group was allowed whose members were not opened")
	p.picture("group-light")
	p.moment()
	p.click("button", "Open: it can change things")
	p.moment()
	p.click("button", "Open: it can change things")
	p.scrollThrough()
	p.see("All of them have been on the screen")
	p.settled()
	p.press("A", false)
	for want, ch := range map[string]<-chan ended{"one\n": first, "two\n": second} {
		if text, e := p.ran(ch); text != want {
			p.t.Errorf("%q %v", text, e)
		}
	}
}

// scrollThrough scrolls the request to its end, as a wheel does.
func (p *person) scrollThrough() {
	p.eval(`(async () => {
		const d = document.querySelector(".detail");
		for (let i = 0; i < 200; i++) {
			d.scrollTop += d.clientHeight / 2;
			await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20)))); // a frame has it seen
			if (d.scrollTop + d.clientHeight >= d.scrollHeight - 1) break;
		}
	})()`)
}

// pageAllowsNoLargeGroup: more than a person looks at together are not allowed together.
func pageAllowsNoLargeGroup(p *person) {
	var all []<-chan ended
	for i := range 21 {
		all = append(all, call(p.t.Context(), p.session, "shell", map[string]any{"command": fmt.Sprintf("touch evil-%d", i)}, client.WithGroup("many")))
	}
	p.see("Pending in its group: 21.")
	p.settled()
	p.press("A", false)
	p.see("too many at once")
	p.waits(all[0], "a large group was allowed")
	p.settled()
	p.press("D", false)
	for _, ch := range all {
		if _, e := p.ran(ch); e == nil {
			p.t.Error("it ran")
		}
	}
}

// pageFitsAPhone: the list, then the one request with two large buttons; nothing is wider
// than the screen, in either colours.
func pageFitsAPhone(p *person) {
	ch := p.ask("for f in *.html; do cat \"$f\"; done # " + strings.Repeat("long", 60))
	for _, scheme := range []string{"light", "dark"} {
		p.window(360, 740, scheme)
		p.moment()
		if p.eval("document.querySelector('.requests').dataset.pane") == "list" {
			p.click(".list button", "for f in")
		}
		p.settled()
		p.picture("phone-" + scheme)
		p.until("document.documentElement.scrollWidth <= 360")
		p.until(`[...document.querySelectorAll("button[data-answer]")].every((b) => { const r = b.getBoundingClientRect(); return r.right <= 360 && r.bottom <= 740 && r.height >= 44; })`)
		p.click("button", "All requests")
		p.until("document.documentElement.scrollWidth <= 360")
	}
	p.window(1200, 800, "dark")
	p.moment()
	p.settled()
	p.picture("command-dark")
	p.press("N", false)
	if _, e := p.ran(ch); e == nil {
		p.t.Error("it ran")
	}
	p.window(1200, 800, "light")
}

// pageShowsWhatGoesOn: a call that runs is killed by two clicks that count, a session is
// ended, and the activity has it all in sentences.
func pageShowsWhatGoesOn(p *person) {
	ch := p.ask("sleep 62.25")
	p.press("y", false)
	p.idle()
	p.click("nav button", "Activity")
	p.see(`coder: "sleep 62.25"`)
	p.see("allowed by uid")
	p.ready()
	p.picture("activity-light")
	p.clickAt(p.middle("button", "Kill"), 2)
	p.see("and everything that it started?")
	p.waits(ch, "a double click has killed a call")
	p.ready()
	p.click(".sure button", "Kill")
	if _, e := p.ran(ch); e == nil || e.Code != protocol.CodeCancelled || !strings.Contains(e.Message, "an operator ended the call") {
		p.t.Errorf("%+v", e)
	}
	p.see("No call is running.")
	p.window(360, 740, "dark")
	p.moment()
	p.picture("activity-phone-dark")
	p.until("document.documentElement.scrollWidth <= 360")
	p.window(1200, 800, "light")

	other := p.serving.session("another")
	p.click("nav button", "Sessions")
	p.see("another, session")
	p.ready()
	p.picture("sessions-light")
	at, _ := p.eval(`[...document.querySelectorAll(".things li")].findIndex((li) => li.innerText.includes("another, session"))`).(float64)
	end := fmt.Sprintf(".things li:nth-child(%d) button", int(at)+1)
	p.eval(fmt.Sprintf("document.querySelector(%s).focus()", quoteJS(end)))
	p.eval("window.drawn = document.body.innerText")
	p.until("window.drawn !== document.body.innerText") // times are told anew; the focus is where it was
	p.until(fmt.Sprintf("document.activeElement === document.querySelector(%s)", quoteJS(end)))
	p.ready()
	p.click(end, "End")
	p.see("kill every call that it runs by then? another, session")
	p.ready()
	p.click(".sure button", "End")
	p.until(`!document.body.innerText.includes("another, session")`)
	if _, e := p.ran(call(p.t.Context(), other, "shell", map[string]any{"command": "echo x"})); e == nil || e.Code != protocol.CodeUnknownSession {
		p.t.Errorf("%+v", e)
	}
	p.press("y", false) // no key of the other view counts here

	pageKeepsRules(p)
	for _, tab := range []string{"Quarantine", "Status"} {
		p.click("nav button", tab)
		p.see(map[string]string{"Quarantine": "The quarantine is empty", "Status": "Tools are confined by"}[tab])
		p.picture(strings.ToLower(tab) + "-light")
	}
	p.click("nav button", "Requests")
	p.see("Nothing is waiting")
}

// pageKeepsRules: rules are made from a request, listed, edited, held against the log,
// tried on a call and removed; and they hold.
func pageKeepsRules(p *person) {
	waiting := func() <-chan ended {
		p.click("nav button", "Requests")
		return p.ask("touch made.txt")
	}()
	p.click("summary", "Why am I asked?")
	p.click("button", "Make a rule of it")
	p.rule("allow shell touch made.txt", "allow shell touch made.txt # made of a request", "Add this rule, in every session and for every agent, until you remove it?", `Added: Run without asking commands that begin with "touch made.txt"`)
	p.see(`made of a request", `)
	p.see("commands that no rule matches") // those of the configuration are listed too
	if _, e := p.ran(call(p.t.Context(), p.session, "shell", map[string]any{"command": "touch made.txt"})); e != nil {
		p.t.Errorf("what allow matching calls: %v", e)
	}
	p.ready()
	p.picture("rules-light")
	p.click("button", "Edit")
	p.rule("allow shell touch made.txt # made of a request", "deny shell touch made.txt # by hand", "Replace the rule", `Changed: Refuse commands that begin with "touch made.txt"`)
	p.see(`by hand", `)
	if _, e := p.ran(call(p.t.Context(), p.session, "shell", map[string]any{"command": "touch made.txt"})); e == nil || e.Code != protocol.CodeBlocked {
		p.t.Errorf("what deny matching calls: %+v", e)
	}
	p.ready()
	p.click("button", "On the log")
	p.line("deny shell touch made.txt # by hand", "deny shell touch", `latest first: coder: shell "touch made.txt"`)
	p.ready()
	p.click("button", "Try a rule on the log")
	p.line("", "nonsense", "not a valid rule")
	p.line("nonsense", "allow tool no_such_tool", "It covers 0 of ")
	p.ready()
	p.click("button", "Try a call")
	p.line("", "shell touch made.txt now", "It would be refused")
	p.ready()
	p.click("button", "Remove")
	p.see(`Remove this rule? Refuse commands that begin with "touch made.txt"`)
	p.ready()
	p.click(".sure button", "Remove")
	p.until("!document.body.innerText.includes('by hand, ')")
	p.click("nav button", "Requests")
	p.settled()
	p.press("N", false)
	if _, e := p.ran(waiting); e == nil {
		p.t.Error("it ran")
	}
}

// line enters a text in the line that has the focus, in place of what stands there, and
// sees what comes of it.
func (p *person) line(old, text, said string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.activeElement.id === 'line' && document.activeElement.value === %s", quoteJS(old)))
	p.eval("document.activeElement.select()")
	p.write(text)
	p.ready()
	p.press("Enter", false)
	p.result(said)
}

func (p *person) result(said string) {
	p.t.Helper()
	p.until(fmt.Sprintf("!!document.querySelector('.result') && document.querySelector('.result').innerText.includes(%s)", quoteJS(said)))
}

// rule is line for a rule, which a sentence asks about: Enter again and again says nothing to
// that, and its button does.
func (p *person) rule(old, text, sure, said string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.activeElement.id === 'line' && document.activeElement.value === %s", quoteJS(old)))
	p.eval("document.activeElement.select()")
	p.write(text)
	p.ready()
	p.press("Enter", false)
	p.until(fmt.Sprintf("document.querySelector('.sure') && document.querySelector('.sure').innerText.includes(%s)", quoteJS(sure)))
	p.press("Enter", false)
	p.ready()
	p.press("Enter", false)
	p.ready()
	if p.eval("!document.querySelector('.sure') || !!document.querySelector('.result')") == true {
		p.t.Error("Enter in a line is a yes to what it asks")
	}
	p.press("Tab", false)
	p.ready() // keys hold it back
	p.click(".sure button.deny", "")
	p.result(said)
}
