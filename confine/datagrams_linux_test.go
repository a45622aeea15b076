package confine_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// datagramsPython has what sends a datagram, each in every way that there is: PORT is of a
// socket at 127.0.0.1 and WILD of one at every address, outside; PATH and NAME are Unix
// sockets there. What is sent says by which way.
const datagramsPython = `
import ctypes, os, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
PORT, WILD, PATH, NAME = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], '\0' + sys.argv[4]
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
class msghdr(ctypes.Structure): _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.c_void_p), ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_int)]
class mmsghdr(ctypes.Structure): _fields_ = [('hdr', msghdr), ('len', ctypes.c_uint)]
def check(n):
    if n < 0: raise OSError(ctypes.get_errno(), '')
def mmsg(s, data, to):
    at, text = ctypes.create_string_buffer(raw(to)), ctypes.create_string_buffer(data)
    io = iovec(ctypes.addressof(text), len(data))
    m = mmsghdr(msghdr(ctypes.addressof(at), len(raw(to)), ctypes.addressof(io), 1, None, 0, 0), 0)
    check(libc.sendmmsg(s.fileno(), ctypes.byref(m), 1, 0))
def raw(to):
    if isinstance(to, str): return struct.pack('=H', 1) + to.encode() + (b'' if to[0] == '\0' else b'\0')
    return struct.pack('=H', 2) + struct.pack('!H', to[1]) + socket.inet_aton(to[0]) + bytes(8)
def low(s):
    n = os.dup2(s.fileno(), 9)
    return socket.socket(fileno=os.dup2(s.fileno(), 10))
def passed(s):
    a, b = socket.socketpair()
    socket.send_fds(a, [b'x'], [s.fileno()])
    return socket.socket(fileno=socket.recv_fds(b, 9, 1)[1][0])
def connected(s, to, act):
    s.connect(to)
    act()
def option(s, level, name, value, act):
    s.setsockopt(level, name, value)
    act()
def disconnected(s, data, to):
    try: s.connect(to)
    except OSError: pass
    libc.connect(s.fileno(), bytes(16), 16)
    s.sendto(data, to)
def forked(s, data, to):
    pid = os.fork()
    if pid == 0:
        try: os.dup2(s.fileno(), 11); socket.socket(fileno=11).sendto(data, to)
        finally: os._exit(0)
    os.waitpid(pid, 0)
def file(s, data, to):
    s.connect(to)
    with open('data', 'wb') as f: f.write(data)
    with open('data', 'rb') as f: os.sendfile(s.fileno(), f.fileno(), 0, len(data))
def spliced(s, data, to):
    s.connect(to)
    r, w = os.pipe(); os.write(w, data); os.splice(r, s.fileno(), len(data))
PKTINFO = lambda a: [(0, 8, struct.pack('=i4s4s', 0, socket.inet_aton(a), bytes(4)))]
WAYS = {
    'sendto': lambda s, d, to: s.sendto(d, to),
    'sendmsg': lambda s, d, to: s.sendmsg([d], [], 0, to),
    'sendmmsg': mmsg,
    'more': lambda s, d, to: (s.sendto(d, socket.MSG_MORE, to), s.sendto(b'', to)),
    'dontroute': lambda s, d, to: s.sendto(d, 4, to),
    'low sendto': lambda s, d, to: low(s).sendto(d, to),
    'low sendmsg': lambda s, d, to: low(s).sendmsg([d], [], 0, to),
    'low sendmmsg': lambda s, d, to: mmsg(low(s), d, to),
    'low pktinfo': lambda s, d, to: low(s).sendmsg([d], PKTINFO('127.0.0.1'), 0, to),
    'low more': lambda s, d, to: (low(s).sendto(d, socket.MSG_MORE, to), low(s).sendto(b'', to)),
    'low zerocopy': lambda s, d, to: option(s, 1, 60, 1, lambda: low(s).sendto(d, 0x4000000, to)),
    'low corked': lambda s, d, to: option(s, 17, 1, 1, lambda: (low(s).sendto(d, to), s.setsockopt(17, 1, 0))),
    'low segments': lambda s, d, to: option(s, 17, 103, 4, lambda: low(s).sendto(d, to)),
    'low broadcast': lambda s, d, to: option(s, 1, 6, 1, lambda: low(s).sendto(d, to)),
    'passed': lambda s, d, to: passed(s).sendto(d, to),
    'connected send': lambda s, d, to: connected(s, to, lambda: s.send(d)),
    'connected write': lambda s, d, to: connected(s, to, lambda: os.write(s.fileno(), d)),
    'connected writev': lambda s, d, to: connected(s, to, lambda: os.writev(s.fileno(), [d])),
    'connected low': lambda s, d, to: connected(s, to, lambda: low(s).send(d)),
    'connected, then by the kernel': lambda s, d, to: check(libc.syscall(42 if os.uname().machine == 'x86_64' else 203, s.fileno(), raw(to), len(raw(to)))) or low(s).send(d),
    'disconnected': disconnected, 'forked': forked, 'sendfile': file, 'splice': spliced,
}
def every(targets, own):
    for name, way in WAYS.items():
        for target in targets:
            kind = socket.AF_UNIX if isinstance(target, str) else socket.AF_INET
            s = socket.socket(kind, socket.SOCK_DGRAM)
            s.setblocking(False)
            try: way(s, ('%s %s' % (name, target)).encode(), target)
            except OSError as e: pass
            if own: # the same socket reaches the sandbox's own
                s = socket.socket(kind, socket.SOCK_DGRAM)
                try: way(s, ('%s %s' % (name, own[kind].getsockname())).encode(), own[kind].getsockname())
                except OSError: pass
`

