package confine

import (
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// knownKinds remembers what stood at the paths of a profile. A name comes, goes or
// turns into something else only together with the change time of its directory, which
// no program can set (inode(7)): as long as every directory is as it was, so are the
// names in it. Most of a profile's paths lie in a few directories.
type knownKinds struct {
	names []string
	dirs  []string // that have the names

	mu      sync.Mutex
	stamps  []stamp // of dirs, as facts were read
	settled bool    // a change since then shows in the stamps
	facts   sandboxprofile.Facts
	trusted map[uint64]bool // devices
}

func newKnownKinds(names []string) *knownKinds {
	k := &knownKinds{names: names, trusted: map[uint64]bool{}}
	for _, name := range names {
		if dir := path.Dir(name); !slices.Contains(k.dirs, dir) {
			k.dirs = append(k.dirs, dir)
		}
	}
	return k
}

// look gives what stands there now, as kindsAt would. The maps are shared, and not to
// be changed.
func (k *knownKinds) look() (sandboxprofile.Facts, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stamps, settled := k.stampsNow()
	if k.settled && slices.Equal(stamps, k.stamps) {
		return k.facts, nil
	}
	facts, err := kindsAt(k.names)
	if err != nil {
		return facts, err
	}
	k.facts, k.stamps, k.settled = facts, stamps, settled
	return facts, nil
}

// stampsNow looks at the directories; one that is not there has no stamp. It also
// reports whether what is read from now on cannot change without the stamps: each has
// changed last some time ago, and lies on a file system that keeps change times as
// local ones do.
func (k *knownKinds) stampsNow() ([]stamp, bool) {
	var now unix.Timespec
	settled := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) == nil
	stamps := make([]stamp, len(k.dirs))
	for i, dir := range k.dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			continue // nothing stands in it as long as that is so
		}
		stamps[i] = stampOf(&st)
		settled = settled && st.Ctim.Nano() < now.Nano()-int64(settling) && k.trusts(dir, st.Dev)
	}
	return stamps, settled
}

func (k *knownKinds) trusts(dir string, dev uint64) bool {
	trusted, known := k.trusted[dev]
	if !known {
		var fs unix.Statfs_t
		trusted = unix.Statfs(dir, &fs) == nil && keepsCtime(fs)
		k.trusted[dev] = trusted
	}
	return trusted
}
