package protocol

import (
	"bytes"
	"io"
)

// A Reader splits a stream into messages. It is not safe for concurrent use.
type Reader struct {
	r   io.Reader
	max int
	buf []byte
	// What is read and not given yet is buf[start:end].
	start, end int
	err        error // what ended the stream after it
}

// A buffer begins short, since most connections say little, is as long as a stream
// makes use of, and longer for a message that needs it.
const (
	leastBuffer = 16 << 10
	mostBuffer  = 256 << 10
)

// NewReader reads messages of at most MaxMessage bytes from r.
func NewReader(r io.Reader) *Reader { return NewReaderSize(r, MaxMessage) }

// NewReaderSize is NewReader with another limit, in bytes.
func NewReaderSize(r io.Reader, limit int) *Reader { return &Reader{r: r, max: limit} }

// ReadMessage is Next with a line that is the caller's to keep.
func (r *Reader) ReadMessage() ([]byte, error) {
	line, err := r.Next()
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(line)), line...), nil
}

// Next returns the next line without its newline. It is good until the next call.
//
// A line beyond the limit is read to its end and dropped, whatever its length, and is
// an *Error with message_too_large; the next call returns the next line. The error is
// io.EOF at the end of the stream, and io.ErrUnexpectedEOF when that end cuts a line:
// half a message does not count.
func (r *Reader) Next() ([]byte, error) {
	tooLarge := false
	for searched := 0; ; {
		n := bytes.IndexByte(r.buf[r.start+searched:r.end], '\n')
		if n >= 0 {
			line := r.buf[r.start : r.start+searched+n]
			r.start += len(line) + 1
			if tooLarge || len(line) > r.max {
				return nil, Errorf(CodeMessageTooLarge, "the message is longer than %d bytes", r.max)
			}
			return line, nil
		}
		if searched = r.end - r.start; tooLarge || searched > r.max {
			tooLarge = true
			searched, r.start, r.end = 0, 0, 0
		}
		if r.err != nil {
			err := r.err
			if err == io.EOF && (tooLarge || searched > 0) {
				r.start, r.end, err = 0, 0, io.ErrUnexpectedEOF
			} else {
				r.err = nil // a reader may go on after an error
			}
			return nil, err
		}
		r.fill()
	}
}

// NextRaw returns at least one and at most n of the bytes that follow the last line. They are good
// until the next call. The stream must not end there: that is io.ErrUnexpectedEOF.
func (r *Reader) NextRaw(n int64) ([]byte, error) {
	if r.start == r.end && r.err == nil {
		r.fill()
	}
	if r.start == r.end {
		err := r.err
		if r.err = nil; err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	raw := r.buf[r.start:min(int64(r.end), int64(r.start)+n)]
	r.start += len(raw)
	return raw, nil
}

// fill reads what there is, at least one byte or an error, behind what is in the buffer.
func (r *Reader) fill() {
	kept := r.end - r.start
	switch full := kept == len(r.buf) || r.end == len(r.buf) && len(r.buf) < mostBuffer; {
	case full:
		longer := make([]byte, max(leastBuffer, min(2*len(r.buf), r.max+1)))
		copy(longer, r.buf[r.start:r.end])
		r.buf = longer
	case kept == 0 && len(r.buf) > mostBuffer:
		r.buf = make([]byte, mostBuffer)
	default:
		copy(r.buf, r.buf[r.start:r.end])
	}
	r.start, r.end = 0, kept
	for range maxEmptyReads {
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		if r.err = err; n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// maxEmptyReads is how often a reader may give nothing and no error, as in bufio.
const maxEmptyReads = 100

// WriteMessage writes one encoded message and its newline in a single Write. A
// message beyond MaxMessage is not written.
func WriteMessage(w io.Writer, line []byte) error {
	if len(line) > MaxMessage {
		return Errorf(CodeMessageTooLarge, "the message is %d bytes long, %d are allowed", len(line), MaxMessage)
	}
	_, err := w.Write(append(line, '\n'))
	return err
}
