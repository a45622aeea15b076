package egress

import (
	"bufio"
	"io"
)

// maxSplices bounds the pipes that a Server has: the kernel gives all the pipes of one
// user so many pages (pipe(7), pipe-user-pages-soft).
const maxSplices = 4

// buffered is a reader of a stream through a buffer. A read that fills more than the
// buffer holds has emptied it.
type buffered struct {
	*bufio.Reader
	from *stream
}

// unseen is the stream that r reads, if it passes the bytes on as they are.
func unseen(r io.Reader) *stream {
	switch r := r.(type) {
	case *stream:
		return r
	case buffered:
		return r.from
	case *greeting: // which has seen enough after one read that is worth it
		return r.from
	}
	return nil
}
