package confinetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Claims as a backend in the host's namespaces keeps them: what must be refused
// is, by another errno, and what it does not give is said to be refused too.

// wantErrnos runs each act and compares.
func wantErrnos(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, dir string, acts map[string]string) {
	t.Helper()
	for act, want := range acts {
		if got := Python(t, c, p, dir, act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
}

func hostEnvironment(t *testing.T, c confine.Confiner) {
	t.Setenv("SANDGATE_TEST_SECRET", "hunter2")
	ws := Workspace(t)
	o := Exec(t, context.Background(), c, Profile(t, ws), ws, nil, "/usr/bin/env")
	var names []string
	for _, kv := range strings.Split(strings.TrimSpace(o.Out), "\n") {
		name, value, _ := strings.Cut(kv, "=")
		names = append(names, name)
		if name != "PATH" && !strings.Contains(value, "/sandgate-private-") {
			t.Errorf("%s is not private", kv)
		}
	}
	if fmt.Sprint(names) != "[HOME PATH TMPDIR]" {
		t.Errorf("the environment is %q", names)
	}
	read := fmt.Sprintf("open('/proc/%d/environ','rb').read()", os.Getpid())
	wantErrnos(t, c, Profile(t, ws), ws, map[string]string{read: "EACCES", "open('/proc/self/environ').read()": "ok"})
	if out, err := exec.Command("/usr/bin/python3", "-c", errno(read)).CombinedOutput(); string(out) != "ok\n" {
		t.Errorf("the same by a process outside of the sandbox: %q, %v", out, err)
	}
}

// hostNetwork: what an address cannot distinguish is not there at all.
func hostNetwork(t *testing.T, c confine.Confiner) {
	network(t, c)
	ws := Workspace(t)
	wantErrnos(t, c, Profile(t, ws), ws, map[string]string{
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))":                                                                  "ENETUNREACH",
		"socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 53))":                                                               "ENETUNREACH",
		"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'', ('127.0.0.1', 53)); s.sendto(b'x', s.getsockname()); assert s.recv(9) == b'x'": "ok", // the first goes nowhere
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 53))":                                                                       "ENETUNREACH",
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 53))":                                                                       "ok",
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).setsockopt(0, 35, socket.inet_aton('224.0.0.251') + bytes(4))":                                    "EPERM",           // IP_ADD_MEMBERSHIP
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)":                                                                                               "EACCES",          // ICMP
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)":                                                                                             "ENOSYS",          // UDP-Lite
		"socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)":                                                                                            "EACCES",          // MPTCP, past Landlock's rules
		"socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)":                                                                                              "EPROTONOSUPPORT", // sock_diag(7)
		"socket.socket(socket.AF_INET).sendto(b'x', 0x20000000, ('127.0.0.1', 53))":                                                                         "ENOTSUP",         // MSG_FASTOPEN connects
		"socket.socket().setsockopt(6, 14, bytes(216))":                                                                                                     "EPERM",           // TCP_MD5SIG: off with the key
		"socket.socket().setsockopt(6, 32, bytes(216))":                                                                                                     "EPERM",
		"socket.socket().setsockopt(6, 1, 1)":                                                                                                               "ok", // TCP_NODELAY
		// MCAST_JOIN_GROUP sends packets with the group's address out of the machine.
		"socket.socket().setsockopt(0, 42, bytes(136))":                 "EPERM",
		"socket.socket(socket.AF_INET6).setsockopt(41, 42, bytes(136))": "EPERM",
		"socket.socket(socket.AF_INET6).setsockopt(41, 26, 1)":          "ok", // IPV6_V6ONLY
		// The kernel gives b an abstract name of the host's before it finds that no one listens.
		"a = socket.socket(1); a.bind('refuses'); b = socket.socket(1); b.setsockopt(1, 16, 1); assert b.connect_ex('refuses') == 111; b.listen()": "EINVAL",
		"a = socket.socket(1); a.bind('serves'); a.listen(); b = socket.socket(1); b.setsockopt(1, 16, 1); b.connect('serves')":                    "ok",
		// It listens at no address but the sandbox's own.
		"s = socket.socket(); s.listen(); h, p = s.getsockname(); assert not [l for l in open('/proc/net/tcp') if '00000000:%04X' % p in l]": "ok",
		"import asyncio; asyncio.run(asyncio.sleep(0))": "ok", // wakes itself up by a pair
	})
	open := Profile(t, ws)
	open.Network.Mode = sandboxprofile.NetworkHost
	wantErrnos(t, c, open, ws, map[string]string{"socket.socket(socket.AF_UNIX)": "EACCES"})
}

