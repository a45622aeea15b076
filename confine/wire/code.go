package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// MaxFrame bounds the bytes of one frame, and MaxElements those of all its lists: an
// element that takes two bytes here can take fifty in memory.
const (
	MaxFrame    = 64 << 20
	MaxElements = 1 << 20
)

// Encode returns the frame's bytes: their number, in four, then the fields in the order
// of code.go's functions. Numbers are varints, text and lists have their length before
// them, and what may be missing says first whether it is there. An empty text or list is
// a missing one.
func Encode(f Frame) ([]byte, error) {
	c := coder{b: make([]byte, headSize, 512)}
	c.frame(&f)
	n := len(c.b) - headSize
	if c.err != nil {
		return nil, fmt.Errorf("wire: encode: %w", c.err)
	}
	if n > MaxFrame {
		return nil, fmt.Errorf("wire: frame of %d bytes, at most %d", n, MaxFrame)
	}
	binary.LittleEndian.PutUint32(c.b, uint32(n))
	return c.b, nil
}

// Decode reads one frame. It returns io.EOF only between frames.
func Decode(r io.Reader) (Frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("wire: frame of %d bytes, at most %d", n, MaxFrame)
	}
	c := coder{b: make([]byte, n), reading: true}
	if _, err := io.ReadFull(r, c.b); err != nil {
		return Frame{}, fmt.Errorf("wire: frame cut short: %w", err)
	}
	var f Frame
	c.frame(&f)
	if c.err == nil && len(c.b) > 0 {
		c.err = errors.New("bytes behind the end")
	}
	if c.err != nil {
		return Frame{}, fmt.Errorf("wire: decode: %w", c.err)
	}
	return f, nil
}

const headSize = 4

// A coder goes over the fields of a frame and appends each to b, or, reading, takes
// each from b. One function for both names each field once, so that the two ends of the
// conversation cannot differ in an order or a type. Content that was read is a part of
// the frame's bytes, not a copy.
type coder struct {
	b        []byte
	reading  bool
	elements int
	err      error // the first; what is read after it is zero
}

var errCut = errors.New("it ends within a field")

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

// bits is a number of any width, unsigned.
func bits[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.b)
	if n <= 0 || uint64(T(u)) != u {
		c.fail(errCut)
		return
	}
	*v, c.b = T(u), c.b[n:]
}

// number is one that may be below zero.
func number[T ~int | ~int64](c *coder, v *T) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, int64(*v))
		return
	}
	i, n := binary.Varint(c.b)
	if n <= 0 || int64(T(i)) != i {
		c.fail(errCut)
		return
	}
	*v, c.b = T(i), c.b[n:]
}

func (c *coder) flag(v *bool) {
	var bit uint8
	if *v {
		bit = 1
	}
	bits(c, &bit)
	if bit > 1 {
		c.fail(errors.New("neither true nor false"))
	}
	*v = bit == 1
}

func (c *coder) content(v *[]byte) {
	n := c.length(len(*v))
	if !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	if n > 0 {
		*v, c.b = c.b[:n:n], c.b[n:]
	}
}

func text[T ~string](c *coder, v *T) {
	n := c.length(len(*v))
	if !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	*v, c.b = T(c.b[:n]), c.b[n:]
}

// length is of a text or list. A length that is read is at most the number of bytes
// left: an element is at least a byte, so a frame cannot claim more than it brings.
func (c *coder) length(n int) int {
	u := uint64(n)
	bits(c, &u)
	if c.reading && u > uint64(len(c.b)) {
		c.fail(errCut)
		return 0
	}
	return int(u)
}

func list[T any](c *coder, v *[]T, each func(*coder, *T)) {
	n := c.length(len(*v))
	if c.elements += n; c.elements > MaxElements {
		c.fail(fmt.Errorf("more than %d elements", MaxElements))
		return
	}
	if c.reading && n > 0 {
		*v = make([]T, n)
	}
	for i := range n {
		each(c, &(*v)[i])
	}
}

func texts(c *coder, v *[]string) { list(c, v, text) }

// maybe is a part that may be missing.
func maybe[T any](c *coder, v **T, part func(*coder, *T)) {
	there := *v != nil
	c.flag(&there)
	if !there {
		return
	}
	if c.reading {
		*v = new(T)
	}
	part(c, *v)
}

