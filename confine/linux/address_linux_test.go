package linux_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// addressesPython prints what a program is told of its sockets, without port numbers.
const addressesPython = `
import socket
def say(*names): print(*[(n[0], n[1] > 0) for n in names])
for bound, family, at, to in ((b, *x) for b in (0, 1) for x in ((2, '127.0.0.1', '127.0.0.1'), (2, '0.0.0.0', '127.0.0.1'), (2, None, '127.0.0.1'), (10, '::', '127.0.0.1'), (10, '::', '::1'), (10, '::1', '::1'))):
    l = socket.socket(family)
    if at: l.bind((at, 0))
    say(l.getsockname())
    l.listen()
    port = l.getsockname()[1]
    c = socket.socket(10 if ':' in to else 2)
    if bound: c.bind(('', 0))
    c.connect((to, port))
    a, peer = l.accept()
    if to != '::1': say(peer)
    say(l.getsockname(), c.getsockname(), c.getpeername(), a.getsockname(), a.getpeername())
    assert c.getpeername()[1] == port == a.getsockname()[1] and c.getsockname()[1] == a.getpeername()[1] == peer[1]
    l.close(); c.close(); a.close()
    for s in socket.socket(family), l, a:
        try: print(s.getpeername())
        except OSError as e: print(e)
    n = socket.socket(); n.setblocking(False)
    print(n.connect_ex(('127.0.0.1', port)) in (111, 115))
    try: print(n.getpeername())
    except OSError as e: print(e)
    print(socket.socket(family).getsockname()[:2])
    s = socket.socket(family); s.bind(('', 0)); port = s.getsockname()[1]; print(port > 0)
    try: s.bind(('', 0))
    except OSError as e: print(e)
    s.listen(); print(s.getsockname()[1] == port)
a, b = socket.socketpair()
print(a.getsockname(), a.getpeername())
`

// TestAddressesAreThoseOfOutside: without a network namespace a program is told the addresses
// that it would be told outside, of sockets that listen, connect and were accepted, and of
// those that do neither. Only accept(2) tells the peer of ::1 as ::ffff:127.0.0.1.
func TestAddressesAreThoseOfOutside(t *testing.T) { addressesAreThoseOfOutside(t) }

func addressesAreThoseOfOutside(t *testing.T) {
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	outside, err := exec.Command("/usr/bin/python3", "-c", addressesPython).Output()
	if err != nil || !strings.Contains(string(outside), "::1") {
		t.Fatalf("outside: %q, %v", outside, err)
	}
	o := confinetest.Exec(t, t.Context(), l, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", addressesPython)
	if o.Out != string(outside) || o.Err != "" {
		t.Errorf("inside:\n%s%s\noutside:\n%s", o.Out, o.Err, outside)
	}
}

// servesPython serves at 127.0.0.1, says at which port, and that it reaches itself.
const servesPython = `
import socket
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
c = socket.create_connection(s.getsockname())
print(s.getsockname()[1], c.getpeername() == s.getsockname())
while True: s.accept()
`

// TestAddressesOfOthersStayOutOfReach: that every sandbox is told of 127.0.0.1 leads nobody to
// another's server there, or to the host's; where a socket's address is written to is the
// program's own memory, or nowhere.
func TestAddressesOfOthersStayOutOfReach(t *testing.T) {
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	reach := func(port int) string {
		return confinetest.Python(t, l, p, ws, fmt.Sprintf("s = socket.socket(); s.connect(('127.0.0.1', %d))", port))
	}
	if got := reach(host.Addr().(*net.TCPAddr).Port); got != "ECONNREFUSED" {
		t.Errorf("the host's server: %s", got)
	}
	box, err := l.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	said, says := io.Pipe()
	defer said.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/usr/bin/python3", Argv: []string{"python3", "-uc", servesPython}, Dir: ws,
		}}, confine.Stdio{Stdout: says, Stderr: os.Stderr})
		says.Close()
		ended <- err
	}()
	defer func() { stop(); <-ended }()
	var other int
	var itself string
	if _, err := fmt.Fscan(said, &other, &itself); err != nil || itself != "True" {
		t.Fatalf("a server inside: %q, %v", itself, err)
	}
	if got := reach(other); got != "ECONNREFUSED" {
		t.Errorf("another sandbox's server at port %d: %s", other, got)
	}
	const name = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\ns = socket.socket(); s.listen()\nn = ctypes.c_int(%s)\nr = l.getsockname(s.fileno(), ctypes.c_void_p(%s), %s)\nif r < 0: raise OSError(ctypes.get_errno(), '')"
	for _, x := range []struct{ size, at, length, want string }{
		{"16", "ctypes.addressof(ctypes.create_string_buffer(64))", "ctypes.byref(n)", "ok"},
		{"0", "0", "ctypes.byref(n)", "ok"}, // asks how much there would be
		{"-1", "0", "ctypes.byref(n)", "EINVAL"},
		{"16", "0", "ctypes.byref(n)", "EFAULT"},
		{"16", "0", "0", "EFAULT"},
		{"16", "ctypes.cast(l.getpid, ctypes.c_void_p).value", "ctypes.byref(n)", "EFAULT"}, // code
		{"16", "-4096", "ctypes.byref(n)", "EFAULT"},                                        // the kernel's
	} {
		if got := confinetest.Python(t, l, p, ws, fmt.Sprintf(name, x.size, x.at, x.length)); got != x.want {
			t.Errorf("%v: %s", x, got)
		}
	}
}
