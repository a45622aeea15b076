package protocol

import (
	"bufio"
	"errors"
	"io"
)

// A Reader splits a stream into messages. It is not safe for concurrent use.
type Reader struct {
	r   *bufio.Reader
	max int
}

// NewReader reads messages of at most MaxMessage bytes from r.
func NewReader(r io.Reader) *Reader { return NewReaderSize(r, MaxMessage) }

// NewReaderSize is NewReader with another limit, in bytes.
func NewReaderSize(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 32<<10), max: limit}
}

// ReadMessage returns the next line without its newline. The line is the
// caller's to keep.
//
// A line beyond the limit is read to its end and dropped, whatever its length,
// and is an *Error with message_too_large; the next call returns the next line.
// The error is io.EOF at the end of the stream, and io.ErrUnexpectedEOF when
// that end cuts a line: half a message is none.
func (r *Reader) ReadMessage() ([]byte, error) {
	var line []byte
	tooLarge := false
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line)+len(part) > r.max+1 || (err != nil && len(line)+len(part) > r.max) {
			tooLarge, line = true, nil
		}
		if !tooLarge {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && (tooLarge || len(line) > 0):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case tooLarge:
			return nil, Errorf(CodeMessageTooLarge, "the message is longer than %d bytes", r.max)
		}
		return line[:len(line)-1], nil
	}
}

// WriteMessage writes one encoded message and its newline in a single Write. A
// message beyond MaxMessage is not written.
func WriteMessage(w io.Writer, line []byte) error {
	if len(line) > MaxMessage {
		return Errorf(CodeMessageTooLarge, "the message is %d bytes long, %d are allowed", len(line), MaxMessage)
	}
	_, err := w.Write(append(line, '\n'))
	return err
}
