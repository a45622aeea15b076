package changes

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// packs hold small contents, many in one file: to make a file costs far more than to write
// one, most of all where many were removed a moment ago. A process adds only to packs
// that no other one adds to (flock(2)). Of each pack there are two files:
//
//	NAME      the contents, one behind the other
//	NAME.idx  for each: its SHA-256, and where it begins and ends, once it is whole in NAME
//
// Additions and removals need the workspace's lock; reads do not.
type packs struct {
	dir string

	mu         sync.Mutex
	known      *sums
	read       map[string]int64 // of each index, how far
	unread     bool             // no index was read since it was fresh
	generation string           // of what is known: another one stands there once something was removed
	out        *pack
}

type extent struct {
	pack   string
	at, to int64
}

// A pack is one that this process adds to.
type pack struct {
	name          string
	content, list *os.File
	size          int64
}

const (
	maxPacked = 64 << 10 // compressed; a larger content is a file
	packSize  = 16 << 20 // from which on another one is begun
	indexLine = sha256.Size + 16
)

func (p *packs) path(name string) string { return filepath.Join(p.dir, name) }

// fresh has what another process removed not taken for there. Who adds calls it first.
func (p *packs) fresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, _ := os.ReadFile(p.path("generation"))
	if p.known != nil && string(now) == p.generation {
		return
	}
	p.forget(string(now))
	p.unread = true // many calls change nothing, and ask for none
}

func (p *packs) forget(generation string) {
	p.close()
	p.known, p.read, p.generation = newSums(), map[string]int64{}, generation
}

func (p *packs) close() {
	if p.out != nil {
		p.out.content.Close()
		p.out.list.Close()
		p.out = nil
	}
}

// learn reads what was added to indexes.
func (p *packs) learn() {
	if p.known == nil {
		p.forget("")
	}
	p.unread = false
	for _, name := range p.names() {
		lines := p.lines(name, p.read[name])
		p.read[name] += int64(len(lines))
		p.known.add(name, lines)
	}
}

func (p *packs) learnOnce() {
	if p.unread {
		p.learn()
	}
}

type indexed struct {
	sum [sha256.Size]byte
	extent
}

// index gives the lines of an index from an offset on. One that a kill cut off says nothing.
func (p *packs) index(name string, from int64) iter.Seq[indexed] {
	return func(yield func(indexed) bool) {
		for b := p.lines(name, from); len(b) > 0; b = b[indexLine:] {
			l := indexed{extent: extent{name, int64(binary.BigEndian.Uint64(b[sha256.Size:])), int64(binary.BigEndian.Uint64(b[sha256.Size+8:]))}} //nolint:gosec // written below
			copy(l.sum[:], b)
			if !yield(l) {
				return
			}
		}
	}
}

// lines are those of an index from an offset on, as they are in it.
func (p *packs) lines(name string, from int64) []byte {
	f, err := os.Open(p.path(name + ".idx"))
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < from+indexLine {
		return nil
	}
	b := make([]byte, info.Size()-from, info.Size()-from+64*indexLine) // with room for what a call adds
	n, _ := f.ReadAt(b, from)
	return b[:n/indexLine*indexLine]
}

// names are those of all packs, the oldest first.
func (p *packs) names() (l []string) {
	files, _ := os.ReadDir(p.dir)
	for _, f := range files {
		if name, is := strings.CutSuffix(f.Name(), ".idx"); is {
			l = append(l, name)
		}
	}
	return l
}

// has reports whether the content is there.
func (p *packs) has(sum [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnOnce()
	_, known := p.known.get(sum)
	return known
}

// lose has a content taken for not there, which is damaged.
func (p *packs) lose(sum [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnOnce()
	p.known.lose(sum)
}

// hears takes note of what other processes have added.
func (p *packs) hears() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learn()
}

// put adds a content, and gives how many bytes that took.
func (p *packs) put(sum [sha256.Size]byte, packed []byte) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnOnce()
	if p.out == nil || p.out.size >= packSize {
		if err := p.begin(); err != nil {
			return 0, err
		}
	}
	return p.add(sum, packed)
}

// begin goes on in the last pack if no other process adds to it, or makes one.
func (p *packs) begin() error {
	p.close()
	if names := p.names(); len(names) > 0 && p.open(names[len(names)-1], 0) == nil {
		if info, err := p.out.list.Stat(); err == nil && info.Size()%indexLine == 0 && p.out.size < packSize {
			return nil
		}
		p.close()
	}
	return p.create()
}

