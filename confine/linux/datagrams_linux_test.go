package linux_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// datagramsPython sends datagrams in every way that there is: PORT is of a socket at 127.0.0.1
// and WILD of one at every address, outside. What is sent says by which way.
const datagramsPython = `
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
PORT, WILD = int(sys.argv[1]), int(sys.argv[2])
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
class msghdr(ctypes.Structure): _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.c_void_p), ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_int)]
class mmsghdr(ctypes.Structure): _fields_ = [('hdr', msghdr), ('len', ctypes.c_uint)]
def raw(to): return struct.pack('=H', 2) + struct.pack('!H', to[1]) + socket.inet_aton(to[0]) + bytes(8)
def check(n):
    if n < 0: raise OSError(ctypes.get_errno(), '')
def mmsg(s, data, to):
    at, text = ctypes.create_string_buffer(raw(to)), ctypes.create_string_buffer(data)
    io = iovec(ctypes.addressof(text), len(data))
    m = mmsghdr(msghdr(ctypes.addressof(at), 16, ctypes.addressof(io), 1, None, 0, 0), 0)
    check(libc.sendmmsg(s.fileno(), ctypes.byref(m), 1, 0))
def passed(s):
    a, b = socket.socketpair()
    socket.send_fds(a, [b'x'], [s.fileno()])
    return socket.socket(fileno=socket.recv_fds(b, 9, 1)[1][0])
def connected(s, to, act): s.connect(to); act()
def option(s, level, name, value, act): s.setsockopt(level, name, value); act()
def disconnected(s, data, to):
    s.connect(to); check(libc.connect(s.fileno(), bytes(16), 16)); s.sendto(data, to)
def forked(s, data, to):
    pid = os.fork()
    if pid == 0:
        try: socket.socket(fileno=os.dup(s.fileno())).sendto(data, to)
        finally: os._exit(0)
    os.waitpid(pid, 0)
def file(s, data, to):
    s.connect(to)
    with open('data', 'wb') as f: f.write(data)
    with open('data', 'rb') as f: os.sendfile(s.fileno(), f.fileno(), 0, len(data))
def spliced(s, data, to):
    s.connect(to); r, w = os.pipe(); os.write(w, data); os.splice(r, s.fileno(), len(data))
PKTINFO = lambda a: [(0, 8, struct.pack('=i4s4s', 0, socket.inet_aton(a), bytes(4)))]
WAYS = {
    'sendto': lambda s, d, to: s.sendto(d, to),
    'sendmsg': lambda s, d, to: s.sendmsg([d], [], 0, to),
    'sendmmsg': mmsg,
    'pktinfo': lambda s, d, to: s.sendmsg([d], PKTINFO('127.0.0.1'), 0, to),
    'more': lambda s, d, to: (s.sendto(d, socket.MSG_MORE, to), s.sendto(b'', to)),
    'dontroute': lambda s, d, to: s.sendto(d, 4, to),
    'zerocopy': lambda s, d, to: option(s, 1, 60, 1, lambda: s.sendto(d, 0x4000000, to)),
    'corked': lambda s, d, to: option(s, 17, 1, 1, lambda: (s.sendto(d, to), s.setsockopt(17, 1, 0))),
    'broadcast': lambda s, d, to: option(s, 1, 6, 1, lambda: s.sendto(d, to)),
    'passed': lambda s, d, to: passed(s).sendto(d, to),
    'bound': lambda s, d, to: (s.bind(('127.0.0.1', 0)), s.sendto(d, to)),
    'connected': lambda s, d, to: connected(s, to, lambda: s.send(d)),
    'connected, sendto': lambda s, d, to: connected(s, to, lambda: s.sendto(d, to)),
    'write': lambda s, d, to: connected(s, to, lambda: os.write(s.fileno(), d)),
    'writev': lambda s, d, to: connected(s, to, lambda: os.writev(s.fileno(), [d])),
    'disconnected': disconnected, 'forked': forked, 'sendfile': file, 'splice': spliced,
}
import errno
answers = {}
for family in socket.AF_INET, socket.AF_INET6:
    for name, way in WAYS.items():
        for to in [('127.0.0.1', PORT), ('0.0.0.0', WILD), (os.environ.get('OWN', '127.0.0.1'), WILD)]:
            s = socket.socket(family, socket.SOCK_DGRAM)
            s.setblocking(False)
            if family == socket.AF_INET6: to = ('::ffff:' + to[0], to[1])
            try: way(s, ('<%s>' % name).encode(), to); e = 'sent'
            except OSError as x: e = errno.errorcode.get(x.errno)
            except Exception as x: e = type(x).__name__
            if family == socket.AF_INET: answers.setdefault(name, set()).add(e)
print(answers)
`

