package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// What one direction of a connection holds in memory, in bytes: the large buffer
// only while there is more to read than the small one takes.
const (
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10
)

// errStopped is the error of a read that stopReads ended.
var errStopped = errors.New("the connection is being closed")

var errBudget = errors.New("the limit on bytes is used up")

// activity is the last moment at which a byte moved between two streams, in
// either direction: a download is not idle because its client has no more to say.
type activity struct{ last atomic.Int64 } // nanoseconds of time.Time.UnixNano

func (a *activity) touch() { a.last.Store(time.Now().UnixNano()) }

func (a *activity) idle() time.Duration { return time.Duration(time.Now().UnixNano() - a.last.Load()) }

// A meter counts the bytes of one connection against the limits.
type meter struct {
	s        *Server
	up, down atomic.Int64
}

func newMeter(s *Server) *meter { return &meter{s: s} }

// add counts n bytes and fails when they are too many.
func (m *meter) add(counter *atomic.Int64, n int) error {
	counter.Add(int64(n))
	total := m.s.spent.Add(int64(n))
	if m.up.Load()+m.down.Load() > m.s.cfg.Limits.ConnBytes || total > m.s.cfg.Limits.Bytes {
		return errBudget
	}
	return nil
}

// A stream is a connection whose reads and writes end: after the idle time, at a set
// moment, or when they are stopped. One goroutine reads at a time.
type stream struct {
	net.Conn
	idle     time.Duration
	activity *activity
	meter    *meter      // of the connection to a server; nil towards the client
	forget   func() bool // ends the watch over the context, if there is one

	mu      sync.Mutex // guards the two below and setting the read deadline
	until   time.Time  // if set, reads end at this moment whatever arrives: a peer that sends a byte a second
	stopped bool

	writeFailed atomic.Bool
}

func newStream(conn net.Conn, idle time.Duration, a *activity) *stream {
	a.touch()
	return &stream{Conn: conn, idle: idle, activity: a}
}

// limitReads makes all reads from now on end together after d; zero ends that.
func (s *stream) limitReads(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	if d > 0 {
		s.until = time.Now().Add(d)
	}
}

// stopReads ends a read that another goroutine is in, and all that follow.
func (s *stream) stopReads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.Conn.SetReadDeadline(time.Now())
}

// arm sets the deadline of the next read. It reports whether that is the idle time.
func (s *stream) arm() (idle bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return false, errStopped
	case !s.until.IsZero():
		return false, s.Conn.SetReadDeadline(s.until)
	}
	return true, s.Conn.SetReadDeadline(time.Now().Add(s.idle))
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		idle, err := s.arm()
		if err != nil {
			return 0, err
		}
		n, err := s.Conn.Read(p)
		if n > 0 {
			s.activity.touch()
			return s.received(n, err)
		}
		if idle && errors.Is(err, os.ErrDeadlineExceeded) && s.activity.idle() < s.idle {
			continue // the other direction is alive; or stopped, as arm will tell
		}
		return n, err
	}
}

func (s *stream) received(n int, err error) (int, error) {
	if s.meter == nil {
		return n, err
	}
	if over := s.meter.add(&s.meter.down, n); over != nil {
		return 0, over
	}
	return n, err
}

// Write sends p. A peer that takes nothing for the idle time ends it.
func (s *stream) Write(p []byte) (int, error) {
	if s.meter != nil {
		if err := s.meter.add(&s.meter.up, len(p)); err != nil {
			s.writeFailed.Store(true)
			return 0, err
		}
	}
	if err := s.Conn.SetWriteDeadline(time.Now().Add(s.idle)); err != nil {
		s.writeFailed.Store(true)
		return 0, err
	}
	n, err := s.Conn.Write(p)
	if err != nil {
		s.writeFailed.Store(true)
	}
	s.activity.touch()
	return n, err
}

// hungUp reports whether err is that the peer takes no more, who may have said why.
func (s *stream) hungUp(err error) bool {
	return s.writeFailed.Load() && !errors.Is(err, errBudget) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// CloseWrite tells the peer that no more comes, and leaves the other direction open.
func (s *stream) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return s.Conn.Close()
}

func (s *stream) Close() error {
	if s.forget != nil {
		s.forget()
	}
	return s.Conn.Close()
}

// How much and how long is read of a client that was refused.
const (
	lingerBytes = 256 << 10
	lingerTime  = 250 * time.Millisecond
)

// linger closes a connection so that the peer gets to read what was written last:
// closing a socket with unread data resets it (RFC 9112, section 9.6).
func (s *stream) linger() {
	s.stopReads()
	if s.CloseWrite() == nil && s.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		io.CopyN(io.Discard, s.Conn, lingerBytes) // whether anything comes does not matter
	}
	s.Close()
}

// relay copies until src ends, and passes the end on. What comes in bulk and need not
// be looked at stays in the kernel.
func (s *Server) relay(dst *stream, src io.Reader) error {
	direct := unseen(src)
	small := make([]byte, smallBuffer)
	var large *[]byte
	defer func() { s.release(large) }()
	for {
		buf := small
		if large != nil {
			buf = *large
		}
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return dst.CloseWrite()
		case err != nil:
			return err
		case n < smallBuffer:
			s.release(large)
			large = nil
			continue
		}
		if spliced, err := s.splice(dst, direct); err != nil {
			return err
		} else if !spliced && large == nil {
			large = s.buffers.Get().(*[]byte)
		}
	}
}

func (s *Server) release(buf *[]byte) {
	if buf != nil {
		s.buffers.Put(buf)
	}
}
