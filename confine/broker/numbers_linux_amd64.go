package broker

import "golang.org/x/sys/unix"

// nativeArch is AUDIT_ARCH_X86_64. The filter kills what comes in another way (i386,
// x32), whose numbers mean other calls.
const nativeArch = 0xc000003e

const noFollow = unix.AT_SYMLINK_NOFOLLOW

// older are the calls that later ones have replaced.
var older = map[int]handler{
	unix.SYS_OPEN:      func(c *call) reply { return c.open(cwd, c.args[0], int(c.int(1)), c.uint(2)) },
	unix.SYS_CREAT:     func(c *call) reply { return c.open(cwd, c.args[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, c.uint(1)) },
	unix.SYS_MKDIR:     func(c *call) reply { return c.mkdirAt(cwd, c.args[0], c.uint(1)) },
	unix.SYS_MKNOD:     func(c *call) reply { return c.mknodAt(cwd, c.args[0], c.uint(1), int(c.args[2])) },
	unix.SYS_UNLINK:    func(c *call) reply { return c.unlinkAt(cwd, c.args[0], 0) },
	unix.SYS_RMDIR:     func(c *call) reply { return c.unlinkAt(cwd, c.args[0], unix.AT_REMOVEDIR) },
	unix.SYS_SYMLINK:   func(c *call) reply { return c.symlinkAt(c.args[0], cwd, c.args[1]) },
	unix.SYS_LINK:      func(c *call) reply { return c.linkAt(cwd, c.args[0], cwd, c.args[1], 0) },
	unix.SYS_RENAME:    func(c *call) reply { return c.renameAt(cwd, c.args[0], cwd, c.args[1], 0) },
	unix.SYS_CHMOD:     func(c *call) reply { return c.chmodAt(cwd, c.args[0], c.uint(1), 0) },
	unix.SYS_CHOWN:     func(c *call) reply { u, g := c.ids(1); return c.chownAt(cwd, c.args[0], u, g, 0) },
	unix.SYS_LCHOWN:    func(c *call) reply { u, g := c.ids(1); return c.chownAt(cwd, c.args[0], u, g, noFollow) },
	unix.SYS_UTIMES:    func(c *call) reply { return c.utimes(cwd, c.args[0], c.args[1], 1000, 0) },
	unix.SYS_FUTIMESAT: func(c *call) reply { return c.utimes(c.int(0), c.args[1], c.args[2], 1000, 0) },
	unix.SYS_UTIME:     (*call).utime,

	unix.SYS_INOTIFY_INIT: func(c *call) reply { return c.watcher(0) },
}

var olderNames = map[int]string{
	unix.SYS_OPEN: "open", unix.SYS_CREAT: "creat", unix.SYS_MKDIR: "mkdir", unix.SYS_MKNOD: "mknod", unix.SYS_UNLINK: "unlink",
	unix.SYS_RMDIR: "rmdir", unix.SYS_SYMLINK: "symlink", unix.SYS_LINK: "link", unix.SYS_RENAME: "rename", unix.SYS_CHMOD: "chmod",
	unix.SYS_CHOWN: "chown", unix.SYS_LCHOWN: "lchown", unix.SYS_UTIMES: "utimes", unix.SYS_FUTIMESAT: "futimesat", unix.SYS_UTIME: "utime",
}

// utime has two times in whole seconds.
func (c *call) utime() reply {
	if c.args[1] == 0 {
		return c.timesAt(cwd, c.args[0], nil, 0)
	}
	w, errno := c.words(c.args[1], 2)
	if errno != 0 {
		return fails(errno)
	}
	return c.timesAt(cwd, c.args[0], []unix.Timespec{{Sec: w[0]}, {Sec: w[1]}}, 0)
}
