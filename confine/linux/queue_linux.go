package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
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

// queueMode lets the owner write and no one read.
const queueMode = 0o200

// A queueSlot is one lock of the queue for names, and stands for the directories whose
// numbers fall to it.
type queueSlot uint16

// queueSlots is so large that two trees rarely share one.
const queueSlots = 1 << 12

// slotOf is by the directory's identity: there may be several paths that lead to it.
func slotOf(dev, ino uint64) queueSlot {
	h := fnv.New64a()
	_ = binary.Write(h, binary.NativeEndian, [2]uint64{dev, ino}) // a hash takes it
	return queueSlot(h.Sum64() % queueSlots)
}

// slotsOf are the locks that a sandbox's broker takes from looking at a name to acting on
// it, in the order of all brokers: those of the trees that it may change for itself alone
// (true), and those of all directories above them, and of where temporary names are
// everybody's, together with others. So sandboxes wait for each other where the tree of
// one lies in that of the other. A program cannot hold up calls in another tree by what
// it makes the kernel do: a call can take as long as a write into its file.
func slotsOf(p sandboxprofile.Profile) (map[queueSlot]bool, error) {
	slots := map[queueSlot]bool{}
	add := func(dir string, own bool) error {
		for ; ; dir = filepath.Dir(dir) {
			var st unix.Stat_t
			switch err := unix.Stat(dir, &st); {
			case err == unix.ENOENT || err == unix.ENOTDIR: // until it is made, where it will be
				continue
			case err != nil:
				return &os.PathError{Op: "stat", Path: dir, Err: err}
			}
			slot := slotOf(uint64(st.Dev), st.Ino)
			slots[slot] = slots[slot] || own
			own = false
			own = false
			if dir == "/" {
				return nil
			}
		}
	}
	for dir, rights := range p.Paths {
		if rights&sandboxprofile.Write == 0 {
			continue
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if err := add(dir, true); err != nil {
			return nil, err
		}
	}
	for _, dir := range p.Scratch {
		if err := add(dir, false); err != nil {
			return nil, err
		}
	}
	if len(slots) > wire.MaxFiles { // everybody has the root's
		var root unix.Stat_t
		if err := unix.Stat("/", &root); err != nil {
			return nil, &os.PathError{Op: "stat", Path: "/", Err: err}
		}
		slots = map[queueSlot]bool{slotOf(uint64(root.Dev), root.Ino): true}
	}
	return slots, nil
}

// nameQueue opens the locks of a sandbox, and says of each whether it is taken for this
// sandbox alone. With a queue each, one could rename a directory in which another has just
// been let make a file.
func nameQueue(p sandboxprofile.Profile) (files []*os.File, alone []bool, err error) {
	slots, err := slotsOf(p)
	if err != nil {
		return nil, nil, fmt.Errorf("confine: the queue for names: %w", err)
	}
	dir, err := queueDir()
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		file, err := openSlot(dir, slot)
		if err != nil {
			closeFiles(files)
			return nil, nil, err
		}
		files, alone = append(files, file), append(alone, slots[slot])
	}
	return files, alone, nil
}

// openSlot opens one lock. flock(2) wants no more than a descriptor, and a program that held
// the lock would stop brokers of its user. So the file cannot be read: opening it takes the
// right to write in its directory, and a right to read is not enough.
func openSlot(dir *os.File, slot queueSlot) (*os.File, error) {
	name := fmt.Sprintf("%03x", slot)
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, queueMode)
	if err != nil {
		return nil, noQueue(&os.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err})
	}
	if err := unix.Fchmod(fd, queueMode); err != nil { // whatever the umask is
		unix.Close(fd)
		return nil, noQueue(&os.PathError{Op: "chmod", Path: filepath.Join(dir.Name(), name), Err: err})
	}
	return os.NewFile(uintptr(fd), name), nil
}

// queueDir opens the directory of the locks, which is this user's alone.
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
