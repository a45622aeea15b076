package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

const pageConfig = `
version: 1
sandbox: {paths: {workspace: {root: ws, mode: rw, write_approval: true}}}
approval: {store: memory}
`

// A person is a browser in front of a running sandgate.
type person struct {
	*browser
	*serving
	t       *testing.T
	session *client.Session
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

// settled waits until answers to what is on the page count.
func (p *person) settled() {
	p.t.Helper()
	p.until("!!document.querySelector('button[data-answer]') && !document.querySelector('button[data-answer][aria-disabled=true]')")
}

// idle waits until nothing waits.
func (p *person) idle() {
	p.t.Helper()
	p.until("!document.querySelector('.row')")
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
	case <-time.After(20 * time.Second):
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
	case <-time.After(50 * time.Millisecond):
	}
}

// TestPage drives the page as a person does, in a real browser, against the whole of
// sandgate.
func TestPage(t *testing.T) {
	b, s := newBrowser(t), newServing(t, pageConfig)
	p := &person{browser: b, serving: s, t: t, session: s.session("coder")}
	b.window(1200, 800, "light")

	b.open("http://" + s.address + "/")
	b.see("sandgate approve --web")
	link := s.link()
	b.open(link)
	b.see("Nothing waits")
	if address, _ := b.eval("location.href").(string); address != "http://"+s.address+"/" {
		t.Errorf("the ticket stays in the address: %s", address)
	}
	b.open("about:blank")
	b.open(link) // used, in a browser that is known
	b.see("Nothing waits")

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
		{"Pattern", pageRemembersPatterns},
		{"ForGoodAsksAgain", pageAsksBeforeForGood},
		{"UnseenAsksAgain", pageAsksBeforeUnseen},
		{"Elsewhere", pageShowsAnswersOfOthers},
		{"Gone", pageTakesNoKeysOfAText},
		{"Group", pageAnswersGroups},
		{"Phone", pageFitsAPhone},
		{"Activity", pageShowsWhatGoesOn},
	} {
		t.Run(step.name, func(t *testing.T) {
			p.t, p.browser.t, p.serving.t = t, t, t
			step.do(p)
			p.idle()
			if complaints := p.complaints(); complaints != "" {
				t.Errorf("the browser complains: %s", complaints)
			}
			b.forgive()
		})
	}
	p.t, p.browser.t, p.serving.t = t, t, t
	s.stop()
	b.see("connection lost")
	b.picture("lost")
}

