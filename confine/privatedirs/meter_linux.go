package privatedirs

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Meter says how much private directories hold. A walk opens every directory, and programs that watch one
// (inotify(7)) see that. So a Meter walks again only when a file system of theirs has lost room since the last
// walk: without that nothing has grown, unless somebody made as much room at the same time, and then the disk
// is no fuller. Who makes room and fills it, again and again, is found by a walk now and then.
type Meter struct {
	dirs   *Dirs
	used   int64
	walked time.Time
	most   map[string]room // the most that there was since then, by a path on the file system
}

// A room is what a file system has left.
type room struct{ bytes, files int64 }

const (
	// walkAnyway is how long one walk counts at most.
	walkAnyway = 5 * time.Minute
	// lostShare is the part of what may still be written whose loss makes a Meter walk.
	lostShare = 4
)

// Meter measures the directories from now on.
func (x *Dirs) Meter() *Meter { return &Meter{dirs: x} }

// Used is how much of limit the directories take, as Dirs.Used or at most a quarter of what is left
// more.
func (m *Meter) Used(limit int64) int64 {
	lost, known := m.lost()
	if known && !m.walked.IsZero() && time.Since(m.walked) < walkAnyway && lost <= (limit-m.used)/lostShare {
		return m.used
	}
	m.most = nil
	_, _ = m.lost() // before the walk: what is written during it counts again
	m.used, m.walked = m.dirs.Used(), time.Now()
	return m.used
}

// lost is how much less room there is than there was, in bytes of disk. A file system that does not count
// bytes and files does not say.
func (m *Meter) lost() (n int64, known bool) {
	places := []string{m.dirs.Base}
	for _, p := range m.dirs.Pools {
		places = append(places, p.Place)
	}
	if m.most == nil {
		m.most = map[string]room{}
	}
	for _, place := range places {
		var fs unix.Statfs_t
		if unix.Statfs(place, &fs) != nil || fs.Blocks == 0 || fs.Files == 0 {
			return 0, false
		}
		now := room{int64(fs.Bfree) * fs.Bsize, int64(fs.Ffree)}
		most, before := m.most[place]
		if !before {
			most = now
		}
		most = room{max(most.bytes, now.bytes), max(most.files, now.files)}
		m.most[place] = most
		n += most.bytes - now.bytes + (most.files-now.files)*sandboxprofile.InodeSize
	}
	return n, true
}
