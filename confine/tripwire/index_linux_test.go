package tripwire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestWhatAnIndexTellsIsWhatIsThere changes a tree at random after an index of it was
// written, and holds the survey of a process that starts with the index against one that
// knows nothing. A tree that did not change is not read again.
func TestWhatAnIndexTellsIsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, err := os.MkdirTemp("", "sandgate-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		ws, ro := base+"/ws", base+"/ro"
		names := []string{"a", "b", ".git", "HEAD", "objects", "refs", "config", "hooks", ".envrc", ".env", "x"}
		name := rapid.Custom(func(t *rapid.T) string {
			return filepath.Join(rapid.SampledFrom([]string{ws, ro}).Draw(t, "root"), filepath.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(t, "path")...))
		})
		act := func() {
			one, other := name.Draw(t, "one"), name.Draw(t, "other")
			switch rapid.IntRange(0, 6).Draw(t, "act") { // what cannot be done changes nothing
			case 0, 1:
				_ = os.MkdirAll(one, 0o755)
			case 2:
				_ = os.WriteFile(one, []byte("[core]\n\thooksPath = ../x\n"), 0o644)
			case 3:
				_ = os.Rename(one, other)
			case 4:
				_ = os.RemoveAll(one)
			case 5:
				_ = os.Symlink(other, one)
			case 6:
				_ = os.Link(one, other)
			}
		}
		p := surveyProfile(ws)
		p.Paths[ro], p.Limits = sandboxprofile.Read, sandboxprofile.NoLimits()
		starts := func() *Guard { // a process
			g := New(nil)
			g.Remember(base + "/index")
			g.index.least = 1
			return g
		}
		read := func(g *Guard) (n int) {
			for _, tree := range g.trees(g.profiles.Of(p)) {
				n += tree.read
			}
			return n
		}
		if err := errors.Join(os.MkdirAll(ws, 0o755), os.MkdirAll(ro, 0o755)); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(t, "before") {
			act()
		}
		for settled := false; ; { // until the last change lies far enough back
			g := starts()
			found, err := findAll(g, p)
			g.index.keep(g.trees(g.profiles.Of(p)))
			again := starts()
			same, err2 := findAll(again, p)
			if err != nil || err2 != nil || !slices.Equal(found, same) {
				t.Fatalf("%+v %v\n%+v %v", found, err, same, err2)
			}
			if !slices.ContainsFunc(again.trees(again.profiles.Of(p)), func(t *tree) bool { return !allSettledIn(t) }) {
				n := read(again)
				if n == 0 {
					break
				}
				if settled {
					t.Fatalf("%d directories were read again", n)
				}
				settled = true // now, and the index was written before
			}
		}
		// Of an ordinary file no directory tells that it has got another name elsewhere. That costs a warning.
		find := func(g *Guard) ([]Finding, error) {
			found, err := findAll(g, p)
			return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.class == shared }), err
		}
		for range rapid.IntRange(1, 6).Draw(t, "after") {
			act()
			told, err1 := find(starts())
			fresh, err2 := find(New(nil))
			if err1 != nil || err2 != nil || !slices.Equal(told, fresh) {
				t.Fatalf("told  %+v %v\nfresh %+v %v", told, err1, fresh, err2)
			}
			// What a survey ahead takes for granted is not so for the survey that follows.
			g := starts()
			if _, confirm, err := g.SurveyAhead(p); err == nil && confirm() {
				g.HandOver(p)
			}
			told, err1 = find(g)
			if err1 != nil || !slices.Equal(told, fresh) {
				t.Fatalf("ahead %+v %v\nfresh %+v", told, err1, fresh)
			}
		}
	})
}

// allSettledIn is settledBelow for a tree that may be as an index told.
func allSettledIn(t *tree) bool {
	t.expand()
	return settledBelow(t.top)
}

func settledBelow(n *node) bool {
	return n.settled && !slices.ContainsFunc(n.kids, func(kid *node) bool { return !settledBelow(kid) })
}

