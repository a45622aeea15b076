package linux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestErrorsNameThreePathsAtMost: what is said of many paths, as a reason or a warning,
// names three and says how many more there are.
func TestErrorsNameThreePathsAtMost(t *testing.T) {
	const many = 20
	l := newLandlock(t, linux.LandlockOptions{})
	refusal := func(p sandboxprofile.Profile) string {
		box, err := l.Prepare(context.Background(), p)
		if err == nil {
			box.Close()
			t.Errorf("prepared")
			return ""
		}
		var cannot *confine.Unenforceable
		if errors.As(err, &cannot) {
			return err.Error() + ": " + cannot.Hint
		}
		return err.Error()
	}
	standing := func(p sandboxprofile.Profile) confine.Sandbox {
		box, err := l.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { box.Close() })
		return box
	}
	for _, x := range []struct {
		name string
		says func() string
		more bool // there were more than three to name
	}{
		{"no place for private directories", func() string {
			t.Setenv("XDG_RUNTIME_DIR", confinetest.Workspace(t))
			t.Setenv("TMPDIR", confinetest.Workspace(t))
			p := confinetest.Profile(t, "")
			p.Paths["/"], p.Scratch = sandboxprofile.Read, nil
			for _, dir := range []string{"/", "/var"} { // all that there is would be surveyed
				list, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range list {
					if path := filepath.Join(dir, e.Name()); path != "/dev" && path != "/var" && path != "/var/tmp" {
						p.Paths[path] = 0
					}
				}
			}
			return refusal(p)
		}, true},
		{"hidden names in many directories", func() string {
			ws := confinetest.Workspace(t)
			for i := range many {
				mkdir(t, fmt.Sprintf("%s/%d", ws, i))
				put(t, fmt.Sprintf("%s/%d/.env", ws, i), "x")
			}
			return standing(confinetest.Profile(t, ws)).Enforced().Files
		}, true},
		{"files with names outside", func() string {
			ws, beside := confinetest.Workspace(t), confinetest.Workspace(t)
			for i := range many {
				put(t, fmt.Sprintf("%s/%d", ws, i), "x")
				if err := os.Link(fmt.Sprintf("%s/%d", ws, i), fmt.Sprintf("%s/%d", beside, i)); err != nil {
					t.Fatal(err)
				}
			}
			return strings.Join(standing(confinetest.Profile(t, ws)).(confine.Warned).Warnings(), "\n")
		}, true},
		{"no bubblewrap", func() string {
			_, err := linux.NewBwrap(filepath.Join(confinetest.Workspace(t), "none"))
			return fmt.Sprint(err)
		}, false},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			text := x.says()
			n := len(regexp.MustCompile(`(^|[\s"'(=])/[a-z]`).FindAllString(text, -1))
			if n > 3 || n == 0 || x.more != strings.Contains(text, " more") {
				t.Errorf("%d paths: %s", n, text)
			}
		})
	}
}
