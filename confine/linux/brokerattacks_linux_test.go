package linux_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestBrokerHoldsAgainst is what has broken brokers of this kind, each by a program of
// its own. Next to each refusal stands what goes, so that it is the attack that fails.
func TestBrokerHoldsAgainst(t *testing.T) {
	for _, x := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"a directory renamed into a protected name", renamedDirectory},
		{"content changed after the look, by a mapping and another link", keptMapping},
		{"links that complete a protected or hidden name", completingLinks},
		{"a hidden directory renamed", renamedHidden},
		{"a descriptor that gets a name", namedDescriptor},
		{"a hidden file whose name has gone", hiddenNameless},
		{"two sandboxes that each do half", twoHalves},
		{"paths through the broker's own directory in proc", brokersProc},
		{"the broker's terminal", brokersTerminal},
		{"sockets that need no connection", looseSockets},
		{"a FIFO and a lease in the queue", blockedQueue},
		{"limits of the broker", limitedBroker},
		{"sockets that the broker keeps", keptSockets},
		{"unreadable memory", unreadableMemory},
		{"a limit of file size", fileSize},
		{"no room for a descriptor", noDescriptor},
		{"the umask", umask},
		{"metadata through a descriptor for reading", metadataByDescriptor},
		{"opening without opening", pathDescriptors},
		{"programs that cannot be read", undumpable},
		{"executing what was just written", busyText},
		{"the smaller ones", smaller},
		{"threads with capabilities", threadsOfInit},
		{"names in a shared directory", luringNames},
		{"links to what is protected or hidden", linksToKept},
		{"links in a shared directory", linksInSharedPlaces},
		{"a person's file with the number of a socket in a shared directory", reusedNumbers},
		{"links to directories of the user's", linksToUsersDirectories},
		{"names below very many that git knows", deepNames},
		{"directories of git's that other users can write", othersGit},
		{"terminals whose names have gone", endedTerminals},
		{"renames that others wait for", heldUp},
		{"directories moved to where more is granted", movedIntoGranted},
		{"directories moved to where no pattern holds", movedIntoPrivate},
		{"links from one grant to another", linksBetweenGrants},
		{"connections that leave by a device", strayingConnections},
		{"abstract names", abstractNames},
		{"connects that wait on a flag", waitingConnects},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), x.test)
	}
}

func renamedDirectory(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("os.makedirs('a/hooks'); open('a/hooks/pre-commit', 'w').close(); open('a/config', 'w').write('[core]\\n\\tfsmonitor = x\\n')", "ok")
	k.gets("os.rename('a', '.git')", "EROFS")
	k.gets("os.makedirs('r/.git'); os.rename('a/config', 'r/.git/config')", "EROFS")
	k.gets("sys_(316, -100, b'a', -100, b'r/.git', 2)", "EROFS") // RENAME_EXCHANGE
	k.gets("os.rename('a/hooks/pre-commit', 'a/x'); os.rmdir('a/hooks'); os.unlink('a/config'); os.rename('a', '.git')", "ok")
	k.gets("open('.git/hooks', 'w')", "EROFS")
	k.gets("os.makedirs('b/plugin'); os.rename('b', '.vim')", "EROFS")
	k.gets("os.makedirs('c/git'); open('c/git/config', 'w').close(); os.rename('c', '.config')", "EROFS")
	k.gets("os.rename('c/git/config', 'c/git/other'); os.rename('c', '.config')", "ok")
	k.gets("open('.config/git/config', 'w')", "EROFS")
}

// keptMapping: what becomes a configuration is a copy of which the program has nothing.
func keptMapping(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("os.mkdir('.git'); open('.git/config.lock', 'w').write('[core]\\n\\tbare = false\\n' + '#' * 40 + '\\n')", "ok")
	k.gets("f = open('.git/config.lock', 'r+b'); m = mmap.mmap(f.fileno(), 0); os.link('.git/config.lock', 'other')", "ok")
	k.gets("os.rename('.git/config.lock', '.git/config')", "ok")
	k.gets("x = b'[core]\\n\\tfsmonitor = ./x#'; m[:len(x)] = x; m.flush(); open('other', 'w').write('[core]\\n\\tfsmonitor = ./y\\n')", "ok")
	if b, err := os.ReadFile(ws + "/.git/config"); err != nil || strings.Contains(string(b), "fsmonitor") || !strings.Contains(string(b), "bare") {
		t.Errorf("the configuration: %q, %v", b, err)
	}
	k.gets("os.link('.git/config', 'again')", "EROFS")
}

func completingLinks(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/.git/hooks")
	put(t, ws+"/.git/config", "[core]\n\tbare = false\n")
	k := converse(t, l, p, ws)
	k.gets("os.makedirs('b/hooks'); os.mkdir('sub'); os.symlink('../b', 'sub/.git')", "EROFS")
	k.gets("os.symlink('b', 'sub/git'); os.rename('sub/git', 'sub/.git')", "EROFS")
	k.gets("os.symlink('target', '.bashrc')", "EROFS")
	k.gets("open('plain', 'w').close(); os.link('plain', '.bashrc')", "EROFS")
	k.gets("os.rename('plain', '.bashrc')", "EROFS")
	k.gets("os.link('.git/config', 'config')", "EROFS")
	k.gets("os.symlink('.git/config', 'way'); open('way', 'a')", "EROFS")
	k.gets("os.symlink('.bashrc', 'dangling'); open('dangling', 'w')", "EROFS")
	k.gets("os.symlink('.git', 'way2'); os.mkdir('way2/hooks/x')", "EROFS")
	k.gets("os.symlink('plain', 'way3'); open('way3', 'a')", "ok")
}

func renamedHidden(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/secrets")
	mkdir(t, ws+"/plain")
	put(t, ws+"/secrets/key", "TOPSECRET")
	put(t, ws+"/plain/key", "open")
	k := converse(t, l, p, ws)
	k.gets("os.rename('secrets', 'shown')", "EACCES")
	k.gets("sys_(316, -100, b'secrets', -100, b'plain', 2)", "EACCES")
	k.gets("os.link('secrets/key', 'key')", "EACCES")
	k.gets("os.rename('secrets/key', 'key')", "EACCES")
	k.gets("r = open('secrets/key').read()", "EACCES")
	k.gets("r = open('secrets/key', 'r+').read()", "EACCES")
	k.gets("os.mkdir('deep'); os.rename('plain', 'deep/plain'); r = open('deep/plain/key').read()", "open")
}

func namedDescriptor(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/.git")
	put(t, ws+"/.git/config", "[core]\n\tbare = false\n")
	k := converse(t, l, p, ws)
	const byDescriptor = "sys_(265, fd, b'', -100, b'%s', 0x1000)" // linkat, AT_EMPTY_PATH
	k.gets("fd = os.open('.git/config', os.O_RDONLY); "+fmt.Sprintf(byDescriptor, "ordinary"), "EROFS")
	k.gets("sys_(265, -100, b'/proc/self/fd/%d' % fd, -100, b'ordinary', 0x400)", "EROFS")
	k.gets("fd = os.open('.', os.O_TMPFILE|os.O_RDWR); os.write(fd, b'x'); "+fmt.Sprintf(byDescriptor, ".bashrc"), "EROFS")
	k.gets(fmt.Sprintf(byDescriptor, "ordinary"), "ok")
	k.gets("sys_(265, -100, b'', -100, b'directory', 0x1000)", "EPERM") // the working directory
}

