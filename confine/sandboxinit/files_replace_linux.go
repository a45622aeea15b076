package sandboxinit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// lockPatience is how long a change waits for another one of the same file.
const lockPatience = 5 * time.Second

// writeFile replaces a file as a whole, or creates it.
func writeFile(op sandboxprofile.Operation, temporary string, on disk, stop func() bool) wire.Done {
	if op.MakeParents {
		if err := on.makeParents(path.Clean(path.Dir(op.Path))); err != nil {
			return failed("mkdir", err)
		}
	}
	t, err := on.openTarget(op.Path, stop)
	if err != nil {
		return failed("open", err)
	}
	defer t.close()
	if op.SHA256 != "" {
		if err := t.verify(op.SHA256, stop); err != nil {
			return failed("verify", err)
		}
	}
	if step, err := t.replace(op.Content, temporary, op.SHA256 != ""); err != nil {
		return failed(step, err)
	}
	return wire.Done{Size: int64(len(op.Content)), Mode: t.mode(), Created: t.fd < 0, SHA256: digest(op.Content)}
}

// editFile replaces parts of a file that is the one of op.Base: the one that an
// approver saw the difference to. ESTALE is the answer for any other.
func editFile(op sandboxprofile.Operation, temporary string, on disk, stop func() bool) wire.Done {
	t, err := on.openTarget(op.Path, stop)
	switch {
	case err != nil:
		return failed("open", err)
	case t.fd < 0:
		t.close()
		return failed("open", unix.ENOENT)
	}
	defer t.close()
	content, err := t.read(op.MaxBytes)
	switch {
	case err != nil:
		return failed("read", err)
	case op.Base == nil, *op.Base != t.base():
		return failed("verify", unix.ESTALE)
	case op.SHA256 != "" && op.SHA256 != digest(content):
		return failed("verify", unix.ESTALE)
	}
	edited, n, err := op.Edit(content)
	if fault := (*sandboxprofile.EditError)(nil); errors.As(err, &fault) {
		return wire.Done{Op: "edit", Errno: int(unix.EINVAL), Edit: fault}
	}
	if step, err := t.replace(edited, temporary, true); err != nil {
		return failed(step, err)
	}
	return wire.Done{Size: int64(len(edited)), Mode: t.mode(), Replaced: n, SHA256: digest(edited)}
}

// target is a path that is about to be replaced: a regular file that is open and
// locked, or nothing yet.
type target struct {
	on   disk
	dir  string
	at   int // the directory
	name string
	fd   int // -1 if there is no file
	st   unix.Stat_t
}

