package tripwire

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// BenchmarkSurvey is what looking at a workspace costs before and after each call:
// cold, the first time; warm, when nothing happened since; touched, when one
// directory changed.
func BenchmarkSurvey(b *testing.B) {
	for _, size := range []struct {
		name        string
		dirs, files int // files in each directory
	}{{"tiny", 3, 4}, {"100k", 10_000, 10}} {
		ws := surveyTree(b, size.dirs, size.files)
		p := surveyProfile(ws)
		find := func(g *Guard) {
			if _, err := findAll(g, p); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(size.name+"/cold", func(b *testing.B) {
			for b.Loop() {
				find(New(nil))
			}
		})
		settle(b, ws)
		g := New(nil)
		find(g)
		b.Run(size.name+"/warm", func(b *testing.B) {
			for b.Loop() {
				find(g)
			}
		})
		b.Run(size.name+"/touched", func(b *testing.B) {
			for b.Loop() {
				if err := os.WriteFile(ws+"/d0/new", nil, 0o644); err != nil {
					b.Fatal(err)
				}
				find(g)
			}
		})
	}
}

// surveyTree makes dirs directories, a hundred in each of their parents, below a
// new workspace.
func surveyTree(tb testing.TB, dirs, files int) string {
	tb.Helper()
	ws := tb.TempDir()
	for i := range dirs {
		dir := filepath.Join(ws, fmt.Sprintf("d%d", i/100), fmt.Sprintf("e%d", i%100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
		for j := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.go", j)), nil, 0o644); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return ws
}

func surveyProfile(ws string) sandboxprofile.Profile {
	return sandboxprofile.Profile{
		Paths:   map[string]sandboxprofile.Rights{ws: sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute},
		Protect: profiles.Protect(), Hide: profiles.Hide(),
	}
}

// settle waits until the kernel's clock has left the time of the last change to ws.
func settle(tb testing.TB, ws string) {
	tb.Helper()
	g := New(nil)
	t := g.trees(compileProfile(surveyProfile(ws)))[0]
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if _, err := t.walk(nil); err != nil {
			tb.Fatal(err)
		}
		if allSettled(t.top) {
			return
		}
	}
	tb.Fatal("the tree does not settle")
}

func allSettled(n *node) bool {
	for _, kid := range n.kids {
		if !allSettled(kid) {
			return false
		}
	}
	return n.settled
}