// hiddenNameless: Landlock does not judge opening with O_PATH. What such a descriptor
// holds stays hidden when an editor puts a new file in its place.
func hiddenNameless(t *testing.T) {
	for _, early := range []bool{true, false} {
		l, ws, p := brokered(t)
		p.Hide = append(p.Hide, "vault/pin")
		if early {
			put(t, ws+"/.env", "TOPSECRET")
		}
		put(t, ws+"/seen", "seen")
		k := converse(t, l, p, ws)
		put(t, ws+"/.env", "TOPSECRET")
		k.gets("hidden, seen = os.open('.env', os.O_PATH), os.open('seen', os.O_PATH)", "ok")
		for _, name := range []string{"/.env", "/seen"} {
			put(t, ws+"/new", "new")
			if err := os.Rename(ws+"/new", ws+name); err != nil {
				t.Fatal(err)
			}
		}
		for _, flags := range []string{"os.O_RDWR", "os.O_WRONLY", "os.O_RDWR|os.O_TRUNC"} {
			k.gets("os.open('/proc/self/fd/%d' % hidden, "+flags+")", "EACCES")
		}
		k.gets("os.truncate('/proc/self/fd/%d' % hidden, 0)", "EACCES")
		k.gets("os.chmod('/proc/self/fd/%d' % hidden, 0o666)", "EPERM")
		k.gets("r = os.read(os.open('/proc/self/fd/%d' % seen, os.O_RDWR), 9)", "b'seen'")
		if early { // else the kernel lets programs read there, until the next sandbox
			k.gets("open('/proc/self/fd/%d' % hidden)", "EACCES")
			// A pattern of two names, of which one changes when the file is gone.
			mkdir(t, ws+"/kept/vault")
			put(t, ws+"/kept/vault/pin", "TOPSECRET")
			k.gets("hidden = os.open('kept/vault/pin', os.O_PATH); open('kept/vault/pin')", "EACCES")
			k.gets("os.rename('kept', 'moved')", "ok")
			k.gets("os.rename('moved/vault', 'moved/other')", "EACCES")
			if err := os.Remove(ws + "/moved/vault/pin"); err != nil {
				t.Fatal(err)
			}
			k.gets("os.rename('moved/vault', 'moved/other'); r = os.readlink('/proc/self/fd/%d' % hidden).endswith('/other/pin (deleted)')", "True")
			for _, flags := range []string{"os.O_RDWR", "os.O_RDONLY"} {
				k.gets("os.open('/proc/self/fd/%d' % hidden, "+flags+")", "EACCES")
			}
		}
		k.gets("fd = os.memfd_create('x'); os.write(os.open('/proc/self/fd/%d' % fd, os.O_RDWR), b'x')", "ok")
		k.gets("f = open('/tmp/test-x', 'w'); os.unlink(f.name); os.open('/proc/self/fd/%d' % f.fileno(), os.O_RDWR)", "ok")
		k.end()
	}
}

// twoHalves: one queue for names, whatever the sandbox.
func twoHalves(t *testing.T) {
	l, ws, p := brokered(t)
	one, other := converse(t, l, p, ws), converse(t, l, p, ws)
	one.starts("exec('for i in range(300):\\n try: os.mkdir(\"a\")\\n except OSError: pass\\n try: os.close(os.open(\"a/hooks\", os.O_CREAT|os.O_WRONLY)); r = \"made\"\\n except OSError: pass', g)")
	other.starts("exec('for i in range(3000):\\n try: os.rename(\"a\", \".git\")\\n except OSError: pass\\n try: os.rename(\".git\", \"a\")\\n except OSError: pass\\n try: os.unlink(\"a/hooks\")\\n except OSError: pass', g)")
	done := make(chan struct{})
	var planted bool
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				if info, err := os.Lstat(ws + "/.git/hooks"); err == nil && !info.IsDir() {
					planted = true
				}
			}
		}
	}()
	one.hears()
	other.hears()
	close(done)
	if _, err := os.Lstat(ws + "/.git/hooks"); planted || err == nil {
		t.Error("a file became .git/hooks")
	}
}

// brokersProc: procfs means the program's, whoever resolves the path.
func brokersProc(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	init := k.init()
	for _, name := range []string{
		"/proc/" + init + "/mem", "/proc/" + init + "/fd/3", "/proc/" + init + "/fd/0", "/proc/" + init + "/cwd/x", "/proc/" + init + "/root" + ws + "/x",
		"/proc/self/task/" + init + "/mem", "/proc/" + init + "/task/" + init + "/fd/3", "/proc/self/../" + init + "/mem", "/proc/self/mem", "/proc/thread-self/mem",
		"/proc/" + init + "/oom_score_adj", "/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/sysrq-trigger",
	} {
		for _, flags := range []string{"os.O_RDWR", "os.O_WRONLY", "os.O_WRONLY|os.O_CREAT"} {
			if got := k.does(fmt.Sprintf("os.open(%q, %s)", name, flags)); got != "EACCES" && got != "ENOENT" && got != "EPERM" {
				t.Errorf("%s with %s: %s", name, flags, got)
			}
		}
	}
	k.gets("f = open('x', 'w'); os.open('/proc/self/fd/%d' % f.fileno(), os.O_RDWR)", "ok")
	k.gets("os.open('/proc/thread-self/fd/%d' % f.fileno(), os.O_RDWR)", "ok")
	k.gets("os.open('/dev/fd/%d' % f.fileno(), os.O_RDWR)", "ok")
	k.gets("r = open('/proc/self/stat').read().split()[0] == str(os.getpid())", "True")
}

