package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestSocketLines(t *testing.T) {
	here, peer := netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:40000")
	six, peerSix := netip.MustParseAddrPort("[::1]:8080"), netip.MustParseAddrPort("[::1]:40000")
	const end = " 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1"
	for _, c := range []struct {
		name, line    string
		local, remote netip.AddrPort
		want          bool
	}{
		{"the peer's", "   1: 0100007F:9C40 0100007F:1F90" + end, peer, here, true},
		{"ours", "   1: 0100007F:1F90 0100007F:9C40" + end, peer, here, false},
		{"another port", "   1: 0100007F:9C41 0100007F:1F90" + end, peer, here, false},
		{"another address", "   1: 0200007F:9C40 0100007F:1F90" + end, peer, here, false},
		{"of IPv6", "   1: 00000000000000000000000001000000:9C40 00000000000000000000000001000000:1F90" + end, peerSix, six, true},
		{"of both", "   1: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:1F90" + end, peer, here, true},
		{"closed by its program", "   1: 0100007F:9C40 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0", peer, here, false},
		{"the heading", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", peer, here, false},
		{"nothing", "", peer, here, false},
		{"nonsense", "1: xx:yy 0100007F 01 a b c 1000 0 4711", peer, here, false},
	} {
		uid, ok := socketLine(c.line, c.local, c.remote)
		if ok != c.want || ok && uid != 1000 {
			t.Errorf("%s: %d, %v, want %v", c.name, uid, ok, c.want)
		}
	}
	if (netip.AddrPort{}) == tableAddress("0100007F:9C40") {
		t.Error("an address is read as none: every line of nonsense would be it")
	}
}

// TestOtherUsersStayOutside: a program of another user's is reset and recorded, one of
// ours beside it comes in. Only root can start the first; for everybody, who is let in is
// narrowed to nobody instead.
func TestOtherUsersStayOutside(t *testing.T) {
	greet := func(conn net.Conn) { io.WriteString(conn, "from inside") }
	leavesNothing(t, "by number", func(t *testing.T) {
		for _, admitted := range []bool{true, false} {
			e := startEntranceFor(t, func(uid int) bool { return admitted && uid == os.Geteuid() }, leadsTo(serveTCP(t, greet)))
			for i, addr := range e.addrs {
				got, err := heardAt(addr)
				ev := e.event(t)
				switch {
				case ev.User != strconv.Itoa(os.Geteuid()):
					t.Errorf("door %d: the log has the user %q", i, ev.User)
				case admitted && (got != "from inside" || err != nil || ev.Decision != Allow):
					t.Errorf("door %d: %q, %v, %+v", i, got, err, ev)
				case !admitted && (got != "" || !errors.Is(err, syscall.ECONNRESET) || ev.Decision != Deny || ev.Reason != ReasonDenied || ev.Up+ev.Down != 0):
					t.Errorf("door %d, not admitted: %q, %v, %+v", i, got, err, ev)
				}
			}
		}
	})
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program of another user's; the narrowed twin ran")
	}
	leavesNothing(t, "really", func(t *testing.T) {
		e := startEntranceFor(t, nil, leadsTo(serveTCP(t, greet)))
		const nobody = 65534
		for i, addr := range e.addrs {
			for _, family := range []string{"create_connection", "both versions"} {
				for _, uid := range []uint32{nobody, 0} {
					got := connectAs(t, uid, addr, family)
					ev := e.event(t)
					allowed := uid == 0
					if allowed != (got == "from inside") || allowed != (ev.Decision == Allow) || ev.User != fmt.Sprint(uid) || !allowed && got != "ECONNRESET" {
						t.Errorf("door %d, %s, user %d: %q, %+v", i, family, uid, got, ev)
					}
				}
			}
		}
	})
}

// connectAs is what a program of a user's hears, or the errno that it meets. With both
// versions it connects through a socket of IPv6 also to an address of IPv4.
func connectAs(t *testing.T, uid uint32, addr, family string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`
import errno, socket
host = %q
try:
    if %q == "both versions":
        s = socket.socket(socket.AF_INET6)
        s.connect((host if ":" in host else "::ffff:" + host, %s))
    else:
        s = socket.create_connection((host, %s))
    print(s.makefile().read(), end="")
except OSError as e:
    print(errno.errorcode[e.errno], end="")`, host, family, port, port)
	cmd := exec.Command("/usr/bin/python3", "-c", script)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}
