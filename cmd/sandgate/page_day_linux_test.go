package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
)

// A day is what an operator finds after agents have worked: a call that planted a file
// where a program of the person's would run it, a session with a call under way, and
// warnings.
type day struct {
	*serving
	running <-chan ended
}

func newDay(t *testing.T) *day {
	t.Helper()
	d := &day{serving: newServing(t, `
version: 1
sandbox: {paths: {workspace: {root: ws, mode: rw}}}
approval: {store: memory}
shell: {default: {allowed: true, approval: false}}
undo: {enabled: true}
`)}
	d.programBeside(t)
	coder := d.session("coder")
	if err := os.WriteFile(d.ws+"/build.sh", []byte("mkdir -p sub/.vscode && echo '{}' > sub/.vscode/tasks.json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.allowed(t, call(t.Context(), coder, "shell", map[string]any{"command": "sh build.sh"}))
	if err := os.WriteFile(d.ws+"/notes", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.allowed(t, call(t.Context(), coder, "shell", map[string]any{"command": "echo lost > notes; touch made"}))
	d.running = call(t.Context(), coder, "shell", map[string]any{"command": "sleep 62.25"})
	// What the supervisor was started with is no longer what lies there.
	if err := os.WriteFile(d.dir+"/sandgate.yaml", []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// allowed allows a call that waits, and returns when it has ended.
func (d *day) allowed(t *testing.T, ch <-chan ended) {
	t.Helper()
	a, err := client.DialApprover(t.Context(), d.operator)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for limit := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		select {
		case e := <-ch:
			if e.err != nil {
				t.Fatal(e.err)
			}
			return
		default:
		}
		list, err := a.List(t.Context())
		if err != nil || time.Now().After(limit) {
			t.Fatal("the call goes on ", err)
		}
		for _, one := range list {
			if _, err := a.Decide(t.Context(), protocol.ApprovalsDecide{ID: one.ID, Decision: protocol.Allow, Scope: approval.Once}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// programBeside puts a sandgate where the supervisor of this process looks for itself.
func (d *day) programBeside(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = copyProgram(self, d.dir+"/sandgate") // this program is sandgate under that name
	}
	if err != nil {
		t.Fatal(err)
	}
	was := cli.ThisProgram
	cli.ThisProgram = func() (string, error) { return d.dir + "/sandgate", nil }
	t.Cleanup(func() { cli.ThisProgram = was })
}

func copyProgram(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// isBack: what the call had changed is as it was.
func (d *day) isBack(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(d.ws + "/notes")
	if _, made := os.Lstat(d.ws + "/made"); err != nil || string(b) != "mine" || made == nil {
		t.Errorf("notes: %q, %v; made: %v", b, err, made)
	}
}

// newKeep has a command whose changes wait for a person, who keeps what they want of them.
func newKeep(t *testing.T) (*day, func() <-chan ended) {
	t.Helper()
	d := &day{serving: newServing(t, `
version: 1
sandbox: {paths: {workspace: {root: ws, mode: rw}}}
approval: {store: memory}
shell: {rules: [{pattern: "sh draft.sh", approval: false, review: true}]}
`)}
	d.programBeside(t)
	if err := os.WriteFile(d.ws+"/draft.sh", []byte("echo good > 'a (kept)'; echo evil > b; printf '\\0\\0\\0' > c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := d.session("drafter")
	return d, func() <-chan ended {
		return call(t.Context(), agent, "shell", map[string]any{"command": "sh draft.sh"})
	}
}

// keptSome: one of three files was kept, and the two others dropped.
func (d *day) keptSome(t *testing.T, ch <-chan ended) {
	t.Helper()
	select {
	case e := <-ch:
		if e.err != nil || !strings.Contains(strings.Join(e.result.Warnings, " "), "a person kept some of what was changed") {
			t.Errorf("%+v", e)
		}
	case <-time.After(30 * time.Second):
		t.Error("the draft is not settled")
	}
	b, err := os.ReadFile(d.ws + "/a (kept)")
	if _, evil := os.Lstat(d.ws + "/b"); err != nil || string(b) != "good\n" || evil == nil {
		t.Errorf("%q, %v; b: %v", b, err, evil)
	}
}

func (d *day) calls(t *testing.T) int {
	t.Helper()
	a, err := client.DialApprover(t.Context(), d.operator)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	list, err := a.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// What stands on the boards after such a day, on every screen.
var dayWords = map[string][]string{
	"activity":   {`coder: "sleep 62.25"`, `coder: "sh build.sh"`, "the sandbox refused write"},
	"sessions":   {"coder, session", "3 calls, 1 under way", "Calls of coder", `"sleep 62.25"`},
	"changes":    {"coder changed in", "echo lost > notes", "~ notes"},
	"quarantine": {"sub/.vscode"},
	"status":     {"Needs attention", "has changed", "Tools are confined by", "entries in the log"},
}

// TestPageOfADay: an operator finds all that on the page, ends a call and a session, and
// deletes what was planted.
func TestPageOfADay(t *testing.T) {
	b := newBrowser(t)
	d := newDay(t)
	p := &person{browser: b, serving: d.serving, t: t}
	b.window(1280, 800, "light")
	b.open(d.link())
	b.see("Nothing is waiting")
	b.until("document.querySelectorAll('nav button').length > 0")
	for name, words := range dayWords {
		p.click("nav button", strings.ToUpper(name[:1])+name[1:])
		for _, w := range words {
			p.see(w)
		}
		p.picture("day-" + name)
	}
	p.click("nav button", "Changes")
	p.see("echo lost > notes")
	p.ready()
	p.click("button", "Undo")
	p.see("Restore 2 files")
	p.ready()
	p.click(".sure button", "Undo")
	p.see("Undone in")
	d.isBack(t)
	p.click("nav button", "Quarantine")
	p.see("sub/.vscode")
	p.ready()
	p.click("button", "Delete")
	p.see("and all of its content?")
	p.ready()
	p.click(".sure button", "Delete")
	p.see("The quarantine is empty.")
	p.click("nav button", "Sessions")
	p.see("Calls of coder")
	p.ready()
	p.click("button", "Kill")
	p.see("and everything that it started?")
	p.ready()
	p.click(".sure button", "Kill")
	if _, e := p.ran(d.running); e == nil || e.Code != protocol.CodeCancelled {
		t.Errorf("%+v", e)
	}
	p.see("3 calls, 0 under way")
	p.ready()
	p.click("button", "End")
	p.see("kill every call that it runs by then? coder, session")
	p.ready()
	p.click(".sure button", "End")
	p.see("No agent has a session.")
}

// TestPageOfADayOnATerminal is the same in a terminal.
func TestPageOfADayOnATerminal(t *testing.T) {
	needsScreens(t)
	d := newDay(t)
	x := newScreen(t, d.operator, 100, 30)
	x.see("nothing is waiting")
	for key, name := range map[string]string{"2": "activity", "3": "sessions", "6": "changes", "7": "quarantine", "8": "status"} {
		x.press(key, "["+key+" "+name+"]")
		for _, w := range dayWords[name] {
			x.see(w)
		}
	}
	x.press("6", "echo lost > notes")
	x.mark(`"echo lost`)
	x.press("a", "Restore 2 files")
	x.press("y", "Undone in")
	d.isBack(t)
	x.press("7", "sub/.vscode")
	x.mark("")
	x.press("b", "and all of its content?")
	x.press("y", "The quarantine is empty.")
	x.press("3", "Calls of coder")
	x.mark(`coder: "sleep 62.25"`)
	x.press("a", "and everything that it started?")
	x.press("y", "3 calls, 0 under way")
	select {
	case <-d.running:
	case <-time.After(30 * time.Second):
		t.Error("the call goes on")
	}
	if n := d.calls(t); n != 0 {
		t.Errorf("%d calls are under way", n)
	}
	x.mark("coder, session")
	x.press("a", "kill every call that it runs by then? coder, session")
	x.press("y", "No agent has a session.")
}

// TestPageKeepsSomeOfADraft: what a draft changes is shown, some of it is chosen, shown by itself
// and kept; what no screen shows takes an answer of its own, and nothing of it is remembered.
func TestPageKeepsSomeOfADraft(t *testing.T) {
	b := newBrowser(t)
	d, run := newKeep(t)
	p := &person{browser: b, serving: d.serving, t: t}
	b.window(1280, 800, "light")
	b.open(d.link())
	b.see("Nothing is waiting")
	ch := run()
	p.see("Keep what draft")
	for _, want := range []string{`* + "a (kept)"`, "+good", "+evil", "No screen can show what becomes of 1 name: + c"} {
		if want == "No screen can show what becomes of 1 name: + c" { // however much was read
			p.settled()
			p.press("y", false)
		}
		p.see(want)
	}
	p.picture("keep-light")
	p.waits(ch, "kept unseen")
	p.press("Escape", false)
	p.settled()
	p.press("r", false)
	p.see("Each such request is answered on its own")
	p.press("e", false)
	p.until("document.activeElement.id === 'arguments'")
	p.eval(`document.querySelector('#arguments').value = JSON.stringify({keep: ["a (kept)"]})`)
	p.click("button", "Preview the edited call")
	p.see("and drop the other 2")
	p.until("!document.querySelector('.content').innerText.includes('evil')")
	p.scrollThrough()
	p.settled()
	p.press("y", false)
	d.keptSome(t, ch)
}

// TestPageKeepsSomeOfADraftOnATerminal is the same in a terminal.
func TestPageKeepsSomeOfADraftOnATerminal(t *testing.T) {
	needsScreens(t)
	d, run := newKeep(t)
	x := newScreen(t, d.operator, 100, 30)
	x.see("nothing is waiting")
	ch := run()
	for _, want := range []string{"wants to keep what draft", `(kept)"`, "+good", "+evil"} {
		x.see(want)
	}
	x.press("y", "No screen can show what becomes of 1 name: + c")
	x.press("Escape", "not answered")
	x.press("r", "no answer can be remembered")
	x.press("e", "> ")
	x.enter(`{"keep": ["a (kept)"]}`, "and drop the other 2")
	x.gone("evil")
	time.Sleep(aMoment)
	x.tmux("send-keys", "y")
	d.keptSome(t, ch)
}

// TestPageBrowserStartsInside has a browser open a page in the sandbox, as tests of people's
// own pages do.
func TestPageBrowserStartsInside(t *testing.T) {
	t.Parallel()
	program := browserProgram(t)
	dir := t.TempDir()
	for _, backend := range []string{"bwrap", "landlock"} {
		cmd := exec.Command("sandgate", "run", "--backend", backend, "--", program, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
			"data:text/html,<p id=x></p><script>x.textContent=6*7</script>")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `<p id="x">42</p>`) {
			t.Errorf("%s: %v\n%s", backend, err, out)
		}
	}
}

// TestPageFloodOnABoard: an agent opens thousands of sessions. The board of them stays quick, and a person ends one, and finds
// what they are looking for.
func TestPageFloodOnABoard(t *testing.T) {
	p := openPage(t, pageConfig)
	agent, err := client.DialAgent(t.Context(), p.serving.agent)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	const many = 3000
	for i := range many {
		if _, err := agent.OpenSession(t.Context(), protocol.SessionOpen{Agent: fmt.Sprint("flood-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	p.longest()
	begun := time.Now()
	p.click("nav button", "Sessions")
	p.see(fmt.Sprintf("%d of them", many+1-100))
	listed := time.Since(begun)
	for range 3 { // as it is told anew
		time.Sleep(2 * time.Second)
	}
	blocked := p.longest()
	p.ready()
	p.click("button", "End")
	p.see("kill every call that it runs by then?")
	p.ready()
	p.click(".sure button", "End")
	p.see("The session has ended.")
	t.Logf("%d sessions: the board is there after %v, longest task %v ms", many, listed, blocked)
	if blocked > 500 || listed > 10*time.Second {
		t.Errorf("%d sessions: the board is there after %v, longest task %v ms", many, listed, blocked)
	}
}
