package confinetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func exitStatus(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/data", "not a program")
	for _, x := range []struct {
		argv   []string
		code   int
		signal string
		cause  confine.Cause
		errno  string
	}{
		{[]string{"/bin/true"}, 0, "", confine.Exited, ""},
		{[]string{"/bin/bash", "-c", "exit 7"}, 7, "", confine.Exited, ""},
		{[]string{"/bin/bash", "-c", "kill -SEGV $$"}, 139, "SIGSEGV", confine.Exited, ""},
		{[]string{"/bin/bash", "-c", "kill -KILL $$"}, 137, "SIGKILL", confine.Exited, ""},
		{[]string{"/usr/bin/no-such-program"}, 127, "", confine.NotStarted, "ENOENT"},
		{[]string{ws + "/data"}, 126, "", confine.NotStarted, "EACCES"},
	} {
		o := Exec(t, context.Background(), c, Profile(t, ws), ws, nil, x.argv...)
		if o.ExitCode != x.code || o.Signal != x.signal || o.Cause != x.cause || o.Errno != x.errno {
			t.Errorf("%q: %+v, want code %d signal %q cause %q errno %q", x.argv, o.Result, x.code, x.signal, x.cause, x.errno)
		}
	}
}

// startsWhereItSays: a link in the path of the directory is one that was not there when the call was decided about.
func startsWhereItSays(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	if err := errors.Join(os.MkdirAll(ws+"/real/sub", 0o755), os.Symlink("real", ws+"/link")); err != nil {
		t.Fatal(err)
	}
	for dir, errno := range map[string]string{"/real/sub": "", "/link": "ELOOP", "/link/sub": "ELOOP", "/none": "ENOENT"} {
		o := Exec(t, context.Background(), c, Profile(t, ws), ws+dir, nil, "/bin/pwd", "-P")
		if started := o.Cause == confine.Exited && o.Out == ws+dir+"\n"; started != (errno == "") || !started && (o.Op != confine.OpChdir || o.Errno != errno) {
			t.Errorf("%s: %q, %+v, want %q", dir, o.Out, o.Result, errno)
		}
	}
}

func output(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	p.Limits.Output = sandboxprofile.Unlimited
	o := Shell(t, c, p, ws, `printf 'a\0b\377'; printf err >&2; head -c 10485760 /dev/zero`)
	if want := "a\x00b\xff" + strings.Repeat("\x00", 10<<20); o.Out != want || o.Err != "err" {
		t.Errorf("got %d bytes on stdout and %q on stderr", len(o.Out), o.Err)
	}
	if o.Stdout != int64(len(o.Out)) || o.Stderr != 3 || o.Truncated {
		t.Errorf("counts: %+v", o.Result)
	}
}

func stdin(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	in := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	p := Profile(t, ws)
	p.Limits.Output = sandboxprofile.Unlimited
	if o := Exec(t, context.Background(), c, p, ws, in, "/bin/cat"); o.Out != string(in) {
		t.Errorf("cat gave back %d of %d bytes: %+v", len(o.Out), len(in), o.Result)
	}
	if o := Exec(t, context.Background(), c, p, ws, nil, "/bin/cat"); o.Out != "" || o.ExitCode != 0 {
		t.Errorf("without stdin: %+v", o)
	}
	// A program that does not read its input does not hold up the call.
	if o := Exec(t, context.Background(), c, p, ws, in, "/bin/true"); o.ExitCode != 0 {
		t.Errorf("true with unread stdin: %+v", o.Result)
	}
}

func writeOutside(t *testing.T, c confine.Confiner) {
	ws, other := Workspace(t), Workspace(t)
	p := Profile(t, ws)
	p.Paths[other] = sandboxprofile.Read
	if got := Python(t, c, p, ws, fmt.Sprintf("open(%q, 'w')", other+"/x")); got != "EROFS" && got != "EACCES" {
		t.Errorf("write in a read-only tree: %s", got)
	}
	if got := Python(t, c, p, ws, "open('/usr/x', 'w')"); got != "EROFS" && got != "EACCES" {
		t.Errorf("write in /usr: %s", got)
	}
	if got := Python(t, c, p, ws, fmt.Sprintf("open(%q, 'w').write('hi')", ws+"/x")); got != "ok" {
		t.Errorf("write in the workspace: %s", got)
	}
	if b, err := os.ReadFile(ws + "/x"); string(b) != "hi" {
		t.Errorf("the workspace on the host: %q, %v", b, err)
	}
	if entries, _ := os.ReadDir(other); len(entries) != 0 {
		t.Errorf("left in the read-only tree: %v", entries)
	}
}