// TestNoDatagramLeaves: without a network namespace, what a program sends by a socket for datagrams does not leave the
// sandbox, whatever the call, the option and the process: neither where the broker sends in its place, nor where a
// descriptor has a number that it does not see and the kernel refuses. The same program outside sends by each of its ways.
func TestNoDatagramLeaves(t *testing.T) {
	ws := confinetest.Workspace(t)
	l := newLandlock(t, linux.LandlockOptions{})
	var hears []net.PacketConn
	argv := []string{"/usr/bin/python3", "-c", datagramsPython}
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		c, err := net.ListenPacket("udp4", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		hears, argv = append(hears, c), append(argv, fmt.Sprint(c.LocalAddr().(*net.UDPAddr).Port))
	}
	arrived := func() (all string) {
		for _, c := range hears {
			all += heard(c)
		}
		return all
	}
	for _, x := range []struct {
		files int64
		want  []string
	}{
		{256, []string{"'sendto': {'sent'}", "'sendmsg': {'EPIPE'}", "'sendmmsg': {'EPIPE'}", "'write': {'EDESTADDRREQ'}", "'connected': {'EDESTADDRREQ'}", "'corked': {'EPERM'}", "'more': {'ENOTSUP'}"}},
		{4096, []string{"'sendto': {'sent'}", "'sendmsg': {'sent'}", "'sendmmsg': {'sent'}", "'write': {'ECONNREFUSED'}", "'connected': {'ECONNREFUSED'}", "'corked': {'EPERM'}", "'sendfile': {'EDESTADDRREQ'}"}},
	} {
		p := confinetest.Profile(t, ws)
		p.Limits.OpenFiles = x.files
		o := confinetest.Exec(t, t.Context(), l, p, ws, nil, argv...)
		if got := arrived(); got != "" {
			t.Errorf("outside arrived %s", got)
		}
		for _, refused := range x.want {
			if !strings.Contains(o.Out, refused) {
				t.Errorf("with %d descriptors not %s: %s%s", x.files, refused, o.Out, o.Err)
			}
		}
	}
	outside := exec.Command(argv[0], argv[1:]...)
	outside.Dir = ws
	if out, err := outside.CombinedOutput(); err != nil {
		t.Fatalf("outside: %v\n%s", err, out)
	}
	all := arrived()
	for _, way := range strings.Split("sendto sendmsg sendmmsg pktinfo more dontroute zerocopy corked broadcast passed bound connected write writev disconnected forked sendfile splice", " ") {
		if !strings.Contains(all, "<"+way+">") {
			t.Errorf("outside nothing arrived by %s: the test tries nothing", way)
		}
	}
}

// heard is all that has arrived at a socket.
func heard(c net.PacketConn) (all string) {
	buf := make([]byte, 1<<10)
	for {
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			return all
		}
		all += string(buf[:n])
	}
}

