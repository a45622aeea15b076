package outcome

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol"
)

// headTail is the output of a program, within a limit: all of it, or if it is longer
// the beginning, which says what went wrong first, and the end, which has the outcome.
// What lies between is dropped and counted.
type headTail struct {
	headRoom int64 // bytes of the beginning that may still come
	tailRoom int64 // bytes of the end that are kept at most
	head     []piece
	tail     []piece  // of at most maxTailPiece bytes each
	spare    [][]byte // memory of tail that is free, of about maxTailPiece bytes each
	tailSize int64
	total    int64 // bytes written to both streams
	written  perStream
}

// A piece came from one stream before the other one took its turn.
type piece struct {
	stream protocol.Stream
	data   []byte
}

// perStream counts bytes by the stream.
type perStream map[protocol.Stream]int64

func (n perStream) sum() (all int64) {
	for _, bytes := range n {
		all += bytes
	}
	return all
}

// minus is the rest without the bytes of some pieces.
func (n perStream) minus(lists ...[]piece) perStream {
	left := maps.Clone(n)
	for _, p := range slices.Concat(lists...) {
		left[p.stream] -= int64(len(p.data))
	}
	return left
}

const (
	// maxEnd bounds the end that is kept, in bytes.
	maxEnd = 64 << 10
	// maxTailPiece bounds what is dropped from memory at once.
	maxTailPiece = 4 << 10
	// maxPieces bounds how often the streams may take turns. A program that writes one
	// byte to each in turn would make a thousand times as much of it here.
	maxPieces = 4096
)

func newHeadTail(limit int64) headTail {
	end := min(limit/4, maxEnd)
	return headTail{headRoom: limit - end, tailRoom: end, written: perStream{}}
}

func (k *headTail) add(s protocol.Stream, p []byte) {
	k.total += int64(len(p))
	k.written[s] += int64(len(p))
	n := min(int64(len(p)), k.headRoom)
	k.headRoom -= n
	k.makeRoom(s, int(n))
	k.head = appendPiece(k.head, s, p[:n])
	k.addTail(s, p[n:])
}

// makeRoom makes the last piece of the head four times as long, if n more bytes of its
// stream do not fit, and not longer than the head may still be: append alone would copy
// a long one many times over.
func (k *headTail) makeRoom(s protocol.Stream, n int) {
	if i := len(k.head) - 1; i >= 0 && k.head[i].stream == s {
		if d := k.head[i].data; cap(d)-len(d) < n {
			k.head[i].data = slices.Grow(d, n+int(min(3*int64(len(d)), k.headRoom)))
		}
	}
}

func (k *headTail) addTail(s protocol.Stream, p []byte) {
	if int64(len(p)) >= k.tailRoom {
		p = p[int64(len(p))-k.tailRoom:]
		k.dropTail()
	}
	for part := range slices.Chunk(p, maxTailPiece) {
		k.tailSize += int64(len(part))
		if n := len(k.tail); n > 0 && k.tail[n-1].stream == s && len(k.tail[n-1].data)+len(part) <= maxTailPiece {
			k.tail[n-1].data = append(k.tail[n-1].data, part...)
			continue
		}
		k.tail = append(k.tail, piece{s, append(k.free(), part...)})
	}
	for k.tailSize > k.tailRoom {
		first := &k.tail[0]
		n := min(int64(len(first.data)), k.tailSize-k.tailRoom)
		first.data, k.tailSize = first.data[n:], k.tailSize-n
		if len(first.data) == 0 {
			first.data, k.tail = nil, k.tail[1:]
		}
	}
}

// dropTail empties the tail. Of a program that writes much, that is done again and
// again: the memory is kept.
func (k *headTail) dropTail() {
	for _, p := range k.tail {
		if cap(p.data) >= maxTailPiece/2 {
			k.spare = append(k.spare, p.data[:0])
		}
	}
	clear(k.tail)
	k.tail, k.tailSize = k.tail[:0], 0
}

// free is memory for a piece of the tail, or nil.
func (k *headTail) free() []byte {
	n := len(k.spare)
	if n == 0 {
		return nil
	}
	b := k.spare[n-1]
	k.spare = k.spare[:n-1]
	return b
}

// size is how many bytes are kept.
func (k *headTail) size() int64 { return k.total - k.missing().sum() }

// appendPiece adds what came from one stream. When there are too many pieces, the
// order is from there on that of each stream alone.
func appendPiece(list []piece, s protocol.Stream, p []byte) []piece {
	n := len(list)
	switch {
	case len(p) == 0:
		return list
	case n >= maxPieces && list[n-1].stream != s:
		n-- // the last but one is of this stream
	}
	if n > 0 && list[n-1].stream == s {
		list[n-1].data = append(list[n-1].data, p...)
		return list
	}
	return append(list, piece{s, slices.Clone(p)})
}

// missing is how much of each stream is dropped.
func (k *headTail) missing() perStream { return k.written.minus(k.head, k.tail) }

// after gives what the end holds from an offset on, counted over both streams.
func (k *headTail) after(offset int64) (end []piece) {
	at := k.total - k.tailSize
	for _, p := range k.tail {
		from := min(max(0, offset-at), int64(len(p.data)))
		at += int64(len(p.data))
		end = appendPiece(end, p.stream, p.data[from:])
	}
	return end
}

// within is what would be kept within a smaller limit.
func (k *headTail) within(limit int64) headTail {
	less := newHeadTail(limit)
	for _, p := range slices.Concat(k.head, k.tail) {
		less.add(p.stream, p.data)
	}
	less.total, less.written = k.total, k.written
	return less
}

// bytes is the kept output of one stream.
func (k *headTail) bytes(s protocol.Stream) []byte {
	var all []byte
	for _, p := range slices.Concat(k.head, k.tail) {
		if p.stream == s {
			all = append(all, p.data...)
		}
	}
	return all
}

// content is the kept output in the form of a result. Where some is dropped, a piece of
// no stream says how much.
func (k *headTail) content() []protocol.Content {
	missing := k.missing()
	if missing.sum() == 0 {
		return contents(k.whole())
	}
	head, end := slices.Clone(k.head), k.after(0)
	if n := len(head); n > 0 {
		head[n-1].data = withoutPart(head[n-1].data)
	}
	if len(end) > 0 {
		end[0].data = fromRune(end[0].data)
	}
	missing = k.written.minus(head, end)
	return slices.Concat(contents(head), []protocol.Content{gap(missing)}, contents(end))
}

// whole is everything, where nothing is dropped.
func (k *headTail) whole() []piece {
	list := slices.Clone(k.head)
	if n := len(list); n > 0 {
		list[n-1].data = slices.Clip(list[n-1].data) // what is appended goes elsewhere
	}
	for _, p := range k.tail {
		list = appendPiece(list, p.stream, p.data)
	}
	return list
}

// withoutPart leaves out the first bytes of a character at the end, which would make
// all of a text bytes that are none.
func withoutPart(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// fromRune leaves out the last bytes of a character at the beginning.
func fromRune(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

func contents(list []piece) []protocol.Content {
	all := make([]protocol.Content, 0, len(list))
	for _, p := range list {
		all = append(all, protocol.NewContent(p.stream, p.data))
	}
	return all
}

// gap stands where output is left out of a result.
func gap(missing perStream) protocol.Content {
	var parts []string
	for _, s := range []protocol.Stream{protocol.Stdout, protocol.Stderr} {
		if n := missing[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d bytes of %s", n, s))
		}
	}
	c := protocol.NewContent("", []byte("\n[sandgate: left out here: "+strings.Join(parts, " and ")+"]\n"))
	c.Omitted = missing.sum()
	return c
}