func unlisted(t *testing.T, c confine.Confiner) {
	ws, secret := Workspace(t), Workspace(t)
	write(t, secret+"/key", "secret")
	read := fmt.Sprintf("open(%q).read()", secret+"/key")
	if got := Python(t, c, Profile(t, ws), ws, read); got != "ENOENT" && got != "EACCES" {
		t.Errorf("read of an unlisted file: %s", got)
	}
	if got := Python(t, c, Profile(t, ws), ws, "open('/etc/shadow')"); got != "ENOENT" && got != "EACCES" {
		t.Errorf("read of /etc/shadow: %s", got)
	}
	if got := Python(t, c, Profile(t, ws), ws, "os.symlink("+fmt.Sprintf("%q", secret+"/key")+", 'link'); open('link')"); got != "ENOENT" && got != "EACCES" {
		t.Errorf("read of an unlisted file through a link: %s", got)
	}
	p := Profile(t, ws)
	p.Paths[secret] = sandboxprofile.Read
	if got := Python(t, c, p, ws, read); got != "ok" {
		t.Errorf("read of the same file, listed: %s", got)
	}
}

func protected(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/deep/repo/.git/hooks/pre-commit.sample", "sample")
	write(t, ws+"/deep/repo/.git/HEAD", "ref")
	hook := fmt.Sprintf("open(%q, 'w')", ws+"/deep/repo/.git/hooks/pre-commit")
	if got := Python(t, c, Profile(t, ws), ws, hook); got != "EROFS" && got != "EACCES" {
		t.Errorf("write of a hook: %s", got)
	}
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("open(%q, 'a')", ws+"/deep/repo/.git/hooks/pre-commit.sample")); got != "EROFS" && got != "EACCES" {
		t.Errorf("change of a hook: %s", got)
	}
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("open(%q, 'a')", ws+"/deep/repo/.git/HEAD")); got != "ok" {
		t.Errorf("write beside the hooks: %s", got)
	}
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("open(%q)", ws+"/deep/repo/.git/hooks/pre-commit.sample")); got != "ok" {
		t.Errorf("read of a hook: %s", got)
	}
}

func hidden(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/app/.env", "TOKEN=1")
	write(t, ws+"/app/env", "TOKEN=1")
	write(t, ws+"/dir/.env/inner", "TOKEN=1")
	for path, want := range map[string]string{"/app/.env": "EACCES", "/app/env": "ok", "/dir/.env/inner": "EACCES"} {
		if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("open(%q).read()", ws+path)); got != want {
			t.Errorf("read of %s: %s, want %s", path, got, want)
		}
	}
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("os.rename(%q, %q)", ws+"/app/.env", ws+"/app/seen")); got != "EBUSY" && got != "EACCES" {
		t.Errorf("rename of a hidden file: %s", got)
	}
}

// pinned is the trick of moving the parent away, so that what was covered by a
// mount can be made anew beside it.
func pinned(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/deep/repo/.git/hooks/x", "sample")
	for _, dir := range []string{"/deep/repo/.git", "/deep/repo", "/deep"} {
		act := fmt.Sprintf("os.rename(%q, %q)", ws+dir, ws+"/moved")
		if got := Python(t, c, Profile(t, ws), ws, act); got != "EBUSY" && got != "EXDEV" && got != "EACCES" {
			t.Errorf("rename of %s, above a protected directory: %s", dir, got)
		}
	}
	write(t, ws+"/free/dir/x", "")
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("os.rename(%q, %q)", ws+"/free/dir", ws+"/free/moved")); got != "ok" {
		t.Errorf("rename of a directory without protected files: %s", got)
	}
}

// exchangePython makes the second directory and exchanges the first for it, by
// renameat2(2) with AT_FDCWD and RENAME_EXCHANGE.
const exchangePython = `import ctypes
os.mkdir(%[2]q)
if ctypes.CDLL(None, use_errno=True).renameat2(-100, %[1]q.encode(), -100, %[2]q.encode(), 2):
    raise OSError(ctypes.get_errno(), '')`

// pinnedHidden: a directory that is moved while another sandbox is built could take
// what has to be hidden past the cover.
func pinnedHidden(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/deep/app/.env", "TOKEN=1")
	write(t, ws+"/deep/free/dir/env", "1")
	for _, dir := range []string{"/deep/app", "/deep"} {
		for _, act := range []string{"os.rename(%q, %q)", exchangePython} {
			if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf(act, ws+dir, ws+"/moved")); got != "EBUSY" && got != "EXDEV" && got != "EACCES" {
				t.Errorf("rename of %s, above a hidden file: %s", dir, got)
			}
			os.RemoveAll(ws + "/moved")
		}
	}
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("os.rename(%q, %q)", ws+"/deep/free/dir", ws+"/deep/free/moved")); got != "ok" {
		t.Errorf("rename of a directory without hidden files: %s", got)
	}
}

