package quarantine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// What is read of a tree that a stranger made is bounded.
const (
	maxDepth   = 64
	maxEntries = 20_000
	maxBytes   = 256 << 20
)

var errTooLarge = fmt.Errorf("has more than %d files, %d MiB or %d levels, which is too much to copy to another file system",
	maxEntries, maxBytes>>20, maxDepth)

// budget is the rest of the bounds.
type budget struct {
	entries int
	bytes   int64
}

func newBudget() *budget { return &budget{maxEntries, maxBytes} }

func (b *budget) entry(depth int) error {
	b.entries--
	if b.entries < 0 || depth > maxDepth {
		return errTooLarge
	}
	return nil
}

// moveAcross copies a tree to another file system and removes the original. If
// it cannot be copied whole, nothing is removed and nothing is left of the copy.
func moveAcross(from int, name string, to int, slot string) error {
	err := copyTree(from, name, to, slot, newBudget(), 0)
	if err == nil {
		err = removeTree(from, name, 0)
	}
	if err != nil {
		_ = removeTree(to, slot, 0)
	}
	return err
}

func copyTree(from int, name string, to int, slot string, b *budget, depth int) error {
	if err := b.entry(depth); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return copyFile(from, name, to, slot, b)
	case unix.S_IFDIR:
		return copyDir(from, name, to, slot, b, depth)
	case unix.S_IFLNK:
		target, err := readlink(from, name)
		if err != nil {
			return err
		}
		return unix.Symlinkat(target, to, slot)
	default:
		return unix.Mkfifoat(to, slot, 0o600) // a socket or a pipe has no content; its name is kept
	}
}

// copyFile copies the bytes and the permissions, without set-id bits.
func copyFile(from int, name string, to int, slot string, b *budget) error {
	in, err := openFile(from, name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	fd, err := unix.Openat(to, slot, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), slot)
	n, err := io.Copy(out, io.LimitReader(in, b.bytes+1))
	if b.bytes -= n; b.bytes < 0 {
		err = errTooLarge
	}
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close())
}

// openFile opens a regular file for reading, and never waits for one that has
// become a pipe.
func openFile(at int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if p, perr := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); perr == nil {
			restore := openUp(p)
			fd, err = unix.Openat(at, name, flags, 0)
			restore()
			unix.Close(p)
		}
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%q is not a regular file any more", name)
	}
	return f, nil
}

func copyDir(from int, name string, to int, slot string, b *budget, depth int) error {
	in, names, err := list(from, name)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	if err := unix.Mkdirat(to, slot, 0o700); err != nil {
		return err
	}
	out, err := unix.Openat(to, slot, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	for _, n := range names {
		if err := copyTree(in, n, out, n, b, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// list opens a directory and gives the names in it, sorted. The caller closes it.
func list(at int, name string) (fd int, names []string, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		openUpAt(at, name)
		fd, err = unix.Openat(at, name, flags, 0)
	}
	if err != nil {
		return -1, nil, err
	}
	again, err := unix.Openat(fd, ".", flags, 0)
	if err != nil {
		unix.Close(fd)
		return -1, nil, err
	}
	d := os.NewFile(uintptr(again), name)
	defer d.Close()
	if names, err = d.Readdirnames(maxEntries + 1); err != nil && !errors.Is(err, io.EOF) {
		unix.Close(fd)
		return -1, nil, err
	}
	slices.Sort(names)
	return fd, names, nil
}

func removeTree(at int, name string, depth int) error {
	err := unix.Unlinkat(at, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if depth > maxDepth {
		return errTooLarge
	}
	fd, names, err := list(at, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, n := range names {
		if err := removeTree(fd, n, depth+1); err != nil {
			return err
		}
	}
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}

func readlink(at int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(at, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// describe fills in what e says about the file itself. A digest that cannot be
// made is left out.
func describe(at int, name string, e *Entry) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	e.Kind, e.Mode, e.Size, e.Files = kindOf(st.Mode), modeOf(st.Mode), st.Size, 1
	if e.Kind == "symlink" {
		e.Target, _ = readlink(at, name)
	}
	b := newBudget()
	sum, err := digest(at, name, b, 0)
	if err == nil {
		e.SHA256 = hex.EncodeToString(sum)
	}
	if e.Kind == "dir" {
		e.Files, e.Size = maxEntries-max(b.entries, 0), maxBytes-max(b.bytes, 0)
	}
}

// digest is the SHA-256 of a file's bytes, or of a directory's listing: for each
// name its kind, its own digest, and the name.
func digest(at int, name string, b *budget, depth int) ([]byte, error) {
	if err := b.entry(depth); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	h := sha256.New()
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f, err := openFile(at, name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		n, err := io.Copy(h, io.LimitReader(f, b.bytes+1))
		if b.bytes -= n; b.bytes < 0 {
			err = errTooLarge
		}
		return h.Sum(nil), err
	case unix.S_IFLNK:
		target, err := readlink(at, name)
		h.Write([]byte(target))
		return h.Sum(nil), err
	case unix.S_IFDIR:
		listing, err := digestDir(at, name, b, depth)
		h.Write(listing)
		return h.Sum(nil), err
	}
	return h.Sum(nil), nil
}

func digestDir(at int, name string, b *budget, depth int) ([]byte, error) {
	fd, names, err := list(at, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var listing bytes.Buffer
	for _, n := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, err
		}
		sum, err := digest(fd, n, b, depth+1)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&listing, "%s %x %q\n", kindOf(st.Mode), sum, n)
	}
	return listing.Bytes(), nil
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// modeOf is the mode as ls(1) prints it, set-id bits included.
func modeOf(mode uint32) string {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m.String()
}
