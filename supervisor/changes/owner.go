package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// A sandbox knows one user and one group, so what PutBack makes belongs to those. Its owner is given back
// here, outside of every sandbox, and therefore only to what PutBack was to make: this goes by
// descriptors, follows no link, and a file must have the content that it had, with no process writing it.
// Otherwise a call that goes on could give its own file to another user.

// keeps reports whether this process can give a file of user uid to o: root can, and anybody can give an own one to
// a group of theirs.
func keeps(o owner, uid int) bool {
	if o == 0 || os.Geteuid() == 0 {
		return true
	}
	groups, _ := os.Getgroups()
	return o.uid() == uid && uid == os.Geteuid() && (o.gid() == os.Getegid() || slices.Contains(groups, o.gid()))
}

// Unowned says of a step that what it puts in place will not belong to whom it belonged; "" if it will.
func (s Step) Unowned() string {
	if s.Was == nil || keeps(s.Was.Owner, os.Geteuid()) || s.Now != nil && s.Now.IsDir() && s.Was.IsDir() && s.Now.Owner.is(s.Was.Owner) {
		return ""
	}
	return fmt.Sprintf("it belonged to %v, and will be yours: only root can give it back", s.Was.Owner)
}

// OwnerChanges reports whether the file belongs to another user afterwards.
func (s Step) OwnerChanges() bool {
	return s.Now != nil && s.Was != nil && !s.Now.Owner.is(s.Was.Owner)
}

// backBut reports whether an entry is back to its old state, except for an owner that cannot be restored
// here.
func backBut(there, was *Entry) bool {
	return there != nil && was != nil && there.sameButOwner(*was) && !keeps(was.Owner, os.Geteuid())
}

// give has what PutBack has put in place belong to whom it belonged.
func (w *Workspace) give(steps []Step) error {
	fd, err := openRoot(w.Root)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	back := map[string]bool{}
	for _, s := range steps {
		back[string(s.Path)] = s.Was != nil
	}
	for _, s := range steps { // the highest first: what is given lies in what no call changes any more
		if s.Was == nil || s.Was.Owner == 0 || !keeps(s.Was.Owner, os.Geteuid()) {
			continue
		}
		dir := openBelow(fd, path.Dir(string(s.Path)))
		if dir == nil {
			return fmt.Errorf("undo %s: %w: its directory is gone", s.Path, ErrConflict)
		}
		err := giveOne(int(dir.Fd()), s, back)
		dir.Close()
		if err != nil {
			return fmt.Errorf("undo %s: it is back, and does not belong to %v: %w", s.Path, s.Was.Owner, err)
		}
	}
	return nil
}

func giveOne(dir int, s Step, back map[string]bool) error {
	base, was := path.Base(string(s.Path)), s.Was
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch kind := uint32(st.Mode) & unix.S_IFMT; { //nolint:unconvert // uint16 on darwin
	case ownerOf(&st) == was.Owner && (kind != unix.S_IFDIR || uint32(st.Mode) == was.Mode): //nolint:unconvert // as above
		return nil
	case kind != was.kind():
		return fmt.Errorf("%w: something else stands there now", ErrConflict)
	case kind == unix.S_IFLNK:
		return giveLink(dir, base, was)
	case kind == unix.S_IFDIR:
		at, err := openDirectory(dir, base)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(at), base)
		defer f.Close()
		return giveDirectory(f, s, back)
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	return giveFile(f, was)
}

// giveDirectory gives a directory to another user only if nothing lies in it but what was put back, looked at when
// its new owner alone can add to it: who has it takes what lies in it for theirs.
func giveDirectory(f *os.File, s Step, back map[string]bool) error {
	fd, to := int(f.Fd()), s.Was.Owner
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := unix.Fchown(fd, to.uid(), to.gid()); err != nil {
		return err
	}
	if int(st.Uid) != to.uid() {
		names, err := f.Readdirnames(-1)
		foreign := slices.ContainsFunc(names, func(base string) bool { return !back[path.Join(string(s.Path), base)] })
		if err != nil || foreign {
			return errors.Join(err, fmt.Errorf("%w: it contains other files", ErrConflict), unix.Fchown(fd, int(st.Uid), int(st.Gid)))
		}
	}
	// A sandbox, which is not of its group, cannot set the bit by which what is made in it has that.
	if mode := uint32(st.Mode); s.Was.Mode&unix.S_ISGID != 0 && mode|unix.S_ISGID == s.Was.Mode { //nolint:unconvert // uint16 on darwin
		return unix.Fchmod(fd, s.Was.Mode&0o3777)
	}
	return nil
}

var errNotOurs = fmt.Errorf("%w: it is not what was put there, or something writes it", ErrConflict)

func giveFile(f *os.File, was *Entry) error {
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint32(st.Mode) != was.Mode || st.Nlink != 1 || st.Size != was.Size { //nolint:unconvert // uint16 on darwin
		return errNotOurs
	}
	unwritten, end, err := hasNoWriter(fd)
	if err != nil {
		return errors.Join(errNotOurs, err)
	}
	defer end()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, was.Size+1)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != was.Hash {
		return errNotOurs
	}
	if err := unix.Fchown(fd, was.Owner.uid(), was.Owner.gid()); err != nil {
		return err
	}
	if !unwritten() { // somebody began to open it for writing, as who it belonged to
		return errors.Join(errNotOurs, unix.Fchown(fd, int(st.Uid), int(st.Gid)))
	}
	return nil
}
