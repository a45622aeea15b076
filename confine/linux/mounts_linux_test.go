package linux

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// movable is a workspace with a hidden file, and a granted directory in a denied one.
func movable(t *testing.T) (*Bwrap, sandboxprofile.Profile, string) {
	t.Helper()
	b, err := NewBwrap("")
	must(t, err)
	t.Cleanup(func() { b.Close() })
	ws, err := os.MkdirTemp("/var/tmp", "sandgate-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(ws) })
	for _, dir := range []string{"/a/s", "/denied/a/out", "/denied/b/out", "/closed"} {
		must(t, os.MkdirAll(ws+dir, 0o755))
	}
	must(t, os.WriteFile(ws+"/a/s/.env", []byte("hunter2"), 0o600))
	p := probeProfile()
	p.Hide = []string{".env"}
	const write = sandboxprofile.Read | sandboxprofile.Write
	p.Paths[ws], p.Paths[ws+"/closed"], p.Paths[ws+"/denied"], p.Paths[ws+"/denied/a/out"] = write, 0, 0, write
	return b, p, ws
}

// TestMovesBeforeTheMountsAreNoticed: a directory that was moved away after the
// survey is not covered where it is now, so nothing is built, whatever has its name.
func TestMovesBeforeTheMountsAreNoticed(t *testing.T) {
	replace := func(dir string) func(*testing.T, string) {
		return func(t *testing.T, ws string) {
			must(t, os.Rename(ws+dir, ws+"/moved"))
			must(t, os.MkdirAll(ws+"/a/s", 0o755))
			must(t, os.WriteFile(ws+"/a/s/.env", nil, 0o600))
		}
	}
	for name, x := range map[string]struct {
		move func(t *testing.T, ws string)
		want string // of the error; "" if it is built
	}{
		"nothing":                               {func(*testing.T, string) {}, ""},
		"a directory of ours":                   {func(t *testing.T, ws string) { must(t, os.Mkdir(ws+"/new", 0o755)) }, ""},
		"away":                                  {func(t *testing.T, ws string) { must(t, os.Rename(ws+"/a", ws+"/moved")) }, "no such file"},
		"a denied one, away":                    {func(t *testing.T, ws string) { must(t, os.Rename(ws+"/closed", ws+"/moved")) }, "no such file"},
		"away, and made again":                  {replace("/a"), "moved to another directory"},
		"the one with the file, and made again": {replace("/a/s"), "moved to another directory"},
	} {
		t.Run(name, func(t *testing.T) {
			b, p, ws := movable(t)
			seen, err := b.guard.Survey(p)
			must(t, err)
			x.move(t, ws)
			box, err := b.build(context.Background(), p, seen, false, func() {})
			if err == nil {
				box.Close()
			}
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

// TestInitComparesTheMounts: what is exchanged after a look at what is to be mounted
// is found by init, which runs nothing then.
func TestInitComparesTheMounts(t *testing.T) {
	swap := func(a, b string) func(*testing.T, string) {
		return func(t *testing.T, ws string) {
			must(t, os.Rename(ws+a, ws+"/aside"))
			must(t, os.Rename(ws+b, ws+a))
			must(t, os.Rename(ws+"/aside", ws+b))
		}
	}
	for name, x := range map[string]struct {
		move func(t *testing.T, ws string)
		want string // of the error; "" if it is built
	}{
		"nothing":                             {func(*testing.T, string) {}, ""},
		"a granted directory in a denied one": {swap("/denied/a/out", "/denied/b/out"), "another file is mounted"},
		"one above it":                        {swap("/denied/a", "/denied/b"), "another file is mounted"},
		"a link to elsewhere": {func(t *testing.T, ws string) {
			must(t, os.Rename(ws+"/denied/a", ws+"/denied/c"))
			must(t, os.Symlink("b", ws+"/denied/a"))
		}, "another file is mounted"},
		"the directory of a hidden file": {func(t *testing.T, ws string) {
			must(t, os.Rename(ws+"/a/s", ws+"/moved"))
			must(t, os.Mkdir(ws+"/a/s", 0o755))
			must(t, os.WriteFile(ws+"/a/s/.env", nil, 0o600))
		}, "another file is mounted"}, // which pins the file's
	} {
		t.Run(name, func(t *testing.T) {
			b, p, ws := movable(t)
			seen, err := b.guard.Survey(p)
			must(t, err)
			args, err := bwrap.Compile(p, seen.Facts)
			must(t, err)
			mounts, err := expectMounts(p, args)
			must(t, err)
			x.move(t, ws)
			s, err := b.launch(p, args, false, nil, nil, nil)
			must(t, err)
			defer s.Close()
			s.guard, s.baseline = b.guard, nil
			setup, err := b.restrictions(p, seen.Facts)
			must(t, err)
			setup.Mounts = mounts
			err = s.setUp(context.Background(), setup)
			var u *confine.Unenforceable
			switch {
			case x.want == "" && err != nil:
				t.Error(err)
			case x.want != "" && (!errors.As(err, &u) || u.Part != "check the mounts" || !strings.Contains(u.Reason, x.want)):
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