// TestDatagramsStayInside: a program of the sandbox sends to a socket of its own, and what it does to that socket, to the
// address in memory or to the descriptor leads no datagram elsewhere.
func TestDatagramsStayInside(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Limits.OpenFiles = 4096
	l := newLandlock(t, linux.LandlockOptions{})
	k, other := converse(t, l, p, ws), converse(t, l, p, ws)
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k.does("D = socket.SOCK_DGRAM; OUT = " + fmt.Sprint(c.LocalAddr().(*net.UDPAddr).Port))
	for _, address := range []string{"192.0.2.1", "10.0.0.1", "127.0.0.2", "224.0.0.251", "255.255.255.255"} {
		k.gets("s = socket.socket(socket.AF_INET, D); s.sendto(b'x', ('"+address+"', 53))", "ENETUNREACH")
	}
	k.gets("s = socket.socket(socket.AF_INET6, D); s.sendto(b'x', ('2001:db8::1', 53))", "ENETUNREACH")
	k.gets("s = socket.socket(socket.AF_INET, D); s.bind(('127.0.0.1', 53))", "EACCES")

	// Nobody outside can come to have the receiver's address, whatever the program sets.
	k.gets("s.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1); s.bind(('0.0.0.0', 0)); s.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1); s.settimeout(5)", "ok")
	port := k.does("PORT = s.getsockname()[1]; r = PORT")
	joins := func(at, first string) error {
		out, err := exec.Command("/usr/bin/python3", "-c", `
import socket, sys
for at in sys.argv[1:]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1)
    s.bind((at, int('`+port+`'))); globals()[at] = s
`, at, first).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	own := addressAt(t, port)
	for _, at := range []string{"0.0.0.0", own} {
		if err := joins(at, at); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a stranger binds to %s, where a program of the sandbox has a port: %v", at, err)
		}
	}
	if err := joins("127.0.0.1", "127.0.0.1"); err != nil {
		t.Errorf("the twin, another address: %v", err)
	}
	k.gets("s.connect(('127.0.0.1', 9)); libc.connect(s.fileno(), bytes(16), 16); x = socket.socket(socket.AF_INET, D); x.sendto(b'here', ('127.0.0.1', PORT)); r = s.recv(9)", "b'here'")

	// The address in memory and the descriptor are exchanged while one sends.
	k.gets(`
r = 0; stop = False
def raw(port): return struct.pack('=H', 2) + struct.pack('!H', port) + socket.inet_aton('127.0.0.1') + bytes(8)
at = ctypes.create_string_buffer(raw(PORT), 16)
def flips():
    while not stop:
        at[:] = raw(OUT); at[:] = raw(PORT)
def swaps():
    while not stop:
        os.dup2(x.fileno(), 700); os.dup2(pair[0].fileno(), 700)
pair = socket.socketpair(); pair[0].setblocking(False)
ts = [threading.Thread(target=f) for f in (flips, swaps)]
for q in ts: q.start()
for i in range(3000):
    libc.sendto(x.fileno(), b'<flip>', 6, 0, at, 16)
    libc.sendto(700, b'<swap>', 6, 0, at, 16)
    if i % 50 == 0:
        s.setblocking(False)
        try:
            while True: s.recv(9); r += 1
        except BlockingIOError: pass
        try:
            while True: pair[1].recv(9999, 64)
        except BlockingIOError: pass
stop = True
for q in ts: q.join()
r = r > 0`, "True")
	// Another sandbox of the same user.
	other.gets("y = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); y.sendto(b'other', ('127.0.0.1', "+port+"))", "ok")
	other.gets("y.sendto(b'other', ('"+own+"', "+port+"))", "ENETUNREACH")
	k.gets("all_ = set()\ntry:\n while True: all_.add(s.recv(9))\nexcept BlockingIOError: r = b'other' in all_", "False")
	if got := heard(c); got != "" {
		t.Errorf("outside arrived %s", got)
	}
	// The twin, outside: a sender is heard.
	to, err := net.Dial("udp4", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := to.Write([]byte("twin")); err != nil {
		t.Fatal(err)
	}
	if got := heard(c); got != "twin" {
		t.Errorf("the twin: %q", got)
	}
	if r := k.end(); !slices.Contains(r.Refused, confine.Refused{Call: "sendto", Path: "192.0.2.1:53", Why: "outside"}) {
		t.Errorf("no refusal names 192.0.2.1:53: %+v", r.Refused)
	}
}

// TestUnixDatagramsStayInside: a program's Unix sockets for datagrams reach no socket of the host's (its log, its service
// manager), by no path, link, name or call, and nobody of the host reaches them.
func TestUnixDatagramsStayInside(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Limits.OpenFiles = 4096
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), p, ws)
	dir := t.TempDir()
	abstract := fmt.Sprintf("@sandgate-test-%d", os.Getpid())
	hears := map[string]net.PacketConn{}
	for _, at := range []string{ws + "/hosts", dir + "/log", abstract} {
		c, err := net.ListenPacket("unixgram", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		hears[at] = c
	}
	k.gets(fmt.Sprintf("D, U = socket.SOCK_DGRAM, socket.AF_UNIX; LOG = %q; HOSTS = %q; NAME = '\\0' + %q; s = socket.socket(U, D); s.bind('own'); s.settimeout(5)", dir+"/log", ws+"/hosts", abstract[1:]), "ok")
	k.gets("x = socket.socket(U, D); x.sendto(b'own', 'own'); r = s.recv(9)", "b'own'")
	for _, to := range []string{"LOG", "HOSTS"} {
		k.gets("x.sendto(b'x', "+to+")", "EACCES")
		k.gets("x.sendmsg([b'x'], [], 0, "+to+")", "EACCES")
		k.gets("x.connect("+to+")", "EACCES")
	}
	k.gets("x.sendto(b'x', NAME)", "ECONNREFUSED")
	k.gets("x.connect(NAME)", "ECONNREFUSED")
	k.gets("os.symlink('hosts', 'link'); x.sendto(b'x', 'link')", "EACCES")
	// By calls and numbers that the broker does not see.
	k.gets("os.dup2(x.fileno(), 50); libc.send(50, b'x', 1, 0); r = errno.errorcode[ctypes.get_errno()]", "EPIPE")
	k.gets("socket.socket(fileno=os.dup(x.fileno())).sendmsg([b'x'], [], 0, LOG)", "EPIPE")
	k.gets("x.setsockopt(1, 16, 1); socket.socket(fileno=os.dup(x.fileno())).sendmsg([b'x'], [], 0, NAME)", "EPIPE") // SO_PASSCRED binds a socket by itself
	k.gets("x.sendmsg([b'x'], [(1, 1, struct.pack('i', 0))], 0, 'own')", "EINVAL")
	// Pairs: the address is of no account.
	k.gets("a, b = socket.socketpair(U, D); a.sendto(b'<pair>', LOG); r = b.recv(9)", "b'<pair>'")
	k.gets("a.connect(LOG)", "EISCONN")
	k.gets("socket.socketpair(U, socket.SOCK_RAW)", "EACCES") // another word for the same
	// A name that comes to be another's.
	k.gets("x.connect('own'); os.unlink('own')", "ok")
	c, err := net.ListenPacket("unixgram", ws+"/own")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hears["own"] = c
	k.gets("x.send(b'peer'); r = s.recv(9)", "b'peer'")
	k.gets("x.sendto(b'x', 'own')", "EACCES")
	k.gets(`
r = 0; stop = False; os.mkdir('d'); s2 = socket.socket(U, D); s2.bind('d/s'); s2.setblocking(False)
os.symlink('d/s', 'l1'); os.symlink('hosts', 'l2')
def flips():
    while not stop: libc.renameat2(-100, b'l1', -100, b'l2', 2)
q = threading.Thread(target=flips); q.start(); y = socket.socket(U, D); y.setblocking(False)
for i in range(1000):
    try: y.sendto(b'<flip>', 'l1')
    except OSError: pass
    try: s2.recv(9); r += 1
    except OSError: pass
stop = True; q.join(); r = r > 0`, "True")
	for at, c := range hears {
		if got := heard(c); got != "" {
			t.Errorf("at %s arrived %s", at, got)
		}
	}
	// From outside.
	to, err := net.Dial("unixgram", ws+"/d/s")
	if err == nil {
		_, err = to.Write([]byte("stranger"))
		to.Close()
	}
	if !errors.Is(err, unix.EPIPE) {
		t.Errorf("a stranger sends to a program's socket: %v, want EPIPE", err)
	}
	k.gets("s2.recv(9)", "EAGAIN")
	if to, err = net.Dial("unixgram", dir+"/log"); err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := to.Write([]byte("twin")); err != nil || heard(hears[dir+"/log"]) != "twin" {
		t.Errorf("the twin: %v", err)
	}
	if r := k.end(); !slices.Contains(r.Refused, confine.Refused{Call: "sendto", Path: dir + "/log", Why: "outside"}) {
		t.Errorf("no refusal names %s/log: %+v", dir, r.Refused)
	}
}

