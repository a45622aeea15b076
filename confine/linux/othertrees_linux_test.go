package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestNamesInOtherTreesAreCovered: a hidden file has another name (link(2)) in another
// directory that the profile grants, and a protected one has. The one cannot be read by it and
// the other not be written, whichever name was first, and also if it came after the directories
// were looked at. What is not covered anywhere is read and written by all of its names.
func TestNamesInOtherTreesAreCovered(t *testing.T) {
	for name, c := range map[string]confine.Confiner{"bwrap": newBwrap(t), "landlock": newLandlock(t, linux.LandlockOptions{}), "warm": newWarmPool(t)} {
		t.Run(name, func(t *testing.T) {
			ws, other, shown := confinetest.Workspace(t), confinetest.Workspace(t), confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			p.Paths[other], p.Paths[shown] = p.Paths[ws], sandboxprofile.Read
			put := func(path string) {
				t.Helper()
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("content\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			link := func(old, made string) {
				t.Helper()
				if err := os.Link(old, made); err != nil {
					t.Fatal(err)
				}
			}
			put(ws + "/.env")
			put(ws + "/.git/hooks/pre-commit")
			put(ws + "/plain")
			put(other + "/early")
			put(ws + "/sub/.env")
			link(ws+"/plain", other+"/plain")
			try := func(what string, reads map[string]bool, writes map[string]bool) {
				t.Helper()
				var script strings.Builder
				for path := range reads {
					script.WriteString("cat " + path + " > /dev/null 2>&1 && echo read " + path + "\n")
				}
				for path := range writes {
					script.WriteString("(echo x >> " + path + ") 2> /dev/null && echo wrote " + path + "\n")
				}
				o := confinetest.Shell(t, c, p, ws, script.String())
				for kind, list := range map[string]map[string]bool{"read": reads, "wrote": writes} {
					for path, want := range list {
						if got := strings.Contains(o.Out, kind+" "+path+"\n"); got != want {
							t.Errorf("%s: %s %s: %v, want %v\n%s", what, kind, path, got, want, o.Err)
						}
					}
				}
				if len(o.Planted) > 0 {
					t.Errorf("%s: %+v", what, o.Planted)
				}
			}
			try("no names yet", map[string]bool{ws + "/.env": false, other + "/early": true, other + "/plain": true}, map[string]bool{other + "/plain": true, ws + "/plain": true})
			link(ws+"/.env", other+"/secret")
			link(ws+"/sub/.env", shown+"/secret")
			link(ws+"/.git/hooks/pre-commit", other+"/hook")
			try("names have come", map[string]bool{other + "/secret": false, shown + "/secret": false, other + "/plain": true},
				map[string]bool{other + "/hook": false, other + "/secret": false, other + "/plain": true})
			mkdir(t, ws+"/deep")
			link(other+"/early", ws+"/deep/.env")
			try("a name has become hidden", map[string]bool{other + "/early": false, other + "/secret": false, other + "/plain": true}, map[string]bool{other + "/early": false, other + "/plain": true})
			if err := os.Remove(ws + "/deep/.env"); err != nil {
				t.Fatal(err)
			}
			try("and no more", map[string]bool{other + "/early": true, other + "/secret": false}, map[string]bool{other + "/early": true})
		})
	}
}
