package hooks

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/hujson"
)

var testArgv = []string{"/opt/my tools/sandgate", "hook", "claude-code", "--ask=operator"}

// settingsCases are files as people have them.
var settingsCases = []string{
	"",
	"{}",
	"{}\n",
	"{\n  \"model\": \"x\"\n}\n",
	"{\n\t\"permissions\": {\"deny\": [\"Read(.env)\"] },\n\t// mine\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"./audit.sh hook\"}]},\n\t\t],\n\t},\n}\n",
	`{"hooks":{"PreToolUse":[]},"z":1e3}`,
	`{"hooks":{},"a":"\u00e9"}`,
	"{\n    \"hooks\": {\n        \"Stop\": [\n            {\n                \"hooks\": []\n            }\n        ]\n    },\n    \"last\": [1,   2]\n}",
	`{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"sandgate hook claude-code --old","timeout":1},{"type":"command","command":"mine"}]}]}}`,
}

func standard(t *testing.T, data []byte) any {
	t.Helper()
	plain, err := hujson.Standardize(append([]byte(nil), data...))
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	var v any
	if err := json.Unmarshal(plain, &v); err != nil {
		t.Fatalf("%s: %v", plain, err)
	}
	return v
}

// TestInstall is what becomes of files; the golden file shows each.
func TestInstall(t *testing.T) {
	var out strings.Builder
	for _, before := range settingsCases {
		out.WriteString("=== before\n" + before + "\n--- installed\n")
		checkInstall(t, []byte(before), &out)
	}
	for _, name := range Names() {
		installed, err := Runtimes()[name].Install(nil, []string{"/usr/bin/sandgate", "hook", name}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("=== " + name + "\n" + string(installed))
	}
	const file = "testdata/install.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n%v", out.String(), want, err)
	}
}

// checkInstall: once is as good as twice, the hook is there, uninstalling takes it out
// again and nothing else.
func checkInstall(t *testing.T, before []byte, out *strings.Builder) {
	r := claudeCode()
	once, err := r.Install(before, testArgv, time.Minute)
	if err != nil {
		return
	}
	out.Write(once)
	twice, err := r.Install(once, testArgv, time.Minute)
	if err != nil || string(twice) != string(once) {
		t.Errorf("installed twice: %v\n%s\nnot\n%s", err, twice, once)
	}
	if n := strings.Count(string(once), `hook' 'claude-code' '--ask=operator'`); n != 2 {
		t.Errorf("%d hooks in\n%s", n, once)
	}
	removed, err := r.Uninstall(once)
	if err != nil {
		t.Fatal(err)
	}
	never, err := r.Uninstall(before)
	if err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(string(never))) == 0 {
		never = []byte("{}")
	}
	if !reflect.DeepEqual(prune(standard(t, removed)), prune(standard(t, never))) {
		t.Errorf("uninstalled:\n%s\nwithout it:\n%s", removed, never)
	}
}

// prune drops empty lists of hooks, which uninstalling takes with the last hook in them.
func prune(v any) any {
	root, _ := v.(map[string]any)
	hooks, _ := root["hooks"].(map[string]any)
	for event, list := range hooks {
		if l, ok := list.([]any); ok && len(l) == 0 {
			delete(hooks, event)
		}
	}
	if len(hooks) == 0 {
		delete(root, "hooks")
	}
	return root
}

func TestSettingsThatAreNotChanged(t *testing.T) {
	for _, bad := range []string{`[]`, `{"hooks": []}`, `{"hooks": {"PreToolUse": {}}}`, `{"hooks": {}, "hooks": {}}`, `{"a": 1,`, `null`, "\xff"} {
		if out, err := claudeCode().Install([]byte(bad), testArgv, time.Minute); err == nil {
			t.Errorf("%s became %s", bad, out)
		}
		if out, err := claudeCode().Uninstall([]byte(bad)); err == nil {
			t.Errorf("%s became %s", bad, out)
		}
	}
}

// TestOthersHooksStay: whose a command is, is told by what it runs.
func TestOthersHooksStay(t *testing.T) {
	for command, ours := range map[string]bool{
		"sandgate hook claude-code":                   true,
		"'/usr/bin/sandgate' 'hook' 'claude-code'":    true,
		`"/opt/x/sandgate-2" hook claude-code --a b`:  true,
		"'/opt/my tools/sandgate' hook claude-code":   true,
		"sandgate hook codex":                         false,
		"sandgate call shell":                         false,
		"other hook claude-code":                      false,
		"hook claude-code":                            false,
		"echo sandgate; my-hook claude-code":          false,
		"sandgate audit && notify --hook claude-code": false,
	} {
		if got := claudeCode().ours(command); got != ours {
			t.Errorf("%s: %v, want %v", command, got, ours)
		}
	}
}

// FuzzSettings: no file makes it panic, and what is changed is changed once.
func FuzzSettings(f *testing.F) {
	for _, s := range settingsCases {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, before []byte) { checkInstall(t, before, &strings.Builder{}) })
}
