package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A browser is one without a window that a test drives as a person would: keys and clicks
// go through its input, and not into scripts.
type browser struct {
	t *testing.T
	engine
}

// An engine is what is particular to one browser.
type engine interface {
	navigate(url string)
	// evaluate is the value of an expression in the page; nil if it throws, or if the page
	// is just going away.
	evaluate(expression string) any
	// key presses and releases one key; repeated is one that is held down.
	key(name string, repeated bool)
	mouse(at point, count int)
	insert(text string)
	resize(width, height int, scheme string)
	shot() (png string) // base64
	complaints() string
	forgive()
	test(*testing.T) // which test failures are of
}

type point struct{ x, y float64 }

// A wire is the debugging protocol of a browser: numbered commands with their results, and
// events.
type wire struct {
	t       *testing.T
	ws      *websocket.Conn
	session string // Chromium's of the one page

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	errors  []string // that the page's scripts and policies reported
}

type reply struct {
	Result  json.RawMessage
	Error   json.RawMessage // an object in one protocol, a word in the other
	Message string
}

// newWire starts a browser, and connects to the address that it prints after some words.
func newWire(t *testing.T, words, path string, command ...string) *wire {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is found may be a script that starts it
	stderr, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		c.Wait()
	})
	w := &wire{t: t, waiting: map[int]chan reply{}}
	if w.ws, _, err = websocket.Dial(t.Context(), listening(t, bufio.NewScanner(stderr), words)+path, nil); err != nil {
		t.Fatal(err)
	}
	w.ws.SetReadLimit(64 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.read(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		w.ws.CloseNow()
	})
	return w
}

// listening is the address that a browser prints at its start.
func listening(t *testing.T, lines *bufio.Scanner, words string) string {
	t.Helper()
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), words); ok {
			go func() {
				for lines.Scan() { // it must not stop at a full pipe
				}
			}()
			return address
		}
	}
	t.Fatal("the browser did not start")
	return ""
}

func (w *wire) read(ctx context.Context) {
	for {
		_, text, err := w.ws.Read(ctx)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		w.mu.Lock()
		switch {
		case m.ID != 0:
			w.waiting[m.ID] <- m.reply
			delete(w.waiting, m.ID)
		case m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" || m.Method == "log.entryAdded" && strings.Contains(string(m.Params), `"level":"error"`):
			w.errors = append(w.errors, string(m.Params))
		}
		w.mu.Unlock()
	}
}

// must sends one command and takes its result.
func (w *wire) must(method string, params, result any) {
	w.t.Helper()
	if refused := w.send(method, params, result); refused != "" {
		w.t.Fatalf("%s: %s", method, refused)
	}
}

// send is must that says why the browser did not do it.
func (w *wire) send(method string, params, result any) (refused string) {
	w.t.Helper()
	w.mu.Lock()
	w.last++
	id, ch := w.last, make(chan reply, 1)
	w.waiting[id] = ch
	w.mu.Unlock()
	if params == nil {
		params = struct{}{}
	}
	message := map[string]any{"id": id, "method": method, "params": params}
	if w.session != "" {
		message["sessionId"] = w.session
	}
	text, err := json.Marshal(message)
	if err == nil {
		err = w.ws.Write(w.t.Context(), websocket.MessageText, text)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	select {
	case r := <-ch:
		if len(r.Error) > 0 {
			return string(r.Error) + " " + r.Message
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				w.t.Fatal(err)
			}
		}
	case <-time.After(60 * time.Second):
		w.t.Fatalf("%s: no answer", method)
	}
	return ""
}

func (w *wire) test(t *testing.T) { w.t = t }

func (w *wire) complaints() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.errors, "\n")
}

// forgive drops the complaints that there were.
func (w *wire) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = nil
}

// chromium speaks the DevTools protocol.
type chromium struct{ *wire }

// browserProgram is a Chromium.
func browserProgram(t *testing.T) string {
	t.Helper()
	needsScreens(t)
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Fatal("no Chromium to open the page with: `make page` installs one")
	return ""
}

