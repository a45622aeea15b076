package pathcalls

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// older are the calls that later ones have replaced, and that other architectures lack.
func (r *runner) older() []func() string {
	e := func(nr uintptr, args ...any) string { return name(call(nr, args...)) }
	return []func() string{
		func() string {
			r.say("open")
			return r.keep(value(unix.SYS_OPEN, r.at(r.path()), r.openFlags(), r.mode()))
		},
		func() string { r.say("creat"); return r.keep(value(unix.SYS_CREAT, r.at(r.plain()), r.mode())) },
		func() string { r.say("mkdir"); return e(unix.SYS_MKDIR, r.at(r.path()), r.mode()) },
		func() string { r.say("mknod"); return e(unix.SYS_MKNOD, r.at(r.path()), r.kind(), uintptr(0)|0x103) },
		func() string { r.say("unlink"); return e(unix.SYS_UNLINK, r.at(r.path())) },
		func() string { r.say("rmdir"); return e(unix.SYS_RMDIR, r.at(r.path())) },
		func() string { r.say("symlink"); return e(unix.SYS_SYMLINK, r.at(r.target()), r.at(r.path())) },
		func() string { r.say("link"); return e(unix.SYS_LINK, r.at(r.path()), r.at(r.path())) },
		func() string { r.say("rename"); return e(unix.SYS_RENAME, r.at(r.path()), r.at(r.path())) },
		func() string { r.say("chmod"); return e(unix.SYS_CHMOD, r.at(r.path()), r.mode()) },
		func() string {
			r.say("chown")
			return e(unix.SYS_CHOWN, r.at(r.path()), r.id(os.Getuid()), r.id(os.Getgid()))
		},
		func() string {
			r.say("lchown")
			return e(unix.SYS_LCHOWN, r.at(r.path()), r.id(os.Getuid()), r.id(os.Getgid()))
		},
		func() string { r.say("utimes"); return e(unix.SYS_UTIMES, r.at(r.path()), r.micros()) },
		func() string { r.say("futimesat"); return e(unix.SYS_FUTIMESAT, r.dirfd(), r.at(r.path()), r.micros()) },
		func() string { r.say("utime"); return e(unix.SYS_UTIME, r.at(r.path()), r.seconds()) },
	}
}

// plain is a path that leads to no FIFO, which creat(2) would wait at.
func (r *runner) plain() string {
	if r.fifos {
		return pick(r, "", "new/", "ROOT/missing/x")
	}
	return r.path()
}

func (r *runner) micros() unsafe.Pointer {
	t := []int64{int64(r.rng.IntN(1e6)), pick[int64](r, 0, 999_999, 1_000_000, -1), int64(r.rng.IntN(1e6)), 5}
	r.say(" times %v", t)
	return unsafe.Pointer(&t[0])
}

func (r *runner) seconds() unsafe.Pointer {
	t := []int64{int64(r.rng.IntN(1e6)), int64(r.rng.IntN(1e6))}
	r.say(" times %v", t)
	return unsafe.Pointer(&t[0])
}