// addressAt is where the kernel has the socket for datagrams of a sandbox at a port.
func addressAt(t *testing.T, port string) string {
	t.Helper()
	table, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		t.Fatal(err)
	}
	six, err := os.ReadFile("/proc/net/udp6")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(port, &n); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table) + string(six)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], fmt.Sprintf("7F:%04X", n)) {
			var a, b, c, d int
			_, _ = fmt.Sscanf(f[1][strings.Index(f[1], ":")-8:], "%2x%2x%2x%2x", &a, &b, &c, &d)
			if d != 127 || c != 0 || b != 0 || a != 1 {
				return fmt.Sprintf("%d.%d.%d.%d", d, c, b, a)
			}
		}
	}
	t.Fatalf("the socket is not found at port %s:\n%s%s", port, table, six)
	return ""
}

// TestNoDatagramArrives: who is outside of a sandbox without a network namespace finds its
// socket for datagrams, and what they send there is dropped. A program inside cannot take the
// filter off that drops it, nor learn of what it has dropped.
func TestNoDatagramArrives(t *testing.T) {
	ws := confinetest.Workspace(t)
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws), ws)
	for family, at := range map[string]string{"socket.AF_INET": "127.0.0.1", "socket.AF_INET6": "::1"} {
		k.gets(fmt.Sprintf("s = socket.socket(%s, socket.SOCK_DGRAM); s.bind((%q, 0)); s.setblocking(False); r = s.getsockname()[0]", family, at), at)
		port := k.does("r = s.getsockname()[1]")
		k.gets("s.setsockopt(1, 27, 0)", "EPERM")         // SO_DETACH_FILTER
		k.gets("s.setsockopt(1, 26, bytes(16))", "EPERM") // SO_ATTACH_FILTER
		k.gets("s.setsockopt(1, 44, 0)", "EPERM")         // SO_LOCK_FILTER
		k.gets("s.getsockopt(1, 26, 9)", "EPERM")         // SO_GET_FILTER, which has the key
		k.gets("s.setsockopt(0, 6, 1)", "EPERM")          // IP_RECVOPTS: it comes with each datagram
		k.gets("s.setsockopt(0, 7, 1)", "EPERM")          // IP_RETOPTS
		k.gets("s.connect((s.getsockname()[0], 9)); s.listen()", "ENOTSUP")
		address := addressAt(t, port)
		stranger, err := net.Dial("udp4", net.JoinHostPort(address, port))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // that nobody is there would be answered the next time
			if _, err := stranger.Write([]byte("stranger")); err != nil {
				t.Fatal(err)
			}
		}
		stranger.Close()
		// Nor does one with options like the broker's, and a key of its own.
		forger, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetsockoptString(forger, unix.IPPROTO_IP, unix.IP_OPTIONS, "\x01\x07\x27\x28"+strings.Repeat("k", 36)); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Sendto(forger, []byte("forged"), 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4(), Port: n}); err != nil {
			t.Fatal(err)
		}
		unix.Close(forger)
		k.gets("s.recv(9)", "EAGAIN")
		k.gets("s.recv(9, 0x2000)", "EAGAIN") // MSG_ERRQUEUE
		// The twin: a socket of ours beside it receives.
		twin, err := net.ListenPacket("udp4", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		to, err := net.Dial("udp4", twin.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write([]byte("stranger")); err != nil {
			t.Fatal(err)
		}
		_ = twin.SetReadDeadline(time.Now().Add(time.Minute))
		if n, _, err := twin.ReadFrom(make([]byte, 9)); n != len("stranger") {
			t.Errorf("the twin: %d bytes, %v", n, err)
		}
		to.Close()
		twin.Close()
	}
}

