package changes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
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

func (r *frameReader) entry() (name string, e Entry, there bool) {
	name = r.string()
	signs := r.number()
	if signs&isThere == 0 {
		return name, e, false
	}
	e.Cache, e.Seen.Racy = signs&hasCache != 0, signs&isRacy != 0
	e.Mode, e.Owner, e.Size = uint32(r.number()), owner(r.number()), int64(r.number()) //nolint:gosec // as appendEntry has written them
	e.Seen.Dev, e.Seen.Ino = r.number(), r.number()
	e.Seen.Mtime, e.Seen.Ctime = int64(r.number()), int64(r.number()) //nolint:gosec // as appendEntry has written them
	e.Hash, e.Link, e.Attributes, e.Unkept = r.string(), Name(r.string()), r.string(), r.string()
	return name, e, true
}

// readTree reads a tree back. It gives how many entries the file has, those that others took the
// place of with them, and where its last whole frame ends.
func readTree(file string) (t tree, entries int, end int64, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return tree{}, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, err
	}
	t = make(tree, len(b)/100)                                 // 110 bytes are usual: one that grows costs as much again
	for all := unsafe.String(unsafe.SliceData(b), len(b)); ; { //nolint:gosec // nobody writes to b
		rest := b[end:]
		if len(rest) < frameHead {
			return t, entries, end, nil
		}
		size := int64(binary.BigEndian.Uint32(rest))
		if size > int64(len(rest))-frameHead || crc32.ChecksumIEEE(rest[frameHead:frameHead+size]) != binary.BigEndian.Uint32(rest[4:]) {
			return t, entries, end, nil
		}
		from, to := end+frameHead, end+frameHead+size
		for r := (frameReader{b: b[from:to], text: all[from:to]}); len(r.b) > 0; entries++ {
			name, e, there := r.entry()
			if r.bad {
				return nil, 0, 0, fmt.Errorf("%s: the entry after %d bytes cannot be read", file, from)
			}
			if there {
				t[name] = e
			} else {
				delete(t, name)
			}
		}
		end = to
	}
}

// appendTree adds what has changed, so that a call that changes 20 files writes 20 entries. It writes at the
// end of the last whole frame, and says where the file ends then.
func appendTree(file string, end int64, changed map[string]*Entry) (int64, error) {
	b, began := make([]byte, frameHead, frameHead+150*len(changed)), 0
	seal := func() {
		binary.BigEndian.PutUint32(b[began:], uint32(len(b)-began-frameHead)) //nolint:gosec // about frameSize
		binary.BigEndian.PutUint32(b[began+4:], crc32.ChecksumIEEE(b[began+frameHead:]))
	}
	for name, e := range changed {
		if len(b)-began > frameSize {
			seal()
			began, b = len(b), append(b, make([]byte, frameHead)...)
		}
		b = appendEntry(b, name, e)
	}
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

// writeTree replaces the file by the tree alone.
func writeTree(file string, t tree) (end int64, err error) {
	all := make(map[string]*Entry, len(t))
	for name, e := range t {
		all[name] = &e
	}
	tmp := file + ".new"
	if end, err = appendTree(tmp, 0, all); err != nil {
		return 0, err
	}
	return end, os.Rename(tmp, file)
}
