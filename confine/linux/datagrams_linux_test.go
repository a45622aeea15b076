package linux_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
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

// TestNoDatagramLeaves: without a network namespace a program has sockets for datagrams with an
// address of its own, and none of them sends, whatever the call, the option and the process. The
// same program outside sends by each of its ways.
func TestNoDatagramLeaves(t *testing.T) {
	ws := confinetest.Workspace(t)
	l, p := newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws)
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
		buf := make([]byte, 1<<10)
		for _, c := range hears {
			for {
				_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				n, _, err := c.ReadFrom(buf)
				if err != nil {
					break
				}
				all += string(buf[:n])
			}
		}
		return all
	}
	o := confinetest.Exec(t, t.Context(), l, p, ws, nil, argv...)
	if got := arrived(); got != "" {
		t.Errorf("outside arrived %s", got)
	}
	for _, refused := range []string{"'sendto': {'EPIPE'}", "'sendmsg': {'EPIPE'}", "'sendmmsg': {'EPIPE'}", "'passed': {'EPIPE'}", "'connected, sendto': {'EPIPE'}", "'write': {'EDESTADDRREQ'}", "'corked': {'EPERM'}"} {
		if !strings.Contains(o.Out, refused) {
			t.Errorf("inside not %s: %s%s", refused, o.Out, o.Err)
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
		k.gets("s.connect((s.getsockname()[0], 9)); s.listen()", "ENOTSUP")
		table, err := os.ReadFile("/proc/net/udp")
		if err != nil {
			t.Fatal(err)
		}
		six, err := os.ReadFile("/proc/net/udp6")
		if err != nil {
			t.Fatal(err)
		}
		address := ""
		for line := range strings.Lines(string(table) + string(six)) {
			f := strings.Fields(line)
			var n int
			if _, err := fmt.Sscan(port, &n); err != nil {
				t.Fatal(err)
			}
			if len(f) > 1 && strings.HasSuffix(f[1], fmt.Sprintf("7F:%04X", n)) {
				var a, b, c, d int
				_, _ = fmt.Sscanf(f[1][strings.Index(f[1], ":")-8:], "%2x%2x%2x%2x", &a, &b, &c, &d)
				address = fmt.Sprintf("%d.%d.%d.%d", d, c, b, a)
			}
		}
		if address == "" || address == "127.0.0.1" {
			t.Fatalf("the socket is not found at port %s, or at %q, which is not the sandbox's:\n%s%s", port, address, table, six)
		}
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
