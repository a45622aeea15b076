package changes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Where no overlay can be laid over a root, a draft works on a copy of it. What it says is then
// what differs from the stamps that the copy had when it was made.

// Bounds of a copy, beside that of its bytes.
const (
	copyNames = lookNames
	copyTime  = 2 * time.Minute
)

// ErrTooLarge means that a root is more than a draft copies.
var ErrTooLarge = errors.New("it is too large to be copied")

// A Copied says how much was copied.
type Copied struct {
	Names int
	Bytes int64 // but for what is shared with the workspace
}

// Place is where calls of the draft find a path: in the copy of its root, if that lies elsewhere.
func (d *Draft) Place(name string) string {
	for i, root := range d.Roots {
		if rest, below := strings.CutPrefix(name, root); d.Moved && below && (rest == "" || rest[0] == '/') {
			return d.copyOf(i) + rest
		}
	}
	return name
}

// Of is the other way round: what a path of the draft is called where it is kept.
func (d *Draft) Of(name string) string {
	for i, root := range d.Roots {
		if rest, below := strings.CutPrefix(name, d.copyOf(i)); d.Moved && below && (rest == "" || rest[0] == '/') {
			return root + rest
		}
	}
	return name
}

// copyOf is named like the root: programs call things after their directory.
func (d *Draft) copyOf(root int) string {
	return filepath.Join(d.part(root, "copy"), filepath.Base(d.Roots[root]))
}

// Copy has the draft work on copies of its roots, of what in says of their paths. They hold nothing
// else: files that are hidden from calls are not in a copy, whatever their names there, and nor is a
// file that has another name which is hidden, in a root or in one of the other directories. most
// bounds their size, in bytes; blocks shared with the workspace (reflinks) do not count.
func (d *Draft) Copy(in func(path string) bool, others []string, most int64) (c Copied, err error) {
	for i := range d.Roots {
		err = errors.Join(err, d.notOverlaid(i), removeDeep(d.part(i, "copy")))
	}
	if err != nil {
		return c, fmt.Errorf("draft %s: %w", d.ID, err)
	}
	hidden, err := hiddenFiles(append(slices.Clone(d.Roots), others...), in)
	if err != nil {
		return c, fmt.Errorf("draft %s: %w", d.ID, err)
	}
	for i := range d.Roots {
		if d.outOfReach(i) {
			continue
		}
		if err := d.copyRoot(i, in, hidden, most, &c); err != nil {
			return c, fmt.Errorf("draft %s: copy %s: %w", d.ID, d.Roots[i], err)
		}
	}
	tick := clockTick
	for i := range d.Roots {
		var st unix.Stat_t
		if unix.Lstat(d.copyOf(i), &st) == nil {
			tick = max(tick, grain(stampOf(&st).Ctime))
		}
	}
	time.Sleep(tick) // what is changed from here on has another time
	d.Copied = true
	return c, d.note(copiedFile)
}

// Move has calls find the copies where they lie.
func (d *Draft) Move() error {
	d.Moved = true
	return d.note(movedFile)
}

// Files that exist for a draft that is copied, and for one that is moved: its description
// has the lock of its holder, and stays the same file.
const copiedFile, movedFile = "copied", "moved"

func (d *Draft) note(file string) error {
	if err := os.WriteFile(filepath.Join(d.dir, file), nil, 0o600); err != nil {
		return fmt.Errorf("draft %s: %w", d.ID, err)
	}
	return nil
}

func (d *Draft) noted(file string) bool {
	_, err := os.Stat(filepath.Join(d.dir, file))
	return err == nil
}

// notOverlaid fails if calls have worked on an overlay: what they did is not in a copy, and
// would be lost with the draft.
func (d *Draft) notOverlaid(root int) error {
	l, err := os.ReadDir(d.part(root, "upper"))
	if err == nil && len(l) > 0 {
		err = errors.New("it has changes in it already, which are in an overlay")
	}
	return err
}

type inode struct{ dev, ino uint64 }