// brokersTerminal: who has no controlling terminal gets none by opening one, and the
// broker's is nobody's.
func brokersTerminal(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("os.open('/dev/tty', os.O_RDWR)", "ENXIO")
	k.gets("m, s = os.openpty(); name = os.ttyname(s); os.open('/dev/tty', os.O_RDWR)", "ENXIO")
	// A session that opens a terminal owns it; the broker opens it and must not.
	k.gets("pid = os.fork()\nif pid == 0:\n    os.setsid(); os.open(name, os.O_RDWR)\n    try: fcntl.ioctl(s, 0x540e, 0); os.open('/dev/tty', os.O_RDWR); os._exit(0)\n    except OSError as e: os._exit(e.errno)\nr = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "0")
	if b, err := os.ReadFile("/proc/" + k.init() + "/stat"); err != nil || strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[4] != "0" {
		t.Errorf("the broker has a terminal: %s, %v", b, err)
	}
	others, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	n, err := unix.IoctlGetUint32(int(others.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(others.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.gets(fmt.Sprintf("os.open('/dev/pts/%d', os.O_RDWR|os.O_NOCTTY)", n), "EACCES")
	k.gets(fmt.Sprintf("fd = os.open('/dev/pts/%d', os.O_PATH); os.open('/proc/self/fd/%%d' %% fd, os.O_RDWR|os.O_NOCTTY)", n), "EACCES")
	k.gets("os.open('/proc/self/fd/%d' % s, os.O_RDWR|os.O_NOCTTY)", "ok")
	// Two threads change what the descriptor is, from that of O_PATH to the sandbox's own.
	k.gets(fmt.Sprintf(flipsTerminals, n), "0")
}

// flipsTerminals opens, by a descriptor that is another one again and again, the terminal of
// the number that is filled in, and counts how often it gets it.
const flipsTerminals = `
import threading, time
other, at = os.open('/dev/pts/%d', os.O_PATH), os.dup(s)
end, own, r = time.monotonic() + 1, os.fstat(s).st_rdev, 0
def flips():
    while time.monotonic() < end:
        os.dup2(other, at); os.dup2(s, at)
threads = [threading.Thread(target=flips) for _ in range(2)]
for t in threads: t.start()
while time.monotonic() < end:
    try: got = os.open('/proc/self/fd/%%d' %% at, os.O_RDWR|os.O_NOCTTY)
    except OSError: continue
    r += os.fstat(got).st_rdev != own
    os.close(got)
for t in threads: t.join()`

// looseSockets: an address can be said beside what is sent, and a port taken without
// bind.
func looseSockets(t *testing.T) {
	l, ws, p := brokered(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	port := server.Addr().(*net.TCPAddr).Port
	datagrams, err := net.ListenPacket("unixgram", ws+"/datagrams")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	if err := os.Chmod(ws+"/datagrams", 0o777); err != nil {
		t.Fatal(err)
	}
	k := converse(t, l, p, ws)
	for act, want := range map[string]string{
		"a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '" + ws + "/datagrams'); r = b.recv(9)":                             "b'x'", // the address is ignored
		"socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '" + ws + "/datagrams')":                                                          "EACCES",
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)":                                                                                            "EACCES", // ICMP
		fmt.Sprintf("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', %d)); s.sendto(b'x', ('192.0.2.1', %d))", port, port): "ENETUNREACH",
		"socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)":                                                                                         "EACCES", // MPTCP
		fmt.Sprintf("socket.socket().connect(('127.0.0.1', %d))", port):                                                                                  "ECONNREFUSED",
		fmt.Sprintf("socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', %d))", port):                                                                 "ENOTSUP",
		fmt.Sprintf("socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', %d))", port):                                                          "ENOTSUP",
		fmt.Sprintf("s = socket.socket(); s.setsockopt(6, 30, 1); s.connect(('127.0.0.1', %d)); s.send(b'x')", port):                                     "EPERM", // TCP_FASTOPEN_CONNECT
		"s = socket.socket(); s.setsockopt(6, 14, b'\\0' * 216)":                                                                                         "EPERM", // TCP_MD5SIG
		"a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); a.sendto(b'x', '" + ws + "/datagrams'); r = b.recv(9)":                         "b'x'",  // the address is ignored
		"s = socket.socket(); s.listen(); r = '00000000:%04X' % s.getsockname()[1] in open('/proc/net/tcp').read()":                                      "False",
		"s = socket.socket(socket.AF_UNIX); s.bind('@x'); r = s.getsockname() != '@x' and os.path.exists('@x')":                                          "True", // a name, and nothing abstract
		"s = socket.socket(socket.AF_UNIX); s.bind('named'); r = s.getsockname()":                                                                        "named",
		"s = socket.socket(socket.AF_UNIX); s.bind(os.getcwd() + '/long'); r = s.getsockname() == os.getcwd() + '/long'":                                 "True",
		"s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen(); r = '00000000:%04X' % s.getsockname()[1] in open('/proc/net/tcp').read()":              "False", // at the sandbox's own address
		"s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname()); s.accept()":                           "ok",
		"s = socket.socket(socket.AF_UNIX); s.bind('u'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('u'); s.accept(); os.unlink('u')":      "ok",
	} {
		got := k.does(act)
		if got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	k.gets(`n = '\0' + 'a' * 100; s = socket.socket(socket.AF_UNIX); s.bind(n); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(n); s.accept(); r = 'met'`, "met")
	if err := server.(*net.TCPListener).SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if c, err := server.Accept(); err == nil {
		t.Errorf("a connection came out: %v", c.RemoteAddr())
	}
}

// blockedQueue: nothing that can wait is done while others wait for it.
func blockedQueue(t *testing.T) {
	l, ws, p := brokered(t)
	put(t, ws+"/leased", "content")
	if err := os.Chmod(ws+"/leased", 0o666); err != nil {
		t.Fatal(err)
	}
	k, other := converse(t, l, p, ws), converse(t, l, p, ws)
	k.gets("os.mkfifo('p'); subprocess.Popen(['/bin/sh', '-c', 'echo hi > p']); time.sleep(0.05); os.mkdir('d'); r = open('p').read().strip()", "hi")
	leased, err := os.OpenFile(ws+"/leased", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer leased.Close()
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Skipf("this file system has no leases: %v", err)
	}
	k.starts("os.open('leased', os.O_WRONLY|os.O_TRUNC)")
	for range 50 { // however long the wait: while it lasts, others go on
		other.gets("os.mkdir('e'); os.rmdir('e')", "ok")
	}
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Errorf("the lease was broken before anybody could answer: %v", err)
	}
	if got := k.hears(); got != "ok" {
		t.Errorf("the open that waited for the lease: %s", got)
	}
	k.gets("fcntl.fcntl(os.open('leased', os.O_RDONLY), 1024, 0)", "EACCES") // F_SETLEASE
}

func limitedBroker(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	init := k.init()
	for _, act := range []string{
		"sys_(302, %s, 7, struct.pack('QQ', 3, 3), 0)", // prlimit64, NOFILE
		"sys_(302, %s, 1, struct.pack('QQ', 0, 0), 0)", // FSIZE
		"os.sched_setaffinity(%s, {0})", "os.setpriority(os.PRIO_PROCESS, %s, 19)",
		"os.sched_setscheduler(%s, os.SCHED_IDLE, os.sched_param(0))", "sys_(251, 1, %s, 3 << 13)", // ioprio_set
		"os.kill(%s, 19)", "os.kill(%s, 9)", "sys_(101, 16, %s, 0, 0)", // ptrace
		"os.setpriority(os.PRIO_USER, 0, 19) # %s",
	} {
		if got := k.does(fmt.Sprintf(act, init)); got != "EPERM" && got != "EACCES" {
			t.Errorf("%s: %s", act, got)
		}
	}
	k.gets("os.setpriority(os.PRIO_PROCESS, 0, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 1)); os.sched_setaffinity(0, os.sched_getaffinity(0))", "ok")
	k.gets("open('x', 'w').write('still here')", "ok")
}

// keptSockets: the broker's copies end with the program, and there are never many.
func keptSockets(t *testing.T) {
	l, ws, p := brokered(t)
	p.Limits.OpenFiles = 2048
	k := converse(t, l, p, ws)
	k.gets("s = socket.socket(socket.AF_UNIX); s.bind('u'); s.listen()", "ok")
	k.gets("p = subprocess.Popen([sys.executable, '-c', 'import socket; c = socket.socket(socket.AF_UNIX); c.connect(\"u\"); input()'], stdin=-1); c, _ = s.accept(); p.kill(); p.wait(); r = c.recv(1)", "b''")
	k.gets("for i in range(3000): socket.socket().close()", "ok")
	// Who has more than the broker keeps gets no more, or cannot connect the oldest.
	if got := k.does("l = []\ntry:\n    for i in range(1000): l.append(socket.socket())\nexcept OSError as e: r = errno.errorcode[e.errno]"); got != "ok" && got != "EMFILE" {
		t.Errorf("a thousand sockets: %s", got)
	}
	if list, err := os.ReadDir("/proc/" + k.init() + "/fd"); err == nil && len(list) > 400 {
		t.Errorf("the broker has %d descriptors", len(list))
	}
	k.gets("l.clear(); time.sleep(0.2); socket.socket(); open('x', 'w')", "ok")
}

// mayPeek reports whether process_vm_readv(2) is let through. Where an older container
// runtime bars it the broker reads /proc/PID/mem, and that shows a program's pages that
// the program has barred to itself.
func mayPeek() bool {
	var from, to [1]byte
	_, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &to[0], Len: 1}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 1}}, 0)
	return err == nil
}

