package tripwire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestWhatIsRememberedIsWhatIsThere changes a tree at random, and holds each survey
// that remembers against one that sees the tree for the first time.
func TestWhatIsRememberedIsWhatIsThere(t *testing.T) {
	names := []string{"a", "b", ".git", "HEAD", "objects", "refs", "commondir", "config", "hooks", ".envrc", ".env", "modules", "x"}
	rapid.Check(t, func(t *rapid.T) {
		ws, err := os.MkdirTemp("", "sandgate-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(ws)
		name := rapid.Custom(func(t *rapid.T) string {
			return filepath.Join(ws, filepath.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(t, "path")...))
		})
		g, p := New(nil), surveyProfile(ws)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
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
			remembered, err1 := findAll(g, p)
			fresh, err2 := findAll(New(nil), p)
			if err1 != nil || err2 != nil || !slices.Equal(remembered, fresh) {
				t.Fatalf("remembered %+v %v\nfresh      %+v %v", remembered, err1, fresh, err2)
			}
		}
	})
}

// findAll is what there is to find in all trees of p.
func findAll(g *Guard, p sandboxprofile.Profile) ([]Finding, error) {
	s := g.profiles.Of(p)
	all := make([]int, len(s.roots))
	for i := range all {
		all[i] = i
	}
	return g.findIn(s, all, nil)
}

// TestEmptyTreesAreLookedAt: what appears in a granted directory that was empty for
// long is found, and so is what has taken the directory's place.
func TestEmptyTreesAreLookedAt(t *testing.T) {
	ws := t.TempDir()
	at := func(name string) string { return filepath.Join(ws, name) }
	p := surveyProfile(at("a"))
	for _, name := range []string{"a", "b", "c", "c/in"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
		p.Paths[at(name)] = p.Paths[at("a")]
	}
	g := New(nil)
	put := func(name string) error { return os.WriteFile(at(name), nil, 0o644) }
	for i, c := range []struct {
		change func() error
		want   int
	}{
		{func() error { return nil }, 0},
		{func() error { return put("b/harmless") }, 0},
		{func() error { return put("b/.env") }, 1},
		{func() error { return os.Remove(at("b/.env")) }, 0},
		{func() error { return put("c/in/.env") }, 1},
		{func() error { return os.Symlink("/nowhere", at("a/link")) }, 2},
		{func() error { return errors.Join(os.Rename(at("a"), at("old")), os.Mkdir(at("a"), 0o755)) }, 1},
		{func() error { return errors.Join(os.Remove(at("a")), os.Rename(at("old"), at("a"))) }, 2},
		{func() error { return os.Mkdir(at("b/.git"), 0o755) }, 2},
		{func() error { return errors.Join(os.Mkdir(at("b/.git/hooks"), 0o755), os.Remove(at("a/link"))) }, 2},
		{func() error { return errors.Join(os.Chmod(at("b"), 0o700), os.RemoveAll(at("b/.git"))) }, 1},
		{func() error { return os.Link(at("c/in/.env"), at("b/other")) }, 2},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		for _, pause := range []time.Duration{0, 2 * settling, 0} {
			time.Sleep(pause)
			remembered, err1 := findAll(g, p)
			fresh, err2 := findAll(New(nil), p)
			if err1 != nil || err2 != nil || !slices.Equal(remembered, fresh) {
				t.Fatalf("after change %d: remembered %+v %v\nfresh      %+v %v", i, remembered, err1, fresh, err2)
			}
			if len(fresh) != c.want {
				t.Errorf("after change %d: %+v, want %d", i, fresh, c.want)
			}
		}
	}
}

// TestEachProfileHasItsTrees: more profiles than there are caches are remembered.
func TestEachProfileHasItsTrees(t *testing.T) {
	ws := t.TempDir()
	p := surveyProfile(ws)
	for i := range 3 * maxCaches {
		name := filepath.Join(ws, "below", fmt.Sprint(i))
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
		p.Paths[name] = sandboxprofile.Read
	}
	g := New(nil)
	s := compileProfile(p)
	first := g.trees(s)
	if len(first) != 3*maxCaches+1 {
		t.Errorf("%d trees", len(first))
	}
	p.Limits.Wall = time.Second // no matter to what is found
	if again := g.trees(compileProfile(p)); again[0] != first[0] {
		t.Error("the same paths have other trees")
	}
	p.Paths[ws] = sandboxprofile.Read
	if other := g.trees(compileProfile(p)); other[0] == first[0] {
		t.Error("other rights have the same trees")
	}
	for i := range 2 * maxCaches {
		p.Hide = []string{fmt.Sprint(i)}
		g.trees(compileProfile(p))
	}
	if len(g.caches) > maxCaches {
		t.Errorf("%d caches", len(g.caches))
	}
}

