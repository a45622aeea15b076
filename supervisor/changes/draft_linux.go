package changes

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount lays the draft over its roots, in the mount namespace of this process, which has to
// be its own. It has to be able to mount: as root, or in a user namespace of its own.
func (d *Draft) Mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("draft %s: make mounts private: %w", d.ID, err)
	}
	for i, root := range d.Roots {
		if err := d.check(i); err != nil {
			return fmt.Errorf("draft %s: %w", d.ID, err)
		}
		var err error
		if d.Copied {
			err = unix.Mount(d.copyOf(i), root, "", unix.MS_BIND, "")
		} else {
			err = overlay(root, d.part(i, "upper"), d.part(i, "work"))
		}
		if err != nil {
			return fmt.Errorf("draft %s: lay it over %s: %w", d.ID, root, err)
		}
	}
	return nil
}

// overlay mounts one. Its own attributes are in the user's namespace (userxattr): so it can
// be mounted without privileges, and renames and contents are whole in the upper directory.
func overlay(root, upper, work string) error {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lower := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(root)
	for _, o := range [][2]string{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		if err := unix.FsconfigSetString(fd, o[0], o[1]); err != nil {
			return fmt.Errorf("%s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fd, "userxattr"); err != nil {
		return fmt.Errorf("userxattr: %w", err)
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return err
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return unix.MoveMount(mount, "", unix.AT_FDCWD, root, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func isOpaque(dir int) bool {
	var b [1]byte
	n, err := unix.Fgetxattr(dir, "user.overlay.opaque", b[:])
	return err == nil && n == 1 && b[0] == 'y'
}
