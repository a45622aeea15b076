package changes

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSharedBlocks: where the file system can share blocks (btrfs), what is kept of a large file
// and a draft's copy take no room of their own, and come back as they were. Elsewhere they do.
func TestSharedBlocks(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	for _, row := range []struct {
		name   string
		shares bool
	}{{"btrfs", true}, {"elsewhere", false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if row.shares {
				onBtrfs(t, dir)
			}
			was := make([]byte, size)
			_, _ = rand.Read(was)
			sh(t, dir, "mkdir ws drafts")
			large := filepath.Join(dir, "ws", "large")
			if err := os.WriteFile(large, was, 0o600); err != nil {
				t.Fatal(err)
			}
			o := options
			o.File = 2 * size
			free := room(t, dir)
			w := open(t, dir+"/s", dir+"/ws", o)
			during(t, w, "s", func() {})
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			copied, err := d.Copy(all, nil, 2*size)
			if err != nil {
				t.Fatal(err)
			}
			if got := copied.Bytes == 0; got != row.shares {
				t.Errorf("the copy took %d bytes", copied.Bytes)
			}
			if took := free - room(t, dir); row.shares && took > size/2 { // elsewhere others use the disk too
				t.Errorf("%d bytes of the disk are taken", took)
			}
			if l, _ := filepath.Glob(filepath.Join(w.dir, "objects", "*", "*"+sharedSuffix)); len(l) > 0 != row.shares {
				t.Errorf("shared: %v", l)
			}
			rec := during(t, w, "s", func() {
				if err := os.WriteFile(large, was[:size/2], 0o600); err != nil {
					t.Fatal(err)
				}
			})
			undo(t, w, rec, false)
			if b, err := os.ReadFile(large); err != nil || string(b) != string(was) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			w.objects.sweep(nil, true)
			if l, _ := filepath.Glob(filepath.Join(w.dir, "objects", "[0-9a-f][0-9a-f]", "*")); len(l) > 0 {
				t.Errorf("not swept: %v", l)
			}
		})
	}
}

func onBtrfs(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk image is mounted by root")
	}
	image := filepath.Join(t.TempDir(), "image")
	sh(t, dir, "truncate -s 160M "+image+" && mkfs.btrfs -q "+image+" && mount -o loop "+image+" "+dir)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// room is how much of the disk is free once all of it is written.
func room(t *testing.T, dir string) int64 {
	t.Helper()
	sh(t, dir, "sync -f .")
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize //nolint:gosec // blocks of a disk
}
