package linux_test

import (
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestDatagramsAreDeliveredInside: without namespaces, programs of a sandbox send each other datagrams by UDP, in each way that
// there is, and see the addresses that they would see outside.
func TestDatagramsAreDeliveredInside(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Limits.OpenFiles = 4096
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), p, ws)
	k.gets("D = socket.SOCK_DGRAM; s = socket.socket(socket.AF_INET, D); r = s.getsockname()", "('0.0.0.0', 0)")
	k.gets("s.bind(('127.0.0.1', 0)); s.settimeout(5); r = s.getsockname()[0]", "127.0.0.1")
	k.gets("c = socket.socket(socket.AF_INET, D); c.settimeout(5); r = c.sendto(b'one', s.getsockname())", "3")
	k.gets("d, a = s.recvfrom(9); r = d, a == ('127.0.0.1', c.getsockname()[1])", "(b'one', True)")
	k.gets("s.sendto(b'back', a); r = c.recvfrom(9) == (b'back', s.getsockname())", "True")
	k.gets("c.connect(s.getsockname()); r = c.send(b'two'); r = s.recv(9)", "b'two'")
	k.gets("os.write(c.fileno(), b'three'); r = s.recv(9)", "b'three'")
	k.gets("os.writev(c.fileno(), [b'fo', b'ur']); r = s.recv(9)", "b'four'")
	k.gets("c.sendmsg([b'fi', b've']); r = s.recvmsg(9)[0]", "b'five'")
	k.gets("s.sendmsg([b'six'], [(0, 8, bytes(12))], 0, a); r = c.recvmsg(9)[0]", "b'six'")
	k.gets("s.sendmsg([b'x'], [(1, 1, struct.pack('i', 0))], 0, a)", "EINVAL")
	k.gets("s.sendto(bytes(65467), a); r = len(c.recv(99999))", "65467")
	k.gets("s.sendto(bytes(65468), a)", "EMSGSIZE")
	k.gets("s.sendto(b'', a); r = c.recv(9)", "b''")
	k.gets("o = socket.socket(socket.AF_INET, D); o.sendto(b'other', a); c.setblocking(False); c.recv(9)", "EAGAIN") // c has a peer
	k.gets("p = c.getsockname()[1]; c.close(); s.sendto(b'nobody', ('127.0.0.1', 9)); r = 'sent'", "sent")
	k.gets("o.connect(('127.0.0.1', 9)); o.send(b'x')", "ECONNREFUSED")
	// A port of one's choice.
	k.gets("b = socket.socket(socket.AF_INET, D); b.setsockopt(1, 2, 1); b.bind(('', 28125)); r = b.getsockname()", "('0.0.0.0', 28125)")
	k.gets("socket.socket(socket.AF_INET, D).bind(('', 28125))", "EADDRINUSE")
	k.gets("b.settimeout(5); o.settimeout(5); o.connect(('127.0.0.1', 28125)); o.send(b'x'); d, a = b.recvfrom(9); b.sendto(b'y', a); r = o.recvfrom(9)", "(b'y', ('127.0.0.1', 28125))")
	// What cannot be read.
	k.gets("def E(n):\n if n < 0: raise OSError(ctypes.get_errno(), '')\ng['E'] = E", "ok")
	for _, call := range []string{"sendmsg(o.fileno(), 8, 0)", "sendmmsg(o.fileno(), 8, 2000, 0)", "sendto(o.fileno(), 8, 5, 0, None, 0)", "sendto(o.fileno(), b'x', 1, 0, 8, 16)", "writev(o.fileno(), 8, 5)", "write(o.fileno(), 8, 5)"} {
		k.gets("E(libc."+call+")", "EFAULT")
	}
	k.gets("E(libc.write(o.fileno(), b'', ctypes.c_size_t(-1)))", "EMSGSIZE")
	k.gets("E(libc.writev(o.fileno(), 8, -1))", "EMSGSIZE")
	// By IPv6.
	k.gets("x = socket.socket(socket.AF_INET6, D); x.bind(('::1', 0)); x.settimeout(5); r = x.getsockname()[0]", "::1")
	k.gets("y = socket.socket(socket.AF_INET6, D); y.sendto(b'x', x.getsockname()); d, a = x.recvfrom(9); x.sendto(b'y', a); y.settimeout(5); r = y.recv(9)", "b'y'")
	// A port that is closed is free at once.
	k.gets("for i in range(30):\n f = socket.socket(socket.AF_INET, D); f.bind(('127.0.0.1', 28126)); f.sendto(b'x', f.getsockname()); f.recv(9); f.close()", "ok")
	// By another process, and a copy of a descriptor.
	k.gets("pid = os.fork()\nif pid == 0: o.send(b'child'); os._exit(0)\nos.waitpid(pid, 0); r = b.recv(9)", "b'child'")
	k.gets("e = o.dup(); e.sendto(b'copy', ('127.0.0.1', 28125)); r = b.recv(9)", "b'copy'")
}

// TestUnixDatagramsAreDeliveredInside: the same by Unix sockets.
func TestUnixDatagramsAreDeliveredInside(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Limits.OpenFiles = 4096
	k := converse(t, newLandlock(t, linux.LandlockOptions{}), p, ws)
	k.gets("D, U = socket.SOCK_DGRAM, socket.AF_UNIX; s = socket.socket(U, D); r = s.getsockname()", "")
	k.gets("s.bind('./one'); s.settimeout(5); r = s.getsockname()", "./one")
	k.gets("c = socket.socket(U, D); c.settimeout(5); c.sendto(b'one', 'one'); r = s.recvfrom(9)", "(b'one', None)")
	k.gets("c.bind(os.getcwd() + '/two'); c.sendto(b'two', 'one'); d, a = s.recvfrom(9); r = d, a == os.getcwd() + '/two'", "(b'two', True)")
	k.gets("s.sendto(b'back', a); r = c.recvfrom(9)", "(b'back', './one')")
	k.gets("c.connect('one'); c.send(b'three'); r = s.recv(9)", "b'three'")
	k.gets("os.write(c.fileno(), b'four'); r = s.recv(9), c.getpeername()", "(b'four', './one')")
	k.gets("z = socket.socket(U, D); z.sendto(b'x', 'two')", "EPERM") // two is connected to one
	// An abstract name.
	k.gets("q = socket.socket(U, D); q.bind('\\0name'); q.settimeout(5); r = q.getsockname()", "b'\\x00name'")
	k.gets("z.sendto(b'five', '\\0name'); r = q.recv(9)", "b'five'")
	k.gets("q.sendto(b'six', 'one'); d, a = s.recvfrom(9); s.sendto(b'seven', a); r = q.recv(9)", "b'seven'")
	// Who waits for room.
	k.gets("z.connect('one'); z.setblocking(False); n = 0\ntry:\n while True: z.send(b'x'); n += 1\nexcept BlockingIOError: r = n > 0", "True")
	k.gets("z.setblocking(True); threading.Timer(0.1, lambda: s.recv(9)).start(); r = z.send(b'y')", "1")
	k.gets("s.close(); z.send(b'x')", "ECONNREFUSED")
	k.gets("a, b = socket.socketpair(U, D); a.send(b'one'); a.send(b'two'); r = b.recv(9), b.recv(9), a.type == D", "(b'one', b'two', True)")
}
