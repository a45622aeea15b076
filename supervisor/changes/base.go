package changes

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A base is the content of a root when a draft of it began. A file there now that differs from it,
// by its inode, its last change or a directory on the way to it, was put there since by somebody:
// a time alone does not reveal files that were moved.
type base struct {
	began int64 // ns; what was changed later than this may have changed again within the clock's tick
	names map[string]baseEntry
	// kept is what stands there by the draft's own doing: a keep of a part, or one that was
	// taken back. nil: it is gone.
	kept map[Name]*Entry
	// before are files with the content that they had when the draft began, of those that it changes: from a
	// look at a time when nobody had changed them yet.
	before map[Name]*Entry
	// merged are files of the draft's that were kept together with a person's changes, as they were in the draft
	// then.
	merged map[Name]*Entry
}

type baseEntry struct {
	mode  uint32
	ino   uint64
	ctime int64
}

// baseDir is a directory in the file of the base.
type baseDir struct {
	Path   string
	Names  []string
	Modes  []uint32
	Inodes []uint64
	Ctimes []int64
}

// Bounds of what a draft may lie over.
const (
	baseNames = 5_000_000
	baseTime  = 2 * time.Minute
)

// writeBase lists a root, and says what that is.
func (d *Draft) writeBase(root int) (st unix.Stat_t, err error) {
	fd, err := openRoot(d.Roots[root])
	if err != nil {
		return st, err
	}
	top := os.NewFile(uintptr(fd), d.Roots[root])
	if err := unix.Fstat(fd, &st); err != nil {
		top.Close()
		return st, err
	}
	f, err := os.OpenFile(d.part(root, "base"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		top.Close()
		return st, err
	}
	out := bufio.NewWriter(f)
	l := baseList{out: gob.NewEncoder(out), dev: uint64(st.Dev), until: time.Now().Add(baseTime)}                                //nolint:unconvert // int32 on darwin
	err = l.out.Encode(baseDir{"", []string{topName}, []uint32{uint32(st.Mode)}, []uint64{st.Ino}, []int64{stampOf(&st).Ctime}}) //nolint:unconvert // uint16 on darwin
	if err == nil {
		err = l.directory(top, "")
	} else {
		top.Close()
	}
	if d.Foreign == "" && l.foreign != "" {
		d.Foreign = filepath.Join(d.Roots[root], l.foreign)
	}
	return st, errors.Join(err, out.Flush(), f.Close())
}

type baseList struct {
	out   *gob.Encoder
	dev   uint64
	names int
	until time.Time
	// foreign is a name that this user may write, and that belongs to another user or group.
	foreign string
}

// isForeign reports whether calls may write a name that an overlay of this user's cannot make a copy of: its user
// namespace knows one user and one group.
func isForeign(dir int, base string, st *unix.Stat_t) bool {
	own := os.Geteuid()
	return own != 0 && uint32(st.Mode)&unix.S_IFMT != unix.S_IFLNK && //nolint:unconvert // uint16 on darwin
		(int(st.Gid) != os.Getegid() || int(st.Uid) != own) && unix.Faccessat(dir, base, unix.W_OK, 0) == nil
}

// directory lists what dir holds, and closes it. Directories that lie too deep, are closed or are of
// another file system are not listed: a look reports that, too, and nothing is kept there.
func (l *baseList) directory(dir *os.File, below string) error {
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch l.names += len(names); {
	case l.names > baseNames:
		return fmt.Errorf("%w: more than %d names", errBound, baseNames)
	case time.Now().After(l.until):
		return fmt.Errorf("%w: not done after %v", errBound, baseTime)
	}
	b := baseDir{Path: below}
	var dirs []string
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone meanwhile
		}
		if l.foreign == "" && isForeign(int(dir.Fd()), name, &st) {
			l.foreign = path.Join(below, name)
		}
		mode := uint32(st.Mode) //nolint:unconvert // uint16 on darwin
		b.Names, b.Modes = append(b.Names, name), append(b.Modes, mode)
		b.Inodes, b.Ctimes = append(b.Inodes, st.Ino), append(b.Ctimes, stampOf(&st).Ctime)
		if mode&unix.S_IFMT == unix.S_IFDIR && uint64(st.Dev) == l.dev { //nolint:unconvert // int32 on darwin
			dirs = append(dirs, name)
		}
	}
	if err := l.out.Encode(b); err != nil {
		return err
	}
	if strings.Count(below, "/") >= lookDepth {
		return nil
	}
	for _, name := range dirs {
		fd, err := openDirectory(int(dir.Fd()), name)
		if err != nil {
			continue
		}
		at := path.Join(below, name)
		if err := l.directory(os.NewFile(uintptr(fd), at), at); err != nil {
			return err
		}
	}
	return nil
}

// base reads what lay in a root under the names that in says.
func (d *Draft) base(root int, in func(name string) bool) (*base, error) {
	b := &base{began: d.Began.UnixNano(), names: map[string]baseEntry{}}
	f, err := os.Open(d.part(root, "base"))
	if err != nil {
		return nil, err // without it everything would seem to have come since
	}
	defer f.Close()
	file := gob.NewDecoder(bufio.NewReader(f))
	for {
		var dir baseDir
		if err := file.Decode(&dir); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		for i, name := range dir.Names {
			if name = path.Join(dir.Path, name); in(name) {
				b.names[name] = baseEntry{dir.Modes[i], dir.Inodes[i], dir.Ctimes[i]}
			}
		}
	}
	if b.kept, err = d.keptHere(root); err == nil {
		b.before, err = readEntries(d.beforeFile(root))
	}
	if err == nil {
		b.merged, err = readEntries(d.mergedFile(root))
	}
	return b, err
}

