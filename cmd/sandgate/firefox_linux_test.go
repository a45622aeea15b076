package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// firefox speaks WebDriver BiDi.
type firefox struct {
	*wire
	context string // of the one page
}

// firefoxPrefs are what a browser without a person needs: nothing is fetched at its start,
// nothing is asked, and names below localhost lead to the tunnel's end.
const firefoxPrefs = `
user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutConfig.showWarning", false);
user_pref("browser.safebrowsing.update.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("focusmanager.testmode", true);
user_pref("layout.css.prefers-color-scheme.content-override", 1);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.proxy.type", 0);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
user_pref("toolkit.telemetry.server", "");
`

func newFirefox(t *testing.T, prefs ...string) *browser {
	t.Helper()
	needsScreens(t)
	var program string
	for _, name := range []string{"firefox-esr", "firefox"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Fatal("no Firefox to open the page with: `make page` installs one")
	}
	profile := t.TempDir()
	if err := os.WriteFile(profile+"/user.js", []byte(firefoxPrefs+strings.Join(prefs, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &firefox{wire: newWire(t, "WebDriver BiDi listening on ", "/session", program, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", profile)}
	f.must("session.new", map[string]any{"capabilities": struct{}{}}, nil)
	f.must("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}}, nil)
	var tree struct{ Contexts []struct{ Context string } }
	f.must("browsingContext.getTree", nil, &tree)
	f.context = tree.Contexts[0].Context
	f.must("browsingContext.activate", map[string]any{"context": f.context}, nil)
	return &browser{t, f}
}

func (f *firefox) navigate(url string) {
	f.must("browsingContext.navigate", map[string]any{"context": f.context, "url": url, "wait": "none"}, nil)
}

func (f *firefox) evaluate(expression string) any {
	var r struct {
		Type   string
		Result remote
	}
	refused := f.send("script.evaluate", map[string]any{"expression": expression, "target": map[string]string{"context": f.context}, "awaitPromise": true}, &r)
	if refused != "" || r.Type != "success" {
		return nil
	}
	return r.Result.value()
}

// A remote is a value of the page, as the protocol writes it.
type remote struct {
	Type  string
	Value json.RawMessage
}

func (r remote) value() (v any) {
	if r.Type == "array" {
		var parts []remote
		if json.Unmarshal(r.Value, &parts) != nil {
			return nil
		}
		list := []any{}
		for _, p := range parts {
			list = append(list, p.value())
		}
		return list
	}
	if len(r.Value) == 0 || json.Unmarshal(r.Value, &v) != nil {
		return nil
	}
	return v
}

func (f *firefox) perform(kind string, actions ...map[string]any) {
	f.must("input.performActions", map[string]any{"context": f.context, "actions": []any{map[string]any{"type": kind, "id": kind, "actions": actions}}}, nil)
}

func (f *firefox) key(name string, repeated bool) {
	if code, ok := map[string]string{"Enter": "\ue006", "Escape": "\ue00c", "Tab": "\ue004"}[name]; ok {
		name = code
	}
	f.perform("key", map[string]any{"type": "keyDown", "value": name}, map[string]any{"type": "keyUp", "value": name})
}

func (f *firefox) insert(text string) {
	for _, r := range text {
		f.key(string(r), false)
	}
}

func (f *firefox) mouse(p point, count int) {
	actions := []map[string]any{{"type": "pointerMove", "x": int(p.x), "y": int(p.y)}}
	for range count {
		actions = append(actions, map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0})
	}
	f.perform("pointer", actions...)
}

// resize leaves the colours as they are: the protocol has none.
func (f *firefox) resize(width, height int, _ string) {
	f.must("browsingContext.setViewport", map[string]any{"context": f.context, "viewport": map[string]int{"width": width, "height": height}}, nil)
}

func (f *firefox) shot() string {
	var shot struct{ Data string }
	f.must("browsingContext.captureScreenshot", map[string]any{"context": f.context}, &shot)
	return shot.Data
}