func newBrowser(t *testing.T, flags ...string) *browser {
	t.Helper()
	program := browserProgram(t)
	command := append([]string{program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
		"--remote-debugging-port=0", "--user-data-dir=" + t.TempDir()}, flags...)
	c := chromium{newWire(t, "DevTools listening on ", "", append(command, "about:blank")...)}
	var target struct{ TargetID string }
	c.must("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		c.must(domain+".enable", nil, nil)
	}
	c.must("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	return &browser{t, c}
}

func (c chromium) navigate(url string) { c.must("Page.navigate", map[string]any{"url": url}, nil) }

func (c chromium) evaluate(expression string) any {
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	refused := c.send("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if refused != "" || r.ExceptionDetails != nil {
		return nil
	}
	return r.Result.Value
}

func (c chromium) mouse(p point, count int) {
	for i := range count {
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			c.must("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": p.x, "y": p.y, "button": "left", "clickCount": i + 1}, nil)
		}
	}
}

func (c chromium) key(key string, repeated bool) {
	down := map[string]any{"type": "keyDown", "key": key, "autoRepeat": repeated}
	if len(key) == 1 {
		down["text"] = key
	}
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}
	if n, ok := codes[key]; ok {
		down["windowsVirtualKeyCode"] = n
		if key == "Enter" {
			down["text"] = "\r"
		}
	}
	c.must("Input.dispatchKeyEvent", down, nil)
	c.must("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

func (c chromium) insert(text string) { c.must("Input.insertText", map[string]any{"text": text}, nil) }

func (c chromium) resize(width, height int, scheme string) {
	c.must("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	features := []any{map[string]string{"name": "prefers-color-scheme", "value": strings.TrimSuffix(scheme, " forced")}}
	if strings.HasSuffix(scheme, " forced") {
		features = append(features, map[string]string{"name": "forced-colors", "value": "active"})
	}
	c.must("Emulation.setEmulatedMedia", map[string]any{"features": features}, nil)
}

func (c chromium) shot() string {
	var shot struct{ Data string }
	c.must("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	return shot.Data
}

// open goes to an address.
func (b *browser) open(url string) {
	b.t.Helper()
	b.navigate(url)
}

// reload loads the page again and returns when the new one is there: what a test sees next
// is never a rest of the old one.
func (b *browser) reload() {
	b.t.Helper()
	b.eval("window.isOld = true; location.reload()")
	b.until("!window.isOld && document.readyState === 'complete'")
}

func (b *browser) eval(expression string) any {
	b.t.Helper()
	return b.evaluate(expression)
}

// text is what the page says, as a person reads it.
func (b *browser) text() string {
	text, _ := b.eval("document.body.innerText").(string)
	return text
}

// see waits until the page says a text.
func (b *browser) see(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%s)", quoteJS(text)))
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	b.within(30*time.Second, expression)
}

func (b *browser) within(d time.Duration, expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(d); b.eval(expression) != true; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not so: %s\n%s\n%s", expression, b.text(), b.complaints())
		}
	}
}

// click presses the mouse in the middle of the first element that has the text.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	b.clickAt(b.middle(selector, text), 1)
}

func (b *browser) middle(selector, text string) point {
	b.t.Helper()
	at, ok := b.eval(fmt.Sprintf(`(() => {
		const text = %s, all = [...document.querySelectorAll(%s)].filter((e) => e.offsetParent);
		const e = all.find((e) => e.innerText.trim() === text) || all.find((e) => e.innerText.includes(text));
		if (!e) return null;
		e.scrollIntoView({block: "nearest"});
		const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, quoteJS(text), quoteJS(selector))).([]any)
	if !ok {
		b.t.Fatalf("no %s with %q on the page:\n%s", selector, text, b.text())
	}
	return point{at[0].(float64), at[1].(float64)}
}

func (b *browser) clickAt(p point, count int) {
	b.t.Helper()
	b.mouse(p, count)
}

// press presses one key; repeated is a key that is held down.
func (b *browser) press(key string, repeated bool) {
	b.t.Helper()
	b.key(key, repeated)
}

// write types a text into what has the focus.
func (b *browser) write(text string) {
	b.t.Helper()
	b.insert(text)
}

// window sets size and colours: light, dark, or one of them with forced colours.
func (b *browser) window(width, height int, scheme string) { b.resize(width, height, scheme) }

// picture keeps what is on the screen in the directory of SANDGATE_SCREENSHOTS, if it is
// set, for a person to look at.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("SANDGATE_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := base64.StdEncoding.DecodeString(b.shot())
	if err == nil {
		err = os.WriteFile(dir+"/"+regexp.MustCompile(`\W+`).ReplaceAllString(name, "-")+".png", png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func quoteJS(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
