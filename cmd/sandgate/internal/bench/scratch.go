package bench

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/assemble"
)

const (
	benchParent = "/var/tmp" // not /tmp, which is the sandbox's own inside
	benchPrefix = "sandgate-bench-"
)

// A scratch is where one bench works. It is locked until the bench ends, also if that is
// killed, so the next bench can tell which directories are unused.
type scratch struct{ *os.File }

// newScratch makes one below parent, and removes those of benches that were killed.
func newScratch(parent string) (scratch, error) {
	sweepScratch(parent)
	dir, err := os.MkdirTemp(parent, benchPrefix)
	if err != nil {
		return scratch{}, err
	}
	return lockScratch(dir)
}

func lockScratch(dir string) (scratch, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return scratch{}, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return scratch{}, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return scratch{f}, nil
}

// remove ends the bench.
func (d scratch) remove() {
	if d.File == nil {
		return
	}
	_ = assemble.RemoveTree(filepath.Dir(d.Name()), filepath.Base(d.Name()))
	d.Close()
}

// sweepScratch removes directories of this user that no bench uses. A directory that cannot
// be removed stays: it does no harm. Others may write to parent, and their directories and
// links are not ours.
func sweepScratch(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), benchPrefix) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		if d, err := lockScratch(filepath.Join(parent, e.Name())); err == nil {
			d.remove()
		}
	}
}