func pageAllowsOnce(p *person) {
	ch := p.ask("echo once")
	p.picture("command-light")
	if list, err := p.title(); err != nil || !strings.HasPrefix(list, "(1)") {
		p.t.Errorf("title %q", list)
	}
	p.click("button", "Once")
	if text, e := p.ran(ch); text != "once\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.see("approved (once)")
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
	p.until(`!document.querySelector("main img, main script, main p p") && document.title !== "owned"`)
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
	p.until("document.querySelectorAll('.row').length === 2")
	p.press("j", false) // so that the next is there at once when the first is gone
	p.until("document.querySelector('.detail h2').textContent.includes('second')")
	p.settled()
	p.press("k", false)
	p.until("document.querySelector('.detail h2').textContent.includes('first')")
	p.settled()
	p.clickAt(p.middle("button", "Once"), 2)
	if text, e := p.ran(first); text != "first\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.waits(second, "a double click has answered two requests")
	p.until("document.querySelectorAll('.row').length === 1")
	p.settled()
	p.clickAt(p.middle("button", "Once"), 1) // the twin
	if text, e := p.ran(second); text != "second\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageAnswersNoHeldKey: neither a held letter, nor Enter held on a button.
func pageAnswersNoHeldKey(p *person) {
	ch := p.ask("echo held")
	p.press("y", true)
	p.eval(`[...document.querySelectorAll("button.allow")][0].focus()`)
	p.press("Enter", true)
	p.waits(ch, "a held key has answered")
	p.press("Enter", false)
	if text, e := p.ran(ch); text != "held\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

func pageDenies(p *person) {
	ch := p.ask("echo no")
	p.eval(`document.querySelector("#feedback").focus()`)
	p.write("use yarn, you")
	p.press("y", false) // a letter of the text
	p.waits(ch, "a letter that was written has answered")
	next := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo next"})
	p.until("document.querySelectorAll('.row').length === 2")
	p.settled()
	p.click("button", "This call only")
	_, e := p.ran(ch)
	if e == nil || e.Decision == nil || e.Decision.Feedback != "use yarn, you"+"y" || e.Decision.Mode != approval.RejectSoft {
		p.t.Errorf("%+v", e)
	}
	p.until("document.querySelectorAll('.row').length === 1")
	p.until("document.querySelector('#feedback').value === ''") // it was about the other
	p.settled()
	p.press("n", false)
	if _, e := p.ran(next); e == nil || e.Decision == nil || e.Decision.Feedback != "" {
		p.t.Errorf("%+v", e)
	}
	ch = p.ask("echo stop")
	p.press("i", false)
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
	p.click("button", "Show what becomes of it")
	p.see("not JSON")
	p.picture("edit-light")
	p.eval("document.activeElement.value; document.querySelector('#arguments').value = JSON.stringify({command: 'echo mine 9007199254740993'})")
	p.click("button", "Show what becomes of it")
	p.see("Edited by you")
	p.see("echo mine 9007199254740993")
	p.settled()
	p.press("s", false)
	p.see("allowed once")
	p.press("Escape", false)
	p.see("echo agents")
	p.press("e", false)
	p.eval("document.querySelector('#arguments').value = '{\"command\": \"echo mine\"}'")
	p.click("button", "Show what becomes of it")
	p.see("Edited by you")
	p.settled()
	p.picture("edited-light")
	p.press("y", false)
	if text, e := p.ran(ch); text != "mine\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// pageRemembersPatterns: with what it covers, after a second yes, and it holds.
func pageRemembersPatterns(p *person) {
	ch := p.ask("wc -l page.html")
	p.press("p", false)
	p.see("remember in its place")
	p.settled()
	p.picture("patterns-light")
	p.click("button", "In this session")
	p.see("from now on, without asking")
	p.waits(ch, "a pattern was remembered at the first click")
	p.settled()
	p.picture("confirm-light")
	p.click("button", "Allow: in this session")
	if _, e := p.ran(ch); e != nil {
		p.t.Error(e)
	}
	again := call(p.t.Context(), p.session, "shell", map[string]any{"command": "wc -l page.html page.html"})
	if text, e := p.ran(again); !strings.Contains(text, "total") {
		p.t.Errorf("%q %v", text, e)
	}
}

func pageAsksBeforeForGood(p *person) {
	ch := p.ask("echo good")
	p.press("g", false)
	p.see("from now on, without asking, whoever asks")
	p.waits(ch, "allowed for good by one key")
	p.press("Escape", false)
	p.settled()
	p.press("g", false)
	p.settled()
	p.press("g", false)
	if text, e := p.ran(ch); text != "good\n" {
		p.t.Errorf("%q %v", text, e)
	}
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
	p.see("has not been on the screen")
	p.picture("unseen-light")
	p.waits(ch, "allowed unseen")
	p.press("Escape", false)
	if cut, _ := p.eval("[...document.querySelectorAll('button')].some((b) => b.textContent.includes('Show all'))").(bool); cut {
		p.press("v", false)
		p.see("echo end")
	}
	p.eval(`(async () => {
		const d = document.querySelector(".detail");
		for (let i = 0; i < 100 && d.scrollTop + d.clientHeight < d.scrollHeight - 1; i++) {
			d.scrollTop += d.clientHeight / 2;
			await new Promise((done) => setTimeout(done, 20));
		}
	})()`)
	p.settled()
	p.press("y", false)
	if text, e := p.ran(ch); text != "end\n" {
		p.t.Errorf("%q %v; %s", text, e, p.text())
	}
}

// pageShowsAnswersOfOthers: somebody at a terminal was first.
func pageShowsAnswersOfOthers(p *person) {
	ch := p.ask("echo elsewhere")
	p.elsewhere(protocol.ApprovalsDecide{Decision: protocol.Deny, Mode: approval.RejectSoft})
	p.see("denied by uid")
	if _, e := p.ran(ch); e == nil {
		p.t.Error("it ran")
	}
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
	p.until("document.querySelectorAll('.row').length === 2")
	p.eval(`document.querySelector("#feedback").focus()`)
	p.write("why do")
	p.elsewhere(protocol.ApprovalsDecide{Decision: protocol.Allow})
	p.see("The request that you were writing about has ended")
	p.moment()
	p.press("y", false)
	p.press("N", false)
	if text, e := p.ran(first); text != "written\n" {
		p.t.Errorf("%q %v", text, e)
	}
	p.waits(second, "a text has answered another request")
	p.press("Escape", false)
	p.settled()
	p.press("y", false)
	if text, e := p.ran(second); text != "after\n" {
		p.t.Errorf("%q %v", text, e)
	}
}

// moment waits past the moment in which answers do not count, where there are none.
func (p *person) moment() {
	p.eval("new Promise((done) => setTimeout(done, 600))")
}

func pageAnswersGroups(p *person) {
	first := p.ask("echo one", client.WithGroup("g"))
	second := call(p.t.Context(), p.session, "shell", map[string]any{"command": "echo two"}, client.WithGroup("g"))
	p.see("Allow all 2 of the group")
	p.settled()
	p.picture("group-light")
	p.press("A", false)
	p.see("allows shell: Execute: echo two")
	p.waits(first, "a group was allowed by one key")
	p.settled()
	p.press("A", false)
	for want, ch := range map[string]<-chan ended{"one\n": first, "two\n": second} {
		if text, e := p.ran(ch); text != want {
			p.t.Errorf("%q %v", text, e)
		}
	}
}

// pageFitsAPhone: nothing is wider than the screen, in either colours, and the buttons
// are in sight.
func pageFitsAPhone(p *person) {
	ch := p.ask("for f in *.html; do cat \"$f\"; done # " + strings.Repeat("long", 60))
	for _, scheme := range []string{"light", "dark"} {
		p.window(360, 740, scheme)
		p.settled()
		p.picture("phone-" + scheme)
		p.until("document.documentElement.scrollWidth <= 360")
		p.until(`[...document.querySelectorAll("button[data-answer]")].every((b) => { const r = b.getBoundingClientRect(); return r.right <= 360 && r.bottom <= 740; })`)
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
// ended, and the log has it all.
func pageShowsWhatGoesOn(p *person) {
	ch := p.ask("sleep 62.25")
	p.press("y", false)
	p.idle()
	p.click("nav button", "Activity")
	p.see("shell {\"command\":\"sleep 62.25\"}")
	p.see("coder: ")
	p.see("approved")
	ready := `[...document.querySelectorAll("[data-ends]")].length > 0 && [...document.querySelectorAll("[data-ends]")].every((b) => b.getAttribute("aria-disabled") === "false")`
	p.until(ready)
	p.picture("activity-light")
	p.clickAt(p.middle("button", "Kill"), 2)
	p.see("Kill: click again")
	p.waits(ch, "a double click has killed a call")
	p.until(ready)
	p.click("button", "Kill: click again")
	if _, e := p.ran(ch); e == nil || e.Code != protocol.CodeCancelled || !strings.Contains(e.Message, "an operator ended the call") {
		p.t.Errorf("%+v", e)
	}
	p.see("None.")
	p.window(360, 740, "dark")
	p.until(ready)
	p.picture("activity-phone-dark")
	p.until("document.documentElement.scrollWidth <= 360")
	p.window(1200, 800, "light")

	other := p.serving.session("another")
	p.see("another: ")
	p.until(ready)
	p.eval(`[...document.querySelectorAll(".things li")].find((li) => li.innerText.includes("another: ")).querySelector("button").scrollIntoView()`)
	at := p.middle(`[data-ends="`+string(other.SessionID)+`"]`, "End")
	p.clickAt(at, 1)
	p.see("End: click again")
	p.until(ready)
	p.click("button", "End: click again")
	p.until(`!document.querySelector('[data-ends="` + string(other.SessionID) + `"]')`)
	if _, e := p.ran(call(p.t.Context(), other, "shell", map[string]any{"command": "echo x"})); e == nil || e.Code != protocol.CodeUnknownSession {
		p.t.Errorf("%+v", e)
	}
	p.see("ended by an operator another")
	p.press("y", false) // no key of the other view counts here
	p.click("nav button", "Requests")
	p.see("Nothing waits")
}
