package dirwatch

// A name that comes can be a second name of a file that has been there for long (link(2)), and what is written by it is
// reported of no other. Only once a name is seen to be the only one of its file, and to have been that file's since it
// came, is it known to be no such name: if the file had another one, that has gone, which was reported.

// A place is a name in a watched directory.
type place struct {
	wd   int32
	name string
}

// step is how far a name has come that came as a new one.
type step uint8

const (
	created step = iota + 1
	moved        // once: a second time could be an exchange, whose two halves look alike
	checked      // it was the only name of its file
)

// arrivals follow the names that come, through what is reported of them.
type arrivals struct {
	at     map[place]step
	moving map[uint32]bool // cookies of names that have gone from where they came
	lost   bool            // one cannot be followed
}

// An event is what is reported of a name.
type event struct {
	wd                      int32
	cookie                  uint32
	name                    string
	came, went, left, taken bool // created, removed, moved from here, moved to here
	dir, gone               bool // it is a directory; the watch has ended
	known                   bool // inode is the file's, and 0 where its handle cannot be read
	inode                   uint64
}

func (a *arrivals) hear(e event) {
	at := place{e.wd, e.name}
	had := a.at[at]
	switch {
	case e.known && (e.came || e.taken) && !e.dir:
		a.lost = a.lost || e.inode == 0
	case e.known && !e.came:
	case e.came && e.dir: // nothing tells yet of what comes in it
		a.lost = true
	case e.came:
		a.lost = a.lost || had != 0
		a.at[at] = created
	case e.left && had == created:
		delete(a.at, at)
		a.moving[e.cookie] = true
	case e.left || e.went:
		a.lost = a.lost || had != 0
	case e.taken:
		a.lost = a.lost || had != 0
		if a.moving[e.cookie] {
			delete(a.moving, e.cookie)
			a.at[at] = moved
		}
	}
}

// secondNames reports whether one of the names that came may be a second name. only asks whether a name is the
// only one of its file, and again hears what has happened meanwhile.
func (a *arrivals) secondNames(only func(place) bool, again func()) bool {
	if a.lost || len(a.moving) > 0 {
		return true
	}
	if len(a.at) == 0 {
		return false
	}
	for at := range a.at {
		if !only(at) {
			return true
		}
		a.at[at] = checked
	}
	again()
	for _, s := range a.at {
		a.lost = a.lost || s != checked
	}
	return a.lost || len(a.moving) > 0
}
