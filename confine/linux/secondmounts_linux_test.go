package linux_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
)

// TestSecondMountsOfProtectedNames: nothing runs where a directory has a second name by a
// mount that protects or hides less, and the refusal names both; a second mount of what is
// ordinary is no obstacle.
func TestSecondMountsOfProtectedNames(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else mounts
	}
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			for name, refused := range map[string]bool{".git/hooks": true, ".ssh": true, "src": false, ".git": true} {
				ws := confinetest.Workspace(t)
				p := confinetest.Profile(t, ws)
				p.Protect, p.Hide = append(p.Protect, ".git/hooks", ".git/config"), append(p.Hide, ".ssh")
				mkdir(t, ws+"/"+name)
				mkdir(t, ws+"/second")
				if err := unix.Mount(ws+"/"+name, ws+"/second", "", unix.MS_BIND, ""); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = unix.Unmount(ws+"/second", unix.MNT_DETACH) })
				box, err := c.Prepare(context.Background(), p)
				if err == nil {
					box.Close()
				}
				var because *confine.Unenforceable
				if got := errors.As(err, &because); got != refused || err != nil && !refused {
					t.Errorf("a second mount of %s: %v", name, err)
				}
				if refused && err != nil && (!strings.Contains(err.Error(), ws+"/"+name) || !strings.Contains(err.Error(), ws+"/second")) {
					t.Errorf("a second mount of %s: %v", name, err)
				}
			}
		})
	}
}
