package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

var update = flag.Bool("update", false, "rewrite the expected outputs that the scripts compare with")

// TestMain lets the test binary stand in for the sandgate binary: a script that
// runs sandgate runs this program again under that name.
func TestMain(m *testing.M) {
	testscript.Main(unreplaced{m}, map[string]func(){"sandgate": main, "without-landlock": withoutLandlock, "without-notifications": withoutNotifications, "listened": listened, "barred": launchBarred, "mcp-test-server": mcpTestServer})
}

// unreplaced are the tests of a process that nothing takes the place of.
type unreplaced struct{ m *testing.M }

func (u unreplaced) Run() int {
	cli.ReplaceProcess = func(path string, _, _ []string) error {
		return fmt.Errorf("a test would be replaced by %s", path)
	}
	return u.m.Run()
}

// TestScript runs every testdata/script/*.txtar. Beyond testscript's own, a
// script has
//
//	exits CODE COMMAND ARG...   run a command that must end with exactly CODE
//	waitfor FILE                block until FILE exists: a marker
//	waitsock SOCKET             block until something answers on SOCKET
//	[!] process ARG...          block until a process with exactly this command
//	                            line runs, or until none does
//	hangup                      send SIGHUP to the one command in the background
//	hook RUNTIME FILE ARG...    run the hook on the event in FILE, and what it made of the
//	                            command in bash; its output is compared with FILE.out
//	hook arrives N              have N commands rewritten and run, each of which prints itself
//	without-landlock COMMAND    run a command where the kernel has no Landlock
//	without-notifications COMMAND  and where its seccomp is older than Linux 5.19
//	listened COMMAND            run a command below another supervisor's filter
//	[sandbox]                   this host can build a bubblewrap sandbox
//	[root]                      the test runs as root
//
// and SANDGATE, the path of the command, CLIENTS, the clients of other languages, PORT_A to
// PORT_C, on which nothing listens, and its own HOME, XDG directories and runtime directory below $WORK.
func TestScript(t *testing.T) { testscript.Run(t, scripts(t, "script")) }

func scripts(t *testing.T, dir string) testscript.Params {
	t.Helper()
	// testscript leaves a directory of its own where not all scripts run.
	root, err := os.MkdirTemp("", "scripts") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return testscript.Params{
		WorkdirRoot:         root,
		Dir:                 filepath.Join("testdata", dir),
		Setup:               setupScript,
		Condition:           scriptCondition,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"waitfor":  cmdWaitfor,
			"waitsock": cmdWaitsock,
			"process":  cmdProcess,
			"hangup":   cmdHangup,
			"hook":     cmdHook,
		},
	}
}

// setupScript gives each script a home of its own, so that none sees the
// configuration, sockets or audit log of the person who runs the tests.
func setupScript(env *testscript.Env) error {
	dirs := map[string]string{
		"HOME":            "home",
		"XDG_CONFIG_HOME": "home/.config",
		"XDG_STATE_HOME":  "home/.local/state",
		"XDG_CACHE_HOME":  "home/.cache",
		"XDG_RUNTIME_DIR": "rt", // short: a socket path has at most 107 bytes, unix(7)
	}
	for name, dir := range dirs {
		path := filepath.Join(env.WorkDir, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		env.Setenv(name, path)
	}
	sandgate, err := exec.LookPath("sandgate") // testscript put it first in PATH
	if err != nil {
		return err
	}
	// What lies in the home directory of whoever runs the tests is not a script's own.
	own, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	path := filepath.SplitList(env.Getenv("PATH"))
	env.Setenv("PATH", strings.Join(slices.DeleteFunc(path, func(dir string) bool { return strings.HasPrefix(dir, own+"/") }), ":"))
	env.Setenv("SANDGATE", sandgate)
	clients, err := filepath.Abs("../../clients")
	if err != nil {
		return err
	}
	env.Setenv("CLIENTS", clients)
	for _, name := range []string{"PORT_A", "PORT_B", "PORT_C"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close() // at the end, so that they differ
		_, port, _ := net.SplitHostPort(l.Addr().String())
		env.Setenv(name, port)
	}
	env.Setenv("NO_COLOR", "1")
	env.Setenv("LC_ALL", "C.UTF-8")
	return nil
}

func scriptCondition(cond string) (bool, error) {
	switch cond {
	case "sandbox":
		err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").Run()
		if err != nil && os.Getenv("CI") != "" {
			return false, fmt.Errorf("continuous integration has to build sandboxes, or most scripts would be skipped: %w", err)
		}
		return err == nil, nil
	case "root":
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// cmdExits runs a command and compares its exit status; `! exec` would take a
// crash for a refusal.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, err := exitStatus(ts.Exec(args[1], args[2:]...))
	ts.Check(err)
	if got != want {
		ts.Fatalf("%s: exit status %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// exitStatus turns what Exec returned into a status, as a shell would count it.
func exitStatus(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	default:
		return 0, err
	}
}

// waitforLimit is how long a script waits for a file: longer than any start on a
// loaded machine, far shorter than go test's own limit.
const waitforLimit = 30 * time.Second

// cmdWaitfor polls, because inotify cannot watch a directory that is not there yet.
func cmdWaitfor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	file := ts.MkAbs(args[0])
	for deadline := time.Now().Add(waitforLimit); ; time.Sleep(2 * time.Millisecond) {
		_, err := os.Stat(file)
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			ts.Fatalf("waitfor %s: %v", args[0], err)
		}
	}
}

// cmdWaitsock connects until somebody accepts.
func cmdWaitsock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitsock SOCKET")
	}
	for deadline := time.Now().Add(waitforLimit); ; time.Sleep(2 * time.Millisecond) {
		c, err := net.Dial("unix", ts.MkAbs(args[0]))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waitsock: %v", err)
		}
	}
}

// cmdProcess looks at every command line of the host.
func cmdProcess(ts *testscript.TestScript, neg bool, args []string) {
	want := strings.Join(args, "\x00") + "\x00"
	for deadline := time.Now().Add(waitforLimit); ; time.Sleep(2 * time.Millisecond) {
		if runs(want) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("process %q: running is %v", args, neg)
		}
	}
}

// cmdHangup is for the signal that testscript's kill does not know.
func cmdHangup(ts *testscript.TestScript, neg bool, args []string) {
	running := ts.BackgroundCmds()
	if neg || len(args) != 0 || len(running) != 1 {
		ts.Fatalf("usage: hangup, with one command in the background; there are %d", len(running))
	}
	ts.Check(running[0].Process.Signal(syscall.SIGHUP))
}

func runs(cmdline string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(files, func(f string) bool {
		b, err := os.ReadFile(f)
		return err == nil && string(b) == cmdline
	})
}
