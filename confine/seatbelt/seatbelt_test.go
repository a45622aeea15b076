//go:build unix

package seatbelt

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// These tests run the backend's own half, processes and limits, on any Unix: a
// stand-in takes sandbox-exec's arguments and becomes the program. What
// sandbox-exec makes of the text is not tried by them.

func standInBackend(t *testing.T) *Backend {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sandbox-exec")
	script := "#!/bin/sh\n[ \"$1\" = -f ] && [ -r \"$2\" ] || exit 99\nshift 2\nexec \"$@\"\n"
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ps, err := exec.LookPath("ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	return &Backend{sandboxExec: file, ps: ps, tag: "test"}
}

func seatbeltProfile(change func(*sandboxprofile.Profile)) sandboxprofile.Profile {
	p := sandboxprofile.Profile{
		Paths:   map[string]sandboxprofile.Rights{"/bin": sandboxprofile.Read | sandboxprofile.Execute},
		Scratch: []string{"/tmp", "/Users/u"}, Env: sandboxprofile.Env{Names: []string{"HOME", "A"}}, Limits: sandboxprofile.NoLimits(),
	}
	if change != nil {
		change(&p)
	}
	return p
}

func prepareSeatbelt(t *testing.T, change func(*sandboxprofile.Profile)) *sandbox {
	t.Helper()
	s, err := standInBackend(t).Prepare(context.Background(), seatbeltProfile(change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*sandbox)
}

func shell(line string, args ...string) sandboxprofile.Action {
	return sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: "/bin/sh", Argv: append([]string{"sh", "-c", line, "sh"}, args...), Dir: "/", Env: []string{"A=1", "HOME=/Users/u", "SECRET=x", "TMPDIR=/tmp"},
	}}
}

func TestSeatbeltRefusesWhatItCannotKeep(t *testing.T) {
	b := standInBackend(t)
	for name, c := range map[string]struct {
		change func(*sandboxprofile.Profile)
		part   string // "" is not refused
	}{
		"nothing":      {nil, ""},
		"host network": {func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost }, ""},
		"hosts": {func(p *sandboxprofile.Profile) {
			p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"x"}}}
		}, "an allow-list of hosts"},
		"system calls":   {func(p *sandboxprofile.Profile) { p.Syscalls = []string{"ptrace"} }, "the Seatbelt profile"},
		"an odd name":    {func(p *sandboxprofile.Profile) { p.Paths["/a\nb"] = sandboxprofile.Read }, "the Seatbelt profile"},
		"no profile":     {func(p *sandboxprofile.Profile) { p.Limits = sandboxprofile.Limits{} }, "the profile"},
		"limits of each": {func(p *sandboxprofile.Profile) { p.Limits.Memory, p.Limits.Pids, p.Limits.Scratch = 1, 1, 1 }, ""},
	} {
		s, err := b.Prepare(context.Background(), seatbeltProfile(c.change))
		var u *confine.Unenforceable
		if errors.As(err, &u); c.part == "" && err != nil || c.part != "" && (u == nil || u.Part != c.part) {
			t.Errorf("%s: got %v, want %q", name, err, c.part)
		}
		if err == nil {
			s.Close()
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	s := prepareSeatbelt(t, nil)
	var u *confine.Unenforceable
	if _, err := s.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.ReadFile, File: &sandboxprofile.Operation{Path: "/bin/sh"}}, confine.Stdio{}); !errors.As(err, &u) {
		t.Errorf("a file tool: got %v", err)
	}
}

