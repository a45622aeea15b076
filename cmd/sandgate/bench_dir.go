package main

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

// A benchDir is where one bench works. It is locked until the bench ends, also if that is
// killed: so the next one knows what nobody uses.
type benchDir struct{ *os.File }

// newBenchDir makes one below parent, and removes those of benches that were killed.
func newBenchDir(parent string) (benchDir, error) {
	sweepBenchDirs(parent)
	dir, err := os.MkdirTemp(parent, benchPrefix)
	if err != nil {
		return benchDir{}, err
	}
	return lockBenchDir(dir)
}

func lockBenchDir(dir string) (benchDir, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return benchDir{}, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return benchDir{}, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return benchDir{f}, nil
}

// remove ends the bench.
func (d benchDir) remove() {
	if d.File == nil {
		return
	}
	_ = assemble.RemoveTree(filepath.Dir(d.Name()), filepath.Base(d.Name()))
	d.Close()
}

// sweepBenchDirs removes directories of this user that no bench uses. What cannot be removed
// stays: it is in nobody's way. Others may write to parent, and their directories and links
// are not ours.
func sweepBenchDirs(parent string) {
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
		if d, err := lockBenchDir(filepath.Join(parent, e.Name())); err == nil {
			d.remove()
		}
	}
}