func (c *coder) frame(f *Frame) {
	maybe(c, &f.Setup, (*coder).setup)
	maybe(c, &f.Run, (*coder).run)
	maybe(c, &f.Signal, func(c *coder, s *Signal) { number(c, &s.Number) })
	maybe(c, &f.Socket, func(c *coder, s *Socket) { bits(c, &s.ID); c.flag(&s.IPv6) })
	maybe(c, &f.Ready, func(*coder, *Ready) {})
	maybe(c, &f.Failed, func(c *coder, f *Failed) { text(c, &f.Step); text(c, &f.Error) })
	maybe(c, &f.Opened, func(*coder, *Opened) {})
	maybe(c, &f.Made, func(c *coder, m *Made) { bits(c, &m.ID); number(c, &m.Errno) })
	maybe(c, &f.Done, (*coder).done)
	maybe(c, &f.Keep, func(c *coder, k *Keep) {
		texts(c, &k.Protect)
		list(c, &k.Files, func(c *coder, f *FileID) { c.file(f) })
	})
	maybe(c, &f.Kept, func(*coder, *Kept) {})
	maybe(c, &f.Ask, func(c *coder, a *Ask) {
		bits(c, &a.ID)
		text(c, &a.Call)
		text(c, &a.Path)
		text(c, &a.Why)
		c.flag(&a.Content)
		number(c, &a.Flags)
		bits(c, &a.Mode)
	})
	maybe(c, &f.Answer, func(c *coder, a *Answer) { bits(c, &a.ID); c.flag(&a.Allow) })
	if c.err == nil && f.parts() != 1 {
		c.fail(errors.New("not exactly one part"))
	}
}

func (f *Frame) parts() int {
	n := 0
	for _, there := range [...]bool{f.Setup != nil, f.Run != nil, f.Signal != nil, f.Socket != nil, f.Keep != nil, f.Kept != nil, f.Ask != nil, f.Answer != nil,
		f.Ready != nil, f.Failed != nil, f.Opened != nil, f.Made != nil, f.Done != nil} {
		if there {
			n++
		}
	}
	return n
}

func (c *coder) setup(s *Setup) {
	c.landlock(&s.Landlock)
	c.content(&s.Seccomp)
	list(c, &s.Mounts, (*coder).mount)
	number(c, &s.EgressPort)
	c.flag(&s.Exposes)
	number(c, &s.Unbound)
	c.flag(&s.Loopback)
	c.flag(&s.First)
	c.flag(&s.Keyring)
	list(c, &s.Fleeting, (*coder).pool)
	texts(c, &s.Tmpfs)
	maybe(c, &s.Shared, (*coder).shared)
	bits(c, &s.Ceiling.Changing)
	bits(c, &s.Ceiling.Execute)
	list(c, &s.Ceiling.Writable, (*coder).rule)
	texts(c, &s.Ceiling.Homes)
	c.content(&s.Ceiling.Seccomp)
	c.flag(&s.Ceiling.Absent)
	c.flag(&s.Modes.Free)
	c.content(&s.Modes.Notify)
	c.content(&s.Modes.Refuse)
}

func (c *coder) shared(s *Shared) {
	list(c, &s.Own, (*coder).rule)
	c.content(&s.Seccomp)
	texts(c, &s.Private)
	c.flag(&s.Unconfined)
	maybe(c, &s.Broker, (*coder).broker)
}

func (c *coder) pool(p *Pool) { text(c, &p.Place); text(c, &p.Dir) }

func (c *coder) landlock(l *Landlock) {
	bits(c, &l.HandledFS)
	bits(c, &l.HandledNet)
	bits(c, &l.Scoped)
	list(c, &l.Rules, (*coder).rule)
}

func (c *coder) broker(b *Broker) {
	c.landlock(&b.Programs)
	c.content(&b.Base)
	list(c, &b.Paths, func(c *coder, g *Grant) { text(c, &g.Path); bits(c, &g.Rights) })
	texts(c, &b.Protect)
	texts(c, &b.Hide)
	list(c, &b.Kept, func(c *coder, f *FileID) { c.file(f) })
	texts(c, &b.Redirected)
	list(c, &b.Queue, func(c *coder, r *Range) { number(c, &r.Start); number(c, &r.Length) })
	maybe(c, &b.Network, func(c *coder, n *Network) {
		text(c, &n.Own)
		c.content(&n.Key)
		text(c, &n.Proxy)
		bits(c, &n.ProxyPort)
		texts(c, &n.Listed)
		text(c, &n.Sockets)
	})
	list(c, &b.Pools, (*coder).pool)
	c.flag(&b.WritesMemory)
}

func (c *coder) rule(r *LandlockRule) {
	text(c, &r.Path)
	bits(c, &r.Access)
	c.file(&r.File)
}

func (c *coder) file(f *FileID) {
	bits(c, &f.Dev)
	bits(c, &f.Ino)
}

func (c *coder) mount(m *Mount) {
	text(c, &m.Path)
	text(c, &m.Kind)
	c.file(&m.Dir)
	c.file(&m.File)
	text(c, &m.Around)
	c.flag(&m.ReadOnly)
}