// hostListedSocket is listedSocket for streams, and the refusal of datagrams.
func hostListedSocket(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	stream, beside := ws+"/stream.sock", ws+"/beside.sock"
	serveUnix(t, stream, ws+"/datagram.sock")
	l, err := net.Listen("unix", beside)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := withSocket(t, ws)
	p.UnixSockets = append(p.UnixSockets, ws+"/dir/listed.sock")
	if err := os.Mkdir(ws+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	deep, err := net.Listen("unix", ws+"/dir/listed.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer deep.Close()
	wantErrnos(t, c, p, ws, map[string]string{
		fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", stream):                                                       "ok",
		"socket.socket(socket.AF_UNIX).connect('stream.sock')":                                                                 "ok",
		fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", beside):                                                       "EACCES",
		"os.symlink('stream.sock', 'link'); socket.socket(socket.AF_UNIX).connect('link')":                                     "ok",
		"os.symlink('beside.sock', 'link2'); socket.socket(socket.AF_UNIX).connect('link2')":                                   "EACCES",
		fmt.Sprintf("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', %q)", ws+"/datagram.sock"):                  "EACCES",
		fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", "\x00"+abstractName()[1:]):                                    "ECONNREFUSED",
		"s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); socket.socket(socket.AF_UNIX).connect('own.sock')": "ok",
		"os.rename('beside.sock', 'stream.sock')":                                                                              "EROFS",
		"os.unlink('stream.sock')":         "EROFS",
		"os.rename('stream.sock', 'away')": "EROFS",
		"os.link('stream.sock', 'away')":   "EROFS",
		"os.chmod('stream.sock', 0o777)":   "EROFS",
		"os.rename('dir', 'away')":         "EBUSY", // above another that is listed
	})
}

// hostNoWayIn: a server inside has an address and a key of its own, but its port is one
// of the host's, and what enforces says so.
func hostNoWayIn(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	port, stop := listen(t)
	stop()
	box := prepared(t, c, Profile(t, ws))
	if e := box.Enforced(); !strings.Contains(e.Network, "at every address") {
		t.Errorf("what enforces does not say it: %q", e.Network)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	whileServing(t, box, ws, port, func() {
		if got := greeting(net.Dial("tcp", address)); got != "ECONNREFUSED" {
			t.Errorf("from the host: %q", got)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("the port of the host's own address is held: %v", err)
		}
		l.Close()
	})
	if _, err := box.(confine.Exposed).Entrance(); err == nil {
		t.Error("there is an entrance")
	}
	hostServes(t, c, ws, port)
}

// hostCarried: a program that knows no proxy finds no way, and what carries it is refused
// by name.
func hostCarried(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := withHosts(t, ws)
	var cannot *confine.Unenforceable
	if _, err := prepared(t, c, p).(confine.Proxied).Carry(standing); !errors.As(err, &cannot) || cannot.Hint == "" {
		t.Errorf("carry: %v", err)
	}
	wantErrnos(t, c, p, ws, map[string]string{
		"socket.create_connection(('198.18.77.1', 443), 2)":                                    "ENETUNREACH",
		"socket.create_connection(('93.184.216.34', 80), 2)":                                   "ENETUNREACH",
		"socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(('2001:db8::1', 443))":     "ENETUNREACH",
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'asked', ('192.0.2.1', 53))": "ENETUNREACH",
	})
}

// hostNothingLeft is nothingLeft for the egress proxy, which is all there is.
func hostNothingLeft(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box := prepared(t, c, withHosts(t, ws))
	for _, word := range []string{"stale", "fresh"} {
		l, err := box.(confine.Proxied).Egress()
		if err != nil {
			t.Fatal(err)
		}
		act := fmt.Sprintf("import socket; socket.create_connection(('127.0.0.1', %d), 2).sendall(b'%s')", confine.EgressPort, word)
		if o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", act); o.Err != "" {
			t.Fatal(o.Err)
		}
		if word == "fresh" {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 10)
			if n, err := conn.Read(got); string(got[:n]) != word {
				t.Errorf("the next action's first connection says %q, %v", got[:n], err)
			}
			conn.Close()
		}
		l.Close()
	}
}

