package changes

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unsafe"
)

// A tree lies in a file of frames: what each look has found is one. A process that begins reads all
// of it before the first call, so there is as little to be done for a name as can be.
//
//	length of what follows the sum, CRC-32 of that (4 bytes each, big-endian); then for each name
//	name, signs, and if it is there: mode, owner, size, dev, ino, mtime, ctime, hash, link, attributes, unkept
//
// A frame that a kill or a full disk cut off says nothing, as all that lies behind it: what it was
// about is looked at again. The next one takes its place.

const (
	frameHead = 8
	frameSize = 64 << 20 // from which on another one is begun
)

// Signs of an entry.
const (
	isThere = 1 << iota // else the name is gone
	hasCache
	isRacy
	isListed
)

func appendEntry(b []byte, name string, e *Entry) []byte {
	b = appendText(b, name)
	if e == nil {
		return append(b, 0)
	}
	signs := byte(isThere)
	if e.Cache {
		signs |= hasCache
	}
	if e.Seen.Racy {
		signs |= isRacy
	}
	if e.Listed {
		signs |= isListed
	}
	b = append(b, signs)
	for _, n := range []uint64{uint64(e.Mode), uint64(e.Owner), uint64(e.Size), e.Seen.Dev, e.Seen.Ino, uint64(e.Seen.Mtime), uint64(e.Seen.Ctime)} { //nolint:gosec // readEntry takes them back
		b = binary.AppendUvarint(b, n)
	}
	for _, text := range []string{e.Hash, string(e.Link), e.Attributes, e.Unkept} {
		b = appendText(b, text)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// A frameReader takes a frame apart. Its strings are parts of the file's: none is made for each name.
type frameReader struct {
	b    []byte
	text string // the same
	bad  bool
}

func (r *frameReader) skip(n int) {
	if r.bad = r.bad || n <= 0 || n > len(r.b); !r.bad {
		r.b, r.text = r.b[n:], r.text[n:]
	}
}

func (r *frameReader) number() uint64 {
	n, length := binary.Uvarint(r.b)
	r.skip(length)
	return n
}

func (r *frameReader) string() (s string) {
	n := r.number()
	if r.bad = r.bad || n > uint64(len(r.b)); r.bad || n == 0 {
		return ""
	}
	s = r.text[:n]
	r.skip(int(n)) //nolint:gosec // no more than there is
	return s
}

func (r *frameReader) entry(e *Entry) (name string, there bool) {
	name = r.string()
	signs := r.number()
	if signs&isThere == 0 {
		return name, false
	}
	e.Cache, e.Seen.Racy, e.Listed = signs&hasCache != 0, signs&isRacy != 0, signs&isListed != 0
	e.Mode, e.Owner, e.Size = uint32(r.number()), owner(r.number()), int64(r.number()) //nolint:gosec // as appendEntry has written them
	e.Seen.Dev, e.Seen.Ino = r.number(), r.number()
	e.Seen.Mtime, e.Seen.Ctime = int64(r.number()), int64(r.number()) //nolint:gosec // as appendEntry has written them
	e.Hash, e.Link, e.Attributes, e.Unkept = r.string(), Name(r.string()), r.string(), r.string()
	return name, true
}

// readFrames reads a file back, entry by entry: a later one of the same name takes the place of an earlier one. It gives
// how long the file is, and where its last whole frame ends.
func readFrames(file string, length func(int), each func(name string, e *Entry, there bool)) (end int64, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	length(len(b))
	var e Entry                                                // one for all: each takes a copy of what it keeps
	for all := unsafe.String(unsafe.SliceData(b), len(b)); ; { //nolint:gosec // nobody writes to b
		rest := b[end:]
		if len(rest) < frameHead {
			return end, nil
		}
		size := int64(binary.BigEndian.Uint32(rest))
		if size > int64(len(rest))-frameHead || crc32.ChecksumIEEE(rest[frameHead:frameHead+size]) != binary.BigEndian.Uint32(rest[4:]) {
			return end, nil
		}
		from, to := end+frameHead, end+frameHead+size
		for r := (frameReader{b: b[from:to], text: all[from:to]}); len(r.b) > 0; {
			e = Entry{}
			name, there := r.entry(&e)
			if r.bad {
				return 0, fmt.Errorf("%s: the entry after %d bytes cannot be read", file, from)
			}
			each(name, &e, there)
		}
		end = to
	}
}

// readTree reads a tree back.
func readTree(file string) (t tree, err error) {
	t = tree{}
	_, err = readFrames(file, func(int) {}, func(name string, e *Entry, there bool) {
		if delete(t, name); there {
			t[name] = *e
		}
	})
	return t, err
}

// readSnapshot reads a snapshot back. It gives how many entries of the file are not in order, and where its last whole
// frame ends.
func readSnapshot(file string) (t *snapshot, late int, end int64, err error) {
	t = newSnapshot()
	var names []string // of all directories, in order: none of them is copied
	var entries []Entry
	changed := map[string]*Entry{}
	in, dir, from := t.dirs[""], "", 0
	leave := func() {
		if to := len(names); len(in.names) == 0 {
			in.names, in.entries = names[from:to:to], entries[from:to:to]
		} else {
			in.names, in.entries = append(in.names, names[from:]...), append(in.entries, entries[from:]...)
		}
		t.size += len(names) - from
	}
	enter := func(name string) {
		leave()
		if in = t.dirs[name]; in == nil {
			in = &members{}
			t.dirs[name] = in
		}
		dir, from = name, len(names)
	}
	last := func() string {
		switch {
		case len(names) > from:
			return names[len(names)-1]
		case len(in.names) > 0:
			return in.names[len(in.names)-1]
		}
		return ""
	}
	end, err = readFrames(file, func(bytes int) {
		names, entries = make([]string, 0, bytes/100), make([]Entry, 0, bytes/100) // 110 are usual for a name
	}, func(name string, e *Entry, there bool) {
		if name == topName && there && len(changed) == 0 {
			t.top = new(*e)
			return
		}
		below, base := cutName(name)
		if there && len(changed) == 0 && below != dir {
			enter(below)
		}
		if !there || len(changed) > 0 || base <= last() {
			late++
			if changed[name] = nil; there {
				changed[name] = new(*e)
			}
			return
		}
		names, entries = append(names, base), append(entries, *e)
		if t.mayHold(name, e) && t.dirs[name] == nil {
			t.dirs[name] = &members{}
		}
	})
	leave()
	t.update(changed)
	return t, late, end, err
}

// appendTree adds what has changed, so that a call that changes 20 files writes 20 entries. It writes at the
// end of the last whole frame, and says where the file ends then.
func appendTree(file string, end int64, changed map[string]*Entry) (int64, error) {
	return appendFrames(file, end, len(changed), inOrder(changed))
}

// writeTree replaces the file by these entries alone.
func writeTree(file string, changed map[string]*Entry) (end int64, err error) {
	return writeFrames(file, len(changed), inOrder(changed))
}

// inOrder gives entries directory by directory, each after the one that it lies in.
func inOrder(changed map[string]*Entry) func(add func(name string, e *Entry)) {
	return func(add func(name string, e *Entry)) {
		names := slices.Collect(maps.Keys(changed))
		slices.SortFunc(names, func(a, b string) int {
			dirA, baseA := cutName(a)
			dirB, baseB := cutName(b)
			return cmp.Or(strings.Compare(dirA, dirB), strings.Compare(baseA, baseB))
		})
		for _, name := range names {
			add(name, changed[name])
		}
	}
}

func writeFrames(file string, about int, entries func(add func(name string, e *Entry))) (end int64, err error) {
	tmp := file + ".new"
	if end, err = appendFrames(tmp, 0, about, entries); err != nil {
		return 0, err
	}
	return end, os.Rename(tmp, file)
}

func appendFrames(file string, end int64, about int, entries func(add func(name string, e *Entry))) (int64, error) {
	b, began := make([]byte, frameHead, frameHead+150*about), 0
	seal := func() {
		binary.BigEndian.PutUint32(b[began:], uint32(len(b)-began-frameHead)) //nolint:gosec // about frameSize
		binary.BigEndian.PutUint32(b[began+4:], crc32.ChecksumIEEE(b[began+frameHead:]))
	}
	entries(func(name string, e *Entry) {
		if len(b)-began > frameSize {
			seal()
			began, b = len(b), append(b, make([]byte, frameHead)...)
		}
		b = appendEntry(b, name, e)
	})
	seal()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return end, err
	}
	if err = f.Truncate(end); err == nil {
		_, err = f.WriteAt(b, end)
	}
	return end + int64(len(b)), errors.Join(err, f.Close())
}

// writeSnapshot replaces the file by the snapshot alone.
func writeSnapshot(file string, t *snapshot) (end int64, err error) {
	return writeFrames(file, t.size, func(add func(name string, e *Entry)) {
		if t.top != nil {
			add(topName, t.top)
		}
		for _, dir := range slices.Sorted(maps.Keys(t.dirs)) {
			m := t.dirs[dir]
			for i, base := range m.names {
				add(joinName(dir, base), &m.entries[i])
			}
		}
	})
}
