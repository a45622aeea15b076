package tripwire

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWatchedTreesAreRecalled: a survey of a tree in which nothing happened looks at no
// directory, and one that happened after a change sees it, as deep as it may lie. What
// the memory says is what a survey from nothing finds.
func TestWatchedTreesAreRecalled(t *testing.T) {
	ws := surveyTree(t, 200, 2)
	g, p := New(nil), surveyProfile(ws)
	tree := g.trees(g.profiles.Of(p))[0]
	check := func(step string, recalled bool) {
		t.Helper()
		tree.mu.Lock()
		tree.watch.update()
		if (tree.memory != nil) != recalled {
			t.Errorf("%s: remembered: %v", step, tree.memory != nil)
		}
		tree.mu.Unlock()
		found, err := findAll(g, p)
		fresh, err2 := findAll(New(nil), p)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(found, fresh) {
			t.Errorf("%s: %v, from nothing %v", step, found, fresh)
		}
	}
	if _, err := findAll(g, p); err != nil {
		t.Fatal(err)
	}
	if tree.watch == nil || tree.memory == nil {
		t.Fatalf("nothing is watched: %+v", tree.watch)
	}
	check("nothing", true)
	deep := ws + "/d1/e7"
	for _, act := range []struct {
		name string
		do   func() error
	}{
		{"a hidden file", func() error { return os.WriteFile(deep+"/.env", nil, 0o600) }},
		{"it is renamed", func() error { return os.Rename(deep+"/.env", deep+"/plain") }},
		{"a directory comes with something hidden in it", func() error {
			return errors.Join(os.MkdirAll(ws+"/x/y", 0o755), os.WriteFile(ws+"/x/y/.env", nil, 0o600))
		}},
		{"it is moved", func() error { return os.Rename(ws+"/x", ws+"/d0/z") }},
		{"something appears where it is now", func() error { return os.WriteFile(ws+"/d0/z/y/id_rsa", nil, 0o600) }},
		{"a directory is closed", func() error { return os.Chmod(ws+"/d0/e1", 0) }},
		{"and opened", func() error { return os.Chmod(ws+"/d0/e1", 0o755) }},
		{"it is removed", func() error { return os.RemoveAll(ws + "/d0/z") }},
	} {
		if err := act.do(); err != nil {
			t.Fatal(err)
		}
		check(act.name, false)
		check(act.name+", and then nothing", true)
	}
	if os.Geteuid() != 0 {
		return // nobody else mounts
	}
	if err := unix.Mount("none", deep, "tmpfs", 0, ""); err != nil {
		t.Logf("nothing can be mounted here: %v", err)
		return
	}
	defer unix.Unmount(deep, unix.MNT_DETACH)
	if err := os.WriteFile(deep+"/.env", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("a mount with something hidden in it", false)
	twin := ws + "/d0/e9"
	if err := unix.Mount(ws+"/d0/e2", twin, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(twin, unix.MNT_DETACH)
	check("a directory that is in two places", false)
	for _, name := range []string{"/d0/e2/.env", "/d0/e9/id_rsa"} {
		if err := os.WriteFile(ws+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		check("something hidden in it", false)
		check("and then nothing", true)
	}
}
