package sandboxprofile

import (
	"bytes"
	"errors"
	"io"
)

// Select does what a ReadFile operation asks for with the bytes of r: it skips to
// FirstLine and gives at most Lines lines and MaxBytes bytes. A line ends with
// its '\n'. Truncated reports that MaxBytes cut the result; a line beyond the end
// of the file is not an error and gives nothing. It holds no more in memory than
// it returns, and a small buffer.
func (o Operation) Select(r io.Reader) (content []byte, truncated bool, err error) {
	skip, left := max(o.FirstLine, 1)-1, o.Lines
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		chunk := skipLines(buf[:n], &skip)
		taken, done := takeLines(chunk, &left, o.Lines > 0)
		if room := max(o.MaxBytes, 0) - int64(len(content)); int64(len(taken)) > room {
			return append(content, taken[:room]...), true, nil
		}
		content = append(content, taken...)
		switch {
		case done || errors.Is(err, io.EOF):
			return content, false, nil
		case err != nil:
			return content, false, err
		}
	}
}

// skipLines gives what follows the next *skip lines of b.
func skipLines(b []byte, skip *int64) []byte {
	for *skip > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return nil
		}
		b = b[i+1:]
		*skip--
	}
	return b
}

// takeLines gives the part of b that belongs to the next *left lines, and
// whether that is all of them.
func takeLines(b []byte, left *int64, bounded bool) (taken []byte, done bool) {
	if !bounded {
		return b, false
	}
	end := 0
	for *left > 0 {
		i := bytes.IndexByte(b[end:], '\n')
		if i < 0 {
			return b, false
		}
		end += i + 1
		*left--
	}
	return b[:end], true
}