// TestInterfacesByIoctl: a program that asks for the machine's interfaces by ioctl(2)
// (netdevice(7)), as Java does, is told of the loopback alone, and changes none.
func TestInterfacesByIoctl(t *testing.T) {
	const program = `
import array, errno, fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(request, arg):
    try: return fcntl.ioctl(s, request, arg)
    except OSError as e: return errno.errorcode[e.errno]
room = array.array('B', bytes(4000))
conf = ask(0x8912, struct.pack('iP', 4000, room.buffer_info()[0])) # SIOCGIFCONF
for at in range(0, struct.unpack('iP', conf)[0], 40):
    name = bytes(room[at:at+16]).rstrip(b'\0').decode().split(':')[0]
    print(name, socket.inet_ntoa(bytes(room[at+20:at+24])))
def of(request, name='lo'):
    answer = ask(request, name.encode().ljust(40, b'\0'))
    return answer if isinstance(answer, str) else answer[16:24].hex()
print('netmask', of(0x891b), 'address', of(0x8915), 'index', of(0x8933), 'hardware', of(0x8927)[4:], 'mtu', of(0x8921), 'flags', of(0x8913)[:4])
print('of others', of(0x8915, 'eth0'), of(0x8915, 'none'))
`
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	lists := func(c confine.Confiner) string {
		o := confinetest.Exec(t, t.Context(), c, p, ws, nil, "/usr/bin/python3", "-c", program)
		if o.Err != "" {
			t.Error(o.Err)
		}
		return o.Out
	}
	l := newLandlock(t, linux.LandlockOptions{})
	got := lists(l)
	if !strings.Contains(got, "lo 127.0.0.1\n") || !strings.Contains(got, "of others ENODEV ENODEV\n") {
		t.Errorf("without namespaces: %s", got)
	}
	t.Run("in a namespace", func(t *testing.T) {
		if want := lists(newBwrap(t)); got != want {
			t.Errorf("without namespaces:\n%swith them:\n%s", got, want)
		}
	})
	k := converse(t, l, p, ws)
	k.gets("import fcntl; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); r = len(fcntl.ioctl(s, 0x8913, b'lo'.ljust(40, b'\\0')))", "40")
	for _, changes := range []string{"0x8914", "0x8916", "0x8918", "0x891c", "0x8922", "0x8924", "0x8936", "0x890b", "0x8946", "0x89f0"} {
		k.gets("fcntl.ioctl(s, "+changes+", b'lo'.ljust(40, b'\\0'))", "ENOTTY")
	}
	k.gets("fcntl.ioctl(open('/dev/null'), 0x8912, bytes(16))", "ENOTTY")
	k.gets("fcntl.ioctl(s, 0x8912, 1)", "EFAULT")
}

