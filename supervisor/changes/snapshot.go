package changes

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// A snapshot is what a workspace held when it was last looked at, directory by directory. A process that begins reads it
// before its first call: there is little to do for a directory, and nothing for each name but to read it.
type snapshot struct {
	top  *Entry // the workspace itself
	dirs map[string]*members
	size int // names
}

// members are the names in a directory, in order, and what each stands for.
type members struct {
	names   []string
	entries []Entry
}

func newSnapshot() *snapshot { return &snapshot{dirs: map[string]*members{"": {}}} }

// entry is what a name stands for.
func (t *snapshot) entry(name string) (e Entry, there bool) {
	if name == topName {
		if t.top == nil {
			return e, false
		}
		return *t.top, true
	}
	dir, base := cutName(name)
	return t.dirs[dir].entry(base)
}

func (m *members) entry(base string) (e Entry, there bool) {
	if m == nil {
		return e, false
	}
	i, there := slices.BinarySearch(m.names, base)
	if there {
		e = m.entries[i]
	}
	return e, there
}

func (m *members) len() int {
	if m == nil {
		return 0
	}
	return len(m.names)
}

// namesIn are those in a directory.
func (t *snapshot) namesIn(dir string) []string {
	if m := t.dirs[dir]; m != nil {
		return m.names
	}
	return nil
}

// all are the names, directory by directory.
func (t *snapshot) all() iter.Seq2[string, *Entry] {
	return func(yield func(string, *Entry) bool) {
		if t.top != nil && !yield(topName, t.top) {
			return
		}
		for dir, m := range t.dirs {
			for i, base := range m.names {
				if !yield(joinName(dir, base), &m.entries[i]) {
					return
				}
			}
		}
	}
}

// update takes over what has changed: nil is gone. It gives the directories in which nothing lies any more.
func (t *snapshot) update(changed map[string]*Entry) (none []string) {
	in := map[string][]string{}
	for name := range changed {
		if name != topName {
			dir, base := cutName(name)
			in[dir] = append(in[dir], base)
		} else if t.top = changed[name]; t.top != nil {
			t.top = new(*t.top)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(in)) { // a directory goes, or comes, before what lies in it
		bases := in[dir]
		slices.Sort(bases)
		in := func(base string) *Entry { return changed[joinName(dir, base)] }
		if t.dirs[dir] == nil && slices.ContainsFunc(bases, func(base string) bool { return in(base) != nil }) {
			t.dirs[dir] = &members{}
		}
		if m := t.dirs[dir]; m != nil {
			t.size += m.update(bases, in)
		}
		for _, base := range bases {
			name := joinName(dir, base)
			if e := changed[name]; e == nil || !t.mayHold(name, e) {
				if gone := t.dirs[name]; gone != nil {
					t.size -= gone.len()
					delete(t.dirs, name)
					none = append(none, name)
				}
			} else if t.dirs[name] == nil {
				t.dirs[name] = &members{}
			}
		}
	}
	return none
}

// mayHold reports whether something is known to lie in a name.
func (t *snapshot) mayHold(name string, e *Entry) bool {
	return e.IsDir() && !e.Cache && (e.Unkept == "" || t.dirs[name] != nil)
}

// update takes over what has changed in a directory, and gives how many names it has more. bases are in order.
func (m *members) update(bases []string, changed func(base string) *Entry) (more int) {
	was := m.len()
	if !slices.ContainsFunc(bases, func(base string) bool { // none comes or goes, as usual
		_, there := slices.BinarySearch(m.names, base)
		return there != (changed(base) != nil)
	}) {
		for _, base := range bases {
			if e := changed(base); e != nil {
				i, _ := slices.BinarySearch(m.names, base)
				m.entries[i] = *e
			}
		}
		return 0
	}
	names, entries := make([]string, 0, was+len(bases)), make([]Entry, 0, was+len(bases))
	for from := 0; ; {
		to := was
		if len(bases) > 0 {
			to, _ = slices.BinarySearch(m.names, bases[0])
		}
		names, entries = append(names, m.names[from:to]...), append(entries, m.entries[from:to]...)
		if from = to; len(bases) == 0 {
			break
		}
		if from < was && m.names[from] == bases[0] {
			from++
		}
		if e := changed(bases[0]); e != nil {
			names, entries = append(names, bases[0]), append(entries, *e)
		}
		bases = bases[1:]
	}
	m.names, m.entries = names, entries
	return len(names) - was
}

// cutName gives the directory that a name lies in, "" for the workspace itself.
func cutName(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

func joinName(dir, base string) string {
	if dir == "" {
		return base
	}
	return dir + "/" + base
}
