package fileops

import (
	"bufio"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrEncoding says that nothing here decodes an encoding of that name.
var ErrEncoding = errors.New("unknown encoding")

// Decode gives r as UTF-8. The encodings are those of read_file: "" and "utf-8"
// leave r as it is, "utf-16" takes the order of bytes from the mark at the
// beginning and little-endian without one, "latin-1" is ISO 8859-1. What is
// malformed becomes U+FFFD.
func Decode(r io.Reader, encoding string) (io.Reader, error) {
	switch encoding {
	case "", "utf-8":
		return r, nil
	case "latin-1":
		return &decoder{next: latin1(bufio.NewReader(r))}, nil
	case "utf-16":
		return &decoder{next: utf16Runes(bufio.NewReader(r))}, nil
	}
	return nil, ErrEncoding
}

// decoder reads runes as UTF-8.
type decoder struct {
	next func() (rune, error)
	left []byte // of the latest rune
}

func (d *decoder) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(d.left) == 0 {
			r, err := d.next()
			if err != nil && n > 0 {
				return n, nil // the error comes again
			}
			if err != nil {
				return 0, err
			}
			d.left = utf8.AppendRune(d.left[:0], r)
		}
		copied := copy(p[n:], d.left)
		d.left = d.left[copied:]
		n += copied
	}
	return n, nil
}

func latin1(r *bufio.Reader) func() (rune, error) {
	return func() (rune, error) {
		b, err := r.ReadByte()
		return rune(b), err
	}
}

func utf16Runes(r *bufio.Reader) func() (rune, error) {
	big := false
	if mark, err := r.Peek(2); err == nil && (mark[0] == 0xfe && mark[1] == 0xff || mark[0] == 0xff && mark[1] == 0xfe) {
		big = mark[0] == 0xfe
		_, _ = r.Discard(2) // they are buffered
	}
	unit := func(b []byte) rune {
		if big {
			return rune(b[0])<<8 | rune(b[1])
		}
		return rune(b[1])<<8 | rune(b[0])
	}
	return func() (rune, error) {
		b, err := r.Peek(2)
		if len(b) == 1 {
			_, _ = r.Discard(1)
			return utf8.RuneError, nil // half a unit at the end
		}
		if err != nil {
			return 0, err
		}
		first := unit(b)
		_, _ = r.Discard(2)
		if !utf16.IsSurrogate(first) {
			return first, nil
		}
		if b, err = r.Peek(2); err == nil {
			if both := utf16.DecodeRune(first, unit(b)); both != utf8.RuneError {
				_, _ = r.Discard(2)
				return both, nil
			}
		}
		return utf8.RuneError, nil
	}
}