// TestDatagramsTakeFewPorts: a program has at most 256 sockets for datagrams at a time, also where none is
// closed. They hold no port at the addresses of the host, so that they share none with a server there either. The
// same program outside gets hundreds, at every address.
func TestDatagramsTakeFewPorts(t *testing.T) {
	const takes = `
import socket, sys, time
kept, family = [], int(sys.argv[1])
for i in range(600):
    try:
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError: time.sleep(0.001); continue
    kept.append(s)
    try: s.sendto(b'', ('127.0.0.1' if family == socket.AF_INET else '::ffff:127.0.0.1', 9))
    except OSError: pass
anywhere = sum(set(l.split()[1].split(':')[0]) == {'0'} for l in open('/proc/net/udp' + '6' * (family != socket.AF_INET)) if l.strip()[0].isdigit())
print(len(kept), anywhere)`
	ws := confinetest.Workspace(t)
	l, p := newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws)
	p.Limits.OpenFiles = 1024
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		argv := []string{"/usr/bin/python3", "-c", takes, fmt.Sprint(family)}
		o := confinetest.Exec(t, t.Context(), l, p, ws, nil, argv...)
		var kept, anywhere, outside, all int
		if _, err := fmt.Sscan(o.Out, &kept, &anywhere); err != nil {
			t.Fatalf("%q %s %+v", o.Out, o.Err, o.Result)
		}
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if _, scanned := fmt.Sscan(string(out), &outside, &all); err != nil || scanned != nil || outside != 600 || all < 600 {
			t.Fatalf("outside: %q, %v", out, err)
		}
		if others := all - 600; kept == 0 || kept > 256 || anywhere > others+20 {
			t.Errorf("family %d: a program keeps %d sockets, and %d ports are taken at every address, %d of them by others", family, kept, anywhere, others)
		}
	}
}