func (p *packs) create() error {
	return p.open(time.Now().UTC().Format("20060102T150405.000000000")+"-"+rand.Text(), os.O_CREATE|os.O_EXCL)
}

func (p *packs) open(name string, flags int) error {
	content, err := os.OpenFile(p.path(name), os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	list, err := os.OpenFile(p.path(name+".idx"), os.O_WRONLY|os.O_APPEND|flags, 0o600)
	if err != nil {
		return errors.Join(err, content.Close())
	}
	p.out = &pack{name: name, content: content, list: list}
	info, err := content.Stat()
	if err = errors.Join(err, unix.Flock(int(list.Fd()), unix.LOCK_EX|unix.LOCK_NB)); err != nil {
		p.close()
		return err
	}
	p.out.size = info.Size()
	return nil
}

// add writes the content before the line that announces it. After an error, as of a full
// disk, nothing more is added to the pack: where its files end is not known.
func (p *packs) add(sum [sha256.Size]byte, packed []byte) (int64, error) {
	o, e := p.out, extent{p.out.name, p.out.size, p.out.size + int64(len(packed))}
	line := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(bytes.Clone(sum[:]), uint64(e.at)), uint64(e.to)) //nolint:gosec // sizes
	_, err := o.content.WriteAt(packed, e.at)
	if err == nil {
		_, err = o.list.Write(line)
	}
	if err != nil {
		p.close()
		return 0, err
	}
	o.size = e.to
	p.known.add(o.name, line)
	p.read[o.name] += indexLine
	return e.to - e.at + indexLine, nil
}

// get reads a content. What another process added or moved meanwhile is looked for again.
func (p *packs) get(sum [sha256.Size]byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnOnce()
	b, err := p.fetch(sum)
	if errors.Is(err, fs.ErrNotExist) {
		p.learn()
		b, err = p.fetch(sum)
	}
	return b, err
}

func (p *packs) fetch(sum [sha256.Size]byte) ([]byte, error) {
	e, known := p.known.get(sum)
	if !known {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(p.path(e.pack))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || e.at < 0 || e.to < e.at || e.to > info.Size() {
		return nil, errors.Join(err, fmt.Errorf("the index of %s is damaged", e.pack))
	}
	b := make([]byte, e.to-e.at)
	_, err = f.ReadAt(b, e.at)
	return b, err
}

// take is how many bytes contents take.
func (p *packs) take(is func(sum [sha256.Size]byte) bool) (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learn()
	for sum, e := range p.known.all() {
		if is(sum) {
			n += e.to - e.at
		}
	}
	return n
}

// sweep removes what is not in use. A pack of which most is in use stays as it is, unless
// all is to go that can.
func (p *packs) sweep(inUse func(sum [sha256.Size]byte) bool, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	generation := rand.Text()
	if os.WriteFile(p.path("generation"), []byte(generation), 0o600) != nil {
		return // others would take for there what is not
	}
	p.forget(generation)
	for _, name := range p.names() {
		var live []indexed
		var used, sum int64
		for l := range p.index(name, 0) {
			if sum += l.to - l.at; inUse(l.sum) {
				live, used = append(live, l), used+l.to-l.at
			}
		}
		if used > 0 && (used == sum || !all && sum-used < sum/8) || len(live) > 0 && p.move(live) != nil {
			continue
		}
		_ = os.Remove(p.path(name + ".idx")) // first: it says what is there
		_ = os.Remove(p.path(name))
	}
	p.orphans()
	p.forget(generation)
	p.learn()
}

// orphans are packs that were killed before they had an index.
func (p *packs) orphans() {
	names := p.names()
	files, _ := os.ReadDir(p.dir)
	for _, f := range files {
		if name := f.Name(); name != "generation" && !strings.HasSuffix(name, ".idx") && !slices.Contains(names, name) {
			_ = os.Remove(p.path(name))
		}
	}
}

// move writes contents to a pack of their own.
func (p *packs) move(live []indexed) error {
	from, err := os.Open(p.path(live[0].pack))
	if err != nil {
		return err
	}
	defer from.Close()
	if err := p.create(); err != nil {
		return err
	}
	defer p.close()
	for _, l := range live {
		b := make([]byte, l.to-l.at)
		if _, err = from.ReadAt(b, l.at); err == nil {
			_, err = p.add(l.sum, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