// unreadableMemory: what the kernel would not read, the broker does not either.
func unreadableMemory(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("libc.mmap.restype = ctypes.c_void_p; a = libc.mmap(None, 8192, 3, 0x22, -1, 0); ctypes.memmove(a + 4092, b'abc', 3); libc.mprotect(ctypes.c_void_p(a + 4096), 4096, 0)", "ok")
	k.gets("sys_(83, ctypes.c_void_p(a + 4092), 0o755)", "ok") // it ends with the page
	if mayPeek() {
		k.gets("ctypes.memset(a, 0x61, 4096); sys_(83, ctypes.c_void_p(a + 4000), 0o755)", "EFAULT")
		k.gets("libc.mprotect(ctypes.c_void_p(a), 4096, 0); sys_(83, ctypes.c_void_p(a), 0o755)", "EFAULT")
	}
	k.gets("sys_(83, ctypes.c_void_p(8), 0o755)", "EFAULT")
	k.gets("sys_(83, ctypes.c_void_p((1 << 63) + 4096), 0o755)", "EFAULT")
	if r := k.end(); len(r.Refused) != 0 {
		t.Errorf("reported: %+v", r.Refused)
	}
}

func fileSize(t *testing.T) {
	l, ws, p := brokered(t)
	p.Limits.FileSize = 4096
	k := converse(t, l, p, ws)
	k.gets("signal.signal(signal.SIGXFSZ, signal.SIG_IGN); open('x', 'w').close(); os.truncate('x', 1 << 20)", "EFBIG")
	k.gets("os.truncate('x', 4096); r = os.path.getsize('x')", "4096")
	k.gets("p = subprocess.run([sys.executable, '-c', 'import os, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); os.truncate(\"x\", 1 << 20)']); r = p.returncode", "-25")
	k.gets("open('y', 'w').close()", "ok")
}

// noDescriptor: a call whose descriptor cannot be handed over has done nothing.
func noDescriptor(t *testing.T) {
	l, ws, p := brokered(t)
	put(t, ws+"/data", "content")
	if err := os.Chmod(ws+"/data", 0o666); err != nil {
		t.Fatal(err)
	}
	k := converse(t, l, p, ws)
	k.gets("import resource; had = resource.getrlimit(7); n = os.dup(0); os.close(n); resource.setrlimit(7, (n, had[1]))", "ok")
	k.gets("os.open('index.lock', os.O_CREAT|os.O_EXCL|os.O_WRONLY)", "EMFILE")
	k.gets("os.open('/tmp/test-lock', os.O_CREAT|os.O_EXCL|os.O_WRONLY)", "EMFILE")
	k.gets("os.open('data', os.O_WRONLY|os.O_TRUNC)", "EMFILE")
	k.gets("os.open('.', os.O_TMPFILE|os.O_WRONLY)", "EMFILE")
	k.gets("resource.setrlimit(7, had); r = (os.path.exists('index.lock'), os.path.exists('/tmp/test-lock'), os.path.getsize('data'))", "(False, False, 7)")
	k.gets("os.open('index.lock', os.O_CREAT|os.O_EXCL|os.O_WRONLY); os.open('data', os.O_WRONLY|os.O_TRUNC); r = os.path.getsize('data')", "0")
}

// umask: the program's applies, with default access lists too, and to sockets.
func umask(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/acl")
	if out, err := exec.Command("chmod", "0777", ws+"/acl", ws).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// system.posix_acl_default: u::rw- u:12345:rw- g::rw- m::rw- o::r--
	acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 0x39, 0x30, 0, 0, 4, 0, 6, 0, 255, 255, 255, 255, 0x10, 0, 6, 0, 255, 255, 255, 255, 0x20, 0, 4, 0, 255, 255, 255, 255}
	hasACL := unix.Setxattr(ws+"/acl", "system.posix_acl_default", acl, 0) == nil
	k := converse(t, l, p, ws)
	k.gets("os.umask(0o077); os.close(os.open('a', os.O_CREAT|os.O_WRONLY, 0o666)); os.mkdir('b'); r = [oct(os.stat(x).st_mode & 0o777) for x in 'ab']", "['0o600', '0o700']")
	k.gets("s = socket.socket(socket.AF_UNIX); s.bind('s'); r = oct(os.stat('s').st_mode & 0o777)", "0o700")
	k.gets("os.umask(0o002); os.close(os.open('c', os.O_CREAT|os.O_WRONLY, 0o666)); r = oct(os.stat('c').st_mode & 0o777)", "0o664")
	if hasACL {
		k.gets("os.umask(0o077); os.close(os.open('acl/x', os.O_CREAT|os.O_WRONLY, 0o666)); r = oct(os.stat('acl/x').st_mode & 0o777)", "0o664")
	}
	k.gets("pid = os.fork()\nif pid == 0: os.umask(0o077); os._exit(0)\nos.waitpid(pid, 0); os.umask(0o022); open('d', 'w').close(); r = oct(os.stat('d').st_mode & 0o777)", "0o644")
}

