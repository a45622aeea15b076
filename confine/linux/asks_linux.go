package linux

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// maxAsks bounds the questions that wait for an answer. A broker, of which 64 calls wait, has
// fewer open.
const maxAsks = 256

// asks answers a broker's questions during one action.
type asks struct {
	std    confine.Stdio
	answer func(wire.Answer, []*os.File)
	ctx    context.Context
	cancel context.CancelFunc
	free   chan struct{}
	busy   sync.WaitGroup
	own    bool // the sandbox runs as this user

	mu      sync.Mutex
	outside map[string]bool // what may be opened
}

// newAsks answers by send. own says that the sandbox runs as this user.
func newAsks(ctx context.Context, std confine.Stdio, own bool, send func(wire.Frame, []*os.File) error) *asks {
	a := &asks{std: std, free: make(chan struct{}, maxAsks), outside: map[string]bool{}, own: own}
	a.answer = func(w wire.Answer, files []*os.File) {
		_ = send(wire.Frame{Answer: &w}, files) // it has ended: nobody waits any more
		closeFiles(files)
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// take has a question answered, and reports whether it was one to be expected.
func (a *asks) take(q wire.Ask, files []*os.File) bool {
	hear := a.std.Changes
	if q.Why != "" {
		hear = a.std.Refusals
	}
	if hear == nil || !filepath.IsAbs(q.Path) || filepath.Clean(q.Path) != q.Path || q.Content != (len(files) == 1) || len(files) > 1 {
		return false
	}
	select {
	case a.free <- struct{}{}:
	default:
		return false
	}
	change := confine.Change{Call: q.Call, Path: q.Path, Why: q.Why}
	if q.Content {
		if info, err := files[0].Stat(); err != nil || !info.Mode().IsRegular() {
			return false // init is not trusted with what it hands over
		}
		change.Before = files[0]
	}
	a.busy.Go(func() {
		var given []*os.File
		yes := false
		if q.Why == wire.Outside {
			given, yes = a.open(q, change)
		} else {
			yes = hear(a.ctx, change)
		}
		closeFiles(files)
		<-a.free
		a.answer(wire.Answer{ID: q.ID, Allow: yes}, given)
	})
	return true
}

// open opens a file outside of what the sandbox may write, if that is allowed: the broker
// may not. No process of the sandbox can change the way to it.
func (a *asks) open(q wire.Ask, c confine.Change) ([]*os.File, bool) {
	if !a.may(q, c) {
		return nil, false
	}
	fd, err := openRegular(q.Path, q.Flags&(unix.O_ACCMODE|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND), q.Mode&0o777)
	if err != nil {
		return nil, false
	}
	if q.Flags&unix.O_TRUNC != 0 {
		err = unix.Ftruncate(fd, 0)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, q.Flags&unix.O_APPEND) // it blocks again
	}
	if err != nil {
		unix.Close(fd)
		return nil, false
	}
	return []*os.File{os.NewFile(uintptr(fd), q.Path)}, true
}

// openRegular opens a regular file whose path has no link in it.
func openRegular(path string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// may reports whether a file outside may be opened, and asks once. A file that is not
// on a disk stands for something other than its content.
func (a *asks) may(q wire.Ask, c confine.Change) bool {
	a.mu.Lock() // one question at a time
	defer a.mu.Unlock()
	special := slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return sandboxprofile.Contains(dir, q.Path) })
	if a.outside[q.Path] || special || !a.own {
		return a.outside[q.Path]
	}
	if fd, err := openRegular(q.Path, unix.O_RDONLY, 0); err == nil { // the broker may not read it either
		c.Before = os.NewFile(uintptr(fd), q.Path)
		defer c.Before.Close()
	}
	yes := a.std.Refusals(a.ctx, c)
	if yes && a.std.Changes != nil {
		if c.Before != nil {
			_, _ = c.Before.Seek(0, io.SeekStart)
		}
		yes = a.std.Changes(a.ctx, c)
	}
	a.outside[q.Path] = yes
	return yes
}

// end returns when no question is open any more.
func (a *asks) end() {
	a.cancel()
	a.busy.Wait()
}
