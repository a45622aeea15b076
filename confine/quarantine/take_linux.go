package quarantine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Everything in a workspace may be exchanged for a link while we look at it. So a path
// is walked from its root by openat2(2), without following links or leaving the root,
// and the action at its end is done by descriptor.

// A Taking is one item that is being filled. It makes its directory when it
// takes the first thing.
type Taking struct {
	store *Store
	call  string
	id    string
	n     int
}

// Begin prepares to take what call, SESSION/CALL, has left.
func (s *Store) Begin(call string) *Taking { return &Taking{store: s, call: call} }

// ID names the item, "" if nothing was taken.
func (t *Taking) ID() string { return t.id }

// Take moves the file or directory at name, which lies below root, into the
// quarantine, and says where it is now. The error is unix.ENOENT or ENOTDIR
// if something else is there by now.
func (t *Taking) Take(root, name, reason string) (kept string, err error) {
	if err := t.open(); err != nil {
		return "", err
	}
	dir := filepath.Join(t.store.items(), t.id)
	from, base, err := openParent(root, name)
	if err != nil {
		return "", fmt.Errorf("quarantine: open the directory of %q: %w", name, err)
	}
	defer unix.Close(from)
	to, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	defer unix.Close(to)
	// The line comes first: a crash between the two leaves a line about nothing,
	// and never something without a line.
	e := Entry{N: t.n, Path: name, Root: root, Reason: reason, Call: t.call, Taken: time.Now().UTC()}
	if err := note(dir, e); err != nil {
		return "", err
	}
	t.n++
	slot := strconv.Itoa(e.N)
	if err := move(from, base, to, slot); err != nil {
		return "", fmt.Errorf("quarantine: move %q: %w", name, err)
	}
	describe(to, slot, &e)
	return filepath.Join(dir, slot), note(dir, e)
}

// disarmedPrefix begins the names that nothing looks for.
const disarmedPrefix = "sandgate-disarmed-"

// Disarm gives what lies at name, below root, another name in its directory, for what
// cannot be taken: the quarantine is full, or on another file system that has no room for
// it. No program acts on the new name. A link does what it does under any name, so it is
// removed. now is the new path, "" for a link.
func Disarm(root, name string) (now string, err error) {
	at, base, err := openParent(root, name)
	if err != nil {
		return "", fmt.Errorf("quarantine: open the directory of %q: %w", name, err)
	}
	defer unix.Close(at)
	slot := disarmedPrefix + strings.ToLower(rand.Text()[:10])
	if err := move(at, base, at, slot); err != nil {
		return "", fmt.Errorf("quarantine: rename %q: %w", name, err)
	}
	var st unix.Stat_t
	if unix.Fstatat(at, slot, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return "", unix.Unlinkat(at, slot, 0)
	}
	openUpAt(at, slot) // what lies in a closed directory is looked at too
	return filepath.Join(filepath.Dir(name), slot), nil
}

func (t *Taking) open() error {
	if t.id != "" {
		return nil
	}
	ids, err := t.store.ids()
	if err != nil {
		return err
	}
	if len(ids) >= maxItems {
		return fmt.Errorf("quarantine: %w", ErrFull)
	}
	id := time.Now().UTC().Format("20060102T150405.000Z-") + strings.ToLower(rand.Text()[:6])
	if err := os.Mkdir(filepath.Join(t.store.items(), id), 0o700); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	t.id = id
	return nil
}

// Restore puts one entry back where it was. It replaces nothing, and refuses
// what is no longer as it was taken.
func (s *Store) Restore(id string, n int) error {
	x, err := s.Get(id)
	if err != nil {
		return err
	}
	if n < 0 || n >= len(x.Entries) {
		return fmt.Errorf("quarantine: %s has no entry %d: %w", id, n, ErrNotFound)
	}
	e := x.Entries[n]
	if !e.Kept() {
		return fmt.Errorf("quarantine: entry %d of %s is not kept any more: %w", n, id, ErrNotFound)
	}
	from, err := unix.Open(x.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	defer unix.Close(from)
	slot := strconv.Itoa(n)
	now := Entry{}
	if describe(from, slot, &now); now.SHA256 != e.SHA256 || now.Kind != e.Kind || now.Target != e.Target {
		return fmt.Errorf("quarantine: %s is not what was taken: something changed it since; look at it and move it by hand", x.Content(n))
	}
	to, base, err := openParent(e.Root, e.Path)
	if err != nil {
		return fmt.Errorf("quarantine: restore %q: %w", e.Path, err)
	}
	defer unix.Close(to)
	if err := move(from, slot, to, base); err != nil {
		return fmt.Errorf("quarantine: restore %q: %w", e.Path, err)
	}
	e.Restored = time.Now().UTC()
	return note(x.Dir, e)
}

// openParent opens the directory of name, which lies below root.
func openParent(root, name string) (fd int, base string, err error) {
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return -1, "", fmt.Errorf("%q is not below %q", name, root)
	}
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(at)
	fd, err = below(at, path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
	return fd, path.Base(rel), err
}

// below opens rel under the directory at, following no link in any component.
func below(at int, rel string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(at, rel, &unix.OpenHow{
			Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) { // EAGAIN: a rename elsewhere, openat2(2)
			return fd, err
		}
	}
}

// move renames, or copies and removes where the two lie on different file
// systems. It replaces nothing.
func move(from int, name string, to int, slot string) error {
	err := unix.Renameat2(from, name, to, slot, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EACCES) {
		// A tool runs as the user, so it can take the user's own permissions away:
		// of the directory, or of the one that is moved, whose ".." changes.
		restore := openUp(from)
		openUpAt(from, name)
		err = unix.Renameat2(from, name, to, slot, unix.RENAME_NOREPLACE)
		restore()
	}
	if errors.Is(err, unix.EXDEV) {
		return moveAcross(from, name, to, slot)
	}
	return err
}

// openUp makes a directory that fd names writable for its owner, and gives what
// takes that back.
func openUp(fd int) (restore func()) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return func() {}
	}
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	_ = unix.Chmod(self, st.Mode&0o7777|0o700) // the rename says whether it helped
	return func() { _ = unix.Chmod(self, st.Mode&0o7777) }
}

func openUpAt(at int, name string) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = openUp(fd)
}
