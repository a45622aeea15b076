package sandboxinit

import (
	"fmt"

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
	fd, err := openNoLinks(m.Path, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	same := st.Dev == m.Dev && st.Ino == m.Ino
	switch m.Kind {
	case wire.MountBind:
		if !same {
			return fmt.Errorf("another file is mounted there")
		}
	case wire.MountNull:
		if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
			return fmt.Errorf("a hidden file is not covered")
		}
	case wire.MountTmpfs:
		if st.Dev == m.Dev {
			return fmt.Errorf("a directory is not covered")
		}
	default:
		return fmt.Errorf("unknown kind of mount %q", m.Kind)
	}
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
