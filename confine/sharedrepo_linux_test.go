package confine_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestGitInitShared: a repository for a group can be made inside and stays, and one for
// everybody to write is refused or taken away by sandgate.
func TestGitInitShared(t *testing.T) {
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			p.Protect = []string{".git/hooks", ".git/config"}
			shared := func(how, dir string) (exit int, err error) {
				box, err := c.Prepare(context.Background(), p)
				if err != nil {
					t.Fatal(err)
				}
				defer box.Close()
				r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
					Path: "/usr/bin/env", Argv: []string{"env", "GIT_CONFIG_NOSYSTEM=1", "git", "init", "-q", how, dir}, Dir: ws, Env: []string{"HOME=/home/tool", "PATH=/usr/bin"},
				}}, confine.Stdio{})
				return r.ExitCode, err
			}
			says := func(dir string) string {
				out, _ := exec.Command("git", "config", "-f", ws+"/"+dir+"/.git/config", "core.sharedrepository").Output()
				return strings.TrimSpace(string(out))
			}
			if exit, err := shared("--shared", "group"); exit != 0 || err != nil || says("group") != "1" {
				t.Errorf("git init --shared: %d, %v; the configuration says %q", exit, err, says("group"))
			}
			if exit, err := shared("--shared=0666", "everybody"); exit == 0 && err == nil || says("everybody") != "" {
				t.Errorf("git init --shared=0666: %d, %v; it stays with %q", exit, err, says("everybody"))
			}
		})
	}
}