// hiddenFiles are the files with several names of which one, in the directories, is not in.
func hiddenFiles(dirs []string, in func(path string) bool) (map[inode]bool, error) {
	files, names, until := map[inode]bool{}, 0, time.Now().Add(copyTime)
	for _, dir := range dirs {
		var hidden string // the directory that hides all below it
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if names++; names > 2*copyNames || time.Now().After(until) {
				return fmt.Errorf("%w: to find files with a hidden name, more than %d names would have to be looked at, or longer than %v", ErrTooLarge, 2*copyNames, copyTime)
			}
			if err != nil {
				return nil //nolint:nilerr // gone, or closed to this user, and so to calls
			}
			below := hidden != "" && strings.HasPrefix(name, hidden+"/")
			switch {
			case !below && in(name):
			case e.IsDir():
				if !below {
					hidden = name
				}
			case e.Type().IsRegular():
				var st unix.Stat_t
				if unix.Lstat(name, &st) == nil && st.Nlink > 1 {
					files[inode{uint64(st.Dev), st.Ino}] = true //nolint:unconvert // int32 on darwin
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (d *Draft) copyRoot(i int, in func(path string) bool, hidden map[inode]bool, most int64, c *Copied) error {
	root, to := d.Roots[i], d.copyOf(i)
	fd, err := openRoot(root)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(fd), root)
	if err := os.MkdirAll(to, 0o700); err != nil {
		from.Close()
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = d.checkOpen(i, fd)
	}
	if err != nil {
		from.Close()
		return err
	}
	var disk unix.Statfs_t
	if unix.Statfs(to, &disk) == nil && disk.Blocks > 0 { // nobody's disk is filled
		most = min(most, c.Bytes+int64(disk.Bavail)*int64(disk.Bsize)/2) //nolint:gosec,unconvert // blocks of a disk
	}
	t, err := openDirectory(unix.AT_FDCWD, to)
	if err != nil {
		from.Close()
		return err
	}
	k := copying{in: func(name string) bool { return in(filepath.Join(root, name)) }, hidden: hidden, dev: uint64(st.Dev), most: most, until: time.Now().Add(copyTime), second: map[uint64]string{}, top: t, Copied: c} //nolint:unconvert // int32 on darwin
	err = k.directory(from, t, "")
	if err == nil {
		err = dress(unix.AT_FDCWD, to, &st)
	}
	_ = unix.Close(t)
	if err != nil {
		return err
	}
	u := newUpper(objects{}, -1) // no content is stored
	u.was = tree{}
	if err := u.read(to); err != nil {
		return err
	}
	_, err = writeTree(d.part(i, "copied"), u.found)
	return err
}

// copying goes by descriptors and follows no link: calls may change what it copies.
type copying struct {
	in     func(name string) bool
	hidden map[inode]bool
	dev    uint64
	most   int64
	until  time.Time
	top    int               // of the copy
	second map[uint64]string // inodes with several names, by the first
	*Copied
}

// directory copies what from holds, and closes that.
func (k *copying) directory(from *os.File, to int, below string) error {
	defer from.Close()
	if strings.Count(below, "/") >= lookDepth {
		return fmt.Errorf("%w: %s is nested too deep", ErrTooLarge, below)
	}
	names, err := from.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, base := range names {
		name := path.Join(below, base)
		var st unix.Stat_t
		if !k.in(name) || unix.Fstatat(int(from.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || uint64(st.Dev) != k.dev { //nolint:unconvert // int32 on darwin
			continue // hidden, gone, or of another file system
		}
		switch k.Names++; {
		case k.Names > copyNames:
			return fmt.Errorf("%w: it has more than %d names", ErrTooLarge, copyNames)
		case time.Now().After(k.until):
			return fmt.Errorf("%w: not done after %v", ErrTooLarge, copyTime)
		}
		err := k.name(int(from.Fd()), to, base, name, &st)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // gone, or closed to this user
			return err
		}
	}
	return nil
}

func (k *copying) name(from, to int, base, name string, st *unix.Stat_t) error {
	switch uint32(st.Mode) & unix.S_IFMT { //nolint:unconvert // uint16 on darwin
	case unix.S_IFDIR:
		fd, err := openDirectory(from, base)
		if err != nil {
			return err
		}
		at := os.NewFile(uintptr(fd), name)
		if err := unix.Mkdirat(to, base, 0o700); err != nil {
			at.Close()
			return err
		}
		below, err := openDirectory(to, base)
		if err != nil {
			at.Close()
			return err
		}
		err = k.directory(at, below, name)
		_ = unix.Close(below)
		if err != nil {
			return err
		}
	case unix.S_IFLNK:
		if err := unix.Symlinkat(readLink(from, base), to, base); err != nil {
			return err
		}
	case unix.S_IFREG:
		if first := k.second[st.Ino]; first != "" {
			return unix.Linkat(k.top, first, to, base, 0)
		}
		if err := k.file(from, to, base, name); err != nil {
			return err
		}
		if st.Nlink > 1 {
			k.second[st.Ino] = name
		}
	default:
		return nil // a device, a socket or a pipe: nothing that could be kept
	}
	return dress(to, base, st)
}

// dress gives a copy the owner, the permissions and the times of what it is of. Builds go by times.
func dress(dir int, base string, st *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		if err := unix.Fchownat(dir, base, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFLNK { //nolint:unconvert // uint16 on darwin
		keep := uint32(0o1777)
		if uint32(st.Mode)&unix.S_IFMT == unix.S_IFDIR { //nolint:unconvert // uint16 on darwin
			keep |= unix.S_ISGID // by which what is made in it has its group
		}
		if err := unix.Fchmodat(dir, base, uint32(st.Mode)&keep, 0); err != nil { //nolint:unconvert // uint16 on darwin
			return err
		}
	}
	return unix.UtimesNanoAt(dir, base, timesOf(st), unix.AT_SYMLINK_NOFOLLOW)
}

func (k *copying) file(from, to int, base, name string) error {
	fd, err := unix.Openat(from, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG || k.hidden[inode{uint64(st.Dev), st.Ino}] { //nolint:unconvert // uint16 on darwin
		return fs.ErrNotExist // something else by now, or hidden under another name
	}
	if fd, err = unix.Openat(to, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	defer out.Close()
	if shareBlocks(out, in) != nil {
		if err := k.data(out, in, st.Size); err != nil {
			return err
		}
	}
	_ = setAttributes(int(out.Fd()), attributesOf(int(in.Fd()))) // as the state directory can
	return nil
}

// data copies what a file holds, but for its holes.
func (k *copying) data(out, in *os.File, size int64) error {
	if err := out.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // a hole to its end
		}
		end := size
		if err != nil {
			from = at
		} else if hole, err := unix.Seek(int(in.Fd()), from, unix.SEEK_HOLE); err == nil {
			end = min(hole, size)
		}
		if k.Bytes += max(end-from, 0); k.Bytes > k.most {
			return fmt.Errorf("%w: a copy of it would take more than %d MiB", ErrTooLarge, k.most>>20)
		}
		if _, err := in.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, end-from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at = end
	}
	return nil
}

// readCopy says what calls have made of the copy of a root.
func (d *Draft) readCopy(root int, u *upper) error {
	if err := d.notOverlaid(root); err != nil {
		return err
	}
	file := d.part(root, "copied")
	if _, err := os.Stat(file); err != nil {
		return err // without it everything would seem to be new
	}
	var err error
	if u.was, err = readTree(file); err != nil {
		return err
	}
	u.left = maps.Clone(u.was)
	if err := u.read(d.copyOf(root)); err != nil {
		return err
	}
	for name := range u.left {
		u.found[name] = nil
	}
	return nil
}

// untouched reports whether an entry of a copy is unchanged since the copy was made. A disk can
// have another number after each start of the machine.
func (e Entry) untouched(now *Entry) bool {
	was := e.Seen
	was.Dev = now.Seen.Dev
	return e.Mode == now.Mode && (e.IsDir() || was.is(now.Seen))
}