// TestSeatbeltArguments: what the program is given is data to the shell that sets
// its limits.
func TestSeatbeltArguments(t *testing.T) {
	l := sandboxprofile.NoLimits()
	l.CPU, l.FileSize, l.OpenFiles = 1500*time.Millisecond, 3000, 64
	got := argvFor("/sx", "/t.sb", l, sandboxprofile.Program{Path: "/bin/echo", Argv: []string{"echo", "$(id)", "; rm -r /", "-f"}})
	want := []string{"/bin/sh", "-c", `ulimit -t 1 && ulimit -f 2 && ulimit -n 64 && ulimit -c 0 && exec "$0" "$@"`,
		"/sx", "-f", "/t.sb", "/bin/echo", "$(id)", "; rm -r /", "-f"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var out strings.Builder
	if _, err := prepareSeatbelt(t, nil).Run(context.Background(), shell(`printf '%s|' "$@"`, "$(id)", "; rm", "a b", ""), confine.Stdio{Stdout: &out}); err != nil || out.String() != "$(id)|; rm|a b||" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestSeatbeltEnvironmentIsPrivate(t *testing.T) {
	s := prepareSeatbelt(t, nil)
	var out strings.Builder
	if _, err := s.Run(context.Background(), shell(`/usr/bin/env | grep -v -e ^_= -e ^PWD= -e ^SHLVL= -e ^OLDPWD=; cd; echo x > home; echo y > "$TMPDIR/tmp"`), confine.Stdio{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(out.String())
	slices.Sort(lines)
	want := []string{"A=1", "HOME=" + s.scratch["/Users/u"], "TMPDIR=" + s.scratch["/tmp"]}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, file := range []string{s.scratch["/Users/u"] + "/home", s.scratch["/tmp"] + "/tmp"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range s.scratch {
		if sandboxprofile.Contains(dir, s.text(nil)) {
			t.Errorf("the text lies in %s, where programs write", dir)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.base); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind: %v", s.base, err)
	}
}

func TestSeatbeltEndings(t *testing.T) {
	for _, c := range []struct {
		name, line string
		change     func(*sandboxprofile.Profile)
		cause      confine.Cause
		code       int
	}{
		{"exit", "exit 7", nil, confine.Exited, 7},
		{"signal", "kill -SEGV $$", nil, confine.Exited, 139},
		{"time", "trap '' TERM; while :; do sleep 1; done", func(p *sandboxprofile.Profile) { p.Limits.Wall = 50 * time.Millisecond }, confine.TimedOut, 137},
		{"output", "exec yes", func(p *sandboxprofile.Profile) { p.Limits.Output = 5000 }, confine.OutputLimit, 137},
		{"processes", "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait", func(p *sandboxprofile.Profile) { p.Limits.Pids = 5 }, confine.PidsLimit, 137},
		{"memory", `exec python3 -c 'x = bytearray(300 << 20); input()' < /dev/zero`, func(p *sandboxprofile.Profile) { p.Limits.Memory = 100 << 20 }, confine.MemoryLimit, 137},
		{"scratch", `for i in 1 2 3 4; do head -c 100000 /dev/zero > "$TMPDIR/$i"; done; exec sleep 60`, func(p *sandboxprofile.Profile) { p.Limits.Scratch = 250000 }, confine.FileSizeLimit, 137},
		{"file size", `exec head -c 100000 /dev/zero > "$TMPDIR/x"`, func(p *sandboxprofile.Profile) { p.Limits.FileSize = 50000 }, confine.FileSizeLimit, 153},
		{"within all", `head -c 1000 /dev/zero > "$TMPDIR/x"; echo ok`, func(p *sandboxprofile.Profile) {
			p.Limits = sandboxprofile.Limits{Wall: time.Minute, CPU: time.Minute, Memory: 1 << 30, Pids: 50, FileSize: 1 << 20, OpenFiles: 100, Output: 100, Scratch: 1 << 20}
		}, confine.Exited, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := prepareSeatbelt(t, c.change).Run(context.Background(), shell(c.line), confine.Stdio{})
			if err != nil || r.Cause != c.cause || r.ExitCode != c.code {
				t.Errorf("got %+v, %v; want %s, %d", r, err, c.cause, c.code)
			}
		})
	}
}

// TestSeatbeltKillsTheGroup: what a program leaves running in its group is dead
// when its result is there, and so when somebody cancels.
func TestSeatbeltKillsTheGroup(t *testing.T) {
	s := prepareSeatbelt(t, nil)
	var out strings.Builder
	r, err := s.Run(context.Background(), shell("sleep 60 >/dev/null 2>&1 & echo $!"), confine.Stdio{Stdout: &out})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	gone(t, out.String())

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := &firstLine{found: make(chan string, 1)}
	go func() {
		out.Reset()
		out.WriteString(<-first.found)
		cancel()
	}()
	if r, err = s.Run(ctx, shell("sleep 60 & echo $!; wait"), confine.Stdio{Stdout: first}); err != nil || r.Cause != confine.Cancelled {
		t.Fatalf("got %+v, %v", r, err)
	}
	gone(t, out.String())
}

// firstLine hands on the first thing that is written.
type firstLine struct{ found chan string }

func (f *firstLine) Write(p []byte) (int, error) {
	select {
	case f.found <- string(p):
	default:
	}
	return len(p), nil
}

// gone waits until init has reaped the process: it was killed before.
func gone(t *testing.T, pid string) {
	t.Helper()
	pid = strings.TrimSpace(pid)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		out, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
		if err != nil || strings.HasPrefix(strings.TrimSpace(string(out)), "Z") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is %q", pid, out)
		}
	}
}

func TestSeatbeltPrograms(t *testing.T) {
	s := prepareSeatbelt(t, nil)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]syscall.Errno{"/no/such": syscall.ENOENT, plain: syscall.EACCES, "/bin": syscall.EACCES, "/bin/sh": 0} {
		r, err := s.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{Path: name, Argv: []string{"x", "-c", ":"}, Dir: "/"}}, confine.Stdio{})
		code := map[syscall.Errno]int{syscall.ENOENT: 127, syscall.EACCES: 126, 0: 0}[want]
		if err != nil || r.ExitCode != code || (r.Cause == confine.NotStarted) != (want != 0) {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

func TestCountGroup(t *testing.T) {
	const text = "  1  900\n 42 100\n42 28\n421 5000\n 42\nx y\n\n"
	if got, want := countGroup(text, 42), (census{processes: 2, memory: 128 << 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := countGroup(text, 7); got != (census{}) {
		t.Errorf("no such group: got %+v", got)
	}
}

// TestSeatbeltCeilings: an action under a ceiling gets a text of its own, and one whose
// ceiling the text cannot hold does not run.
func TestSeatbeltCeilings(t *testing.T) {
	s := prepareSeatbelt(t, func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost })
	a := shell("exit 3")
	a.Ceiling = &sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, Programs: []string{a.Exec.Path}}
	r, err := s.Run(context.Background(), a, confine.Stdio{})
	if err != nil || r.ExitCode != 3 || !strings.Contains(r.Ceiling, "by Seatbelt") {
		t.Errorf("under a ceiling: %+v, %v", r, err)
	}
	text, err := os.ReadFile(s.text(a.Ceiling))
	if err != nil || !strings.Contains(string(text), "(deny process-exec*") {
		t.Errorf("its text: %v\n%s", err, text)
	}
	if r, err := s.Run(context.Background(), shell("exit 3"), confine.Stdio{}); err != nil || r.ExitCode != 3 || r.Ceiling != "" {
		t.Errorf("without one: %+v, %v", r, err)
	}
	for name, l := range map[string]*sandboxprofile.Ceiling{
		"no class":                         {AnyProgram: true},
		"a class that the profile exceeds": {Class: sandboxprofile.ClassWorkspace, AnyProgram: true},
	} {
		a.Ceiling = l
		var cannot *confine.Unenforceable
		if r, err := s.Run(context.Background(), a, confine.Stdio{}); !errors.As(err, &cannot) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
