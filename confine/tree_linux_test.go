package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
		g, p := NewGuard(nil), surveyProfile(ws)
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
			all := func(string) bool { return true }
			remembered, err1 := g.find(p, all)
			fresh, err2 := NewGuard(nil).find(p, all)
			if err1 != nil || err2 != nil || !slices.Equal(remembered, fresh) {
				t.Fatalf("remembered %+v %v\nfresh      %+v %v", remembered, err1, fresh, err2)
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
	found, err := NewGuard(nil).find(p, func(string) bool { return true })
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
			if name != "" && !slices.Contains(harmlessKeys[section], key) {
				t.Errorf("%q passes as harmless; git reads %q", config, name)
			}
		}
	})
}