func metadataByDescriptor(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/.git/hooks")
	put(t, ws+"/.git/hooks/pre-commit", "#!/bin/sh\n")
	outside := confinetest.Workspace(t)
	put(t, outside+"/file", "x")
	p.Paths[outside] = p.Paths["/etc/passwd"]
	if err := os.Chmod(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	k := converse(t, l, p, ws)
	for _, name := range []string{ws + "/.git/hooks/pre-commit", outside + "/file"} {
		k.gets(fmt.Sprintf("fd = os.open(%q, os.O_RDONLY)", name), "ok")
		for _, act := range []string{
			"os.fchmod(fd, 0o777)", "os.chmod('/proc/self/fd/%d' % fd, 0o777)", "os.fchown(fd, os.getuid(), -1)", "os.utime(fd, (1, 1))",
			"sys_(280, fd, 0, struct.pack('qqqq', 1, 1, 1, 1), 0)",                    // futimens
			"sys_(452, fd, b'', 0o777, 0x1000)", "sys_(260, fd, b'', -1, -1, 0x1000)", // fchmodat2, fchownat
			"os.setxattr(fd, 'user.x', b'x')", "os.removexattr(fd, 'user.x')", "fcntl.ioctl(fd, 0x40086602, struct.pack('q', 0))", // FS_IOC_SETFLAGS
			"fcntl.ioctl(fd, 0x401c5820, b'\\0' * 28)",           // FS_IOC_FSSETXATTR
			"fcntl.ioctl(fd, 0x5000940e, bytearray(4096), True)", // BTRFS_IOC_SUBVOL_CREATE
			"os.ftruncate(fd, 0)", "os.posix_fallocate(fd, 0, 100)",
		} {
			if got := k.does(act); got != "EPERM" && got != "EROFS" && got != "EACCES" && got != "ENOTSUP" && got != "ENOTTY" && got != "EINVAL" && got != "EBADF" && got != "ENOSYS" { // an older container's filter knows no fchmodat2
				t.Errorf("%s of %s: %s", act, name, got)
			}
		}
	}
	k.gets("open('own', 'w').close(); fd = os.open('own', os.O_RDONLY); os.fchmod(fd, 0o700); os.utime(fd, (1, 1)); r = oct(os.fstat(fd).st_mode & 0o777)", "0o700")
}

// pathDescriptors: O_PATH goes by the broker, and what is executed too.
func pathDescriptors(t *testing.T) {
	l, ws, p := brokered(t)
	put(t, ws+"/.env", "TOPSECRET") // so that reads beside it are redirected
	put(t, ws+"/program", "#!/bin/sh\necho run\n")
	if err := os.Chmod(ws+"/program", 0o755); err != nil {
		t.Fatal(err)
	}
	k := converse(t, l, p, ws)
	k.gets("fd = os.open('program', os.O_PATH); os.read(fd, 1)", "EBADF")
	k.gets("r = os.read(os.open('program', os.O_RDONLY), 2)", "b'#!'")
	k.gets("r = subprocess.run(['./program'], capture_output=True).stdout", "b'run\\n'")
	k.gets("os.mkfifo('p'); subprocess.Popen(['/bin/sh', '-c', 'echo hi > p']); r = open('p').read().strip()", "hi")
	k.gets("os.symlink('loop', 'loop'); os.open('loop/', os.O_CREAT|os.O_WRONLY)", "EISDIR")
	k.gets("os.open('program/', os.O_CREAT|os.O_WRONLY)", "EISDIR")
	k.gets("os.chmod('.env', 0o755)", "EPERM")
	k.gets("os.execv('.env', ['x'])", "EACCES")
}

// undumpable: a program that forbids others to read it is served all the same, and one
// that cannot be read is refused without harm to others.
func undumpable(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("libc.prctl(4, 0, 0, 0, 0); os.mkdir('a')", "ok")
	k.gets("import shutil; shutil.copy('/bin/mkdir', 'closed'); os.chmod('closed', 0o111); r = subprocess.run(['./closed', 'made'], stderr=subprocess.DEVNULL).returncode", "1")
	k.gets("r = os.path.exists('made')", "False")
	k.gets("os.mkdir('b')", "ok")
}

// busyText: the broker's own copy of a descriptor is closed before the program goes on.
func busyText(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("script = open('/bin/true', 'rb').read()\nfor i in range(60):\n    fd = os.open('x%d' % i, os.O_CREAT|os.O_WRONLY, 0o755); os.write(fd, script); os.close(fd); subprocess.run(['./x%d' % i], check=True)", "ok")
}

func smaller(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("fd = os.open('x', os.O_CREAT|os.O_RDWR); os.write(fd, b'xyz'); os.ftruncate(fd, 1); r = os.fstat(fd).st_size", "1")
	// int 0x80 makes a directory by other numbers, past a filter that asks for numbers alone.
	k.gets("code = b'\\xb8\\x27\\0\\0\\0\\xbb' + b'%s' + b'\\xb9\\xff\\x01\\0\\0\\xcd\\x80\\xc3'; m = libc.mmap; m.restype = ctypes.c_void_p; a = m(ctypes.c_void_p(0x10000000), 4096, 7, 0x32, -1, 0)\npid = os.fork()\nif pid == 0:\n    ctypes.memmove(a, code % struct.pack('I', a + 100), 18); ctypes.memmove(a + 100, b'old\\0', 4); ctypes.CFUNCTYPE(None)(a)(); os._exit(0)\nr = (os.waitpid(pid, 0)[1] & 127, os.path.exists('old'))", "(31, False)")
	// A second listener: the kernel has one for a chain of filters.
	k.gets("f = struct.pack('HBBI', 6, 0, 0, 0x7fff0000); b = ctypes.create_string_buffer(f); prog = struct.pack('HxxxxxxQ', 1, ctypes.addressof(b)); sys_(317, 1, 8, prog)", "EBUSY")
	k.gets("r = [n for n in os.listdir('.') if n.startswith('.sandgate-')]", "[]")
	// What the broker makes on the way is no name of a program's.
	k.gets("os.mkdir('.git'); open('.git/.sandgate-x', 'w').write('x'); os.rename('.git/.sandgate-x', '.git/config')", "EROFS")
	k.gets("r = (os.getuid() != 0 and os.geteuid() == 0, [l for l in open('/proc/self/status') if l.startswith('CapEff')][0].split()[1])", "(False, '0000000000000000')")
}

// threadsOfInit: no thread of the process that holds the broker can do more than its
// user, whatever it waits for.
func threadsOfInit(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("for i in range(4): os.mkfifo('p%d' % i); subprocess.Popen(['cat', 'p%d' % i])", "ok")
	init := k.init()
	tasks, err := filepath.Glob("/proc/" + init + "/task/[0-9]*/status")
	if err != nil || len(tasks) < 2 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: not %s", task, strings.TrimSpace(want))
			}
		}
	}
	if _, err := os.Open("/proc/" + init + "/mem"); os.Geteuid() != 0 && err == nil {
		t.Error("its memory can be opened")
	}
}

