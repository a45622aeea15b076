package privatedirs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// A poolSize says how many entries a private place can have at once. Each costs an inode
// and a rule of each sandbox.
type poolSize struct {
	place              string
	files, dirs, fifos int
}

var poolSizes = []poolSize{
	{"/tmp", 32, 16, 2},
	{"/var/tmp", 8, 8, 1},
	{"/dev/shm", 16, 2, 0},
}

// A Pool is moved into a place by the broker of one sandbox: see broker.Pool. It lies
// in the place itself, on whose file system it has to be.
type Pool struct {
	Place, Dir string
	lock       *os.File            // see removeStale
	Rules      []wire.LandlockRule // for programs and the broker
}

// MakePools makes those of the places that are private in p. A place that this user
// cannot write stays closed to programs. They are made at once: to find free inodes takes
// most of the time that a sandbox is built in.
func MakePools(p sandboxprofile.Profile, user *syscall.Credential) []*Pool {
	list := make([]*Pool, len(poolSizes))
	var making sync.WaitGroup
	for i, size := range poolSizes {
		// Bubblewrap's sandboxes have a /dev/shm, whatever the profile says.
		private := slices.Contains(p.Scratch, size.place) || size.place == "/dev/shm"
		if !private || p.Rights(size.place) != 0 || unix.Access(size.place, unix.W_OK) != nil {
			continue
		}
		making.Go(func() {
			x := &Pool{Place: size.place}
			if err := x.fill(size.files, size.dirs, size.fifos, user); err != nil {
				x.remove() // the place stays closed to programs
				return
			}
			list[i] = x
		})
	}
	making.Wait()
	return slices.DeleteFunc(list, func(x *Pool) bool { return x == nil })
}

func (x *Pool) fill(files, dirs, fifos int, user *syscall.Credential) error {
	var err error
	if x.Dir, x.lock, err = makeLocked(x.Place); err != nil {
		return err
	}
	fd := int(x.lock.Fd())
	for i := range files + dirs + fifos {
		name := fmt.Sprint(i)
		switch {
		case i < files:
			err = unix.Mknodat(fd, name, unix.S_IFREG|0o600, 0)
		case i < files+dirs:
			err = unix.Mkdirat(fd, name, 0o700)
		default:
			err = unix.Mknodat(fd, name, unix.S_IFIFO|0o600, 0)
		}
		if err == nil && user != nil {
			err = unix.Fchownat(fd, name, int(user.Uid), int(user.Gid), unix.AT_SYMLINK_NOFOLLOW)
		}
		if err != nil {
			return err
		}
		id, err := hostfs.Identify(fd, name)
		if err != nil {
			return err
		}
		access := landlock.Scratch("").Access
		if i < files || i >= files+dirs {
			access = landlock.ScratchFile("").Access
		}
		x.Rules = append(x.Rules, wire.LandlockRule{Path: filepath.Join(x.Dir, name), Access: uint64(access), File: id})
	}
	if err := x.record().Record(); err != nil {
		return err
	}
	if user == nil {
		return nil
	}
	return errors.Join(os.Chown(x.Dir, int(user.Uid), int(user.Gid)), os.Lchown(filepath.Join(x.Dir, "record"), int(user.Uid), int(user.Gid)))
}

// Own lets the broker make and remove names in the place, and read or write nothing that
// is in it.
func (x *Pool) Own() ([]wire.LandlockRule, error) {
	var rules []wire.LandlockRule
	for _, r := range []landlock.Rule{landlock.Names(x.Place), landlock.Scratch(x.Dir)} {
		id, err := hostfs.Identify(unix.AT_FDCWD, r.Path)
		if err != nil {
			return nil, err
		}
		rules = append(rules, wire.LandlockRule{Path: r.Path, Access: uint64(r.Access), File: id})
	}
	return rules, nil
}

func (x *Pool) record() broker.Pool { return broker.Pool{Place: x.Place, Dir: x.Dir} }

func (x *Pool) used() (n int64) {
	for _, entry := range x.record().Entries() {
		n += diskUse(entry)
	}
	return n
}

// giveRoom empties a file of the pool that init, which was killed, did not: a rule of its
// domain holds the inode for a while.
func giveRoom(entry string) {
	f, err := os.OpenFile(entry, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		_ = f.Truncate(0) // a FIFO has nothing
		f.Close()
	}
}

// removePool removes what is a sandbox's in a place, and its pool.
func removePool(p broker.Pool) {
	for _, entry := range p.Entries() {
		giveRoom(entry)
		removeTree(entry)
	}
	removeTree(p.Dir)
}

func (x *Pool) remove() {
	if x.Dir == "" {
		return
	}
	removePool(x.record())
	if x.lock != nil {
		x.lock.Close()
	}
}
