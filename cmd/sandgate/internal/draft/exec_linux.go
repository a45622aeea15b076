package draft

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// ownMounts starts a process that can mount: for root in a mount namespace, for other users
// also in a user namespace, which maps only themselves.
func ownMounts() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		// The kernel works in the draft's directories with the rights of the user who
		// mounts it: one of them is closed to all others. All of it ends at files of this
		// user.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_FSETID}
	}
	return attr
}

// execAgain becomes this program with other arguments, and without the right to mount.
func execAgain(args []string) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	self, err := cli.ResolvedSelf()
	if err != nil {
		return err
	}
	return cli.ReplaceProcess(self, append([]string{"sandgate"}, args...), os.Environ())
}

func DupOnto(from, to int) error { return unix.Dup3(from, to, 0) }
