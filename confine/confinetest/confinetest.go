// Package confinetest is one list of claims that every backend of package
// confine must keep. A backend's own test calls Run.
//
// Each claim does an act that must be refused, recognises the refusal by what
// the kernel answered, and does the same act where it must succeed.
package confinetest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Run holds c against every claim.
func Run(t *testing.T, c confine.Confiner) {
	for _, claim := range []struct {
		name string
		test func(*testing.T, confine.Confiner)
	}{
		{"ExitStatusIsExact", exitStatus},
		{"OutputIsExact", output},
		{"StdinReachesTheProgram", stdin},
		{"WriteOutsideIsRefused", writeOutside},
		{"UnlistedFilesAreAbsent", unlisted},
		{"ProtectedIsReadOnly", protected},
		{"HiddenIsUnreadable", hidden},
		{"ParentsOfProtectedArePinned", pinned},
		{"EnvironmentIsTheAllowList", environment},
		{"DescriptorsAreClosed", descriptors},
		{"NoControllingTerminal", terminal},
		{"NoNetwork", network},
		{"TmpAndHomeArePrivate", scratch},
		{"NothingOutlivesTheCall", outlives},
		{"TimeLimitEndsTheTree", timeLimit},
		{"CancelEndsTheTree", cancel},
		{"OutputLimitEndsTheProgram", outputLimit},
		{"LimitsHold", limits},
		{"FilesAreReadAndWritten", files},
		{"FileOperationsFollowNoLinks", links},
		{"FilesAreEdited", edits},
		{"EditsOfAnotherVersionAreRefused", editDrift},
		{"ConcurrentEditsLoseNothing", concurrentEdits},
		{"FullDiskLeavesTheOldContent", fullDisk},
		{"OddFilesAreRefused", oddFiles},
		{"SearchesStayInside", searches},
		{"SearchesEnd", searchEnds},
		{"SupervisorIsNotReachable", initSafe},
		{"ProcIsReadOnly", procReadOnly},
		{"UnixSocketsAreUnreachable", unixSockets},
	} {
		t.Run(claim.name, func(t *testing.T) { claim.test(t, c) })
	}
}

// Profile grants what programs of the host need, and workspace for writing.
func Profile(t testing.TB, workspace string) sandboxprofile.Profile {
	t.Helper()
	const rx = sandboxprofile.Read | sandboxprofile.Execute
	p := sandboxprofile.Profile{
		Paths: map[string]sandboxprofile.Rights{
			"/usr": rx, "/bin": rx, "/sbin": rx, "/lib": rx, "/lib64": rx, "/lib32": rx,
			"/etc/ld.so.cache": sandboxprofile.Read, "/etc/alternatives": rx, "/etc/passwd": sandboxprofile.Read,
		},
		Scratch: []string{"/tmp", "/home/tool"},
		Env:     sandboxprofile.Env{Names: []string{"PATH", "HOME", "LANG"}},
		Limits: sandboxprofile.Limits{
			Wall: 20 * time.Second, CPU: 20 * time.Second, Memory: 2 << 30, Pids: 256, FileSize: 1 << 30,
			OpenFiles: 256, Output: 1 << 20, Scratch: 64 << 20,
		},
		Protect: []string{".git/hooks"},
		Hide:    []string{".env"},
	}
	if workspace != "" {
		p.Paths[workspace] = rx | sandboxprofile.Write
	}
	return p
}

// Workspace is a fresh directory outside of /tmp, which inside is private.
func Workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandgate-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Outcome is what one run gave.
type Outcome struct {
	confine.Result
	Out, Err string
}

// Shell runs a script with bash under p.
func Shell(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, dir, script string) Outcome {
	t.Helper()
	return Exec(t, context.Background(), c, p, dir, nil, "/bin/bash", "-c", script)
}

// Exec runs one program under p.
func Exec(t *testing.T, ctx context.Context, c confine.Confiner, p sandboxprofile.Profile, dir string, stdin []byte, argv ...string) Outcome {
	t.Helper()
	box, err := c.Prepare(ctx, p)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	defer box.Close()
	return ExecIn(t, ctx, box, dir, stdin, argv...)
}

// ExecIn runs one program in a sandbox that stands.
func ExecIn(t *testing.T, ctx context.Context, box confine.Sandbox, dir string, stdin []byte, argv ...string) Outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	std := confine.Stdio{Stdout: &out, Stderr: &errOut}
	if stdin != nil {
		std.Stdin = bytes.NewReader(stdin)
	}
	r, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: argv[0], Argv: argv, Dir: dir,
		Env: []string{"HOME=/home/tool", "PATH=/usr/bin:/bin", "SECRET_TOKEN=hunter2"},
	}}, std)
	if err != nil {
		t.Fatalf("run %q: %v", argv, err)
	}
	return Outcome{r, out.String(), errOut.String()}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantOut(t *testing.T, o Outcome, want string) {
	t.Helper()
	if strings.TrimSpace(o.Out) != want {
		t.Errorf("stdout %q, want %q (stderr %q, %+v)", o.Out, want, o.Err, o.Result)
	}
}

// errno makes a python expression print the symbolic errno of an act, or "ok".
func errno(act string) string {
	return "import os,errno,socket\ntry:\n    " + strings.ReplaceAll(act, "\n", "\n    ") + "\n    print('ok')\nexcept OSError as e:\n    print(errno.errorcode[e.errno])\n"
}

// Python runs a statement and gives the errno it met, or "ok".
func Python(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, dir, act string) string {
	t.Helper()
	o := Exec(t, context.Background(), c, p, dir, nil, "/usr/bin/python3", "-c", errno(act))
	if o.ExitCode != 0 {
		t.Fatalf("python: %+v\n%s", o.Result, o.Err)
	}
	return strings.TrimSpace(o.Out)
}
