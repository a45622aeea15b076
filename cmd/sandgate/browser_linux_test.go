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

// A browser is a headless Chromium that a test drives as a person would, over its
// debugging protocol: keys and clicks go through its input, and not into scripts.
type browser struct {
	t    *testing.T
	ws   *websocket.Conn
	page string // session of the one page

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	errors  []string // that the page's scripts and policies reported
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// newBrowser starts one. A browser is no part of what sandgate needs, and takes its time:
// `make page`, which continuous integration runs as well, installs one and says here that
// nothing may be left out.
func newBrowser(t *testing.T, flags ...string) *browser {
	t.Helper()
	if os.Getenv("SANDGATE_NEEDS_CHROMIUM") == "" {
		t.Skip("drives a browser: `make page` installs one and runs this test")
	}
	var program string
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Fatal("no Chromium to open the page with: `make page` installs one")
	}
	flags = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
		"--remote-debugging-port=0", "--user-data-dir=" + t.TempDir()}, flags...)
	c := exec.Command(program, append(flags, "about:blank")...)
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
	b := &browser{t: t, waiting: map[int]chan reply{}}
	if b.ws, _, err = websocket.Dial(t.Context(), listening(t, bufio.NewScanner(stderr)), nil); err != nil {
		t.Fatal(err)
	}
	b.ws.SetReadLimit(64 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		b.ws.CloseNow()
	})
	b.newPage()
	return b
}

// listening is the address that Chromium prints at its start.
func listening(t *testing.T, lines *bufio.Scanner) string {
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
			go func() {
				for lines.Scan() { // it must not stop at a full pipe
				}
			}()
			return address
		}
	}
	t.Fatal("Chromium did not start")
	return ""
}

func (b *browser) newPage() {
	var target struct{ TargetID string }
	b.must("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.page = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.must(domain+".enable", nil, nil)
	}
	b.must("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
}

func (b *browser) read(ctx context.Context) {
	for {
		_, text, err := b.ws.Read(ctx)
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
		b.mu.Lock()
		switch {
		case m.ID != 0:
			b.waiting[m.ID] <- m.reply
			delete(b.waiting, m.ID)
		case m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded":
			b.errors = append(b.errors, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// must sends one command and takes its result.
func (b *browser) must(method string, params, result any) {
	b.t.Helper()
	if refused := b.send(method, params, result); refused != "" {
		b.t.Fatalf("%s: %s", method, refused)
	}
}

// send is must that says why the browser did not do it.
func (b *browser) send(method string, params, result any) (refused string) {
	b.t.Helper()
	b.mu.Lock()
	b.last++
	id, ch := b.last, make(chan reply, 1)
	b.waiting[id] = ch
	b.mu.Unlock()
	if params == nil {
		params = struct{}{}
	}
	message := map[string]any{"id": id, "method": method, "params": params}
	if b.page != "" {
		message["sessionId"] = b.page
	}
	text, err := json.Marshal(message)
	if err == nil {
		err = b.ws.Write(b.t.Context(), websocket.MessageText, text)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case r := <-ch:
		if r.Error != nil {
			return r.Error.Message
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-time.After(20 * time.Second):
		b.t.Fatalf("%s: no answer", method)
	}
	return ""
}

// open goes to an address.
func (b *browser) open(url string) { b.must("Page.navigate", map[string]any{"url": url}, nil) }

// reload loads the page again and returns when the new one is there: what a test sees next
// is never a rest of the old one.
func (b *browser) reload() {
	b.t.Helper()
	b.eval("window.isOld = true; location.reload()")
	b.until("!window.isOld && document.readyState === 'complete'")
}

// eval is the value of an expression in the page; nil if it throws, or if the page is just
// going away.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	refused := b.send("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if refused != "" || r.ExceptionDetails != nil {
		return nil
	}
	return r.Result.Value
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
	for deadline := time.Now().Add(20 * time.Second); b.eval(expression) != true; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not so: %s\n%s\n%s", expression, b.text(), b.complaints())
		}
	}
}

func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.errors, "\n")
}

// forgive drops the complaints that there were.
func (b *browser) forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = nil
}

// click presses the mouse in the middle of the first element that has the text.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	b.clickAt(b.middle(selector, text), 1)
}

type point struct{ x, y float64 }

func (b *browser) middle(selector, text string) point {
	b.t.Helper()
	at, ok := b.eval(fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%s)].find((e) => e.innerText.includes(%s) && e.offsetParent);
		if (!e) return null;
		e.scrollIntoView({block: "nearest"});
		const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, quoteJS(selector), quoteJS(text))).([]any)
	if !ok {
		b.t.Fatalf("no %s with %q on the page:\n%s", selector, text, b.text())
	}
	return point{at[0].(float64), at[1].(float64)}
}

func (b *browser) clickAt(p point, count int) {
	b.t.Helper()
	for i := range count {
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			b.must("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": p.x, "y": p.y, "button": "left", "clickCount": i + 1}, nil)
		}
	}
}

// press presses one key; repeated is a key that is held down.
func (b *browser) press(key string, repeated bool) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key, "autoRepeat": repeated}
	if len(key) == 1 {
		down["text"] = key
	}
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}
	if c, ok := codes[key]; ok {
		down["windowsVirtualKeyCode"] = c
		if key == "Enter" {
			down["text"] = "\r"
		}
	}
	b.must("Input.dispatchKeyEvent", down, nil)
	b.must("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// write types a text into what has the focus.
func (b *browser) write(text string) {
	b.t.Helper()
	b.must("Input.insertText", map[string]any{"text": text}, nil)
}

// window sets size and colours.
func (b *browser) window(width, height int, scheme string) {
	b.must("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.must("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// picture keeps what is on the screen in the directory of SANDGATE_SCREENSHOTS, if it is
// set, for a person to look at.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("SANDGATE_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.must("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
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
