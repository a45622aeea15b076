package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// A presetTool is a program that has to work inside with its preset, and where it
// needs the preset, not without.
type presetTool struct {
	preset, program string
	files           map[string]string // in the workspace
	command         []string
	env             string // what the configuration sets
	want            string // in the output
	ours            bool   // scripts/bootstrap installs it, so it is never skipped in CI
}

var presetTools = []presetTool{
	{preset: "go", program: "go", ours: true, command: []string{"go", "run", "."}, want: "hello from go", env: `{GOFLAGS: "-mod=mod", GOPROXY: "off", GOSUMDB: "off", GOTOOLCHAIN: local}`,
		files: map[string]string{
			"go.mod":  "module example.org/hello\n\ngo 1.24\n\nrequire github.com/mattn/go-shellwords VERSION\n", // a module that these tests have downloaded
			"main.go": "package main\n\nimport (\n\t\"fmt\"\n\t_ \"github.com/mattn/go-shellwords\"\n)\n\nfunc main() { fmt.Println(\"hello from go\") }\n",
		}},
	{preset: "c", program: "cc", ours: true, command: []string{"sh", "-c", "cc -o hello hello.c && ./hello"}, want: "hello from c",
		files: map[string]string{"hello.c": "#include <stdio.h>\nint main(void) { puts(\"hello from c\"); return 0; }\n"}},
	{preset: "python", program: "python3", ours: true, command: []string{"python3", "-c", `import json, ssl, sqlite3; print("hello from", "python")`}, want: "hello from python"},
	{preset: "git", program: "git", ours: true, command: []string{"sh", "-c", "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m hello && git log --format='%s from git'"}, want: "hello from git"},
	{preset: "node", program: "node", command: []string{"node", "-e", `require("crypto").randomBytes(8); console.log("hello from node")`}, want: "hello from node"},
	{preset: "java", program: "javac", command: []string{"sh", "-c", "javac Hello.java && java Hello"}, want: "hello from java",
		files: map[string]string{"Hello.java": `class Hello { public static void main(String[] a) { System.out.println("hello from java"); } }`}},
	{preset: "rust", program: "rustc", command: []string{"sh", "-c", "rustc -o hello hello.rs && ./hello"}, want: "hello from rust",
		files: map[string]string{"hello.rs": "fn main() { println!(\"hello from rust\"); }\n"}},
	{preset: "ruby", program: "ruby", command: []string{"ruby", "-rjson", "-e", `puts "hello from ruby"`}, want: "hello from ruby"},
	{preset: "perl", program: "perl", command: []string{"perl", "-MPOSIX", "-e", `print "hello from perl\n"`}, want: "hello from perl"},
	{preset: "php", program: "php", command: []string{"php", "-r", `echo "hello from php\n";`}, want: "hello from php"},
	{preset: "dotnet", program: "dotnet", command: []string{"dotnet", "--list-sdks"}, want: "sdk"},
}

// TestPresetsRunTheirToolchains runs each toolchain that this machine has inside
// a real sandbox whose profile is the presets system and its own. A machine that
// lacks one says so; those that scripts/bootstrap installs are on every machine.
func TestPresetsRunTheirToolchains(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	version := versionOf(t, "github.com/mattn/go-shellwords")
	for _, c := range presetTools {
		t.Run(c.preset, func(t *testing.T) {
			found, err := exec.LookPath(c.program)
			switch {
			case err != nil && c.ours && os.Getenv("CI") != "":
				t.Fatal(err)
			case err != nil:
				t.Skipf("not tried: no %s here", c.program)
			}
			status, out, errs := c.run(t, "[system, "+c.preset+"]", version)
			if status != cli.ExitOK || !strings.Contains(out, c.want) {
				t.Fatalf("%s: exit status %d\n%s%s", found, status, out, errs)
			}
			if !c.needsPreset(found) {
				return
			}
			if status, out, _ := c.run(t, "[system]", version); status == cli.ExitOK || strings.Contains(out, c.want) {
				t.Errorf("%s works without the preset: %q", found, out)
			}
		})
	}
}

// needsPreset reports whether the toolchain, or the module that the command uses,
// lies where only the preset reaches, and no other of its name in the system.
func (c presetTool) needsPreset(found string) bool {
	_, err := os.Stat(filepath.Join("/usr/bin", c.program))
	return c.preset == "go" || !strings.HasPrefix(found, "/usr/") && err != nil
}

// versionOf is the version of a module that this one uses itself.
func versionOf(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), name+" ")
	if !ok {
		t.Fatal("go.mod does not name " + name)
	}
	return strings.Fields(rest)[0]
}

// extra is Go's build cache, for speed: without it the standard library is compiled
// each time, into the private HOME.
func (c presetTool) extra(t *testing.T) string {
	t.Helper()
	if c.preset != "go" {
		return ""
	}
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(", cache: {root: %q, mode: rw}", strings.TrimSpace(string(out)))
}

// run is `sandgate run` with some presets.
func (c presetTool) run(t *testing.T, presets, version string) (status int, out, errs string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range c.files {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(strings.ReplaceAll(text, "VERSION", version)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := c.env
	if env == "" {
		env = "{}"
	}
	config := filepath.Join(dir, "sandgate.yaml")
	text := fmt.Sprintf("version: 1\nsandbox:\n  paths: {workspace: {root: ws, mode: rw}%s}\n  presets: %s\n  env: {set: %s}\n", c.extra(t), presets, env)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(ws)
	var stdout, stderr bytes.Buffer
	args := append([]string{"run", "--config", config, "--"}, c.command...)
	status = execute(newApp(strings.NewReader(""), &stdout, &stderr), args)
	return status, stdout.String(), stderr.String()
}