func (c *coder) run(r *Run) {
	text(c, &r.Action.Kind)
	maybe(c, &r.Action.Exec, (*coder).program)
	maybe(c, &r.Action.File, (*coder).operation)
	maybe(c, &r.Action.Ceiling, (*coder).ceiling)
	c.flag(&r.Held)
	text(c, &r.Temporary)
	number(c, &r.Limits.CPUSeconds)
	number(c, &r.Limits.Processes)
	number(c, &r.Limits.FileSize)
	number(c, &r.Limits.OpenFiles)
	number(c, &r.Totals.Processes)
	number(c, &r.Totals.Memory)
	number(c, &r.Totals.CPU)
	c.flag(&r.Totals.Kernel)
	c.flag(&r.Changes)
	c.flag(&r.Refusals)
}

func (c *coder) ceiling(l *sandboxprofile.Ceiling) {
	bits(c, &l.Class)
	c.flag(&l.AnyProgram)
	texts(c, &l.Programs)
	texts(c, &l.Withheld)
	c.flag(&l.EmptyHome)
}

// program leaves out Stdin and Secrets: the confiner hands those over as descriptors.
func (c *coder) program(p *sandboxprofile.Program) {
	text(c, &p.Path)
	texts(c, &p.Argv)
	text(c, &p.Dir)
	texts(c, &p.Env)
	maybe(c, &p.Terminal, func(c *coder, t *sandboxprofile.Terminal) { bits(c, &t.Rows); bits(c, &t.Columns); bits(c, &t.Apart) })
}

func (c *coder) operation(o *sandboxprofile.Operation) {
	text(c, &o.Path)
	c.content(&o.Content)
	number(c, &o.MaxBytes)
	number(c, &o.FirstLine)
	number(c, &o.Lines)
	text(c, &o.Encoding)
	c.flag(&o.MakeParents)
	text(c, &o.SHA256)
	list(c, &o.Edits, (*coder).edit)
	maybe(c, &o.Base, (*coder).base)
	maybe(c, &o.Search, (*coder).search)
}

func (c *coder) edit(e *sandboxprofile.Edit) {
	text(c, &e.Old)
	text(c, &e.New)
	number(c, &e.Count)
	c.flag(&e.All)
}

func (c *coder) base(b *sandboxprofile.Base) {
	bits(c, &b.Device)
	bits(c, &b.Inode)
	number(c, &b.Size)
	number(c, &b.ModTime)
	number(c, &b.ChangeTime)
	bits(c, &b.Mode)
}

func (c *coder) search(s *sandboxprofile.Search) {
	text(c, &s.Prefix)
	text(c, &s.Glob)
	text(c, &s.Pattern)
	c.flag(&s.FilesOnly)
	number(c, &s.Before)
	number(c, &s.After)
	number(c, &s.Depth)
	c.flag(&s.Ignored)
	number(c, &s.Limit)
	number(c, &s.Within)
	text(c, &s.Root)
	texts(c, &s.Hide)
	texts(c, &s.Exclude)
	texts(c, &s.Suffixes)
}

func (c *coder) done(d *Done) {
	number(c, &d.Errno)
	text(c, &d.Op)
	number(c, &d.Status)
	number(c, &d.Duration)
	text(c, &d.Exceeded)
	list(c, &d.Refused, func(c *coder, r *Refusal) { text(c, &r.Call); text(c, &r.Path); text(c, &r.Why) })
	number(c, &d.RefusedMore)
	text(c, &d.Fault)
	c.flag(&d.Spoiled)
	texts(c, &d.Gone)
	c.content(&d.Content)
	number(c, &d.Size)
	bits(c, &d.Mode)
	c.flag(&d.Truncated)
	c.flag(&d.Created)
	text(c, &d.SHA256)
	number(c, &d.Replaced)
	maybe(c, &d.Edit, (*coder).editError)
	maybe(c, &d.Found, (*coder).findings)
}

func (c *coder) editError(e *sandboxprofile.EditError) {
	number(c, &e.Edit)
	number(c, &e.Edits)
	number(c, &e.Found)
	number(c, &e.Want)
	c.flag(&e.Overlap)
	c.flag(&e.CRLF)
	c.flag(&e.TooLarge)
}

func (c *coder) findings(f *sandboxprofile.Findings) {
	list(c, &f.Entries, func(c *coder, e *sandboxprofile.Entry) { text(c, &e.Path); text(c, &e.Type); number(c, &e.Size) })
	list(c, &f.Lines, func(c *coder, l *sandboxprofile.Line) {
		text(c, &l.Path)
		number(c, &l.Number)
		text(c, &l.Text)
		c.flag(&l.Context)
	})
	number(c, &f.Matches)
	number(c, &f.Files)
	number(c, &f.Binary)
	number(c, &f.Ignored)
	list(c, &f.Skipped, func(c *coder, s *sandboxprofile.Skipped) { text(c, &s.Path); text(c, &s.Reason) })
	number(c, &f.SkippedCount)
	text(c, &f.Stopped)
}