const (
	datagramsEvery = `
u = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); u.bind('own.sock'); u.setblocking(False)
i = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); i.bind(('127.0.0.1', 0)); i.setblocking(False)
kernels = [l.split()[1] for l in open('/proc/net/udp') if l.split()[1].endswith(':%04X' % i.getsockname()[1]) and not l.split()[1].startswith('0100007F')]
address = socket.inet_ntoa(struct.pack('=I', int(kernels[0].split(':')[0], 16))) if kernels else '127.0.0.1'
arrived = set()
def collect(own):
    for s in own.values():
        while True:
            try: arrived.add(s.recv(999).decode().rsplit(' ', 1)[0].split(' (')[0])
            except OSError: break
class own(dict):
    def __getitem__(self, kind): collect(self); return dict.__getitem__(self, kind)
mine = own({socket.AF_UNIX: u, socket.AF_INET: i})
every([('127.0.0.1', PORT), (address, PORT), (address, WILD), ('0.0.0.0', WILD), PATH, NAME], mine)
collect(mine)
print(sorted(arrived))
`
	// Another thread has the address be the host's or the sandbox's own by turns.
	datagramsFlip = `
i = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); i.bind(('127.0.0.1', 0)); i.setblocking(False)
u = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); u.bind('own.sock'); u.setblocking(False)
until, got = time.monotonic() + 2, 0
for mine, theirs in ((raw(i.getsockname()), raw(('127.0.0.1', PORT))), (raw('own.sock'), raw(PATH))):
    at = ctypes.create_string_buffer(128)
    def flip():
        while time.monotonic() < until:
            ctypes.memmove(at, mine, len(mine)); ctypes.memmove(at, theirs, len(theirs))
    t = threading.Thread(target=flip); t.start()
    s = socket.socket(mine[0], socket.SOCK_DGRAM); s.setblocking(False)
    text = ctypes.create_string_buffer(b'flipped'); io = iovec(ctypes.addressof(text), 7)
    m = msghdr(ctypes.addressof(at), max(len(mine), len(theirs)), ctypes.addressof(io), 1, None, 0, 0)
    # and the descriptor is a low or a high one by turns
    other = low(s)
    while time.monotonic() < until:
        for fd in s.fileno(), other.fileno():
            libc.sendmsg(fd, ctypes.byref(m), 0x4000); libc.sendto(fd, text, 7, 0x4000, at, m.namelen)
        for r in i, u:
            try: got += len(r.recv(9))
            except OSError: pass
    t.join()
    until = time.monotonic() + 2
print(got > 0)
`
)

// hostDatagrams are sockets outside, and what arrives there.
type hostDatagrams struct {
	args  []string
	conns []net.PacketConn
}

func newHostDatagrams(t *testing.T, ws string) hostDatagrams {
	t.Helper()
	var h hostDatagrams
	listen := func(network, address string) net.PacketConn {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		h.conns = append(h.conns, c)
		return c
	}
	port := func(c net.PacketConn) string { return fmt.Sprint(c.LocalAddr().(*net.UDPAddr).Port) }
	path, name := filepath.Join(ws, "host.sock"), fmt.Sprintf("sandgate-datagrams-%d", os.Getpid())
	h.args = []string{port(listen("udp4", "127.0.0.1:0")), port(listen("udp4", "0.0.0.0:0")), path, name}
	listen("unixgram", path)
	listen("unixgram", "@"+name)
	return h
}

// arrived is what has come by now.
func (h hostDatagrams) arrived() (all []string) {
	for _, c := range h.conns {
		buf := make([]byte, 1<<10)
		for {
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				break
			}
			if n > 0 {
				all = append(all, string(buf[:n]))
			}
		}
	}
	return all
}