// origin is the common origin of the draft and the file that stands there now.
func (b *base) origin(name Name) *Entry {
	if e := b.merged[name]; e != nil {
		return e
	}
	return b.before[name]
}

func (d *Draft) mergedFile(root int) string { return d.part(root, "merged.json") }

func (d *Draft) beforeFile(root int) string { return d.part(root, "before.json") }

// noteBefore notes the files of a plan that nobody has changed since the draft began. Their contents are stored by
// then, and stay: who changes one later is not in the way of the draft where both change other lines.
func (d *Draft) noteBefore(root int, b *base, steps []Step) error {
	had := maps.Clone(b.before)
	for _, s := range steps {
		if s.Conflict == "" && s.left == nil && s.mergeable() {
			b.before[s.Path] = s.Now
		}
	}
	if maps.EqualFunc(had, b.before, func(a, b *Entry) bool { return *a == *b }) {
		return nil
	}
	return writeEntries(d.beforeFile(root), b.before)
}

// writeEntries writes a list: keys in JSON are text, and a name need not be.
func writeEntries(file string, names map[Name]*Entry) error {
	list := []treeLine{}
	for name, e := range names {
		list = append(list, treeLine{name, e})
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = replace(file, text)
	}
	return err
}

// mergeable reports whether a step puts one text in the place of another, or may.
func (s Step) mergeable() bool {
	for _, e := range []*Entry{s.Now, s.Was} {
		if e == nil || e.kind() != unix.S_IFREG || e.Unkept != "" || e.Size > maxMerged {
			return false
		}
	}
	return true
}

func (d *Draft) keptHereFile(root int) string { return d.part(root, "kept-names.json") }

func (d *Draft) keptHere(root int) (names map[Name]*Entry, err error) {
	return readEntries(d.keptHereFile(root))
}

func readEntries(file string) (names map[Name]*Entry, err error) {
	names = map[Name]*Entry{}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	var list []treeLine
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	for _, line := range list {
		names[line.Path] = line.Entry
	}
	return names, err
}

// noteKept notes what stands now where a keep, or what takes one back, has worked. A file that is put
// back after a person's change is theirs, as before.
func (d *Draft) noteKept(root int, p DraftPlan, back bool) error {
	names, err := d.keptHere(root)
	if err != nil {
		return err
	}
	merged, err := readEntries(d.mergedFile(root))
	if err != nil {
		return err
	}
	had, hadMerged := maps.Clone(names), maps.Clone(merged)
	for _, s := range p.Steps {
		e, there := p.w.tree.entry(string(s.Path))
		switch {
		case back && s.Conflict != "":
			continue
		case !there && s.Was == nil:
			names[s.Path] = nil
		case there && equal(&e, s.Was):
			names[s.Path] = &e
		default:
			continue
		}
		if delete(merged, s.Path); s.Merged {
			merged[s.Path] = s.Own
		}
	}
	if !maps.Equal(had, names) {
		err = writeEntries(d.keptHereFile(root), names)
	}
	if err == nil && !maps.Equal(hadMerged, merged) {
		err = writeEntries(d.mergedFile(root), merged)
	}
	if err != nil {
		return fmt.Errorf("draft %s: %w", d.ID, err)
	}
	return nil
}

// mode is that of a name; ok says whether the draft began with it.
func (b *base) mode(name string) (mode uint32, ok bool) {
	if e, said := b.kept[Name(name)]; said {
		if e == nil {
			return 0, false
		}
		return e.Mode, true
	}
	e, ok := b.names[name]
	return e.mode, ok
}

// since describes a change that somebody made at a name since the draft began, or is "". What
// lies in a directory is asked about by its own names.
func (b *base) since(name string, now *Entry) string {
	kept, said := b.kept[Name(name)]
	was, there := b.names[name]
	if said {
		there = kept != nil
	}
	switch {
	case now == nil && !there:
		return ""
	case now == nil:
		return "it was removed since"
	case !there:
		return "it was created since"
	case said && (now.Seen.Ino != kept.Seen.Ino || now.kind() != kept.kind()),
		!said && (now.Seen.Ino != was.ino || now.kind() != was.mode&unix.S_IFMT):
		return "something else was put there since"
	case now.IsDir():
		return ""
	case said && !equal(now, kept), !said && (now.Seen.Ctime != was.ctime || was.ctime+(grain(was.ctime)-clockTick).Nanoseconds() >= b.began):
		return "it was changed since"
	}
	return ""
}

// onTheWay describes a change since then to a directory that the name lies in.
func (b *base) onTheWay(name string, now *snapshot, known map[string]string) string {
	dir := path.Dir(name)
	if dir == "." {
		return ""
	}
	why, done := known[dir]
	if !done {
		if why = b.onTheWay(dir, now, known); why == "" {
			var there *Entry
			if e, ok := now.entry(dir); ok {
				there = &e
			}
			if why = b.since(dir, there); why != "" {
				why = fmt.Sprintf("of the directory %s: %s", dir, why)
			}
		}
		known[dir] = why
	}
	return why
}
