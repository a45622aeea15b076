package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// A TLS 1.3 server may ask for the ClientHello again (RFC 8446, section 4.1.4), and takes
// the name from the second one. A client's later handshake messages do not concern us,
// and by its bytes an encrypted one can look like a ClientHello. So the server's first
// message decides whether the next one has to be a hello, which is held against the
// target like the first.

// retryRandom is the random value of a ServerHello that asks for another hello.
var retryRandom = []byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

const (
	typeServerHello = 2
	// maxGreeting is how many bytes are looked at for a ServerHello's random value, which
	// normally are the first 43. Alerts can come before it.
	maxGreeting = 1 << 10
)

// A greeting is a server's first message, and whether it begins by asking for another
// hello.
type greeting struct {
	from *stream

	spoke atomic.Bool  // something has come
	asked atomic.Int32 // answers of one byte that come before TLS

	known chan struct{} // closed when again is
	again bool          // also where what was said is not understood
	once  sync.Once
	begun []byte
}

func newGreeting(from *stream) *greeting { return &greeting{from: from, known: make(chan struct{})} }

// Read implements io.Reader.
func (g *greeting) Read(p []byte) (int, error) {
	n, err := g.from.Read(p)
	said := p[:n]
	if n > 0 {
		g.spoke.Store(true)
	}
	for ; len(said) > 0 && g.asked.Load() > 0; g.asked.Add(-1) {
		said = said[1:]
	}
	select {
	case <-g.known:
		return n, err
	default:
	}
	g.begun = append(g.begun, said[:min(len(said), maxGreeting-len(g.begun))]...)
	again, sure := asksAgain(g.begun)
	if !sure && (err != nil || len(g.begun) == maxGreeting) {
		again, sure = true, true
	}
	if sure {
		g.once.Do(func() { g.again, g.begun = again, nil; close(g.known) })
	}
	return n, err
}

// asksAgain reads the beginning of what a server says. sure is false if more of it has to
// be seen.
func asksAgain(b []byte) (again, sure bool) {
	var message []byte
	for {
		if len(b) < 5 {
			return false, false
		}
		kind, rest := b[0], b[5:]
		body := rest[:min(len(rest), int(binary.BigEndian.Uint16(b[3:])))]
		switch {
		case kind == recordAlert && message == nil: // a warning, such as that a name is not known
		case kind != recordHandshake:
			return true, true
		default:
			message = append(message, body...)
		}
		if len(message) > 0 && message[0] != typeServerHello {
			return true, true
		}
		const before = 4 + 2 // header, version
		if len(message) >= before+len(retryRandom) {
			return bytes.Equal(message[before:before+len(retryRandom)], retryRandom), true
		}
		if len(rest) == len(body) {
			return false, false
		}
		b = rest[len(body):]
	}
}

// passRetry carries what a client sends after its first hello until a second one has been
// checked, or none can come any more.
func (c *client) passRetry(t Target, up *stream, g *greeting) error {
	for {
		head, err := c.r.Peek(5)
		if errors.Is(err, io.EOF) {
			return nil // the next reader gets the end and the data before it
		}
		if err != nil {
			return err
		}
		if head[0] == recordHandshake {
			<-g.known // what reads the server ends with the connection
			if !g.again {
				return nil
			}
			c.conn.limitReads(c.cfg.Limits.Header)
			defer c.conn.limitReads(0)
			return c.passHello(t, up)
		}
		select {
		case <-g.known:
			if !g.again {
				return nil
			}
		default:
		}
		size := 5 + int64(binary.BigEndian.Uint16(head[3:]))
		if _, err := io.Copy(up, c.watched(t, io.LimitReader(c.r, size))); err != nil {
			return err
		}
	}
}