// TestPathsAround holds what is found by walking up a name against asking every path
// of the profile.
func TestPathsAround(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "usr", "proc"}), 0, 4).Draw(t, "path"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		p := sandboxprofile.Profile{Paths: rapid.MapOf(name, rapid.SampledFrom([]sandboxprofile.Rights{0, 1, 2, 3, 7})).Draw(t, "paths")}
		at := name.Draw(t, "at")
		longest, deepest := "", sandboxprofile.Rights(0)
		shortest, below, inside := "", false, false
		for root, r := range p.Paths {
			writable := r&sandboxprofile.Write != 0
			if root != at && sandboxprofile.Contains(root, at) {
				if len(root) > len(longest) {
					longest, deepest = root, r
				}
				if writable && (shortest == "" || len(root) < len(shortest)) {
					shortest = root
				}
			}
			inside = inside || writable && sandboxprofile.Contains(root, at)
			below = below || writable && (sandboxprofile.Contains(root, at) || sandboxprofile.Contains(at, root))
		}
		const own = "/proc" // which every sandbox has for itself
		barred := at != own && sandboxprofile.Contains(own, at) && len(longest) <= len(own)
		if got, want := mayWrite(p, at), deepest&sandboxprofile.Write != 0 && !barred; got != want {
			t.Fatalf("mayWrite %q in %v: %v", at, p.Paths, got)
		}
		if got := hostfs.WritableAround(p, at); got != shortest {
			t.Fatalf("writableAround %q in %v: %q, want %q", at, p.Paths, got, shortest)
		}
		if got := insideOf(p)("/elsewhere", at); at != "/" && got != inside {
			t.Fatalf("inside %q in %v: %v", at, p.Paths, got)
		}
		s := compileProfile(p)
		for i, root := range s.roots {
			if root.path == at && slices.Contains(s.written, i) != below {
				t.Fatalf("written %q in %v: %v", at, p.Paths, !below)
			}
			for j, other := range s.roots[:i] {
				if slices.Contains(root.above, j) != sandboxprofile.Contains(other.path, root.path) {
					t.Fatalf("%q above %q", other.path, root.path)
				}
			}
		}
	})
}

// TestBelowWhatIsNotShown: a path that may be written is looked through also where
// the directory around it is not shown.
func TestBelowWhatIsNotShown(t *testing.T) {
	ws := t.TempDir()
	for _, dir := range []string{"/none/pub", "/away"} {
		if err := os.MkdirAll(ws+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ws+dir+"/.envrc", nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := surveyProfile(ws)
	p.Paths[ws+"/none"], p.Paths[ws+"/none/pub"], p.Paths[ws+"/away"] = 0, p.Paths[ws], 0
	found, err := findAll(New(nil), p)
	if err != nil || len(found) != 1 || found[0].Path != ws+"/none/pub/.envrc" {
		t.Errorf("%+v, %v", found, err)
	}
}

// FuzzRiskyLines holds our reading of a configuration against git's: what we call
// harmless has no variable beyond the harmless ones as git sees it.
func FuzzRiskyLines(f *testing.F) {
	for _, s := range []string{
		"[core]\n\tbare = false\n", "[core] fsmonitor = x #]\n", "[user]fsmonitor=x\n", "[user \"a\"]\n\tname = b\n", "[user]\n\tname = x\\\n[core]\n",
		"\ufeff[core]\nfsmonitor=x", "[remote.x]\nurl = y\n", "[REMOTE \"x\"]\n\tURL = ext::sh\n", "[user]\nname = \"a\nb\"\n[core]\nfsmonitor=x", "[user]\n\rfsmonitor = x\n", "[user]\x0bfsmonitor=1\n",
		"[branch \"a\\\"]\nb\"]\nmerge = x\n", "[core]\n;\n#\nworktree = /x\n", "fsmonitor = x\n", "[user]\n name = x ; [core]\n", "[core]\nfsmonitor\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, config, 0o644); err != nil {
			t.Fatal(err)
		}
		risky, ok := riskyLines(path, func(string, string) bool { return false })
		if !ok || len(risky) > 0 {
			return
		}
		out, err := exec.Command("git", "config", "-z", "-f", path, "--name-only", "--list").Output()
		if err != nil {
			return // git refuses it
		}
		for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			section, key := name, ""
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				section, key = name[:i], name[i+1:]
			}
			section, _, _ = strings.Cut(section, ".")
			shares := name == "core.sharedrepository" || name == "receive.denynonfastforwards" // with some values
			if name != "" && !shares && !broker.HarmlessKey(section, key) {
				t.Errorf("%q passes as harmless; git reads %q", config, name)
			}
		}
	})
}
