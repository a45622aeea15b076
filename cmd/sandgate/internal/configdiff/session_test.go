package configdiff

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
)

// A sessionCall is one line of testdata/session.txt.
type sessionCall struct {
	tool, line string
	leaves     bool
}

func sessionCalls(t *testing.T) (calls []sessionCall) {
	t.Helper()
	b, err := os.ReadFile("testdata/session.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		tool, rest, _ := strings.Cut(line, " ")
		rest, leaves := strings.CutSuffix(rest, " leaves")
		calls = append(calls, sessionCall{tool, rest, leaves})
	}
	return calls
}

func (c sessionCall) args() []byte {
	args := map[string]any{"path": c.line}
	switch c.tool {
	case "shell":
		args = map[string]any{"command": c.line}
	case "grep":
		args = map[string]any{"pattern": c.line}
	case "write_file":
		args["content"] = "x\n"
	case "edit_file":
		args["old_string"], args["new_string"] = "TODO", "DONE"
	}
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return b
}

// TestASessionAsksFewQuestions counts what a session of a coding agent is asked about under
// the configuration that `config init` writes for its project: at most 6 times as it is,
// under balanced, each time about something that leaves the sandbox, and at most 20 times
// under careful.
func TestASessionAsksFewQuestions(t *testing.T) {
	calls := sessionCalls(t)                               // before the directory changes
	top, err := os.MkdirTemp("/var/tmp", "sandgate-test-") // beside a project in /tmp, a line that only reads could not write there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	site := newMergeSiteIn(t, top)
	dir := site.env.Cwd
	for name, content := range map[string]string{
		"package.json": "{}", "pyproject.toml": "", "go.mod": "module example.com/app\n", "README.md": "# App\n", "NOTES.md": "notes\n", "src/app.js": "// TODO\n", "scripts/gen.py": "print()\n", "Makefile": "all:\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := string(config.Init("", settings.NamesIn(dir)...))
	if !strings.Contains(text, "\npolicy: balanced\n") {
		t.Fatal("config init writes another policy")
	}
	if len(calls) != 61 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, policy := range []struct {
		name string
		most int
	}{{"careful", 20}, {"balanced", 6}} {
		asked := askedIn(t, site, strings.Replace(text, "\npolicy: balanced\n", "\npolicy: "+policy.name+"\n", 1), calls)
		t.Logf("%s asks %d times of %d", policy.name, len(asked), len(calls))
		if len(asked) > policy.most {
			t.Errorf("%s asks %d times, want at most %d:\n%s", policy.name, len(asked), policy.most, strings.Join(asked, "\n"))
		}
		for _, c := range calls {
			if policy.name == "balanced" && slices.Contains(asked, c.line) && !c.leaves {
				t.Errorf("balanced asks about %q, which stays in the sandbox", c.line)
			}
		}
	}
}

// askedIn are the calls that a configuration asks about. None may be refused but docker,
// which cannot work.
func askedIn(t *testing.T, site mergeSite, text string, calls []sessionCall) (asked []string) {
	t.Helper()
	layer, ok := site.layer(config.TierUser, true, nil)
	if !ok {
		t.Fatal("no layer")
	}
	var err error
	if layer.Config, err = config.Parse([]byte(text), layer.Name, site.env); err != nil {
		t.Fatal(err)
	}
	cfg, ok := site.merged(layer)
	if !ok {
		t.Fatal("the file does not merge")
	}
	d, err := ruleservice.NewLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range calls {
		got, err := d.TestRules(context.Background(), protocol.RulesTest{Tool: protocol.ToolName(c.tool), Args: c.args()})
		switch {
		case err != nil:
			t.Errorf("%s %s: %v", c.tool, c.line, err)
		case got.Decision == protocol.CheckAsk:
			asked = append(asked, c.line)
		case got.Decision == protocol.CheckDeny:
			if !strings.HasPrefix(c.line, "docker ") {
				t.Errorf("%s %s is refused: %+v", c.tool, c.line, got)
			}
		}
	}
	return asked
}
