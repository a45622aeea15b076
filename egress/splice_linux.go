package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A piece is moved before it is counted. A peer has the idle time to take one, so the
// larger are for those that were quick with the one before.
const (
	leastPiece = largeBuffer
	mostPiece  = 1 << 20
	quickPiece = 100 * time.Millisecond
	// spliceWait is how long more is waited for before the other direction hears that
	// this one was alive.
	spliceWait = 250 * time.Millisecond
	// spliceMargin is how much of a limit on bytes has to be left. Nearer to it, each
	// piece is counted before it is sent.
	spliceMargin = 32 * maxSplices * leastPiece
)

// splice moves bytes from one TCP connection to another without taking them out of the
// kernel (splice(2), through net.TCPConn.ReadFrom), as long as they come in bulk. It
// reports whether it has moved any. Ends and pauses are left to who reads next.
func (s *Server) splice(dst, src *stream) (moved bool, err error) {
	if src == nil {
		return false, nil
	}
	to, ok := dst.Conn.(*net.TCPConn)
	from, ok2 := src.Conn.(*net.TCPConn)
	if !ok || !ok2 {
		return false, nil
	}
	select {
	case s.splices <- struct{}{}:
		defer func() { <-s.splices }()
	default:
		return false, nil
	}
	for piece := int64(leastPiece); dst.ample() && src.ample() && src.armPiece(); {
		start := time.Now()
		n, err := dst.readFrom(to, from, piece)
		if n > 0 {
			moved = true
			src.activity.touch()
			if over := count(dst, src, int(n)); over != nil {
				return true, over
			}
		}
		if err != nil || n < piece {
			return moved, err
		}
		if piece = leastPiece; time.Since(start) < quickPiece {
			piece = mostPiece
		}
	}
	return moved, nil
}

// readFrom moves one piece. It is not an error that nothing more came in time.
func (s *stream) readFrom(to, from *net.TCPConn, piece int64) (int64, error) {
	deadline := time.Now().Add(s.idle)
	if err := to.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := to.ReadFrom(&io.LimitedReader{R: from, N: piece})
	if errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(deadline) {
		return n, nil
	}
	if err != nil && !isOver(from) {
		s.writeFailed.Store(true)
	}
	return n, err
}

// isOver reports whether a connection was reset: of two that were spliced, the error
// does not say which it is about, and a read would not tell it again.
func isOver(conn *net.TCPConn) bool {
	const tcpClose = 7 // enum in include/net/tcp_states.h
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	_ = raw.Control(func(fd uintptr) { // of a closed one, over stays true
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		over = err != nil || info.State == tcpClose
	})
	return over
}

// armPiece sets the deadline of one piece. It reports whether reads may go on.
func (s *stream) armPiece() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || !s.until.IsZero() {
		return false
	}
	return s.Conn.SetReadDeadline(time.Now().Add(min(spliceWait, s.idle/2))) == nil
}

// count adds what was moved to the meter of the server's side.
func count(dst, src *stream, n int) error {
	if dst.meter != nil {
		return dst.meter.add(&dst.meter.up, n)
	}
	if src.meter != nil {
		return src.meter.add(&src.meter.down, n)
	}
	return nil
}

// ample reports whether the limits are far enough away.
func (s *stream) ample() bool { return s.meter == nil || s.meter.left() >= spliceMargin }

// left is how many bytes may still be moved.
func (m *meter) left() int64 {
	l := m.s.cfg.Limits
	return min(l.ConnBytes-m.up.Load()-m.down.Load(), l.Bytes-m.s.spent.Load())
}
