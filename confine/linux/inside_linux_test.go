package linux_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestWhatCannotBeCarriedIsRefusedAtOnce: addresses that a sandbox cannot take are an
// error that says so, for every later call too. Programs inside are refused and do not
// wait for somebody to accept them, and the proxy is there.
func TestWhatCannotBeCarriedIsRefusedAtOnce(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"example.com"}}}
	good := confine.Addresses{
		Local:     []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")},
		Listen:    []netip.AddrPort{netip.MustParseAddrPort("[::]:80"), netip.MustParseAddrPort("198.18.0.2:7000")},
		Datagrams: netip.MustParseAddrPort("127.0.0.1:53"),
	}
	absent, many, other := good, good, good
	absent.Listen = []netip.AddrPort{netip.MustParseAddrPort("[::]:80"), netip.MustParseAddrPort("192.0.2.1:7000")}
	for port := range uint16(20) {
		many.Listen = append(many.Listen[:len(many.Listen):len(many.Listen)], netip.AddrPortFrom(netip.IPv6Unspecified(), 1000+port))
	}
	other.Listen = good.Listen[:1]
	for _, x := range []struct {
		name          string
		first, second confine.Addresses
		firstWorks    bool
		reason        string
	}{
		{"good", good, good, true, ""},
		{"an address that is nobody's", absent, good, false, "cannot assign requested address"},
		{"more than were made", many, good, false, "sockets are needed"},
		{"others than before", good, other, true, "other addresses"},
	} {
		c := newBwrap(t)
		box, err := c.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		in, err := box.(confine.Proxied).Carry(x.first)
		if x.firstWorks != (err == nil) {
			t.Errorf("%s: %v", x.name, err)
		}
		for _, l := range in.Streams {
			defer l.Close()
		}
		in, err = box.(confine.Proxied).Carry(x.second)
		var cannot *confine.Unenforceable
		if (x.reason != "") != errors.As(err, &cannot) || x.reason != "" && !strings.Contains(err.Error(), x.reason) {
			t.Errorf("%s, again: %v, want %q", x.name, err, x.reason)
		}
		for _, l := range in.Streams {
			defer l.Close()
		}
		l, err := box.(confine.Proxied).Egress()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		o := confinetest.ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", fmt.Sprintf(`
import errno, socket
for at in ("127.0.0.1", %d), ("127.0.0.1", 80):
    try: socket.create_connection(at, 5); print("ok")
    except OSError as e: print(errno.errorcode[e.errno])
`, confine.EgressPort))
		want := "ok\nok\n"
		if !x.firstWorks {
			want = "ok\nECONNREFUSED\n"
		}
		if o.Out != want {
			t.Errorf("%s: %q %q, want %q", x.name, o.Out, o.Err, want)
		}
	}
}
