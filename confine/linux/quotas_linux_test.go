package linux_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// takeAll takes as much as it gets of what the kernel counts for a user, says what it has,
// and holds it until it is ended. Of what it could hold all it takes a few: other tests run.
const takeAll = `
import ctypes, fcntl, os, time
libc = ctypes.CDLL(None, use_errno=True)
def most(make, n):
    got = 0
    try:
        while got < n and make() >= 0: got += 1
    except OSError: pass
    return got
def pipe():
    r, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20); return r
def hold(what, make, each, enough=100000):
    total = 0
    for _ in range(40):
        r, w = os.pipe()
        if os.fork() == 0:
            os.close(r); os.write(w, b'%d' % most(make, each)); time.sleep(600)
        os.close(w)
        got = int(os.read(r, 20) or b'0'); os.close(r)
        total += got
        if got == 0 or total >= enough: break
    print(what, total, flush=True)
print('namespaces', 1 if libc.unshare(0x10000000) == 0 else 0, flush=True)
print('keys', most(lambda: libc.syscall(SYS_keyctl, 1, 0), 10), flush=True)
hold('terminals', lambda: os.open('/dev/ptmx', os.O_RDWR), 240)
hold('pipes', pipe, 120)
hold('signals', lambda: libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())), 3000)
hold('watchers', libc.inotify_init, 20, 20)
def locked():
    s = libc.shmget(0, 4096, 0o1600)
    if s < 0: return s
    r = libc.shmctl(s, 11, None) # SHM_LOCK
    libc.shmctl(s, 0, None)
    return r
print('locked', most(locked, 1), flush=True)
for i in range(400): libc.mq_open(b'/q%d' % i, 0o102, 0o600, (ctypes.c_long * 8)(0, 10, 8192)) # Landlock answers when the queue is made
print('all', flush=True)
time.sleep(600)
`

// TestQuotasOfTheUser: while a tool holds all that it gets of what the kernel counts for a
// user, the user's own programs have namespaces, keys, pipes, message queues, and terminals, of which the
// kernel keeps some from those that a sandbox has of its own (devpts, kernel.pty.reserve).
// Inotify instances (with bubblewrap), and terminals of the host's own, a tool can hold all (see the limits
// in the threat model); they are there again when it has ended.
func TestQuotasOfTheUser(t *testing.T) {
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			p.Limits.Wall = time.Minute
			box, err := c.Prepare(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			said, says := io.Pipe()
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			ended := make(chan error, 1)
			go func() {
				program := strings.NewReplacer("SYS_keyctl", strconv.Itoa(unix.SYS_KEYCTL)).Replace(takeAll)
				_, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
					Path: "/usr/bin/python3", Argv: []string{"python3", "-c", program}, Dir: ws,
				}}, confine.Stdio{Stdout: says, Stderr: os.Stderr})
				says.Close()
				ended <- err
			}()
			got := map[string]string{}
			for lines := bufio.NewScanner(said); lines.Scan() && lines.Text() != "all"; {
				what, n, _ := strings.Cut(lines.Text(), " ")
				got[what] = n
			}
			t.Logf("it holds %v", got)
			if got["namespaces"] != "0" || got["keys"] != "0" {
				t.Errorf("it has namespaces or keys: %v", got)
			}
			if got["locked"] != "0" {
				t.Errorf("it locks System V segments: %v", got)
			}
			if err := makeMessageQueue(); err != nil {
				t.Errorf("a message queue outside: %v", err)
			}
			if len(got) != 7 {
				t.Errorf("it ended before it had tried: %v", got)
			}
			if n, _ := strconv.Atoi(got["signals"]); n < 100 || n > 1024 {
				t.Errorf("it has %d timers, of 1024", n)
			}
			if c.Name() == "landlock" && (got["terminals"] != "32" || got["watchers"] != "16") {
				t.Errorf("of the host's terminals and watchers it has %s and %s", got["terminals"], got["watchers"])
			}
			if out, err := exec.Command("unshare", "--user", "true").CombinedOutput(); err != nil {
				t.Errorf("a user namespace outside: %v %s", err, out)
			}
			terminal := func(when string) {
				if fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
					t.Errorf("a terminal outside, %s: %v", when, err)
				} else {
					unix.Close(fd)
				}
			}
			terminal("meanwhile")
			var ends [2]int
			if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
				t.Errorf("a pipe outside: %v", err)
			} else {
				if n, err := unix.Write(ends[1], make([]byte, 4096)); n != 4096 {
					t.Errorf("a pipe outside takes %d bytes, %v", n, err)
				}
				unix.Close(ends[0])
				unix.Close(ends[1])
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := box.Close(); err != nil {
				t.Error(err)
			}
			terminal("when it has ended")
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				t.Errorf("a watcher outside, when it has ended: %v", err)
			} else {
				unix.Close(fd)
			}
		})
	}
}

// makeMessageQueue makes a POSIX message queue and removes it (mq_overview(7)).
func makeMessageQueue() error {
	name, err := unix.BytePtrFromString(fmt.Sprintf("sandgate-test-%d", os.Getpid()))
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	unix.Close(int(fd))
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// TestDescriptorsBoundWhatIsTheUsers: what the kernel counts for a user outside of every
// namespace, watches of epoll(7) and descriptors that wait in sockets, a tool can have as
// far as its limit of descriptors goes, and no further.
func TestDescriptorsBoundWhatIsTheUsers(t *testing.T) {
	const program = `
import os, select, socket
pipes, polls, watches = [os.pipe() for _ in range(16)], [], 0
try:
    while True: polls.append(select.epoll())
except OSError: pass
for e in polls:
    for fd in [fd for p in pipes for fd in p]: e.register(fd, select.EPOLLIN); watches += 1
for e in polls: e.close()
flying, pairs = 0, [socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
try:
    while True:
        for a, b in pairs: a.setblocking(False); socket.send_fds(a, [b'x'], [pipes[0][0]] * 10); flying += 10
except OSError as e: print(watches, flying, e.errno)
`
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			p.Limits.OpenFiles = 64
			o := confinetest.Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", program)
			var watches, flying, errno int
			if _, err := fmt.Sscan(string(o.Out), &watches, &flying, &errno); err != nil {
				t.Fatalf("%v: %q %q", err, o.Out, o.Err)
			}
			if watches == 0 || watches > 32*32 {
				t.Errorf("%d watches", watches)
			}
			if flying == 0 || flying > 64+10 || unix.Errno(errno) != unix.ETOOMANYREFS {
				t.Errorf("%d descriptors on their way, %v", flying, unix.Errno(errno))
			}
			t.Logf("%d watches, %d descriptors on their way", watches, flying)
		})
	}
}
