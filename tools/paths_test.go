package tools

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A tree is a real directory tree for one test:
//
//	outside/secret.txt
//	ws/                       the root "workspace", read and write
//	ws/a.txt  ws/dir/b.txt    ws/.env  ws/.git/hooks/
//	ws/ro/                    the root "readonly" inside it
//	ws/notes/                 the root "notes": .txt and .md, both ways ask
type tree struct {
	t    testing.TB
	base string // free of links
}

func newTree(t testing.TB) tree {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{t, base}
	for _, dir := range []string{"outside", "ws/dir/deep", "ws/.git/hooks", "ws/ro", "ws/notes", "ws2"} {
		tr.mkdir(dir)
	}
	for _, file := range []string{"outside/secret.txt", "ws/a.txt", "ws/dir/b.txt", "ws/.env", "ws/ro/r.txt", "ws/notes/n.txt", "ws2/x"} {
		tr.write(file)
	}
	return tr
}

func (tr tree) path(rel string) string { return filepath.Join(tr.base, rel) }

func (tr tree) mkdir(rel string) {
	tr.t.Helper()
	if err := os.MkdirAll(tr.path(rel), 0o755); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr tree) write(rel string) {
	tr.t.Helper()
	if err := os.WriteFile(tr.path(rel), []byte(rel), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

// link makes rel a symbolic link; "BASE" in target stands for the tree's root.
func (tr tree) link(rel, target string) {
	tr.t.Helper()
	if err := os.Symlink(strings.ReplaceAll(target, "BASE", tr.base), tr.path(rel)); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr tree) paths() Paths {
	return Paths{
		Rules: []PathRule{
			{Name: "workspace", Root: tr.path("ws"), Write: true, WriteApproval: true},
			{Name: "readonly", Root: tr.path("ws/ro")},
			{Name: "notes", Root: tr.path("ws/notes"), Write: true, Suffixes: []string{".txt", ".md"}, ReadApproval: true},
		},
		Hide:    []string{".env"},
		Protect: []string{".git/hooks"},
		Home:    tr.path("home"),
	}
}

func (tr tree) linked() tree {
	tr.link("ws/in", "dir")
	tr.link("ws/in-abs", "BASE/ws/dir")
	tr.link("ws/out", "BASE/outside")
	tr.link("ws/out-rel", "../outside")
	tr.link("ws/out-file", "../outside/secret.txt")
	tr.link("ws/dangling", "dir/new.txt")
	tr.link("ws/dangling-out", "../outside/new.txt")
	tr.link("ws/chain", "in")
	tr.link("ws/loop", "loop2")
	tr.link("ws/loop2", "loop")
	tr.link("ws/self", "self/x")
	tr.link("ws/env", ".env")
	tr.link("ws/hook", ".git/hooks/pre-commit")
	tr.link("ws/notes/n.md", "../a.txt")
	tr.link("outside/loop", "loop")
	tr.link("outside/back", "../ws")
	tr.link("ws/deep", "dir/deep")
	return tr
}

func TestResolve(t *testing.T) {
	tr := newTree(t).linked()
	for _, c := range []struct{ path, want string }{
		{"a.txt", "ws/a.txt"},
		{"./dir//b.txt", "ws/dir/b.txt"},
		{"dir/../a.txt", "ws/a.txt"},
		{"../outside/secret.txt", "outside/secret.txt"},
		{"BASE/ws/a.txt", "ws/a.txt"},
		{"BASE/ws/./dir/", "ws/dir"},
		{"in/b.txt", "ws/dir/b.txt"},
		{"in-abs/b.txt", "ws/dir/b.txt"},
		{"chain/b.txt", "ws/dir/b.txt"},
		{"out/secret.txt", "outside/secret.txt"},
		{"out-rel/secret.txt", "outside/secret.txt"},
		{"out-file", "outside/secret.txt"},
		{"new/sub/file", "ws/new/sub/file"},
		{"in/new/file", "ws/dir/new/file"},
		{"dangling", "ws/dir/new.txt"},
		{"dangling-out", "outside/new.txt"},
		{"deep/../b.txt", "ws/dir/b.txt"}, // ".." of where the link leads, not of the link
		{"deep/../../a.txt", "ws/a.txt"},
		{"missing/../a.txt", "ws/a.txt"},
		{"a.txt/../dir", "ws/dir"},
		{"out/back/a.txt", "ws/a.txt"},
		{"~/x", "home/x"},
		{"~", "home"},
		{"~user/x", "ws/~user/x"},
		{"./~/x", "ws/~/x"},
		{strings.Repeat("../", 60) + "etc", "/etc"},
	} {
		want := c.want
		if !filepath.IsAbs(want) {
			want = tr.path(want)
		}
		got, err := tr.paths().Resolve(strings.ReplaceAll(c.path, "BASE", tr.base))
		if err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", c.path, got, err, want)
		}
	}
}

func TestResolveRefusesWhatIsNoPath(t *testing.T) {
	tr := newTree(t).linked()
	tr.link("ws/expanding", strings.Repeat("dir/../", 500)+strings.Repeat("x", 200)+"/"+strings.Repeat("y", 200))
	for _, c := range []struct{ path, want string }{
		{"", "empty"},
		{"a\x00b", "NUL"},
		{"a\xffb", "UTF-8"},
		{strings.Repeat("a/", 2047) + "aa", "bytes long"},
		{"loop", "symbolic links"},
		{"loop/x/y", "symbolic links"},
		{"self", "symbolic links"},
		{"new/" + strings.Repeat("n/", 2040), "too long"},
	} {
		_, err := tr.paths().Resolve(c.path)
		var a *ArgumentError
		if !errors.As(err, &a) || a.Field != "path" || !strings.Contains(a.Reason, c.want) {
			t.Errorf("Resolve(%.20q) = %v; want an ArgumentError about %q", c.path, err, c.want)
		}
	}
	if got, err := tr.paths().Resolve("expanding"); err != nil {
		t.Errorf("Resolve(a link with a long target) = %q, %v", got, err)
	}
}

func TestResolveNeedsAWorkingDirectoryForRelativePaths(t *testing.T) {
	if _, err := (Paths{}).Resolve("a"); err == nil {
		t.Error("a relative path resolved without a working directory")
	}
	if got, err := (Paths{}).Resolve("/a"); err != nil || got != "/a" {
		t.Errorf("Resolve(/a) = %q, %v", got, err)
	}
}

func TestDecide(t *testing.T) {
	tr := newTree(t).linked()
	for _, c := range []struct {
		path  string
		write bool
		want  Effect
		rule  string // "" for none
		says  string
	}{
		{"a.txt", false, Allow, "workspace", ""},
		{"a.txt", true, Ask, "workspace", "asks before a write"},
		{"new/file.txt", true, Ask, "workspace", "asks before a write"},
		{"dangling", true, Ask, "workspace", "asks before a write"},
		{".", false, Allow, "workspace", ""},
		{"out/back/a.txt", false, Allow, "workspace", ""},

		{"../outside/secret.txt", false, Deny, "", "outside"},
		{"BASE/outside/secret.txt", false, Deny, "", "outside"},
		{"/etc/passwd", false, Deny, "", "outside"},
		{"out/secret.txt", false, Deny, "", "outside"},
		{"out-file", false, Deny, "", "outside"},
		{"dangling-out", true, Deny, "", "outside"},
		{"BASE/ws2/x", false, Deny, "", "outside"},
		{"~/.ssh/id_rsa", false, Deny, "", "outside"},
		{"out/loop", false, Deny, "", "outside"},

		{".env", false, Deny, "", "outside"},
		{"env", false, Deny, "", "outside"},
		{"dir/.env/x", true, Deny, "", "outside"},

		{".git/hooks/pre-commit", true, Deny, "workspace", "write-protected"},
		{"hook", true, Deny, "workspace", "write-protected"},
		{".git/hooks/pre-commit", false, Allow, "workspace", ""},

		{"ro/r.txt", false, Allow, "readonly", ""},
		{"ro/r.txt", true, Deny, "readonly", "read-only"},
		{"ro", true, Deny, "readonly", "read-only"},

		{"notes/n.txt", false, Ask, "notes", "asks before a read"},
		{"notes/n.txt", true, Allow, "notes", ""},
		{"notes/n.exe", true, Deny, "notes", "where only .txt, .md files are allowed"},
		{"notes/n.exe", false, Deny, "notes", "where only .txt, .md files are allowed"},
		{"notes/n.md", false, Allow, "workspace", ""}, // the link's target decides, not its name
	} {
		d, err := tr.paths().Decide(strings.ReplaceAll(c.path, "BASE", tr.base), c.write)
		if err != nil {
			t.Errorf("Decide(%q, %v): %v", c.path, c.write, err)
			continue
		}
		rule := ""
		if d.Rule != nil {
			rule = d.Rule.Name
		}
		if d.Effect != c.want || rule != c.rule || !strings.Contains(d.Reason, c.says) {
			t.Errorf("Decide(%q, %v) = %v by %q (%s); want %v by %q (%s)", c.path, c.write, d.Effect, rule, d.Reason, c.want, c.rule, c.says)
		}
		if d.Effect == Deny && d.Hint == "" {
			t.Errorf("Decide(%q, %v) denies without a hint", c.path, c.write)
		}
	}
}

func TestDecideNamesABrokenPathInsideTheRoots(t *testing.T) {
	tr := newTree(t).linked()
	tr.mkdir("ws/sub/.env")
	tr.link("ws/sub/.env/loop", "loop")
	if d, err := tr.paths().Decide("sub/.env/loop", false); err != nil || d.Effect != Deny {
		t.Errorf("Decide(a hidden loop) = %+v, %v; want the denial of any hidden path", d, err)
	}
	var a *ArgumentError
	if d, err := tr.paths().Decide("loop", false); !errors.As(err, &a) {
		t.Errorf("Decide(loop) = %+v, %v; want an ArgumentError", d, err)
	}
}

// A refusal must not be an oracle: whatever is outside, hidden, missing or
// broken reads the same, but for the path that the agent itself gave.
func TestRefusalsDoNotTellWhatExists(t *testing.T) {
	tr := newTree(t).linked()
	for _, write := range []bool{false, true} {
		var first PathDecision
		for i, path := range []string{
			"BASE/outside/secret.txt", "BASE/outside/missing", "BASE/outside/secret.txt/x",
			"BASE/outside/loop", "BASE/outside/loop/x", "out-file", "out/missing", ".env", "env", "dir/.env",
		} {
			path = strings.ReplaceAll(path, "BASE", tr.base)
			d, err := tr.paths().Decide(path, write)
			if err != nil {
				t.Fatalf("Decide(%q): %v", path, err)
			}
			d.Reason = strings.Replace(d.Reason, path, "PATH", 1)
			d.Path = ""
			if i == 0 {
				first = d
			}
			if d != first {
				t.Errorf("Decide(%q, %v) = %+v, unlike %+v", path, write, d, first)
			}
		}
	}
}

func TestEqualRootsAreDecidedByTheStrictest(t *testing.T) {
	tr := newTree(t)
	rules := []PathRule{
		{Name: "loose", Root: tr.path("ws"), Write: true},
		{Name: "strict", Root: tr.path("ws")},
	}
	for _, order := range [][]PathRule{rules, {rules[1], rules[0]}} {
		p := Paths{Rules: order}
		if d, err := p.Decide("a.txt", true); err != nil || d.Effect != Deny || d.Rule.Name != "strict" {
			t.Errorf("write: %+v, %v; want a denial by strict", d, err)
		}
		if d, err := p.Decide("a.txt", false); err != nil || d.Effect != Allow {
			t.Errorf("read: %+v, %v; want it allowed", d, err)
		}
	}
}

func TestZeroValuesDeny(t *testing.T) {
	if (PathDecision{}).Effect != Deny {
		t.Error("the zero PathDecision does not deny")
	}
	for _, p := range []Paths{{}, {Rules: []PathRule{{}}}, {Rules: []PathRule{{Root: "relative"}}}} {
		if d, err := p.Decide("/etc/passwd", false); err != nil || d.Effect != Deny {
			t.Errorf("%+v decides %+v, %v; want a denial", p, d, err)
		}
	}
	if d, err := (Paths{Rules: []PathRule{{Root: "/"}}}).Decide("/etc/passwd", false); err != nil || d.Effect != Allow {
		t.Errorf("a root of / decides %+v, %v; want it allowed", d, err)
	}
}

func TestEffectOrderAndWords(t *testing.T) {
	if !(Deny < Ask && Ask < Allow) {
		t.Error("the smaller effect is not the stricter")
	}
	for _, e := range []Effect{Deny, Ask, Allow} {
		text, err := e.MarshalText()
		var back Effect
		if err != nil || back.UnmarshalText(text) != nil || back != e || string(text) != e.String() {
			t.Errorf("%v does not round-trip: %q, %v", e, text, err)
		}
	}
	var e Effect
	if e.UnmarshalText([]byte("Allow")) == nil {
		t.Error(`"Allow" was read as an effect`)
	}
	if _, err := Effect(7).MarshalText(); err == nil {
		t.Error("Effect(7) was written")
	}
}

// checkDecision holds for every path: an allowed or asked one lies, once
// resolved, inside the root of its rule, and resolving it again changes nothing.
func checkDecision(t testing.TB, p Paths, path string, write bool) {
	d, err := p.Decide(path, write)
	var a *ArgumentError
	if err != nil {
		if !errors.As(err, &a) {
			t.Fatalf("Decide(%q): %v is no ArgumentError", path, err)
		}
		return
	}
	if d.Effect == Deny {
		return
	}
	rel, err := filepath.Rel(d.Rule.Root, d.Path)
	if err != nil || !filepath.IsLocal(rel) {
		t.Fatalf("Decide(%q) allows %q, which is not below %q", path, d.Path, d.Rule.Root)
	}
	if write && !d.Rule.Write {
		t.Fatalf("Decide(%q) allows a write below the read-only %q", path, d.Rule.Root)
	}
	again, err := p.Resolve(d.Path)
	if err != nil || again != d.Path {
		t.Fatalf("Resolve(%q) = %q, %v: the resolved path still had a link", d.Path, again, err)
	}
	// Where the kernel can tell, it agrees.
	if real, err := filepath.EvalSymlinks(d.Path); err == nil && real != d.Path {
		t.Fatalf("Decide(%q) resolved to %q, the kernel to %q", path, d.Path, real)
	}
}

func TestAllowedPathsLieInTheirRoot(t *testing.T) {
	tr := newTree(t).linked()
	components := []string{
		"..", ".", "", "a.txt", "dir", "in", "out", "out-rel", "out-file", "dangling", "dangling-out", "chain",
		"loop", "self", "env", ".env", "deep", "back", "ws", "outside", "new", "notes", "ro", "n.md", "hook",
	}
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom(components), 1, 8).Draw(rt, "parts")
		path := strings.Join(parts, "/")
		if rapid.Bool().Draw(rt, "absolute") {
			path = tr.base + "/" + path
		}
		checkDecision(t, tr.paths(), path, rapid.Bool().Draw(rt, "write"))
	})
}

func FuzzDecide(f *testing.F) {
	for _, path := range []string{
		"a.txt", "", "..", "../..", "/", "//", "~", "~/x", "in/../..", "out/back/in/b.txt", "loop/../a.txt", "deep/../../../outside",
		"/etc/passwd", "a\x00b", "a\xff", "new/../../outside", "notes/x.txt", "/proc/self/root/etc/passwd", "/proc/self/cwd/a", "./././",
	} {
		f.Add(path, true)
		f.Add(path, false)
	}
	tr := newTree(f).linked()
	f.Fuzz(func(t *testing.T, path string, write bool) {
		checkDecision(t, tr.paths(), path, write)
		checkDecision(t, tr.paths(), tr.base+"/ws/"+path, write)
	})
}
