package linux_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestAFileHasNoNameUntilItIsWhole: whatever ends a write in the middle leaves nothing in
// the workspace, since what is written has no name there.
func TestAFileHasNoNameUntilItIsWhole(t *testing.T) {
	b, ws := newBwrap(t), confinetest.Workspace(t)
	if fd, err := unix.Open(ws, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600); err != nil {
		t.Skipf("the file system of %s has no files without a name: %v", ws, err)
	} else {
		unix.Close(fd)
	}
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, ws, unix.IN_MODIFY|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	events := func() (changed, arrived []string) {
		buf := make([]byte, 64<<10)
		n, err := unix.Read(watch, buf)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			mask := uint32(buf[at+4]) | uint32(buf[at+5])<<8
			size := int(buf[at+12]) | int(buf[at+13])<<8
			name := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+size]), "\x00")
			if mask&unix.IN_MODIFY != 0 && name[0] == '#' { // what the kernel calls a file without a name
			} else if mask&unix.IN_MODIFY != 0 {
				changed = append(changed, name)
			} else {
				arrived = append(arrived, name)
			}
			at += unix.SizeofInotifyEvent + size
		}
		return changed, arrived
	}
	box, err := b.Prepare(context.Background(), confinetest.Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	content := bytes.Repeat([]byte("x"), 4<<20)
	for range 2 { // one that is new, and one that is replaced
		r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.WriteFile,
			File: &sandboxprofile.Operation{Path: ws + "/file", Content: content}}, confine.Stdio{})
		if err != nil || r.Errno != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		if changed, arrived := events(); len(changed) != 0 || len(arrived) != 1 || arrived[0] != "file" {
			t.Errorf("changed by name: %q; arrived: %q", changed, arrived)
		}
	}
	if err := os.WriteFile(ws+"/.sandgate-twin", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, _ := events(); len(changed) == 0 {
		t.Error("a write by name is not seen, so this proves nothing")
	}
}