// TestATreeServesEveryWorkspace: what was read of a toolchain is not read again in another
// workspace, unless that lies in it.
func TestATreeServesEveryWorkspace(t *testing.T) {
	base := t.TempDir()
	ro, inside := base+"/ro", base+"/ro/lib/d3/ws"
	for i := range 2 * worthKeeping {
		if err := os.MkdirAll(fmt.Sprintf("%s/lib/d%d/e", ro, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(inside, 0o755), os.Mkdir(base+"/z", 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ro+"/lib/d5/.env", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for settled := false; !settled; time.Sleep(settling) { // until the changes lie far enough back
		g := New(nil)
		p := surveyProfile(base + "/z")
		p.Paths[ro] = sandboxprofile.Read
		if _, err := g.readHost(g.profiles.Of(p), nil); err != nil {
			t.Fatal(err)
		}
		settled = allSettledIn(g.trees(g.profiles.Of(p))[0])
	}
	for _, c := range []struct {
		ws    string
		reads bool
	}{{base + "/a", true}, {base + "/b", false}, {inside, true}, {base + "/c", false}} {
		g := New(nil)
		g.Remember(base + "/index")
		p := surveyProfile(c.ws)
		p.Paths[ro] = sandboxprofile.Read
		found, err := g.readHost(g.profiles.Of(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		var tool *tree
		for _, t := range g.trees(g.profiles.Of(p)) {
			if t.root == ro {
				tool = t
			}
		}
		if reads := tool.restored == 0; reads != c.reads {
			t.Errorf("in %s: read %v", c.ws, reads)
		}
		if !slices.ContainsFunc(found.Facts.Masks, func(m sandboxprofile.Mask) bool { return m.Hide && m.Path == ro+"/lib/d5/.env" }) {
			t.Errorf("in %s: the hidden name is not told of: %+v", c.ws, found.Facts.Masks)
		}
	}
}

// TestSpoiltIndexesAreNone: an index that is cut off, somebody else's to write, a link or
// of another program is not believed.
func TestSpoiltIndexesAreNone(t *testing.T) {
	ws := t.TempDir()
	if err := os.MkdirAll(ws+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	p, dir := surveyProfile(ws), t.TempDir()
	x := index{dir, 0}
	for name, spoil := range map[string]func(path string) error{
		"whole":             func(string) error { return nil },
		"cut off":           func(path string) error { return os.Truncate(path, 100) },
		"one bit":           func(path string) error { return flip(path) },
		"written by others": func(path string) error { return os.Chmod(path, 0o666) },
		"a link":            func(path string) error { return os.Rename(path, dir+"/other") },
	} {
		g := New(nil)
		g.index = x
		if _, err := findAll(g, p); err != nil {
			t.Fatal(err)
		}
		s := g.profiles.Of(p)
		x.keep(g.trees(s))
		path := x.path(g.trees(s)[0].whole)
		if err := spoil(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "a link" {
			if err := os.Symlink(dir+"/other", path); err != nil {
				t.Fatal(err)
			}
		}
		fresh := New(nil)
		fresh.index = x
		if restored := fresh.trees(fresh.profiles.Of(p))[0].restored > 0; restored != (name == "whole") {
			t.Errorf("%s: believed %v", name, restored)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func flip(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)-1] ^= 1
	return os.WriteFile(path, b, 0o600)
}

// TestWhatIsTakenAsToldIsConfirmed: a survey ahead of a call believes the index of a tree that
// no tool may write to, and is confirmed only if nothing there has changed.
func TestWhatIsTakenAsToldIsConfirmed(t *testing.T) {
	base := t.TempDir()
	ro, ws := base+"/ro", base+"/ws"
	for i := range 2 * worthKeeping {
		if err := os.MkdirAll(fmt.Sprintf("%s/lib/d%d/e", ro, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	p := surveyProfile(ws)
	p.Paths[ro], p.Limits = sandboxprofile.Read, sandboxprofile.NoLimits()
	starts := func() *Guard { // a process
		g := New(nil)
		g.Remember(base + "/index")
		return g
	}
	for kept := false; !kept; time.Sleep(settling) { // until the changes lie far enough back
		if _, err := starts().Survey(p); err != nil {
			t.Fatal(err)
		}
		kept = starts().trees(compileProfile(p))[0].comparable()
	}
	ahead := func() (g *Guard, found []Finding, confirmed bool) {
		t.Helper()
		g = starts()
		seen, confirm, err := g.SurveyAhead(p)
		if err != nil {
			t.Fatal(err)
		}
		if tool := g.trees(g.profiles.Of(p))[0]; tool.latest != nil {
			t.Fatal("the tree was looked at by the survey itself")
		}
		return g, seen.Found, confirm()
	}
	if g, found, confirmed := ahead(); !confirmed || len(found) != 0 || g.trees(g.profiles.Of(p))[0].latest == nil {
		t.Fatalf("unchanged: confirmed %v, %+v", confirmed, found)
	}
	secret := ro + "/lib/d3/e/.env"
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, _, confirmed := ahead()
	if confirmed {
		t.Error("a hidden name has appeared, and what was taken for granted is confirmed")
	}
	seen, err := g.Survey(p)
	if err != nil || !slices.ContainsFunc(seen.Found, func(f Finding) bool { return f.Path == secret }) {
		t.Errorf("the call's own survey finds %+v, %v", seen.Found, err)
	}
}
