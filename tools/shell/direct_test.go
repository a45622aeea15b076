package shell

import (
	"encoding/json"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A copy of the test binary under this name prints what it was started with.
const showName = "show"

type shown struct{ Argv, Env []string }

func init() {
	if filepath.Base(os.Args[0]) == showName {
		_ = json.NewEncoder(os.Stdout).Encode(shown{os.Args, os.Environ()})
		os.Exit(0)
	}
}

// bins is a directory with a program that shows its arguments, a script and a file
// that is no program.
func bins(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{showName: string(self), "script": "#!/bin/sh\n", "text": "echo\n"} {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func directTool(t *testing.T, bin string, env ...string) *Tool {
	t.Helper()
	tool, err := New(Config{
		Default: Default{Allowed: true},
		Profile: sandboxprofile.Profile{
			Paths: map[string]sandboxprofile.Rights{bin: sandboxprofile.Read | sandboxprofile.Execute, "/usr": sandboxprofile.Read | sandboxprofile.Execute},
			Env:   sandboxprofile.Env{All: true},
		},
		Env: append([]string{"PATH=" + bin + ":/usr/bin"}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

var directFragments = []string{"show", "show ", "show ", "x", "y ", " ", "'", "'", "\"", "\"", "a=b", "=", "-c", "--", "%1", ":", ",", "..", "/", "'a b'",
	"\"c d\"", "''", "@", "+", ".", "é", "1", "\t", "\\", "$x", "*", "~", "{a,b}", "!", "#", "if", "time ", "true", ";", "&", ">f", "<<E", "(", "`"}

// TestDirectIsWhatBashWouldDo: a command line that is executed without a shell starts
// the program that bash would have started, with the same arguments.
func TestDirectIsWhatBashWouldDo(t *testing.T) {
	bin := bins(t)
	tool, dir := directTool(t, bin), t.TempDir()
	random := rand.New(rand.NewSource(1))
	for done := 0; done < 150; {
		var b strings.Builder
		for range 1 + random.Intn(9) {
			b.WriteString(directFragments[random.Intn(len(directFragments))])
		}
		command := b.String()
		path, argv := tool.direct(command, dir)
		if path == "" || path != filepath.Join(bin, showName) {
			continue
		}
		done++
		cmd := exec.Command("bash", tools.BashReads(command)[1:]...)
		cmd.Dir, cmd.Env = dir, tool.Env
		out, err := cmd.Output()
		var got shown
		if err != nil || json.Unmarshal(out, &got) != nil {
			t.Errorf("%q: %v: %s", command, err, out)
			continue
		}
		if !slices.Equal(got.Argv, argv) {
			t.Errorf("%q: bash starts it with %q, we with %q", command, got.Argv, argv)
		}
		if !slices.Contains(got.Env, "PWD="+dir) || !slices.Contains(withDir(tool.Env, dir), "PWD="+dir) {
			t.Errorf("%q: bash gives it %q, we %q", command, got.Env, withDir(tool.Env, dir))
		}
	}
}

// TestWhatIsLeftToBash: whatever has a meaning to the shell is not executed without it.
func TestWhatIsLeftToBash(t *testing.T) {
	bin := bins(t)
	tool := directTool(t, bin)
	for command, direct := range map[string]bool{
		"show": true, "show a 'b c' \"d\"": true, "'show' x": true, bin + "/show": true, "show a=b": true, "show -- -x": true, "true": true, "'true'": true,
		"true x": false, "echo x": false, "test -f x": false, "x=1 show": false, "show $x": false, "show *": false, "show ~": false, "show {a,b}": false,
		"show; show": false, "show &": false, "! show": false, "time show": false, "show > f": false, "show\nshow": false, "show # x": false,
		"show a\\ b": false, "show \"$x\"": false, "show $'x'": false, "show `x`": false, "(show)": false, "if show": false, "%1": false, "''": false,
		"script": false, "text": false, "missing": false, "source x": false, "exec show": false, "command show": false, "[[ x": false, "select x": false,
	} {
		if path, _ := tool.direct(command, "/"); (path != "") != direct {
			t.Errorf("%q: %q", command, path)
		}
	}
	for _, env := range []string{"BASH_ENV=/x", "BASH_FUNC_show%%=() { :; }", "SHELLOPTS=noexec", "POSIXLY_CORRECT=1", "ENV=x", "EXECIGNORE=*"} {
		if path, _ := directTool(t, bin, env).direct("show", "/"); path != "" {
			t.Errorf("with %s", env)
		}
	}
	relative := directTool(t, bin)
	relative.Env = []string{"PATH=.:" + bin}
	if path, _ := relative.direct("show", "/"); path != "" {
		t.Error("with a search path that is not all absolute")
	}
}

// TestBuiltinsAreKnown: this host's bash does nothing itself that we take for a program.
func TestBuiltinsAreKnown(t *testing.T) {
	out, err := exec.Command("bash", "-c", "compgen -b; compgen -k").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(out))
	if len(names) < 70 {
		t.Fatalf("%q", names)
	}
	for _, name := range names {
		if !ofTheShell([]string{name, "x"}) {
			t.Errorf("%s is built in", name)
		}
	}
}

// TestDirectPlansPinTheProgram: what is approved is the file that runs, and the script
// that it is named to run.
func TestDirectPlansPinTheProgram(t *testing.T) {
	bin := bins(t)
	tool := directTool(t, bin)
	ws := t.TempDir()
	tool.Paths = tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: ws, Write: true}}}
	tool.Profile.Paths[ws] = sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute
	tool, err := New(tool.Config)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(command string) tools.Plan {
		p, err := tool.Plan(tools.Call{Tool: "shell", Args: map[string]any{"command": command}})
		if err != nil {
			t.Fatal(err)
		}
		return p.Plan
	}
	p := plan("show x")
	if e := p.Action.Exec; e.Path != filepath.Join(bin, showName) || len(p.Pins) != 1 || p.Pins[0].Path != e.Path || !slices.Contains(e.Env, "PWD="+ws) {
		t.Errorf("%+v", p)
	}
	if argv := plan("show x; show").Action.Exec.Argv; len(argv) != len(tools.BashReads("")) || tools.CommandOf(argv) != "show x; show" {
		t.Errorf("%q", argv)
	}
	if argv := p.Action.Exec.Argv; len(argv) != 2 || tools.CommandOf(argv) != "show x" {
		t.Errorf("%q is a command line", argv)
	}
}