// openTarget opens what stands at p. It takes a lock on a file, so that two calls
// that change the same one do so one after the other. The lock is advisory, and
// nothing rests on it but that no change is lost: replace looks again.
func (d disk) openTarget(p string, stop func() bool) (*target, error) {
	t := &target{on: d, dir: path.Clean(path.Dir(p)), name: path.Base(p), fd: -1}
	var err error
	if t.at, err = openNoLinks(t.dir, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		return nil, err
	}
	if err := t.lock(stop); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// lock opens and locks the file, and again if another one has taken its name
// while it waited.
func (t *target) lock(stop func() bool) error {
	for deadline := time.Now().Add(lockPatience); ; {
		if err := t.open(); err != nil || t.fd < 0 {
			return err
		}
		err := unix.Flock(t.fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil && t.inPlace():
			return unix.Fstat(t.fd, &t.st)
		case err != nil && err != unix.EAGAIN && err != unix.EINTR:
			return nil // a file system without locks
		case stop() || time.Now().After(deadline):
			return unix.EAGAIN
		}
		unix.Close(t.fd)
		t.fd = -1
		time.Sleep(2 * time.Millisecond)
	}
}

// open opens the file for writing, though it is only read: replacing one that
// this user may not write would get around its mode, or a read-only mount.
func (t *target) open() error {
	var st unix.Stat_t
	err := unix.Fstatat(t.at, t.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return err
	}
	if err := replaceable(st.Mode); err != nil {
		return err
	}
	fd, err := openAt(t.at, t.name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES { // a file that may be written and not read can still be replaced
		fd, err = openAt(t.at, t.name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	t.fd = fd
	if err := unix.Fstat(fd, &t.st); err != nil {
		return err
	}
	if t.on.withholds(fd, path.Join(t.dir, t.name)) {
		return unix.EACCES
	}
	return replaceable(t.st.Mode)
}

// replaceable says what is wrong with replacing a file of this st_mode.
func replaceable(mode uint32) error {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFLNK:
		return unix.ELOOP
	}
	return unix.EINVAL
}

func (t *target) close() {
	unix.Close(t.at)
	if t.fd >= 0 {
		unix.Close(t.fd)
	}
}

// inPlace reports whether the name still leads to the file that is open.
func (t *target) inPlace() bool {
	var now unix.Stat_t
	err := unix.Fstatat(t.at, t.name, &now, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && now.Dev == t.st.Dev && now.Ino == t.st.Ino
}

// unchanged looks at the name again: ESTALE if it is not the file that was
// opened, or that has been written to since.
func (t *target) unchanged() error {
	var now unix.Stat_t
	err := unix.Fstatat(t.at, t.name, &now, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && base(now) != t.base() {
		err = unix.ESTALE
	}
	return err
}

func (t *target) base() sandboxprofile.Base { return base(t.st) }

// base is the stat(2) result of a file, as a plan has it.
func base(st unix.Stat_t) sandboxprofile.Base {
	return sandboxprofile.Base{
		Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size,
		ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Mode: st.Mode,
	}
}

// mode is the mode that the file keeps, or a new one's.
func (t *target) mode() uint32 {
	if t.fd < 0 {
		return 0o644
	}
	return t.st.Mode & 0o777
}

// read gives the whole content, or EFBIG if it is more than limit.
func (t *target) read(limit int64) ([]byte, error) {
	if t.st.Size > limit {
		return nil, unix.EFBIG
	}
	content, err := io.ReadAll(io.LimitReader(reader(t.fd), limit+1))
	switch {
	case errors.Is(err, unix.EBADF):
		return nil, unix.EACCES // open for writing only
	case err != nil:
		return nil, err
	case int64(len(content)) > limit:
		return nil, unix.EFBIG
	case int64(len(content)) != t.st.Size:
		return nil, unix.ESTALE // it grows or shrinks while we read
	}
	return content, nil
}

// verify checks that the file holds what a caller says that it does. A file may be so
// long that the call ends before that is known: ECANCELED.
func (t *target) verify(want string, stop func() bool) error {
	if t.fd < 0 {
		return unix.ESTALE
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(stoppable{reader(t.fd), stop}, t.st.Size)); errors.Is(err, unix.EBADF) {
		return unix.EACCES // open for writing only
	} else if errors.Is(err, errStopped) {
		return unix.ECANCELED
	} else if err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return unix.ESTALE
	}
	return nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// replace puts content in the file's place: a temporary file beside it is
// written, synced and renamed over it from the name tmp, so that a reader, a crash or a full disk
// sees the old content or the new. What was derived from the old content is only
// put there if that is still the same. It returns the name of the step that failed.
func (t *target) replace(content []byte, tmp string, derived bool) (step string, err error) {
	file, err := writeTemp(t.at, tmp, content, t.mode())
	if err != nil {
		unix.Unlinkat(t.at, tmp, 0)
		return "write", err
	}
	if derived {
		if err := t.unchanged(); err != nil {
			unix.Unlinkat(t.at, tmp, 0)
			return "verify", err
		}
	}
	if err := t.on.rename(t.at, tmp, t.name, file); err != nil {
		unix.Unlinkat(t.at, tmp, 0)
		return "rename", err
	}
	syncDir(t.dir)
	return "", nil
}

// writeTemp makes name with content, and says which file that is. It has no name until it is whole, where the file
// system can do that: whatever ends this process meanwhile leaves nothing.
func writeTemp(dirfd int, name string, content []byte, mode uint32) (file broker.FileID, err error) {
	fd, err := unix.Openat(dirfd, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err == nil {
		file, err = fill(fd, content, mode)
		if err == nil {
			err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), dirfd, name, unix.AT_SYMLINK_FOLLOW)
		}
		unix.Close(fd)
		if err == nil || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
			return file, err
		}
	}
	// A file system without files that have no name, or a rule that gives them none.
	fd, err = unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return file, err
	}
	defer unix.Close(fd)
	return fill(fd, content, mode)
}

// fill writes all of a new file, and waits until it is on the disk.
func fill(fd int, content []byte, mode uint32) (broker.FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return broker.FileID{}, err
	}
	file := broker.FileID{Dev: st.Dev, Ino: st.Ino}
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return file, err
		}
		content = content[n:]
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return file, err
	}
	return file, unix.Fsync(fd)
}
