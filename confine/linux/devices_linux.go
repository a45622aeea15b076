package linux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// boundDevices are the host devices that bubblewrap binds, writable, for --dev. To write to
// a device takes no mount that can be written to; to change its mode does, and root owns
// these files: a tool of root's could close /dev/null to everybody on the host.
var boundDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// hostMounts are the mounts that a thread sees on its way to start bubblewrap as root: those
// of the host, with the devices read-only. A bind has the flags of its source, and
// bubblewrap has no flag of its own that keeps a device one.
type hostMounts struct {
	ns, root int // of the thread as it began
	none     bool
}

// newHostMounts is for the thread that calls it, which must not be used for anything
// else from then on.
func newHostMounts() (*hostMounts, error) {
	if os.Geteuid() != 0 {
		return &hostMounts{none: true}, nil // these files are not ours
	}
	ns, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(ns)
		return nil, err
	}
	return &hostMounts{ns: ns, root: root}, nil
}

// enter has the thread see the host's mounts as they are now. Where root may not do that
// (a container without CAP_SYS_ADMIN) it is as it was.
func (h *hostMounts) enter() error {
	if h.none {
		return nil
	}
	err := unix.Unshare(unix.CLONE_FS) // setns(2) wants a root of its own
	if err == nil {
		err = unix.Setns(h.ns, unix.CLONE_NEWNS)
	}
	if err != nil {
		h.none = unlessBarred(err) == nil
		return unlessBarred(err)
	}
	// setns(2) went to the root of all mounts, which a supervisor in a chroot does not see.
	if err := errors.Join(unix.Fchdir(h.root), unix.Chroot(".")); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return unlessBarred(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		h.none = errors.Is(err, unix.EINVAL) // a root that is no mount: nothing may be mounted that the host would see
		return unlessBarred(err)
	}
	for _, device := range boundDevices {
		err := unix.Mount(device, device, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", device, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC, "")
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return unlessBarred(fmt.Errorf("make %s read-only: %w", device, err))
		}
	}
	return nil
}

func unlessBarred(err error) error {
	for _, barred := range []unix.Errno{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS} { // containers' filters, security modules
		if errors.Is(err, barred) {
			return nil
		}
	}
	return err
}

func (h *hostMounts) close() {
	if h != nil && h.ns > 0 {
		unix.Close(h.ns)
		unix.Close(h.root)
	}
}
