package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestANewFileWithAnOldNumberIsHidden: a file that replaces a hidden one can get its inode's number, and a
// warm sandbox in whose place nothing is mounted any more must not serve. So too where programs only read.
func TestANewFileWithAnOldNumberIsHidden(t *testing.T) {
	for _, write := range []bool{false, true} {
		ws := confinetest.Workspace(t)
		c, p := newWarmPool(t), confinetest.Profile(t, ws)
		if !write {
			p.Paths[ws] &^= sandboxprofile.Write
		}
		secret := filepath.Join(ws, ".env")
		var numbers []uint64
		for range 10 {
			if err := os.Remove(secret); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for name, content := range map[string]string{secret + "~": "secret", filepath.Join(ws, "notes"): "open"} {
				if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(secret+"~", secret); err != nil {
				t.Fatal(err)
			}
			var st unix.Stat_t
			if err := unix.Lstat(secret, &st); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, st.Ino)
			if o := confinetest.Shell(t, c, p, ws, "cat .env; cat notes"); o.Out != "open" || !strings.Contains(o.Err, "Permission denied") {
				t.Errorf("writable %v, inodes %d: %q %q", write, numbers, o.Out, o.Err)
			}
		}
	}
}
