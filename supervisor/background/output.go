package background

import (
	"io"
	"sync"

	"github.com/sandgate/sandgate/protocol"
)

// keptOutput is the output of a background task that is kept: the beginning, which says
// what it is, and the end, which says how it stands. What lies between is dropped when
// there is too much, and counted by its offsets.
type keptOutput struct {
	keep int64 // bytes kept at most, about

	mu      sync.Mutex
	head    []chunk
	tail    []chunk
	kept    int64
	total   [2]int64      // bytes written to stdout, stderr
	changed chan struct{} // closed and replaced when there is more, or nothing more to come
	closed  bool
}

// A chunk is a piece of one stream. Offset counts the bytes of both streams in
// the order in which they were read.
type chunk struct {
	stream protocol.Stream
	offset int64
	data   []byte
}

func (c chunk) end() int64 { return c.offset + int64(len(c.data)) }

// maxChunk bounds how much is dropped at once.
const maxChunk = 4 << 10

func newKeptOutput(keep int64) *keptOutput {
	return &keptOutput{keep: max(keep, 4*maxChunk), changed: make(chan struct{})}
}

// stream is the writer of one of the two.
func (k *keptOutput) stream(s protocol.Stream) io.Writer { return keptStream{k, s} }

type keptStream struct {
	k *keptOutput
	s protocol.Stream
}

func (w keptStream) Write(p []byte) (int, error) {
	w.k.write(w.s, p)
	return len(p), nil
}

func (k *keptOutput) write(s protocol.Stream, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(p) > 0 {
		n := min(len(p), maxChunk)
		k.add(s, p[:n])
		p = p[n:]
	}
	k.wake()
}

func (k *keptOutput) add(s protocol.Stream, p []byte) {
	at := k.total[0] + k.total[1]
	if s == protocol.Stderr {
		k.total[1] += int64(len(p))
	} else {
		k.total[0] += int64(len(p))
	}
	k.kept += int64(len(p))
	list := &k.tail
	if len(k.tail) == 0 && at < k.keep/4 {
		list = &k.head
	}
	if n := len(*list); n > 0 && (*list)[n-1].stream == s && len((*list)[n-1].data)+len(p) <= maxChunk {
		(*list)[n-1].data = append((*list)[n-1].data, p...)
		return
	}
	*list = append(*list, chunk{s, at, append([]byte(nil), p...)})
	for k.kept > k.keep && len(k.tail) > 1 {
		k.kept -= int64(len(k.tail[0].data))
		k.tail[0].data = nil // the array below still holds the chunk
		k.tail = k.tail[1:]
	}
}

// wake tells everybody who waits to look again.
func (k *keptOutput) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// close says that nothing more will come.
func (k *keptOutput) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.wake()
}

// A reading is a part of the output.
type reading struct {
	pieces  []chunk
	next    int64 // where to go on
	dropped int64 // bytes between the offset asked for and what is given that are not kept
	total   [2]int64
}

// read gives the kept output from offset on, at most limit bytes of it. more is closed
// when it is worth asking again, and nil when that would give nothing new.
func (k *keptOutput) read(offset, limit int64) (r reading, more <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end := k.total[0] + k.total[1]
	r = reading{next: min(offset, end), total: k.total}
	for _, list := range [][]chunk{k.head, k.tail} {
		for _, c := range list {
			if c.end() <= r.next || limit <= 0 {
				continue
			}
			skip := r.next - c.offset
			if skip < 0 {
				r.dropped, skip = r.dropped-skip, 0
			}
			data := c.data[skip:min(int64(len(c.data)), skip+limit)]
			r.add(c.stream, data)
			r.next, limit = c.offset+skip+int64(len(data)), limit-int64(len(data))
		}
	}
	if len(r.pieces) > 0 || k.closed {
		return r, nil
	}
	return r, k.changed
}

func (r *reading) add(s protocol.Stream, data []byte) {
	if n := len(r.pieces); n > 0 && r.pieces[n-1].stream == s {
		r.pieces[n-1].data = append(r.pieces[n-1].data, data...)
		return
	}
	r.pieces = append(r.pieces, chunk{stream: s, data: append([]byte(nil), data...)})
}

// An Input is written to a program before it reads it. It is bounded, so that a program
// that never reads costs nothing and blocks nothing.
type Input struct {
	most int // bytes that may be left unread

	mu      sync.Mutex
	pending []byte
	ended   bool
	changed chan struct{}
}

// maxInput is how much a task may leave unread, in bytes.
const maxInput = 256 << 10

// NewInput makes an input of which the program may leave so many bytes unread.
func NewInput(most int) *Input { return &Input{most: most, changed: make(chan struct{})} }

// Put adds input, and ends it if eof. The error says why it cannot.
func (t *Input) Put(data string, eof bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		return protocol.Errorf(protocol.CodeInvalidArguments, "the input of the task has ended")
	case len(t.pending)+len(data) > t.most:
		return protocol.Errorf(protocol.CodeLimitExceeded, "the task has left %d bytes of input unread", len(t.pending)).
			WithHint("wait until it reads, or end it with kill_task")
	}
	t.pending = append(t.pending, data...)
	t.ended = eof
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// End makes Read return, now and from now on.
func (t *Input) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended || len(t.pending) > 0 {
		t.ended, t.pending = true, nil
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// Read implements io.Reader: it waits for input.
func (t *Input) Read(p []byte) (int, error) {
	for {
		t.mu.Lock()
		if len(t.pending) > 0 {
			n := copy(p, t.pending)
			t.pending = append(t.pending[:0], t.pending[n:]...)
			t.mu.Unlock()
			return n, nil
		}
		if t.ended {
			t.mu.Unlock()
			return 0, io.EOF
		}
		changed := t.changed
		t.mu.Unlock()
		<-changed
	}
}
