package linux_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestNoHalfPlantsBesideAnotherQueue: two sandboxes with one tree and nothing to wait for
// each other by, as of two users or in two containers, plant nothing that one alone could
// not: the one makes a name in a directory that the other gives a name which decides about it.
func TestNoHalfPlantsBesideAnotherQueue(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Protect = append(p.Protect, ".git/hooks", ".git/config")
	one := converse(t, l, p, ws)
	defer one.end()
	linux.OwnQueue(t, t.TempDir())
	other := converse(t, l, p, ws)
	defer other.end()
	const makes = `exec('''
end, n = time.monotonic() + 4, 0
while time.monotonic() < end:
    try: os.close(os.open("d/hooks/pre-commit", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o755)); n += 1
    except OSError: pass
    try: os.mkdir("e/objects"); n += 1; os.close(os.open("e/hooks/pre-commit", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o755))
    except OSError: pass
''', g); r = g['n'] > 0`
	const renames = `exec('''
end, n, i = time.monotonic() + 4, 0, 0
def may(act, *a):
    try: act(*a); return True
    except OSError: return False
while time.monotonic() < end:
    i += 1
    may(os.mkdir, "d"); may(os.mkdir, "d/hooks"); may(os.mkdir, "x%d" % i)
    if may(os.rename, "d", "x%d/.git" % i): n += 1
    else: may(os.unlink, "d/hooks/pre-commit"); may(os.rmdir, "x%d" % i)
    may(os.mkdir, "e"); may(os.mkdir, "e/hooks"); may(os.mkdir, "e/refs")
    may(os.rename, "e", "y%d" % i)
''', g); r = g['n'] > 0`
	done := make(chan string, 1)
	go func() { done <- other.does(makes) }()
	if got := one.does(renames); got != "True" {
		t.Errorf("no directory was renamed: %s", got)
	}
	if got := <-done; got != "True" {
		t.Errorf("no file was made: %s", got)
	}
	isThere := func(name string) bool { _, err := os.Lstat(name); return err == nil }
	for _, repo := range []string{"x*/.git", "y*", "e"} {
		repos, err := filepath.Glob(filepath.Join(ws, repo))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range repos {
			repository := filepath.Base(dir) == ".git" || isThere(dir+"/objects") && isThere(dir+"/refs")
			if repository && isThere(dir+"/hooks/pre-commit") {
				t.Errorf("planted: %s/hooks/pre-commit", dir)
			}
		}
	}
}

// TestNoLinkLeadsOutBesideAnotherQueue: nor does a link lead out of the tree, which the one
// makes where it leads inside, while the other moves the directory that it lies in.
func TestNoLinkLeadsOutBesideAnotherQueue(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	one := converse(t, l, p, ws)
	defer one.end()
	linux.OwnQueue(t, t.TempDir())
	other := converse(t, l, p, ws)
	defer other.end()
	// To look at so many names takes so long that the other is in time.
	if got := one.does(`exec('''
os.makedirs("p/q/r/D")
for i in range(3000): os.close(os.open("p/q/r/D/" + "f" * 100 + str(i), os.O_CREAT | os.O_WRONLY, 0o644))
os.rename("p/q/r/D", "D"); os.rename("D", "p/q/r/D") # nobody is at work in it
''', g)`); got != "ok" {
		t.Fatal(got)
	}
	const moves = `exec('''
end, n = time.monotonic() + 4, 0
while time.monotonic() < end and not os.path.lexists("D/out"):
    n += 1
    try: os.rename("p/q/r/D", "D"); time.sleep(.02)
    except OSError: continue
    if os.path.lexists("D/out"): break
    try: os.rename("D", "p/q/r/D")
    except OSError: pass
''', g); r = g['n'] > 0`
	const links = `exec('''
end, n, i = time.monotonic() + 4, 0, 0
while time.monotonic() < end and not os.path.lexists("D/out"):
    i += 1; time.sleep(.003 + i % 20 * .001)
    try: os.symlink("../../outside", "p/q/r/D/out"); n += 1; time.sleep(.06)
    except OSError: continue
    if os.path.lexists("D/out"): break
    try: os.unlink("p/q/r/D/out")
    except OSError: pass
''', g); r = g['n'] > 0`
	done := make(chan string, 1)
	go func() { done <- other.does(links) }()
	if got := one.does(moves); got != "True" {
		t.Errorf("nothing was moved: %s", got)
	}
	if got := <-done; got != "True" {
		t.Errorf("no link was made: %s", got)
	}
	if target, err := os.Readlink(filepath.Join(ws, "D/out")); err == nil {
		t.Errorf("D/out leads to %s, out of the tree", target)
	}
}
