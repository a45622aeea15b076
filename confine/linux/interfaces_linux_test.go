package linux_test

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// netlinkPython asks by netlink(7): ask gives the answers to one request as kind, number and
// what follows.
const netlinkPython = `
import ctypes, errno, os, socket, struct, threading
LINKS, ADDRESSES, ROUTES, NEW, SET, DUMP = 18, 22, 26, 20, 19, 0x301
def netlink(): return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def request(kind, flags=DUMP, body=bytes(4), number=7): return struct.pack('=IHHII', 16 + len(body), kind, flags, number, 0) + body
def parse(text):
    while text:
        size, kind, flags, number, port = struct.unpack('=IHHII', text[:16])
        yield kind, number, port, text[16:size]
        text = text[size + 3 & ~3:]
def ask(s, *a, **b):
    s.send(request(*a, **b))
    return [x for x in parse(s.recv(8192))]
`

// getifaddrsPython lists a machine's addresses as the C library does.
const getifaddrsPython = `
import ctypes, socket
class A(ctypes.Structure): pass
A._fields_ = [('next', ctypes.POINTER(A)), ('name', ctypes.c_char_p), ('flags', ctypes.c_uint), ('addr', ctypes.c_void_p), ('mask', ctypes.c_void_p)]
l = ctypes.CDLL(None, use_errno=True)
p = ctypes.POINTER(A)()
if l.getifaddrs(ctypes.byref(p)): raise OSError(ctypes.get_errno(), 'getifaddrs')
def text(at):
    family = int.from_bytes(ctypes.string_at(at, 2), 'little')
    return {2: lambda: socket.inet_ntop(2, ctypes.string_at(at + 4, 4)), 10: lambda: socket.inet_ntop(10, ctypes.string_at(at + 8, 16))}.get(family, lambda: 'link')()
found = set()
while p:
    found.add((p[0].name.decode().split(':')[0], text(p[0].addr), text(p[0].mask) if p[0].mask else ''))
    p = p[0].next
print(sorted(found), socket.if_nameindex())
`

