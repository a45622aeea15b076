package sandboxinit

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
)

// checkMounts compares what stands at the mount points with what was meant to.
// Nothing has run yet, and from here on the mounts belong to this namespace.
func checkMounts(mounts []wire.Mount) error {
	for _, m := range mounts {
		if err := checkMount(m); err != nil {
			return fmt.Errorf("%q changed while the sandbox was built: %w", m.Path, err)
		}
	}
	return nil
}

func checkMount(m wire.Mount) error {
	dir, err := openNoLinks(path.Dir(m.Path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := checkDir(m, dir); err != nil {
		return err
	}
	fd, err := openAt(dir, path.Base(m.Path), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	id, st, err := identify(fd)
	if err != nil {
		return err
	}
	if err := checkKind(m, id, st); err != nil {
		return err
	}
	return checkReadOnly(m, fd)
}

// checkDir looks at the directory that has the mount point. No two tmpfs mounts are
// one device, so one in the right tmpfs cannot have been reached by a link or found
// in a tree of the host's.
func checkDir(m wire.Mount, dir int) error {
	id, _, err := identify(dir)
	if err != nil {
		return err
	}
	want := m.Dir
	if m.Around != "" {
		fd, err := openNoLinks(m.Around, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		around, _, err := identify(fd)
		if err != nil {
			return err
		}
		id.Ino, want = 0, wire.FileID{Dev: around.Dev}
	}
	if id != want {
		return errors.New("it is in another directory")
	}
	return nil
}

func identify(fd int) (wire.FileID, unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return wire.FileID{Dev: st.Dev, Ino: st.Ino}, st, err
}

func checkKind(m wire.Mount, id wire.FileID, st unix.Stat_t) error {
	switch m.Kind {
	case wire.MountBind:
		if id != m.File {
			return fmt.Errorf("another file is mounted there")
		}
	case wire.MountNull:
		if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
			return fmt.Errorf("a hidden file is not covered")
		}
	case wire.MountTmpfs:
		if st.Dev == m.File.Dev {
			return fmt.Errorf("a directory is not covered")
		}
	case wire.MountData: // bubblewrap has removed its only name
		if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Dev == m.File.Dev || st.Nlink != 0 {
			return fmt.Errorf("the approved content is not mounted there")
		}
	default:
		return fmt.Errorf("unknown kind of mount %q", m.Kind)
	}
	return nil
}

func checkReadOnly(m wire.Mount, fd int) error {
	if !m.ReadOnly {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("it is not read-only")
	}
	return nil
}