func environment(t *testing.T, c confine.Confiner) {
	t.Setenv("SANDGATE_TEST_SECRET", "hunter2")
	ws := Workspace(t)
	o := Exec(t, context.Background(), c, Profile(t, ws), ws, nil, "/usr/bin/env")
	wantOut(t, o, "HOME=/home/tool\nPATH=/usr/bin:/bin")
	// The environment of every process that can be seen, process 1 included.
	o = Shell(t, c, Profile(t, ws), ws, `cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'`)
	if strings.Contains(o.Out, "hunter2") || !strings.Contains(o.Out, "HOME=/home/tool") {
		t.Errorf("environments: %q", o.Out)
	}
}

// descriptors opens files in this process without close-on-exec, as a careless
// parent of the supervisor would.
func descriptors(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	leak(t)
	o := Exec(t, context.Background(), c, Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", `
import os
for fd in range(1024):
    try:
        os.fstat(fd)
        print(fd)
    except OSError: pass`)
	wantOut(t, o, "0\n1\n2")
}

func terminal(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	if got := Python(t, c, Profile(t, ws), ws, "os.open('/dev/tty', os.O_RDWR)"); got != "ENXIO" && got != "ENOENT" && got != "EACCES" {
		t.Errorf("open of /dev/tty: %s", got)
	}
	// A terminal of the sandbox's own works.
	if got := Python(t, c, Profile(t, ws), ws, "os.openpty()"); got != "ok" {
		t.Errorf("openpty: %s", got)
	}
}

func network(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	port, stop := listen(t)
	defer stop()
	connect := fmt.Sprintf("socket.create_connection(('127.0.0.1', %d), 2)", port)
	if got := Python(t, c, Profile(t, ws), ws, connect); got != "ECONNREFUSED" && got != "ENETUNREACH" && got != "EACCES" {
		t.Errorf("connect to the host's loopback: %s", got)
	}
	open := Profile(t, ws)
	open.Network.Mode = sandboxprofile.NetworkHost
	if got := Python(t, c, open, ws, connect); got != "ok" {
		t.Errorf("the same with the host's network: %s", got)
	}
	own := `s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 2)`
	if got := Python(t, c, Profile(t, ws), ws, own); got != "ok" {
		t.Errorf("a server on the sandbox's own loopback: %s", got)
	}
	// As servers at "localhost" or at every address do, with a socket for each protocol, or
	// one for both.
	const both = `
def listen(family, address, port, only=0):
    s = socket.socket(family)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    s.bind((address, port)); s.listen(); s.settimeout(5)
    return s
def reach(s, *hosts):
    for host in hosts:
        c = socket.create_connection((host, s.getsockname()[1]), 5)
        s.accept()[0].send(b'x')
        assert c.recv(1) == b'x'
for four, six in ('127.0.0.1', '::1'), ('', '::'):
    a = listen(socket.AF_INET, four, 0)
    b = listen(socket.AF_INET6, six, a.getsockname()[1], 1)
    reach(a, '127.0.0.1'); reach(b, '::1')
reach(listen(socket.AF_INET6, '::', 0), '127.0.0.1', '::1')
alone = listen(socket.AF_INET6, '::1', 0)
reach(alone, '::1', alone.getsockname()[0])
try: socket.create_connection(('127.0.0.1', alone.getsockname()[1]), 5); assert False
except ConnectionRefusedError: pass`
	if got := Python(t, c, Profile(t, ws), ws, both); got != "ok" {
		t.Errorf("servers of both protocols on the sandbox's own loopback: %s", got)
	}
}

func scratch(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	mark := filepath.Join("/tmp", filepath.Base(ws))
	if err := os.WriteFile(mark, []byte("host"), 0o644); err != nil && !errors.Is(err, syscall.EROFS) { // as a container's image may be
		t.Fatal(err)
	}
	defer os.Remove(mark)
	o := Shell(t, c, Profile(t, ws), ws, fmt.Sprintf(`cat %s; cd "${TMPDIR:-/tmp}" && echo made > made && echo made > "$HOME/made" && cat made "$HOME/made"`, mark))
	wantOut(t, o, "made\nmade")
	for _, p := range []string{"/tmp/made", "/home/tool"} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s was left on the host", p)
		}
	}
}

func listedBelowHome(t *testing.T, c confine.Confiner) {
	ws, home := Workspace(t), Workspace(t)
	if err := os.MkdirAll(home+"/.tool/lib", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lib/listed", "unlisted"} {
		if err := os.WriteFile(home+"/.tool/"+name, []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := Profile(t, ws)
	p.Scratch = []string{"/tmp", home}
	p.Paths[home+"/.tool/lib"] = sandboxprofile.Read
	p.Paths[home+"/.absent"] = sandboxprofile.Read
	const script = `
cat ~/.tool/lib/listed
cat ~/.tool/unlisted 2>/dev/null || echo unseen
(echo x > ~/.tool/lib/listed) 2>/dev/null || echo kept
echo made > ~/.tool/new && echo made > ~/.absent && cat ~/.tool/new ~/.absent`
	box, err := c.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var out bytes.Buffer
	r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: "/bin/bash", Argv: []string{"bash", "-c", script}, Dir: ws, Env: []string{"HOME=" + home, "PATH=/usr/bin:/bin"},
	}}, confine.Stdio{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	wantOut(t, Outcome{r, out.String(), ""}, "lib/listed\nunseen\nkept\nmade\nmade")
	for _, name := range []string{home + "/.tool/new", home + "/.absent"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was left on the host", name)
		}
	}
}

// outlives starts processes that hide from their parent in the usual ways, each
// of which would touch a file a moment after the call has ended.
func outlives(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	const script = `
late() { trap '' HUP INT TERM; sleep 0.4; echo alive >> "$1"; }
(late a &) &
setsid bash -c 'trap "" HUP INT TERM; sleep 0.4; echo alive >> b' &
(setsid bash -c '(setsid bash -c "sleep 0.4; echo alive >> c" >/dev/null 2>&1 &)' >/dev/null 2>&1 &)
nohup bash -c 'sleep 0.4; echo alive >> d' >/dev/null 2>&1 &
echo started
`
	o := ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", script)
	wantOut(t, o, "started")
	// The same sandbox, later: nothing of the first call may be left in it.
	o = ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", `sleep 1; cd /proc; echo [0-9]*; cd - >/dev/null; ls`)
	left := strings.Fields(o.Out)
	if len(left) != 2 || left[0] != "1" {
		t.Errorf("processes and files after the first call: %q, want process 1 and the shell alone", left)
	}
}

func timeLimit(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	p.Limits.Wall = patience * 300 * time.Millisecond
	start := time.Now()
	o := Shell(t, c, p, ws, `trap '' TERM; (trap '' TERM; sleep 60) & echo on; while :; do sleep 1; done`)
	if o.Cause != confine.TimedOut || o.Signal != "SIGKILL" || strings.TrimSpace(o.Out) != "on" {
		t.Errorf("a program that ignores SIGTERM: %+v, %q", o.Result, o.Out)
	}
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("it took %v to end", d)
	}
	p.Limits.Wall = patience * 60 * time.Second
	if o := Shell(t, c, p, ws, "sleep 0.5"); o.Cause != confine.Exited || o.ExitCode != 0 {
		t.Errorf("within its time: %+v", o.Result)
	}
}

func cancel(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	o := Exec(t, ctx, c, Profile(t, ws), ws, nil, "/bin/bash", "-c", "trap '' TERM; sleep 60 & wait; sleep 60")
	if o.Cause != confine.Cancelled || o.Signal != "SIGKILL" {
		t.Errorf("cancelled: %+v", o.Result)
	}
}

func outputLimit(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	p.Limits.Output = 100_000
	o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/yes")
	if o.Cause != confine.OutputLimit || len(o.Out) != 100_000 || !o.Truncated {
		t.Errorf("yes: %+v, %d bytes kept", o.Result, len(o.Out))
	}
	// One that is at its end before it can be killed has lost output too.
	for range 10 {
		o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/head", "-c", "100001", "/dev/zero")
		if o.Cause != confine.OutputLimit || len(o.Out) != 100_000 || !o.Truncated {
			t.Fatalf("one byte too many: %+v, %d bytes kept", o.Result, len(o.Out))
		}
	}
	if o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/head", "-c", "100000", "/dev/zero"); o.Cause != confine.Exited || len(o.Out) != 100_000 || o.Truncated {
		t.Errorf("as much as may be: %+v, %d bytes kept", o.Result, len(o.Out))
	}
}

func limits(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	p.Limits.FileSize = 1 << 20
	if got := Python(t, c, p, ws, "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); open('big','wb').write(b'x'*(2<<20))"); got != "EFBIG" {
		t.Errorf("a file beyond the limit: %s", got)
	}
	if got := Python(t, c, p, ws, "open('small','wb').write(b'x'*1000)"); got != "ok" {
		t.Errorf("a file within the limit: %s", got)
	}
	if got := Python(t, c, p, ws, "fs=[open('/dev/null') for _ in range(1000)]"); got != "EMFILE" {
		t.Errorf("descriptors beyond the limit: %s", got)
	}
	busy := Profile(t, ws)
	busy.Limits.CPU = time.Second
	if o := Shell(t, c, busy, ws, "while :; do :; done"); o.Signal != "SIGXCPU" && o.Signal != "SIGKILL" {
		t.Errorf("a busy loop beyond its CPU time: %+v", o.Result)
	}
	if o := Shell(t, c, p, ws, `ulimit -H -n; ulimit -H -c`); strings.TrimSpace(o.Out) != "256\n0" {
		t.Errorf("hard limits: %q", o.Out)
	}
	// A fork bomb ends at its limit: the kernel refuses, or, as uid 0, init counts.
	crowd := Profile(t, ws)
	crowd.Limits.Pids = 40
	bomb := "import os,time\nfor _ in range(2000):\n    if os.fork() == 0: time.sleep(30); os._exit(0)"
	o := Exec(t, context.Background(), c, crowd, ws, nil, "/usr/bin/python3", "-c", bomb)
	if o.Cause != confine.PidsLimit && !strings.Contains(o.Err, "Resource temporarily unavailable") {
		t.Errorf("a fork bomb: %+v %q", o.Result, o.Err)
	}
	few := strings.ReplaceAll(strings.ReplaceAll(bomb, "2000", "20"), "30", "0.2")
	if o := Exec(t, context.Background(), c, crowd, ws, nil, "/usr/bin/python3", "-c", few); o.Cause != confine.Exited || o.ExitCode != 0 {
		t.Errorf("twenty processes under a limit of 40: %+v %q", o.Result, o.Err)
	}
	p.Limits.Memory = 256 << 20
	if o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", "x=bytearray(1<<30)"); !strings.Contains(o.Err, "MemoryError") && o.Cause != confine.MemoryLimit {
		t.Errorf("memory beyond the limit: %+v %q", o.Result, o.Err)
	}
}

func fileAction(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, kind sandboxprofile.Kind, op sandboxprofile.Operation) confine.Result {
	t.Helper()
	box, err := c.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: kind, File: &op}, confine.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func files(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	w := fileAction(t, c, p, sandboxprofile.WriteFile, sandboxprofile.Operation{Path: ws + "/a/b/new", Content: []byte("text"), MakeParents: true})
	if w.Errno != "" || !w.File.Created {
		t.Errorf("write: %+v", w)
	}
	r := fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/a/b/new", MaxBytes: 100})
	if r.Errno != "" || string(r.File.Content) != "text" || r.File.Truncated {
		t.Errorf("read: %+v", r)
	}
	r = fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/a/b/new", MaxBytes: 2})
	if string(r.File.Content) != "te" || !r.File.Truncated || r.File.Size != 4 {
		t.Errorf("read of two bytes: %+v", r.File)
	}
	if err := os.Chmod(ws+"/a/b/new", 0o751); err != nil {
		t.Fatal(err)
	}
	w = fileAction(t, c, p, sandboxprofile.WriteFile, sandboxprofile.Operation{Path: ws + "/a/b/new", Content: []byte("second")})
	if info, err := os.Stat(ws + "/a/b/new"); err != nil || info.Mode().Perm() != 0o751 || w.File.Created {
		t.Errorf("the mode after a second write: %v, %v, %+v", info.Mode(), err, w)
	}
	if entries, _ := os.ReadDir(ws + "/a/b"); len(entries) != 1 {
		t.Errorf("litter: %v", entries)
	}
	for path, want := range map[string]string{"/missing": "ENOENT", "/a": "EISDIR"} {
		if r := fileAction(t, c, p, sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + path, MaxBytes: 10}); r.Errno != want {
			t.Errorf("read %s: %q, want %s", path, r.Errno, want)
		}
	}
	if w := fileAction(t, c, p, sandboxprofile.WriteFile, sandboxprofile.Operation{Path: "/usr/x"}); w.Errno != "EROFS" && w.Errno != "EACCES" {
		t.Errorf("write in /usr: %+v", w)
	}
}

func links(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	write(t, ws+"/real/file", "text")
	for link, target := range map[string]string{"/dirlink": "real", "/filelink": "real/file"} {
		if err := os.Symlink(target, ws+link); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/filelink", "/dirlink/file"} {
		if r := fileAction(t, c, Profile(t, ws), sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + path, MaxBytes: 10}); r.Errno != "ELOOP" {
			t.Errorf("read %s: %+v", path, r)
		}
		if r := fileAction(t, c, Profile(t, ws), sandboxprofile.WriteFile, sandboxprofile.Operation{Path: ws + path}); r.Errno != "ELOOP" {
			t.Errorf("write %s: %+v", path, r)
		}
	}
	if r := fileAction(t, c, Profile(t, ws), sandboxprofile.ReadFile, sandboxprofile.Operation{Path: ws + "/real/file", MaxBytes: 10}); r.Errno != "" {
		t.Errorf("read of the file itself: %+v", r)
	}
}

// initSafe tries what a tool could do to process 1, the only trusted one it sees.
func initSafe(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, act := range []string{
		"open('/proc/1/environ').read()", "open('/proc/1/mem','rb')", "open('/proc/1/maps').read()",
		"os.readlink('/proc/1/fd/3')", "os.readlink('/proc/1/exe')", "os.listdir('/proc/1/root')", "os.listdir('/proc/1/cwd')",
	} {
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(act)); o.Out != "EACCES\n" && o.Out != "EPERM\n" {
			t.Errorf("%s: %q %q", act, o.Out, o.Err)
		}
		own := strings.ReplaceAll(strings.ReplaceAll(act, "/proc/1/", "/proc/self/"), "fd/3", "fd/0")
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(own)); o.Out != "ok\n" {
			t.Errorf("%s: %q %q", own, o.Out, o.Err)
		}
	}
	for _, act := range bindingActs("1") {
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(act)); o.Out != "EPERM\n" {
			t.Errorf("%s: %q %q", act, o.Out, o.Err)
		}
	}
	for _, file := range []string{"oom_score_adj", "autogroup", "timerslack_ns", "clear_refs", "comm", "coredump_filter"} {
		act := fmt.Sprintf("os.write(os.open('/proc/1/%s', os.O_WRONLY), b'0')", file)
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(act)); o.Out == "ok\n" || o.Out == "" {
			t.Errorf("%s: %q %q", act, o.Out, o.Err)
		}
	}
	ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", `for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done`)
	if o := ExecIn(t, context.Background(), box, ws, nil, "/bin/echo", "still there"); o.Out != "still there\n" {
		t.Errorf("after every signal: %+v", o)
	}
}

func procReadOnly(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"} {
		if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("os.open(%q, os.O_WRONLY)", path)); got == "ok" {
			t.Errorf("%s opens for writing", path)
		}
	}
	if got := Python(t, c, Profile(t, ws), ws, "open('/proc/meminfo').read()"); got != "ok" {
		t.Errorf("read of /proc/meminfo: %s", got)
	}
}

// serveLookalikes serves sockets under the names at which tools look for the servers
// that would do anything for them.
func serveLookalikes(t *testing.T) (dir string, paths []string) {
	t.Helper()
	dir = Workspace(t)
	for _, name := range []string{"run/docker.sock", "ssh-XXXX/agent.1", "run/user/0/bus", "gnupg/S.gpg-agent", ".X11-unix/X0", "sandgate/agent.sock", "sandgate/operator.sock"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		paths = append(paths, path)
	}
	return dir, paths
}

// unixSockets puts servers of the host where the tool can see the directory.
func unixSockets(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	stream, datagram := ws+"/stream.sock", ws+"/datagram.sock"
	serveUnix(t, stream, datagram)
	connect := fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", stream)
	send := fmt.Sprintf("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', %q)", datagram)
	for _, act := range []string{connect, send} {
		if got := Python(t, c, Profile(t, ws), ws, act); got != "EACCES" && got != "ECONNREFUSED" {
			t.Errorf("%s: %s", act, got)
		}
	}
	dir, lookalikes := serveLookalikes(t)
	seen := Profile(t, ws)
	seen.Paths[dir] = sandboxprofile.Read
	for _, path := range lookalikes {
		act := fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", path)
		if got := Python(t, c, Profile(t, ws), ws, act); got != "ENOENT" && got != "EACCES" {
			t.Errorf("%s: %s", act, got)
		}
		if got := Python(t, c, seen, ws, act); got != "EACCES" && got != "ECONNREFUSED" {
			t.Errorf("%s, in a directory that may be read: %s", act, got)
		}
	}
	if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", "\x00"+abstractName()[1:])); got != "ECONNREFUSED" && got != "EPERM" {
		t.Errorf("connect to an abstract socket of the host: %s", got)
	}
	own := "s=socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); socket.socket(socket.AF_UNIX).connect('own.sock')"
	if got := Python(t, c, Profile(t, ws), "/tmp", own); got != "ok" {
		t.Errorf("a socket of the sandbox's own: %s", got)
	}
}

// listedSocket puts two servers side by side and lists one.
func listedSocket(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	stream, datagram := ws+"/stream.sock", ws+"/datagram.sock"
	serveUnix(t, stream, datagram)
	connect := fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", stream)
	send := fmt.Sprintf("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', %q)", datagram)
	listed := withSocket(t, ws)
	if got := Python(t, c, listed, ws, connect); got != "ok" {
		t.Errorf("connect to a listed socket: %s", got)
	}
	if got := Python(t, c, listed, ws, send); got != "EACCES" && got != "ECONNREFUSED" {
		t.Errorf("send to the socket beside it: %s", got)
	}
	both := Profile(t, ws)
	both.UnixSockets = []string{datagram}
	if got := Python(t, c, both, ws, send); got != "ok" {
		t.Errorf("send to a listed socket: %s", got)
	}
	if got := Python(t, c, both, ws, connect); got != "EACCES" && got != "ECONNREFUSED" {
		t.Errorf("connect to the socket beside it: %s", got)
	}
	for _, act := range []string{"os.unlink(%q)", "os.rename(%q, 'moved')", "os.chmod(%q, 0o777)"} {
		if got := Python(t, c, listed, ws, fmt.Sprintf(act, stream)); got != "EBUSY" && got != "EROFS" && got != "EACCES" && got != "EXDEV" {
			t.Errorf(act+": %s", stream, got)
		}
	}
}

func withSocket(t *testing.T, ws string) sandboxprofile.Profile {
	p := Profile(t, ws)
	p.UnixSockets = []string{ws + "/stream.sock"}
	return p
}

func withHosts(t *testing.T, ws string) sandboxprofile.Profile {
	p := Profile(t, ws)
	p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"example.com"}}}
	return p
}

// oneWayOut: a connection made inside is accepted outside, and a server of the host's
// cannot be reached.
func oneWayOut(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	port, stop := listen(t)
	defer stop()
	box, err := c.Prepare(context.Background(), withHosts(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	l, err := box.(confine.Proxied).Egress()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for port, want := range map[int]string{confine.EgressPort: "ok", port: "ECONNREFUSED"} {
		act := fmt.Sprintf("socket.create_connection(('127.0.0.1', %d), 2)", port)
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(act)); strings.TrimSpace(o.Out) != want {
			t.Errorf("connect to port %d: %q, want %s", port, o.Out, want)
		}
	}
	if conn, err := l.Accept(); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
}

// standing is an address that stands for another host inside, and what a sandbox has
// to take for its own for that.
var standing = confine.Addresses{
	Local:     []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")},
	Listen:    []netip.AddrPort{netip.MustParseAddrPort("[::]:443"), netip.MustParseAddrPort("198.18.0.2:7000")},
	Datagrams: netip.MustParseAddrPort("127.0.0.1:53"),
}

// carried: what a program that knows no proxy connects and sends to is accepted
// outside; every other address has no route.
func carried(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), withHosts(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	in, err := box.(confine.Proxied).Carry(standing)
	if err != nil {
		t.Fatal(err)
	}
	defer closeCarried(in)
	for act, want := range map[string]string{
		"socket.create_connection(('198.18.77.1', 443), 2)":                                       "ok",
		"socket.create_connection(('198.18.0.2', 7000), 2)":                                       "ok",
		"socket.create_connection(('198.18.0.3', 7000), 2)":                                       "ECONNREFUSED",
		"socket.create_connection(('198.20.0.1', 443), 2)":                                        "ENETUNREACH",
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'asked', ('127.0.0.1', 53))":    "ok",
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'asked', ('192.0.2.1', 53))":    "ENETUNREACH",
		"socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(('2001:db8::1', 443))":        "ENETUNREACH",
		"socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(('::ffff:198.18.77.1', 443))": "ok",
	} {
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(act)); strings.TrimSpace(o.Out) != want {
			t.Errorf("%s: %q, want %s", act, o.Out, want)
		}
	}
	for i, want := range []string{"198.18.77.1:443", "198.18.0.2:7000"} {
		conn, err := in.Streams[i].Accept()
		if err != nil {
			t.Fatal(err)
		}
		if at := conn.LocalAddr().String(); at != want {
			t.Errorf("accepted at %s, want %s", at, want)
		}
		conn.Close()
	}
	got := make([]byte, 10)
	if n, _, err := in.Datagrams.ReadFrom(got); err != nil || string(got[:n]) != "asked" {
		t.Errorf("received %q, %v", got[:n], err)
	}
}

func closeCarried(c confine.Carried) {
	for _, l := range c.Streams {
		l.Close()
	}
	c.Datagrams.Close()
}

// nothingLeft: what one action connected and sent, and no server accepted, does not
// reach the server of the next one.
func nothingLeft(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), withHosts(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	serve := func() (net.Listener, confine.Carried) {
		l, err := box.(confine.Proxied).Egress()
		if err != nil {
			t.Fatal(err)
		}
		in, err := box.(confine.Proxied).Carry(standing)
		if err != nil {
			t.Fatal(err)
		}
		return l, in
	}
	speak := func(word string) {
		act := fmt.Sprintf(`
for at in ('127.0.0.1', %d), ('198.18.77.1', 443):
    socket.create_connection(at, 2).sendall(b'%s')
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'%[2]s', ('127.0.0.1', 53))`, confine.EgressPort, word)
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", "import socket"+act); o.Err != "" {
			t.Fatal(o.Err)
		}
	}
	l, in := serve()
	speak("stale")
	l.Close()
	closeCarried(in)
	l, in = serve()
	defer l.Close()
	defer closeCarried(in)
	speak("fresh")
	got := make([]byte, 10)
	for _, l := range []net.Listener{l, in.Streams[0]} {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(got); string(got[:n]) != "fresh" {
			t.Errorf("%v: the next action's first connection says %q, %v", l.Addr(), got[:n], err)
		}
		conn.Close()
	}
	if n, _, err := in.Datagrams.ReadFrom(got); string(got[:n]) != "fresh" {
		t.Errorf("the next action's first datagram says %q, %v", got[:n], err)
	}
}

// metadataActs change the metadata of a file, not its content.
func metadataActs(path string) []string {
	return []string{
		fmt.Sprintf("os.chmod(%q, 0o777)", path), fmt.Sprintf("os.utime(%q, (1, 1))", path),
		fmt.Sprintf("os.chown(%q, os.getuid(), os.getgid())", path), fmt.Sprintf("os.setxattr(%q, 'user.x', b'x')", path),
		fmt.Sprintf("os.fchmod(os.open(%q, os.O_RDONLY), 0o777)", path),
	}
}

func modes(t *testing.T, c confine.Confiner) {
	ws := metadata(t, c)
	for _, act := range metadataActs(ws + "/own") {
		if got := Python(t, c, Profile(t, ws), ws, act); got != "ok" && got != "ENOTSUP" { // a file system without attributes
			t.Errorf("%s in the workspace: %s", act, got)
		}
	}
}

// metadata tries every act on a file that may be read, and on one that is not listed.
func metadata(t *testing.T, c confine.Confiner) (ws string) {
	ws, listed, unlisted := Workspace(t), Workspace(t), Workspace(t)
	p := Profile(t, ws)
	p.Paths[listed] = sandboxprofile.Read
	for _, dir := range []string{ws, listed, unlisted} {
		write(t, dir+"/own", "x")
	}
	before := fmt.Sprint(stat(t, listed+"/own"), stat(t, unlisted+"/own"))
	for _, dir := range []string{listed, unlisted} {
		for _, act := range metadataActs(dir + "/own") {
			if got := Python(t, c, p, ws, act); got == "ok" {
				t.Errorf("%s: %s", act, got)
			}
		}
	}
	if after := fmt.Sprint(stat(t, listed+"/own"), stat(t, unlisted+"/own")); after != before {
		t.Errorf("the files are %s, they were %s", after, before)
	}
	return ws
}

func stat(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(info.Mode(), info.ModTime())
}

func invisible(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	if o := Shell(t, c, Profile(t, ws), ws, "cd /proc; echo [0-9]*"); len(strings.Fields(o.Out)) != 2 || !strings.HasPrefix(o.Out, "1 ") {
		t.Errorf("processes %q, want process 1 and the shell", o.Out)
	}
	notThere(t, c, ws, "ESRCH")
}

// notThere does what needs no more than the number of a process. A signal to it finds
// no process, or is refused; calls that set limits, priorities and affinity accept no
// other number.
func notThere(t *testing.T, c confine.Confiner, ws, unsignalled string) {
	t.Helper()
	self := fmt.Sprint(os.Getpid())
	if got := Python(t, c, Profile(t, ws), ws, "os.kill("+self+", 0)"); got != unsignalled {
		t.Errorf("a signal: %s, want %s", got, unsignalled)
	}
	if got := Python(t, c, Profile(t, ws), ws, "os.kill(0, 0)"); got != "ok" {
		t.Errorf("a signal to its own: %s", got)
	}
	for _, act := range bindingActs(self) {
		if got := Python(t, c, Profile(t, ws), ws, act); got != "EPERM" {
			t.Errorf("%s: %s, want EPERM", act, got)
		}
	}
	for _, act := range bindingActs("0") {
		if got := Python(t, c, Profile(t, ws), ws, act); got != "ok" {
			t.Errorf("%s: %s", act, got)
		}
	}
}

// bindingActs are each way to slow or limit the process with a number, an expression of
// Python.
func bindingActs(pid string) []string {
	const raw = "import ctypes; l = ctypes.CDLL(None, use_errno=True)\nif l.syscall(%s) < 0: raise OSError(ctypes.get_errno(), '')"
	numbers := map[string][2]int{"amd64": {314, 251}, "arm64": {274, 30}}[runtime.GOARCH] // sched_setattr, ioprio_set
	return []string{
		fmt.Sprintf("import resource; resource.prlimit(%[1]s, resource.RLIMIT_CPU, (%[2]d, %[2]d))", pid, 10*int(patience)),
		fmt.Sprintf("import resource; resource.prlimit(%s, resource.RLIMIT_NPROC, (0, 0))", pid),
		fmt.Sprintf("import resource; resource.prlimit(%s, resource.RLIMIT_FSIZE, (0, 0))", pid),
		fmt.Sprintf("os.setpriority(os.PRIO_PROCESS, %s, 19)", pid),
		fmt.Sprintf("os.sched_setaffinity(%s, [sorted(os.sched_getaffinity(0))[0]])", pid),
		fmt.Sprintf("os.sched_setscheduler(%s, os.SCHED_IDLE, os.sched_param(0))", pid),
		fmt.Sprintf("os.sched_setparam(%s, os.sched_param(0))", pid),
		fmt.Sprintf("b = __import__('struct').pack('IIQiIQQQ', 48, 3, 0, 19, 0, 0, 0, 0)\n"+raw, fmt.Sprintf("%d, %s, b, 0", numbers[0], pid)), // SCHED_BATCH
		fmt.Sprintf(raw, fmt.Sprintf("%d, 1, %s, 3 << 13", numbers[1], pid)),                                                                   // the idle class
	}
}