// TestDatagramsStayInside: without a network namespace, datagrams go between programs of the
// sandbox, whatever call sends them; none by any way reaches a socket of the host's that
// nobody listed, also while another thread exchanges the address. The same program outside
// reaches them by each.
func TestDatagramsStayInside(t *testing.T) {
	ws := confinetest.Workspace(t)
	l, p := newLandlock(t, confine.LandlockOptions{}), confinetest.Profile(t, ws)
	h := newHostDatagrams(t, ws)
	argv := append([]string{"/usr/bin/python3", "-c", datagramsPython + datagramsEvery}, h.args...)

	o := confinetest.Exec(t, t.Context(), l, p, ws, nil, argv...)
	if got := h.arrived(); len(got) > 0 {
		t.Errorf("outside arrived %q", got)
	}
	for _, way := range []string{"sendto", "sendmsg", "sendmmsg", "dontroute", "connected send", "connected write", "connected writev"} {
		if !strings.Contains(o.Out, "'"+way+"'") {
			t.Errorf("inside nothing arrived by %s: %s%s", way, o.Out, o.Err)
		}
	}
	os.Remove(filepath.Join(ws, "own.sock"))
	flip := confinetest.Exec(t, t.Context(), l, p, ws, nil, append([]string{"/usr/bin/python3", "-c", datagramsPython + datagramsFlip}, h.args...)...)
	if got := h.arrived(); len(got) > 0 {
		t.Errorf("outside arrived %q while addresses flipped", got)
	}
	if flip.Out != "True\n" || flip.Err != "" {
		t.Errorf("inside nothing arrived while addresses flipped: %q %s", flip.Out, flip.Err)
	}

	os.Remove(filepath.Join(ws, "own.sock"))
	outside := exec.Command(argv[0], argv[1:]...)
	outside.Dir = ws
	if out, err := outside.CombinedOutput(); err != nil {
		t.Fatalf("outside: %v\n%s", err, out)
	}
	all := strings.Join(h.arrived(), "\n")
	for _, way := range strings.Split("sendto,sendmsg,sendmmsg,more,dontroute,low sendto,low sendmsg,low sendmmsg,low pktinfo,low more,low zerocopy,low corked,low segments,low broadcast,passed,"+
		"connected send,connected write,connected writev,connected low,disconnected,forked,sendfile,splice", ",") {
		if !strings.Contains("\n"+all, "\n"+way+" ") && way != "low segments" { // in pieces
			t.Errorf("outside nothing arrived by %s: the test tries nothing", way)
		}
	}
}

// TestStrangersSendNothingIn: who is outside of a sandbox without a network namespace finds
// its socket, and what they send there is dropped.
func TestStrangersSendNothingIn(t *testing.T) {
	l, ws := newLandlock(t, confine.LandlockOptions{}), confinetest.Workspace(t)
	box, err := l.Prepare(t.Context(), confinetest.Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	said, says := io.Pipe()
	heard, hears := io.Pipe()
	ended := make(chan error, 1)
	const program = `
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0))
print(s.getsockname()[1]); sys.stdout.flush(); sys.stdin.readline()
try: s.setsockopt(1, 27, 0); print('unlocked')   # SO_DETACH_FILTER
except OSError: pass
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.sendto(b'own', s.getsockname())
s.settimeout(20); print(s.recv(99)); s.settimeout(0)
try: print(s.recv(99))
except BlockingIOError: print('nothing')
`
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	go func() {
		_, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/usr/bin/python3", Argv: []string{"python3", "-c", program}, Dir: ws,
		}}, confine.Stdio{Stdin: heard, Stdout: says, Stderr: os.Stderr})
		says.Close()
		ended <- err
	}()
	defer func() { stop(); hears.Close(); <-ended }()
	var port int
	if _, err := fmt.Fscanln(said, &port); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(table)) {
		var a, b, c, d, n int
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "%d: %2x%2x%2x%2x:%x", &n, &a, &b, &c, &d, new(int)); err != nil || !strings.Contains(line, fmt.Sprintf(":%04X ", port)) || d != 127 {
			continue
		}
		for _, to := range []string{fmt.Sprintf("%d.%d.%d.%d", d, c, b, a), "127.0.0.1"} {
			out, err := net.Dial("udp4", net.JoinHostPort(to, fmt.Sprint(port)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = out.Write([]byte("stranger"))
			found = found || err == nil && to != "127.0.0.1"
			out.Close()
		}
	}
	if !found {
		t.Fatalf("the socket is not found at port %d:\n%s", port, table)
	}
	fmt.Fprintln(hears)
	text, err := io.ReadAll(said)
	if want := "b'own'\nnothing\n"; err != nil || string(text) != want {
		t.Errorf("inside arrived %q, %v, want %q", text, err, want)
	}
}
