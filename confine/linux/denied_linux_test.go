package linux_test

import (
	"os"
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestGrantsBelowDeniedDirectories: what a profile grants below a directory that it
// denies is there, and nothing else of that directory is.
func TestGrantsBelowDeniedDirectories(t *testing.T) {
	const read, write = sandboxprofile.Read, sandboxprofile.Read | sandboxprofile.Write
	for name, tc := range map[string]struct {
		paths map[string]sandboxprofile.Rights // below the workspace
		acts  map[string]string
	}{
		"a writable directory": {
			map[string]sandboxprofile.Rights{"/denied": 0, "/denied/a/out": write},
			map[string]string{
				"open('denied/a/out/new', 'w')":  "ok",
				"open('denied/a/out/.env')":      "EACCES",
				"open('denied/secret').read()":   "ENOENT",
				"open('denied/a/secret').read()": "ENOENT",
				"open('top', 'w')":               "ok",
			},
		},
		"a readable directory": {
			map[string]sandboxprofile.Rights{"/denied": 0, "/denied/a/out": read},
			map[string]string{
				"open('denied/a/out/have').read()": "ok",
				"open('denied/a/out/new', 'w')":    "EROFS",
				"open('denied/secret').read()":     "ENOENT",
			},
		},
		"a denied directory in one that is granted again": {
			map[string]sandboxprofile.Rights{"/denied": 0, "/denied/a": write, "/denied/a/out": 0},
			map[string]string{
				"open('denied/a/secret').read()":   "ok",
				"open('denied/a/out/have').read()": "EACCES", // nothing is granted below it, so no name in it is looked up
				"open('denied/secret').read()":     "ENOENT",
			},
		},
		"a denied directory right in a denied one": {
			map[string]sandboxprofile.Rights{"/denied": 0, "/denied/a": 0, "/denied/a/out": write},
			map[string]string{
				"open('denied/a/out/new', 'w')":  "ok",
				"open('denied/a/secret').read()": "ENOENT",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ws := confinetest.Workspace(t)
			if err := os.MkdirAll(ws+"/denied/a/out", 0o755); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"/denied/secret", "/denied/a/secret", "/denied/a/out/have", "/denied/a/out/.env", "/top"} {
				if err := os.WriteFile(ws+file, []byte("hunter2"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c, p := newBwrap(t), confinetest.Profile(t, ws)
			for path, r := range tc.paths {
				p.Paths[ws+path] = r
			}
			for act, want := range tc.acts {
				if got := confinetest.Python(t, c, p, ws, act); got != want {
					t.Errorf("%s: %s, want %s", act, got, want)
				}
			}
		})
	}
}

// TestScratchBelowWhatIsMissing: a writable path that the host does not have, and one
// that is denied, can have a scratch directory below it all the same.
func TestScratchBelowWhatIsMissing(t *testing.T) {
	ws := confinetest.Workspace(t)
	if err := os.Mkdir(ws+"/denied", 0o755); err != nil {
		t.Fatal(err)
	}
	c, p := newBwrap(t), confinetest.Profile(t, ws)
	p.Paths[ws+"-missing"], p.Paths[ws+"/denied"] = sandboxprofile.Read|sandboxprofile.Write, 0
	p.Scratch = append(p.Scratch, ws+"-missing/tmp", ws+"/denied/tmp")
	for act, want := range map[string]string{
		"open('" + ws + "-missing/tmp/x', 'w')": "ok",
		"open('denied/tmp/x', 'w')":             "ok",
		"os.listdir('denied')":                  "EACCES",
		"open('x', 'w')":                        "ok",
	} {
		if got := confinetest.Python(t, c, p, ws, act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	if names, err := os.ReadDir(ws + "/denied"); err != nil || len(names) != 0 {
		t.Errorf("made on the host: %v, %v", names, err)
	}
}
