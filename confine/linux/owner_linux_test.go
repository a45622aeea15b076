package linux_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// owners are whose workspaces a supervisor of this user can be given.
func owners() []int {
	if os.Geteuid() != 0 {
		return []int{os.Geteuid()}
	}
	return []int{0, 54321}
}

// ownedWorkspace is a workspace with a file that nobody but its owner may read.
func ownedWorkspace(t *testing.T, uid int) string {
	t.Helper()
	ws := confinetest.Workspace(t)
	if err := os.WriteFile(ws+"/private", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{ws, ws + "/private"} {
		if err := os.Lchown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	return ws
}

// TestFilesKeepTheirOwner: whoever started the supervisor, a tool is the owner of
// the workspace, and what it makes, changes and replaces is the owner's.
func TestFilesKeepTheirOwner(t *testing.T) {
	for _, uid := range owners() {
		t.Run(strconv.Itoa(uid), func(t *testing.T) {
			ws := ownedWorkspace(t, uid)
			c, p := newWarmPool(t), confinetest.Profile(t, ws)
			o := confinetest.Shell(t, c, p, ws, "cat private; id -u; echo x > made; mkdir dir; mv private again; cp again private")
			if o.Out != "mine"+strconv.Itoa(uid)+"\n" || o.ExitCode != 0 {
				t.Fatalf("%q %q %+v", o.Out, o.Err, o.Result)
			}
			box, err := c.Prepare(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			for _, name := range []string{"again", "new/file"} {
				r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.WriteFile,
					File: &sandboxprofile.Operation{Path: ws + "/" + name, Content: []byte("x"), MakeParents: true}}, confine.Stdio{})
				if err != nil || r.Errno != "" {
					t.Errorf("write %s: %+v %v", name, r, err)
				}
			}
			for _, name := range append(tree(t, ws), ws+"/new/file") {
				var st unix.Stat_t
				if err := unix.Lstat(name, &st); err != nil || int(st.Uid) != uid {
					t.Errorf("%s: owner %d, %v, want %d", name, st.Uid, err, uid)
				}
			}
		})
	}
}

// TestNetworksOfEveryOwnerAreCarried: whoever the tools run as, their network is the
// supervisor's to give addresses to, and not theirs.
func TestNetworksOfEveryOwnerAreCarried(t *testing.T) {
	for _, uid := range owners() {
		t.Run(strconv.Itoa(uid), func(t *testing.T) {
			ws := ownedWorkspace(t, uid)
			c, p := newWarmPool(t), confinetest.Profile(t, ws)
			p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"example.com"}}}
			box, err := c.Prepare(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			carried, err := box.(confine.Proxied).Carry(confine.Addresses{
				Local:     []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("2001:db8::7/128")},
				Listen:    []netip.AddrPort{netip.MustParseAddrPort("[::]:80"), netip.MustParseAddrPort("[2001:db8::7]:7000")},
				Datagrams: netip.MustParseAddrPort("127.0.0.1:53"),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer carried.Datagrams.Close()
			for _, l := range carried.Streams {
				defer l.Close()
			}
			o := confinetest.ExecIn(t, context.Background(), box, ws, nil, "/usr/bin/python3", "-c", `
import errno, fcntl, os, socket, struct
for at in ("198.18.9.9", 80), ("2001:db8::7", 80), ("2001:db8::7", 7000):
    socket.create_connection(at, 5)
try: fcntl.ioctl(socket.socket(), 0x8916, struct.pack("16sHH4s8x", b"lo:9", 2, 0, bytes([192, 0, 2, 9])))
except OSError as e: print(os.getuid(), errno.errorcode[e.errno])
`)
			if o.Out != strconv.Itoa(uid)+" EPERM\n" {
				t.Errorf("%q %q", o.Out, o.Err)
			}
		})
	}
}

// TestRootIsNotRootInside: a supervisor that root started gives its tools neither
// root's files nor its power; files of the owner are what they reach.
func TestRootIsNotRootInside(t *testing.T) {
	uid := owners()[len(owners())-1]
	ws := ownedWorkspace(t, uid)
	theirs := ownedWorkspace(t, os.Geteuid())
	p := confinetest.Profile(t, ws)
	p.Paths[theirs] = sandboxprofile.Read
	c := newBwrap(t)
	want := "EACCES"
	if uid == os.Geteuid() {
		want = "ok" // one user has both
	}
	if got := confinetest.Python(t, c, p, ws, "open('"+theirs+"/private').read()"); got != want {
		t.Errorf("read of another user's private file: %s, want %s", got, want)
	}
	if got := confinetest.Python(t, c, p, ws, "open('private').read()"); got != "ok" {
		t.Errorf("read of the owner's: %s", got)
	}
	for _, act := range []string{"os.chown('private', 1, 1)", "os.setuid(1)", "os.mknod('device', 0o20666, os.makedev(1, 1))", "os.chroot('.')"} {
		if got := confinetest.Python(t, c, p, ws, act); got != "EPERM" && got != "EINVAL" && got != "ENOSYS" {
			t.Errorf("%s: %s", act, got)
		}
	}
	o := confinetest.Shell(t, c, p, ws, "id -u; id -G | wc -w; grep -c 'Cap...:.0000000000000000' /proc/self/status")
	if f := strings.Fields(o.Out); len(f) != 3 || f[0] != strconv.Itoa(uid) || f[2] != "5" || (os.Geteuid() == 0 && uid != 0 && f[1] != "1") {
		t.Errorf("uid, groups and empty sets of capabilities: %q", o.Out)
	}
}

// TestOneToolHasOneOwner: files of two users cannot both keep their owner.
func TestOneToolHasOneOwner(t *testing.T) {
	ids := owners()
	one, other := ownedWorkspace(t, ids[0]), ownedWorkspace(t, ids[len(ids)-1])
	p := confinetest.Profile(t, one)
	p.Paths[other] = sandboxprofile.Read | sandboxprofile.Write
	box, err := newBwrap(t).Prepare(context.Background(), p)
	if err == nil {
		box.Close()
	}
	var u *confine.Unenforceable
	if refused := errors.As(err, &u) && u.Part == "the owner of files" && u.Hint != ""; refused != (ids[0] != ids[len(ids)-1]) {
		t.Errorf("writable paths of %v: %v", ids, err)
	}
}