// hostOutlives is outlives where processes cannot be listed from inside: they are
// looked for from outside, by the directory they work in.
func hostOutlives(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	const script = `
import os, signal, time, ctypes
def hide(levels, name):
    for _ in range(levels):
        if os.fork(): os._exit(0)
        os.setsid()
    for s in range(1, 32):
        try: signal.signal(s, signal.SIG_IGN)
        except OSError: pass
    while not os.path.exists('ended'): time.sleep(0.01)
    open(name, 'w').write('alive')
    while True: time.sleep(1)
for name, levels in (('a', 1), ('b', 2), ('c', 5)):
    if os.fork() == 0: hide(levels, name)
if os.fork() == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER: takes orphans for itself
    if os.fork() == 0: hide(3, 'd')
    time.sleep(600)
for _ in range(3): # forks on while it is being killed
    if os.fork() == 0:
        while True:
            if os.fork(): os._exit(0)
print('started', flush=True)
time.sleep(0.1)
`
	o := ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", script)
	wantOut(t, o, "started")
	if left := WorkingIn(t, ws); len(left) != 0 {
		t.Errorf("processes after the call: %v", left)
	}
	write(t, ws+"/ended", "") // what lives on writes a file now
	wantOut(t, ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", "sleep 0.5; ls"), "ended")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	during := make(chan []int, 1)
	go func() {
		for len(WorkingIn(t, ws)) == 0 {
		}
		during <- WorkingIn(t, ws)
		stop()
	}()
	ExecIn(t, ctx, box, ws, nil, "/bin/sleep", "600")
	if len(<-during) == 0 {
		t.Error("a program that runs is not found in its directory: neither would one that was left")
	}
}

// hostInitSafe aims at the two trusted processes that a tool can name: the init
// that forked it, and this one, the supervisor.
func hostInitSafe(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	run := func(act string) string {
		return strings.TrimSpace(ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", errno(act)).Out)
	}
	for _, target := range []string{"os.getppid()", fmt.Sprint(os.Getpid())} {
		for _, act := range []string{
			"open(f'/proc/{%s}/environ').read()", "open(f'/proc/{%s}/mem','rb')", "open(f'/proc/{%s}/maps').read()", "open(f'/proc/{%s}/mem','wb')",
			"os.readlink(f'/proc/{%s}/fd/3')", "os.readlink(f'/proc/{%s}/exe')", "os.listdir(f'/proc/{%s}/cwd')",
		} {
			if got := run(fmt.Sprintf(act, target)); got != "EACCES" && got != "EPERM" {
				t.Errorf("%s of %s: %s", act, target, got)
			}
		}
		every := fmt.Sprintf("for n in [*range(32), *range(34, 65)]:\n    try: os.kill(%s, n)\n    except PermissionError: continue\n    raise OSError(errno.EEXIST, '')", target)
		if got := run(every); got != "ok" {
			t.Fatalf("a signal to %s: %s", target, got)
		}
	}
	for act, want := range map[string]string{
		"os.readlink('/proc/self/exe')": "ok", "os.kill(os.getpid(), 0)": "ok",
		"import subprocess; p = subprocess.Popen(['sleep', '60']); p.kill(); p.wait()": "ok",
		"os.kill(-1, 0)": "ok", // itself, and nobody else
	} {
		if got := run(act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", "import os; os.kill(-1, 9)")
	if o := ExecIn(t, context.Background(), box, ws, nil, "/bin/echo", "still there"); o.Out != "still there\n" {
		t.Errorf("after kill(-1): %+v", o)
	}
	notThere(t, c, ws, "EPERM")
}

// hostVisible: what /proc shows of processes outside, what it does not show, and that the
// sandbox says which.
func hostVisible(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	if e := box.Enforced(); !strings.Contains(e.Processes, "command lines of this user's other processes can be read") {
		t.Errorf("what enforces does not say it: %q", e.Processes)
	}
	wantErrnos(t, c, Profile(t, ws), ws, map[string]string{
		fmt.Sprintf("assert open('/proc/%d/cmdline').read()", os.Getpid()): "ok",
		fmt.Sprintf("open('/proc/%d/environ').read()", os.Getpid()):        "EACCES",
		fmt.Sprintf("os.readlink('/proc/%d/fd/0')", os.Getpid()):           "EACCES",
		fmt.Sprintf("os.readlink('/proc/%d/cwd')", os.Getpid()):            "EACCES",
		fmt.Sprintf("open('/proc/%d/io').read()", os.Getpid()):             "EACCES",
		fmt.Sprintf("open('/proc/%d/comm', 'w').write('x')", os.Getpid()):  "EACCES",
		"os.listdir('/proc/self/fd'); open('/proc/self/io').read()":        "ok",
	})
}

// hostPinned moves everything above a protected directory, and then tries it under its
// new name. What would no longer be protected, or become so, is not moved.
func hostPinned(t *testing.T, c confine.Confiner) {
	const hook = "; open('%s/.git/hooks/x', 'a')"
	swap := fmt.Sprintf(exchangePython, "deep/repo", "other") + "\nassert os.path.isdir('other/.git')\nopen('other/.git/hooks/x', 'a')"
	for act, want := range map[string]string{
		"os.rename('deep', 'moved')" + fmt.Sprintf(hook, "moved/repo"):                         "EROFS",
		"os.rename('deep', 'moved'); open('moved/repo/.git/HEAD', 'a')":                        "ok",
		"os.rename('deep/repo', 'moved')" + fmt.Sprintf(hook, "moved"):                         "EROFS",
		"os.rename('deep/repo/.git', 'deep/.git')" + fmt.Sprintf(hook, "deep"):                 "EROFS",
		"os.rename('deep/repo/.git', 'deep/.git'); open('deep/.git/HEAD', 'a')":                "ok",
		"os.rename('deep/repo/.git', 'deep/repo/git')":                                         "EROFS",
		"os.rename('deep/repo/.git/hooks', 'hooks')":                                           "EROFS",
		"os.mkdir('free/.git'); os.rename('free/dir', 'free/.git/hooks')":                      "EROFS",
		"os.mkdir('free/git'); os.mkdir('free/git/hooks'); os.rename('free/git', 'free/.git')": "ok", // git itself makes an empty one
		"os.rename('planted', 'free/.git')":                                                    "EROFS",
		"os.rename('planted', 'free/git')":                                                     "ok",
		"os.symlink('planted', 'free/.git')":                                                   "EROFS",
		"os.symlink('planted', 'free/git')":                                                    "ok",
		swap:                                                                                   "EROFS",
	} {
		ws := Workspace(t)
		write(t, ws+"/deep/repo/.git/hooks/x", "sample")
		write(t, ws+"/deep/repo/.git/HEAD", "ref")
		write(t, ws+"/planted/hooks/x", "planted")
		if err := os.MkdirAll(ws+"/free/dir", 0o755); err != nil {
			t.Fatal(err)
		}
		if got := Python(t, c, Profile(t, ws), ws, act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
		for _, pattern := range []string{"/.git/hooks/*", "/*/.git/hooks/*", "/*/*/.git/hooks/*"} {
			hooks, _ := filepath.Glob(ws + pattern)
			for _, name := range hooks {
				if content(t, name) != "sample" {
					t.Errorf("%s: %s is %q", act, name, content(t, name))
				}
			}
		}
	}
}

// hostPinnedHidden is the same for hidden names, in the call that renames and in the next.
func hostPinnedHidden(t *testing.T, c confine.Confiner) {
	for act, want := range map[string]string{
		"os.rename('deep', 'moved'); open('moved/app/.env')":                                                     "EACCES",
		"os.rename('deep/app', 'moved'); open('moved/.env')":                                                     "EACCES",
		"os.rename('deep', 'moved'); open('moved/free/env')":                                                     "ok",
		"os.rename('vault', 'free')":                                                                             "EACCES", // the pattern is vault/key
		"os.link('vault/key', 'key')":                                                                            "EACCES",
		"os.link('vault/label', 'label'); open('label')":                                                         "ok",
		"os.rename('vault/key', 'key')":                                                                          "EACCES",
		"os.rename('deep/free', 'seen'); open('seen/env')":                                                       "ok",
		"os.rename('vault', 'deep/vault'); open('deep/vault/key')":                                               "EACCES",
		"os.rename('vault', 'deep/vault')":                                                                       "EACCES", // what is granted there would be below
		"os.rename('deep/app', 'deep/app2'); open('deep/app2/label')":                                            "ok",
		"os.symlink('vault', 'link'); open('link/key')":                                                          "EACCES",
		fmt.Sprintf(exchangePython, "deep/app", "other") + "\nassert os.path.isdir('other')\nopen('other/.env')": "EACCES",
	} {
		ws := Workspace(t)
		p := Profile(t, ws)
		p.Hide = append(p.Hide, "vault/key")
		for name, content := range map[string]string{"deep/app/.env": "TOKEN", "deep/app/label": "", "deep/free/env": "", "vault/key": "TOKEN", "vault/label": ""} {
			write(t, ws+"/"+name, content)
		}
		if got := Python(t, c, p, ws, act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
		// Wherever it is now, another call does not read it either.
		if o := Shell(t, c, p, ws, "grep -r . . 2>/dev/null"); strings.Contains(o.Out, "TOKEN") {
			t.Errorf("after %s another call reads %q", act, o.Out)
		}
	}
}

// hostUnixSockets tries every way to a socket that is known: the calls that name
// an address, and a pair whose end is sent to another one.
func hostUnixSockets(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	stream, datagram := ws+"/stream.sock", ws+"/datagram.sock"
	serveUnix(t, stream, datagram)
	packet := ws + "/packet.sock"
	l, err := net.Listen("unixpacket", packet)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wantErrnos(t, c, Profile(t, ws), ws, map[string]string{
		fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", stream):                           "EACCES",
		fmt.Sprintf("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', %q)", datagram): "EACCES",
		// One of a pair sends to the other, whatever the address.
		fmt.Sprintf("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'pair', %q); assert b.recv(9) == b'pair'", datagram): "ok",
		fmt.Sprintf("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.connect(%q)", datagram):                                      "EISCONN",
		fmt.Sprintf("socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].connect(%q)", packet):                                           "EISCONN",
		fmt.Sprintf("socket.socketpair()[0].connect(%q)", stream):                                                                                "EISCONN",
		fmt.Sprintf("socket.socket(socket.AF_UNIX).connect(%q)", "\x00"+abstractName()[1:]):                                                      "ECONNREFUSED",
		fmt.Sprintf("socket.socketpair()[0].connect(%q)", "\x00"+abstractName()[1:]):                                                             "EISCONN",
		"a, b = socket.socketpair(); a.send(b'x'); b.recv(1)":                                                                                    "ok",
		"a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); a.send(b'x'); assert b.recv(1)":                                        "ok",
	})
}

// hostBombsEnd lets off the bombs that there is something to make of, and checks
// that for the others there is not.
func hostBombsEnd(t *testing.T, c confine.Confiner) {
	small := func(l *sandboxprofile.Limits) { l.Scratch = 8 * mib }
	fill := "for d in (os.environ['TMPDIR'], os.environ['HOME']):\n    for i in range(N): open(f'{d}/{i}', 'wb').write(b'x' * mib)\nhold()"
	var list []bomb
	for _, b := range bombs {
		switch b.name {
		case "Segments", "Semaphores", "EmptyMessages", "Undos", "FiltersOfSockets", "QuestionsThatNobodyReads": // there the broker answers, and limits who asks
			continue
		case "SharedMemory":
			one := "f = open(f'/dev/shm/x{os.getpid()}', 'wb', 0)\nfor i in range(N): f.write(b'x' * mib)\nhold()"
			// Docker gives a container 64 MiB of it.
			b.python, b.limits, b.over, b.under, b.cause, b.refused = one, small, "40", "2", confine.ScratchLimit, ""
		case "EmptyFilesInTmp", "LinksInTmp":
			b.limits, b.over, b.under, b.cause = small, "60", "1", confine.ScratchLimit
		case "FilesInTmp", "TmpSize":
			b.python, b.limits, b.over, b.under, b.cause, b.refused = fill, small, "100", "2", confine.ScratchLimit, ""
		}
		list = append(list, b)
	}
	letOff(t, c, list)
	ws := Workspace(t)
	wantErrnos(t, c, Profile(t, ws), ws, map[string]string{
		"import ctypes; l = ctypes.CDLL(None, use_errno=True); n = l.shmget(0, 4096, 0o1600); raise OSError(ctypes.get_errno(), '')": "EPERM",
		"import mmap; mmap.mmap(-1, mib := 1 << 20)": "ok",
	})
}