// luringNames: host programs look into /tmp, where names are shared.
func luringNames(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	for _, act := range []string{
		"os.mkdir('/tmp/.git')", "open('/tmp/.git', 'w')", "os.symlink('/tmp/x', '/tmp/.git')", "open('/tmp/HEAD', 'w')", "open('/tmp/.bashrc', 'w')",
		"os.mkfifo('/tmp/.gitconfig')", "os.mkdir('/tmp/.VIM')", "os.mkdir('/tmp/sandgate-private-1')", "open('/tmp/.Sandgate-names-1', 'w')",
		"os.mkdir('/tmp/tmux-1')", "open('/tmp/krb5cc_1', 'w')", "socket.socket(socket.AF_UNIX).bind('/tmp/.s.PGSQL.5432')", "os.symlink('/usr', '/dev/shm/node_modules')",
		"open('/tmp/Pyproject.toml', 'w')", "socket.socket(socket.AF_UNIX).bind('/tmp/.bashrc')",
	} {
		k.gets(act, "EROFS")
	}
	k.gets("os.mkdir('/tmp/d'); open('/tmp/f', 'w').close(); os.mkdir('/tmp/d/.git'); open('/tmp/d/HEAD', 'w').close()", "ok")
	k.gets("os.rename('/tmp/d', '/tmp/.git')", "EROFS")
	k.gets("os.rename('/tmp/d', '/tmp/sandgate-private-1')", "EROFS")
	k.gets("os.link('/tmp/f', '/tmp/HEAD')", "EROFS")
	k.gets("sys_(316, -100, b'/tmp/f', -100, b'/tmp/.bashrc', 0)", "EROFS") // renameat2
	k.gets("os.rename('/tmp/d', '/tmp/e'); open('/tmp/e/.env', 'w').close(); open('/tmp/key.pem', 'w').close(); open('/tmp/e/package.json', 'w').close()", "ok")
}

// linksInSharedPlaces: host programs write to names in /tmp that can be foretold, and the
// kernel follows a link there if its owner is theirs.
func linksInSharedPlaces(t *testing.T) {
	l, ws, p := brokered(t)
	outside := confinetest.Workspace(t) + "/outside"
	k := converse(t, l, p, ws)
	for _, to := range []string{outside, "no-such-name", "/tmp/no-such-name", "../etc/../x"} {
		k.gets(fmt.Sprintf("os.symlink(%q, '/tmp/l')", to), "EACCES")
	}
	k.gets("os.mkdir('/tmp/d'); os.mkdir('/tmp/p'); os.mkdir('/tmp/d/e'); os.symlink('e', '/tmp/d/l')", "ok")
	k.gets(fmt.Sprintf("os.symlink(%q, '/tmp/d/l2')", outside), "EACCES")
	k.gets("os.rename('/tmp/d/l', '/tmp/l')", "EACCES") // leads to /tmp/e there
	k.gets("os.link('/tmp/d/l', '/tmp/l', follow_symlinks=False)", "EACCES")
	// What leaves a directory with that, too.
	k.gets("os.rename('/tmp/p', '/tmp/d/p'); os.symlink('../e', '/tmp/d/p/up'); os.rename('/tmp/d/p', '/tmp/p')", "EACCES")
	k.gets("os.unlink('/tmp/d/p/up'); os.rename('/tmp/d/p', '/tmp/p'); open('/tmp/p/.env', 'w').close(); os.rename('/tmp/p', '/tmp/d/p')", "ok")
	k.gets("os.symlink('/tmp/d', '/tmp/l'); os.symlink('/usr', '/tmp/m'); os.symlink('../d/e', '/tmp/d/n'); r = os.listdir('/tmp/l/n')", "[]")
}

