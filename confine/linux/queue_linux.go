package linux

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// queuePlaces are where the queue for names may lie. The user's own come first,
// because another user can have made the name in those that are everybody's. A supervisor
// with another environment, or of another user, may have another one: then brokers do not
// wait for each other, and each finds what the other has done meanwhile
// (confine/broker, again_linux.go).
var queuePlaces = func() []string {
	var places []string
	own := fmt.Sprintf("/run/user/%d", os.Geteuid())
	var st unix.Stat_t
	if unix.Lstat(own, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0 {
		places = append(places, own)
	}
	if state, err := statedir.Path("queue"); err == nil && os.MkdirAll(state, 0o700) == nil {
		places = append(places, state)
	}
	return append(places, "/tmp", "/var/tmp", "/dev/shm")
}

// The file of the queue is never written to. Its mode lets the owner write and no one read.
const (
	queueName = "locks"
	queueMode = 0o200
)

// Each directory has a range of the numbers from 0 to queueEnd: the root has all, and a
// directory in another has one of the parts of the other's, chosen by its identity. There are
// more parts where workspaces usually part. Directories that share a part, or that are
// deeper than that, only wait more often.
var queueBits = []int{5, 6, 10, 10, 10, 9, 6, 4}

const queueEnd = 1 << 60 // by the sum of queueBits

// queueMost is how many ranges a broker locks at most for a call. Instead of more, it locks all.
const queueMost = 32

// A place is a directory's range, and how deep it lies.
type place struct {
	wire.Range
	depth int
}

// within is the part of p with a number, of which the first is for names that no directory has, or
// p itself where it has no parts.
func (p place) within(number uint64) place {
	if p.depth == len(queueBits) {
		return p
	}
	part := p.Length >> queueBits[p.depth]
	return place{wire.Range{Start: p.Start + int64(number)*part, Length: part}, p.depth + 1}
}

// directory is the part of p for a directory in it.
func (p place) directory(identity ...uint64) place {
	if p.depth == len(queueBits) {
		return p
	}
	h := fnv.New64a()
	_ = binary.Write(h, binary.NativeEndian, identity) // a hash takes it
	return p.within(1 + h.Sum64()%(1<<queueBits[p.depth]-1))
}

// temporary is a random part of p where no directory's is.
func (p place) temporary() place { return p.within(0).directory(rand.Uint64()) }

// rangeOf is the range of a directory, or of the nearest above it if it is yet to be made.
// It is by the identities of the directories that lead there, links followed.
func rangeOf(dir string) (place, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return rangeOf(filepath.Dir(dir))
	}
	r := place{Range: wire.Range{Length: queueEnd}}
	for i := 1; err == nil && i <= len(real) && real != "/"; i++ {
		if i < len(real) && real[i] != '/' {
			continue
		}
		var st unix.Stat_t
		if err = unix.Stat(real[:i], &st); err == nil {
			r = r.directory(st.Dev, st.Ino)
		}
	}
	return r, err
}

// rangesOf are what a sandbox's broker locks from looking at a name to acting on it: the trees
// that it may change, and one place in each directory where temporary names are everybody's.
// So sandboxes wait for each other where the tree of one lies in that of the other. A program
// cannot hold up calls in another tree by what it makes the kernel do: a call can take as long
// as a write into its file.
func rangesOf(p sandboxprofile.Profile) ([]wire.Range, error) {
	var all []wire.Range
	for dir, rights := range p.Paths {
		if rights&sandboxprofile.Write == 0 {
			continue
		}
		r, err := rangeOf(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Range)
	}
	for _, dir := range p.Scratch {
		r, err := rangeOf(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, r.temporary().Range)
	}
	if all = outermost(all); len(all) > queueMost {
		return []wire.Range{{Length: queueEnd}}, nil
	}
	return all, nil
}

// outermost are those ranges that lie in no other, in ascending order.
func outermost(all []wire.Range) (out []wire.Range) {
	slices.SortFunc(all, func(a, b wire.Range) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Length, a.Length))
	})
	end := int64(0)
	for _, r := range all {
		if r.Start >= end {
			out, end = append(out, r), r.Start+r.Length
		}
	}
	return out
}

// nameQueue opens the queue of a sandbox, and says which ranges are its own. With a queue
// each, one could rename a directory in which another has just been let make a file.
//
// A lock wants a descriptor that can write, and a program that held it would stop brokers
// of its user. So the file cannot be read, and opening it takes the right to write in its
// directory.
func nameQueue(p sandboxprofile.Profile) (*os.File, []wire.Range, error) {
	ranges, err := rangesOf(p)
	if err != nil {
		return nil, nil, fmt.Errorf("confine: the queue for names: %w", err)
	}
	dir, err := queueDir()
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), queueName, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, queueMode)
	if err != nil {
		return nil, nil, noQueue(&os.PathError{Op: "open", Path: filepath.Join(dir.Name(), queueName), Err: err})
	}
	if err := unix.Fchmod(fd, queueMode); err != nil { // whatever the umask is
		unix.Close(fd)
		return nil, nil, noQueue(&os.PathError{Op: "chmod", Path: filepath.Join(dir.Name(), queueName), Err: err})
	}
	return os.NewFile(uintptr(fd), queueName), ranges, nil
}

// queueDir opens the directory of the queue, which is this user's alone.
func queueDir() (*os.File, error) {
	var errs []error
	for _, place := range queuePlaces() {
		name := fmt.Sprintf("%s/.sandgate-names-%d.d", place, os.Geteuid())
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			errs = append(errs, err)
			continue
		}
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0 {
			return os.NewFile(uintptr(fd), name), nil
		}
		unix.Close(fd)
		errs = append(errs, fmt.Errorf("%s is not this user's own directory: it belongs to uid %d, mode %#o", name, st.Uid, st.Mode))
	}
	return nil, noQueue(errors.Join(errs...))
}

func noQueue(err error) error {
	return &confine.Unenforceable{Part: "the queue for names", Reason: err.Error(), Hint: "make the state directory (XDG_STATE_HOME) writable; who owns a name in /tmp can remove it, or root"}
}