// TestInterfacesAreTheLoopback: without a network namespace a program that asks for the
// machine's addresses is told those that it would have in a namespace, and no other.
func TestInterfacesAreTheLoopback(t *testing.T) {
	ws := confinetest.Workspace(t)
	lists := func(c confine.Confiner) string {
		o := confinetest.Exec(t, t.Context(), c, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", getifaddrsPython)
		if o.Err != "" {
			t.Error(o.Err)
		}
		return strings.TrimSpace(o.Out)
	}
	const want = "[('lo', '127.0.0.1', '255.0.0.0'), ('lo', '127.0.1.1', '255.255.255.255'), " +
		"('lo', '::1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'), ('lo', 'fe80::1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'), ('lo', 'link', '')] [(1, 'lo')]"
	l := newLandlock(t, linux.LandlockOptions{})
	if got := lists(l); got != want {
		t.Errorf("without namespaces: %s", got)
	}
	t.Run("in a namespace", func(t *testing.T) {
		if got := lists(newBwrap(t)); got != want {
			t.Error(got)
		}
	})
	outside, err := exec.Command("/usr/bin/python3", "-c", getifaddrsPython).Output()
	if err != nil || !strings.Contains(string(outside), "('lo', '127.0.0.1', '255.0.0.0')") {
		t.Fatalf("outside: %s, %v", outside, err)
	}

	k := converse(t, l, confinetest.Profile(t, ws), ws)
	k.gets(netlinkPython+"r = 'ready'", "ready")
	// Other ways to ask, and what they are told: every number of a request comes back.
	k.gets("s = netlink(); s.bind((0, 0)); me = s.getsockname(); r = me[0] > 0 and me[1] == 0 and [(k, n, p == me[0]) for k, n, p, _ in ask(s, LINKS)]", "[(16, 7, True), (3, 7, True)]")
	k.gets("r = [k for k, _, _, _ in ask(s, ADDRESSES)], [k for k, _, _, _ in ask(s, ADDRESSES, body=bytes([10, 0, 0, 0]))], [k for k, _, _, _ in ask(s, ROUTES)]", "([20, 20, 20, 20, 3], [20, 20, 3], [3])")
	k.gets("r = [k for k, _, _, _ in ask(s, LINKS, 1, struct.pack('=BxHiII', 0, 0, 1, 0, 0))], [struct.unpack('=i', b[:4]) for _, _, _, b in ask(s, LINKS, 1, struct.pack('=BxHiII', 0, 0, 2, 0, 0))]", "([16], [(-19,)])")
	// As musl asks: it takes the answer at once or not at all.
	k.gets("r = set()\nfor i in range(300):\n s = netlink(); s.send(request(LINKS, number=i)); r.add(len(s.recv(8192, socket.MSG_DONTWAIT)) > 64); s.close()", "{True}")
	k.gets("a, b = socket.socketpair(); s = netlink(); a.send(b'x' * 20); r = b.recv(99)", "b'xxxxxxxxxxxxxxxxxxxx'") // as long as a question
	// 127.0.1.1 and fe80::1 are the loopback's, since they are told.
	k.gets("s = socket.socket(); s.bind(('127.0.1.1', 0)); s.listen(); c = socket.create_connection(('127.0.1.1', s.getsockname()[1])); r = c.getpeername()[0], s.accept()[0].getsockname()[0]", "('127.0.1.1', '127.0.1.1')")
}

// TestNothingOfNetlinkIsTheHosts: what a program says by such a socket changes nothing and
// reaches nobody, however much it is; and it holds up nobody.
func TestNothingOfNetlinkIsTheHosts(t *testing.T) {
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	k := converse(t, l, confinetest.Profile(t, ws), ws)
	k.gets(netlinkPython+"r = 'ready'", "ready")
	refused := "r = [struct.unpack('=i', b[:4])[0] for k, n, p, b in ask(netlink(), %s) if k == 2]"
	for question, want := range map[string]string{
		"NEW, 5, struct.pack('=BBBBI', 2, 8, 0, 0, 1)":  "[-1]", // EPERM
		"SET, 5, struct.pack('=BxHiII', 0, 0, 1, 0, 1)": "[-1]",
		"16":       "[-1]", // a new link, with the bits of a dump
		"3":        "[-1]", // a control message
		"ROUTES,1": "[-95]",
		"LINKS":    "[]", // the one that is answered
	} {
		k.gets(strings.ReplaceAll(refused, "%s", question), want)
	}
	for act, want := range map[string]string{
		"socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)":    "EPROTONOSUPPORT", // of sockets: sock_diag(7)
		"socket.socket(socket.AF_NETLINK, socket.SOCK_STREAM, 0)": "EACCES",
		"netlink().listen()":                                      "EINVAL",
		"netlink().bind((0, 1))":                                  "ok", // a group, of which nothing is heard
		"netlink().connect((0, 0))":                               "ok",
		"netlink().setsockopt(270, 1, 1)":                         "EPERM", // NETLINK_ADD_MEMBERSHIP
		"l = [netlink() for i in range(65)]":                      "EMFILE",
		"s = netlink(); s.shutdown(2); s.recv(1)":                 "ok",
		"s = netlink(); s.send(b''); assert s.recv(1) == b''":     "ok",
		"s = netlink(); socket.send_fds(s, [b'x'], [s.fileno()])": "ok",
	} {
		if got := k.does(act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	k.gets("s = 0; l = [netlink() for i in range(64)]; l[0].close(); l[0] = netlink(); r = len(l); l = 0", "64")
	// Nobody reads: the answers end, and other calls go on meanwhile.
	k.gets(`
s = netlink(); sent = 0; r = None
try:
    while sent < 100000: s.send(request(ADDRESSES, body=bytes(8)) * 16); sent += 1
except OSError as e: r = e.errno in (errno.EPIPE, errno.ECONNRESET)
made = socket.socket().getsockname()
`, "True")
	// The name that stands for the kernel's is one of the host's at which nobody listens.
	got := k.does("s = netlink(); s.send(request(LINKS)); r = s.getpeername().hex()")
	name, ok := strings.CutPrefix(got, "000000000000")
	if !ok || len(name) != 8 {
		t.Fatalf("the broker's end is called %q", got)
	}
	raw, err := hex.DecodeString(got)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] = '@'
	for _, kind := range []int{unix.SOCK_SEQPACKET, unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		if err := connects(kind, string(raw)); err != unix.ECONNREFUSED {
			t.Errorf("a program of the host's connects to it: %v", err)
		}
	}
	there, err := net.Listen("unixpacket", "@sandgate-test-"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := connects(unix.SOCK_SEQPACKET, there.Addr().String()); err != nil {
		t.Errorf("it connects to one that listens: %v", err)
	}
}

// connects has a Unix socket connect.
func connects(kind int, name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}
