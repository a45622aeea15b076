package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// opened is what another process would see.
func opened(t *testing.T, dir string) objects {
	t.Helper()
	o := newObjects(dir, new(int64))
	if err := os.MkdirAll(o.packs.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o.packs.fresh()
	return o
}

func (o objects) mustPut(t *testing.T, text string) string {
	t.Helper()
	hash, err := o.put([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := o.get(hash); err != nil || string(b) != text {
		t.Fatalf("%q, %v; want %q", b, err, text)
	}
	return hash
}

// TestPacksOfTwoProcesses: what one has removed, the other does not take for there; what one
// has added, the other finds.
func TestPacksOfTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	a, b := opened(t, dir), opened(t, dir)
	x, y := a.mustPut(t, "x"), a.mustPut(t, "y")
	z := b.mustPut(t, "z")
	if got, err := a.get(z); err != nil || string(got) != "z" {
		t.Errorf("%q, %v", got, err)
	}
	b.sweep(map[string]bool{y: true, z: true}, true)
	if got, err := a.get(y); err != nil || string(got) != "y" {
		t.Errorf("what was moved: %q, %v", got, err)
	}
	a.packs.fresh()
	if err := a.have([]string{x}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was removed: %v", err)
	}
	a.mustPut(t, "x")
	c := opened(t, dir)
	if err := c.have([]string{x, y, z}); err != nil {
		t.Error(err)
	}
	c.sweep(nil, true)
	if n := len(c.packs.names()); n != 0 {
		t.Errorf("%d packs are left", n)
	}
}

// TestAPackThatAKillCutOff: what was whole is there, and nothing is added behind the cut.
func TestAPackThatAKillCutOff(t *testing.T) {
	for _, cut := range []int64{1, indexLine - 1, indexLine} {
		dir := t.TempDir()
		a := opened(t, dir)
		first, last := a.mustPut(t, "first"), a.mustPut(t, "last")
		a.packs.close()
		list := a.packs.path(a.packs.names()[0] + ".idx")
		if err := os.Truncate(list, 2*indexLine-cut); err != nil {
			t.Fatal(err)
		}
		b := opened(t, dir)
		if !b.has(first) || b.has(last) {
			t.Errorf("cut by %d: %t, %t", cut, b.has(first), b.has(last))
		}
		b.mustPut(t, "last")
		if err := opened(t, dir).have([]string{first, last}); err != nil {
			t.Errorf("cut by %d: %v", cut, err)
		}
	}
}

// TestSweepLeavesFullPacks: a pack of which little is to go is not written again, and one that
// goes leaves nothing.
func TestSweepLeavesFullPacks(t *testing.T) {
	o := opened(t, t.TempDir())
	use := map[string]bool{}
	for i := range 50 {
		use[o.mustPut(t, fmt.Sprint("content ", i))] = true
	}
	was := o.packs.names()
	gone := o.mustPut(t, "gone")
	o.sweep(use, false)
	if now := o.packs.names(); len(now) != 1 || now[0] != was[0] {
		t.Errorf("%q, was %q", now, was)
	}
	o.sweep(use, true)
	if o.has(gone) {
		t.Error("it is still there")
	}
	for hash := range use {
		if _, err := o.get(hash); err != nil {
			t.Error(err)
		}
	}
	files, err := filepath.Glob(o.packs.dir + "/*")
	if err != nil || len(files) != 3 { // a pack, its index, and the generation
		t.Errorf("%q, %v", files, err)
	}
}