// reusedNumbers: what a program makes in /tmp can be in a person's way, who removes it and makes a
// directory of that name. It often gets the number of what was there. The program may do nothing to it,
// and the end of the call removes nothing of it.
func reusedNumbers(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	name := fmt.Sprintf("/tmp/test-reused-%d", os.Getpid())
	number := func() uint64 {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	t.Cleanup(func() { os.RemoveAll(name) })
	reused := false
	for i := 0; i < 200 && !reused; i++ {
		k.gets(fmt.Sprintf("s = socket.socket(socket.AF_UNIX); s.bind(%q); s.listen(1); s.close()", name), "ok") // the broker keeps no copy of it, and no number
		was := number()
		k.gets(fmt.Sprintf("os.chmod(%q, 0o700)", name), "ok") // the program's own
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if reused = number() == was; !reused && i < 199 { // where no number is used again, the last one is tried
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.gets(fmt.Sprintf("os.rmdir(%q)", name), "EACCES")
	put(t, name+"/kept", "a person's")
	for act, want := range map[string]string{
		"os.chmod(%q, 0o777)": "EPERM", "os.chmod(%q + '/kept', 0o666)": "EPERM", "os.unlink(%q + '/kept')": "EACCES", "os.mkdir(%q + '/new')": "EACCES",
		"os.rename(%q + '/kept', '/tmp/test-stolen')": "EACCES", "os.symlink('/usr', %q + '/l')": "EACCES",
	} {
		k.gets(fmt.Sprintf(act, name), want)
	}
	if err := os.Remove(name + "/kept"); err != nil {
		t.Fatal(err)
	}
	k.end()
	if _, err := os.Lstat(name); err != nil {
		t.Errorf("a person's directory: %v", err)
	}
}

// movedIntoGranted: programs' domain grants by directory what lies below it, whenever it came
// to lie there. What is withheld stays so wherever the directories above go.
func movedIntoGranted(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/app/deep")
	mkdir(t, ws+"/lib/x")
	mkdir(t, ws+"/linked")
	mkdir(t, ws+"/plain/deep")
	put(t, ws+"/app/deep/.env", "TOPSECRET")
	put(t, ws+"/plain/deep/f", "open")
	put(t, ws+"/lib/f", "open") // so that there is something to grant
	if err := os.Link(ws+"/app/deep/.env", ws+"/linked/notes"); err != nil {
		t.Fatal(err)
	}
	k := converse(t, l, p, ws)
	for _, dir := range []string{"app", "app/deep", "linked"} {
		for _, to := range []string{"lib/x/in", "lib/in"} {
			k.gets(fmt.Sprintf("os.rename(%q, %q)", dir, to), "EACCES")
		}
	}
	k.gets("sys_(316, -100, b'app', -100, b'lib/x', 2)", "EACCES") // RENAME_EXCHANGE
	k.gets("os.mkdir('new'); os.rename('app', 'new/app')", "EACCES")
	k.gets("os.rename('app', 'app2'); os.listdir('app2/deep'); open('app2/deep/.env')", "EACCES") // beside where it was
	k.gets("open('app2/deep/.env')", "EACCES")
	k.gets("open('linked/notes')", "EACCES")
	k.gets("os.rename('plain', 'lib/x/plain'); r = open('lib/x/plain/deep/f').read()", "open")
	r := k.end()
	for _, path := range []string{ws + "/app/deep/.env", ws + "/linked/notes", ws + "/app2/deep/.env"} {
		if !slices.ContainsFunc(r.Refused, func(x confine.Refused) bool { return x.Path == path }) {
			t.Errorf("no word of %s: %+v", path, r.Refused)
		}
	}
}

// movedIntoPrivate: in directories of the sandbox's own no pattern holds. What goes there or comes
// from there is copied.
func movedIntoPrivate(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/app")
	put(t, ws+"/app/.env", "TOPSECRET")
	mkdir(t, ws+"/proj/.git/hooks")
	put(t, ws+"/proj/.git/config", "[core]\n\tbare = false\n")
	mkdir(t, ws+"/plain")
	put(t, ws+"/f", "open")
	k := converse(t, l, p, ws)
	for _, place := range []string{"HOME", "TMPDIR"} {
		k.gets("at = os.environ['"+place+"']; os.makedirs(at + '/e/.git/hooks'); open(at + '/f', 'w').close(); open(at + '/.env', 'w').close()", "ok")
		for _, name := range []string{"app", "proj", "plain", "f"} {
			k.gets(fmt.Sprintf("os.rename(%q, at + '/%[1]s')", name), "EXDEV")
		}
		for _, name := range []string{"e", "f", ".env"} {
			k.gets(fmt.Sprintf("os.rename(at + '/%[1]s', 'came')", name), "EXDEV")
		}
		k.gets("sys_(316, -100, b'plain', -100, (at + '/e').encode(), 2)", "EXDEV")
		k.gets("os.link('f', at + '/g')", "EXDEV")
		k.gets("os.link(at + '/f', 'g')", "EXDEV")
		k.gets("os.rename(at + '/e', at + '/f2'); os.link(at + '/f', at + '/g'); os.rename(at + '/g', at + '/.bashrc')", "ok")
	}
	k.gets("import shutil; shutil.move('plain', at + '/plain'); shutil.move(at + '/plain', 'plain')", "ok") // as mv does
}

// linksBetweenGrants: a file of the workspace gets no second name in another directory that is granted, such as a cache. An
// undo looks at the workspace, and does not hear what is written by that name. With mounts the kernel says the same.
func linksBetweenGrants(t *testing.T) {
	l, ws, p := brokered(t)
	cache := confinetest.Workspace(t)
	p.Paths[cache] = p.Paths[ws]
	mkdir(t, ws+"/sub")
	put(t, ws+"/f", "open")
	k := converse(t, l, p, ws)
	k.gets(fmt.Sprintf("os.link('f', '%s/g')", cache), "EXDEV")
	k.gets(fmt.Sprintf("open('%[1]s/h', 'w').close(); os.link('%[1]s/h', '%[1]s/i'); os.link('%[1]s/h', 'h')", cache), "EXDEV")
	k.gets(fmt.Sprintf("os.link('f', 'sub/g'); os.rename('sub/g', '%s/g')", cache), "EXDEV") // the other road to a second name
	k.gets(fmt.Sprintf("os.rename('sub', '%s/sub')", cache), "EXDEV")
	k.gets(fmt.Sprintf("sys_(316, -100, b'f', -100, b'%s/h', 2)", cache), "EXDEV") // RENAME_EXCHANGE
	k.gets(fmt.Sprintf("os.rename('sub/g', 'g'); open('%[1]s/i').close(); os.rename('%[1]s/i', '%[1]s/j')", cache), "ok")
}

// linksToUsersDirectories: git goes through a link to its work tree (core.worktree), and writes
// there as the user.
func linksToUsersDirectories(t *testing.T) {
	l, ws, p := brokered(t)
	tools := confinetest.Workspace(t)
	p.Paths[tools] = sandboxprofile.Read
	mkdir(t, tools+"/bin")
	put(t, tools+"/bin/cargo", "#!/bin/sh\n")
	k := converse(t, l, p, ws)
	for _, to := range []string{tools, tools + "/bin", tools + "/none", tools + "/none/x"} {
		k.gets(fmt.Sprintf("os.symlink(%q, 'l')", to), "EACCES")
	}
	k.gets(fmt.Sprintf("os.symlink(%q, 'l'); os.symlink('/usr/share', 'm'); os.symlink('.', 'n'); r = len(open('l').read())", tools+"/bin/cargo"), "10")
}

// heldUp: a directory below many that git knows is dear to look at, and others wait for it.
func heldUp(t *testing.T) {
	l, ws, p := brokered(t)
	other, _, _ := brokered(t)
	deep := ws + "/x" + strings.Repeat("/hooks", 240)
	shallow := ws + "/y" + strings.Repeat("/hooks", 7)
	for _, dir := range []string{deep, shallow} {
		for i := range 200 {
			mkdir(t, fmt.Sprintf("%s/x/.git/%d", dir, i))
		}
	}
	there := confinetest.Workspace(t)
	a, b := converse(t, l, p, ws), converse(t, other, confinetest.Profile(t, there), there)
	a.gets(fmt.Sprintf("os.chdir(%q); os.rename('x/.git', 'x/g2')", deep), "EROFS")
	a.gets(fmt.Sprintf("os.chdir(%q)", shallow), "ok")
	a.starts("for i in range(5):\n    try: os.rename('x/.git', 'x/g2'); os.rename('x/g2', 'x/.git')\n    except OSError: pass")
	for range 10 {
		b.gets("t = time.time(); os.mkdir('d'); os.rmdir('d'); r = time.time() - t < 30", "True")
	}
	if got := a.hears(); got != "ok" {
		t.Errorf("who renames: %s", got)
	}
}

// deepNames: what a name becomes is looked at under a lock that others wait for.
func deepNames(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("os.mkdir('x'); os.chdir('x'); [(os.mkdir('hooks'), os.chdir('hooks')) for _ in range(8)]; os.mkdir('plain')", "ok")
	k.gets("os.mkdir('hooks')", "EROFS")
	k.gets("os.chdir('"+ws+"'); os.makedirs('y/hooks/hooks/hooks/info'); os.rename('y', 'z'); os.mkdir('many'); [os.mknod('many/%d' % i) for i in range(300)]; os.mkdir('in'); os.rename('many', 'in/many')", "ok")
}

// othersGit: another user of the machine who may write in a directory of git's puts hooks there. No program
// gives that right (confinetest has the claim), and a person's directory that has it is not moved to git.
func othersGit(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/.git/objects")
	for _, dir := range []string{"later", "bare"} {
		mkdir(t, ws+"/"+dir)
		if err := os.Chmod(ws+"/"+dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	k := converse(t, l, p, ws)
	for _, act := range []string{"os.chmod('.git', 0o777)", "fd = os.open('.git', os.O_RDONLY); os.fchmod(fd, 0o777)"} {
		k.gets(act+"; r = oct(os.stat('.git').st_mode & 0o777)", "0o775")
	}
	k.gets("os.mkdir('bare/objects'); os.mkdir('bare/refs')", "EROFS")
	k.gets("os.chmod('bare', 0o755); os.mkdir('bare/refs')", "ok")
	k.gets("os.mkdir('place'); os.rename('later', 'place/.git')", "EROFS")
	k.gets("os.rename('later', 'moved'); os.chmod('moved', 0o755); os.rename('moved', 'place/.git')", "ok")
	// A group of the user's that is not the programs' own.
	k.gets("os.chown('place', -1, os.getegid())", "ok")
	k.gets("[os.chown('place', -1, g) for g in os.getgroups() if g != os.getegid()] or os.chown('place', -1, os.getegid() + 1)", "EPERM")
}

// endedTerminals: a terminal's name goes with one end, and its number with the other. Each
// counts until both are closed, and then no more.
func endedTerminals(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	const ends = "kept = []\nfor i in range(%d):\n    m, s = os.openpty(); os.close(%s); kept.append(%s)"
	k.gets(fmt.Sprintf(ends, 100, "m", "s"), "ENOSPC")
	k.gets("r = len(kept)", "32")
	k.gets("[os.close(s) for s in kept[5:15]]; more = [os.openpty() for i in range(10)]; del kept[5:15]", "ok")
	k.gets("os.openpty()", "ENOSPC")
	k.gets("[os.close(s) for s in kept]; [os.close(end) for pair in more for end in pair]", "ok")
	k.gets("for i in range(100): m, s = os.openpty(); os.close(m); os.close(s)", "ok")
	k.gets(fmt.Sprintf(ends, 100, "s", "m"), "ENOSPC")
	k.gets("r = len(kept)", "32")
}

// linksToKept: a program outside follows a link, to read or to write, and thinks of nothing.
func linksToKept(t *testing.T) {
	l, ws, p := brokered(t)
	mkdir(t, ws+"/.git/hooks")
	put(t, ws+"/.git/config", "[core]\n\tbare = false\n")
	put(t, ws+"/.env", "TOKEN=x")
	k := converse(t, l, p, ws)
	for _, to := range []string{".git/config", ".git/hooks/post-commit", ws + "/.bashrc", ".git", ".git/modules/x"} {
		k.gets(fmt.Sprintf("os.symlink(%q, 'l')", to), "EROFS")
	}
	k.gets("os.mkdir('s'); os.symlink('../.git/config', 's/l')", "EROFS")
	for _, to := range []string{".env", "secrets/key", ws + "/secrets", "./.git/../.git/config"} {
		k.gets(fmt.Sprintf("os.symlink(%q, 'l')", to), "EACCES")
	}
	k.gets("os.symlink('/usr', '/tmp/l'); os.rename('/tmp/l', 'l')", "EXDEV") // by copying, which is judged
	k.gets("os.symlink('plain', 'l'); os.symlink('no-such-name', 'm'); os.rename('m', 'n')", "ok")
}

// strayingConnections: what is connected to the sandbox's own loopback stays on it.
func strayingConnections(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("s = socket.socket()", "ok")
	for _, option := range []string{"socket.SOL_SOCKET, 25, b'lo'", "socket.SOL_SOCKET, 62, 1", "socket.IPPROTO_IP, 4, b'\\x07\\x07\\x04\\0\\0\\0\\0\\0'", "socket.IPPROTO_IP, 50, b'\\0\\0\\0\\1'"} {
		k.gets("s.setsockopt("+option+")", "EPERM")
	}
	k.gets("v = socket.socket(socket.AF_INET6)", "ok")
	for _, option := range []int{50, 54, 57, 59, 76} {
		k.gets(fmt.Sprintf("v.setsockopt(socket.IPPROTO_IPV6, %d, b'')", option), "EPERM")
	}
	k.gets("s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)", "ok")
}

// waitingConnects: O_NONBLOCK is the open file description's, which the program has too.
// It clears the flag while the broker connects to somebody who accepts nothing.
func waitingConnects(t *testing.T) {
	l, ws, p := brokered(t)
	k := converse(t, l, p, ws)
	k.gets("import threading, time, fcntl", "ok")
	k.gets(`L = socket.socket(socket.AF_UNIX); L.bind('l'); L.listen(0); F = socket.socket(socket.AF_UNIX); F.connect('l')`, "ok")
	k.gets(`T = socket.socket(); T.bind(('127.0.0.1', 0)); T.listen(0); A = [socket.socket() for _ in range(3)]; [a.setblocking(False) or a.connect_ex(T.getsockname()) for a in A]`, "ok")
	k.gets(`exec("""
def flip(s, stop):
    while not stop:
        fcntl.fcntl(s, fcntl.F_SETFL, 0)
        fcntl.fcntl(s, fcntl.F_SETFL, os.O_NONBLOCK)
def attack(make, to, seconds):
    end = time.time() + seconds
    while time.time() < end:
        s, stop = make(), []
        t = threading.Thread(target=flip, args=(s, stop), daemon=True); t.start()
        c = threading.Thread(target=lambda: s.connect_ex(to), daemon=True); c.start()
        c.join(0.02)
        stop.append(1); t.join()
        open('other', 'w').close()
""")`, "ok")
	k.gets("attack(lambda: socket.socket(socket.AF_UNIX), 'l', 1)", "ok")
	k.gets("attack(lambda: socket.socket(), T.getsockname(), 1)", "ok")
	k.gets("open('after', 'w').close()", "ok")
}

// abstractNames are everybody's where the kernel keeps them, and so are the sockets: another
// user of the host lists and connects to them. Here they mean something in one sandbox, to
// its programs alone, and go with the last socket as they do outside.
func abstractNames(t *testing.T) {
	l, ws, p := brokered(t)
	k, other := converse(t, l, p, ws), converse(t, l, p, ws)
	k.gets(`exec("""
def made(n):
    s = socket.socket(socket.AF_UNIX); s.bind(n); s.listen(); return s
def connected(n):
    c = socket.socket(socket.AF_UNIX); c.connect(n); return c
""")`, "ok")
	k.gets(`n = '\0sandgate\0x'; s = made(n); c = connected(n); s.accept()`, "ok")
	k.gets(`made(n)`, "EADDRINUSE")
	k.gets(`t = socket.socket(socket.AF_UNIX); t.bind('\0bound'); connected('\0bound')`, "ECONNREFUSED")
	k.gets(`made('\0bound')`, "EADDRINUSE")
	k.gets(`connected('\0none')`, "ECONNREFUSED")
	k.gets(`s.close(); connected(n)`, "ECONNREFUSED")
	k.gets(`s = made(n); c = connected(n); s.accept()`, "ok")
	other.gets(`socket.socket(socket.AF_UNIX).connect('\0sandgate\0x')`, "ECONNREFUSED")

	// What another user of the host sees leads nowhere.
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	listed := k.does("r = s.getsockname()")
	if !strings.Contains(string(table), listed) || strings.HasPrefix(listed, "@") || strings.HasPrefix(listed, "b'") {
		t.Fatalf("bound to %q", listed)
	}
	dirs, err := filepath.Glob(os.TempDir() + "/sandgate-private-*/sockets/" + filepath.Base(listed))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%q, %v", dirs, err)
	}
	const connect = "import socket, sys\ntry: socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')\nexcept OSError as e: print(e.strerror)"
	own, err := exec.Command("/usr/bin/python3", "-c", connect, dirs[0]).CombinedOutput()
	if err != nil || string(own) != "connected\n" {
		t.Errorf("this user: %s %v", own, err)
	}
	if os.Geteuid() != 0 {
		return // one user has no other
	}
	cmd := exec.Command("/usr/bin/python3", "-c", connect, dirs[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "Permission denied\n" {
		t.Errorf("another user: %s %v", out, err)
	}
}
