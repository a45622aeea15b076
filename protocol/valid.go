package protocol

import "bytes"

// valid is json.Valid, and several times as fast where there are long strings, as in
// files and output: those it looks through eight bytes at a time.
func valid(data []byte) bool { return validAt(data, 0) }

// validAt is valid for a value that lies so deep in others.
func validAt(data []byte, depth int) bool {
	rest, ok := skipValue(skipSpace(data), depth)
	return ok && len(skipSpace(rest)) == 0
}

// maxNesting is how deep encoding/json goes.
const maxNesting = 10000

// skipValue gives what comes after one value.
func skipValue(b []byte, depth int) ([]byte, bool) {
	if len(b) == 0 {
		return nil, false
	}
	switch b[0] {
	case '"':
		return skipString(b)
	case '{':
		return skipList(b[1:], '}', depth+1)
	case '[':
		return skipList(b[1:], ']', depth+1)
	case 't':
		return bytes.CutPrefix(b, []byte("true"))
	case 'f':
		return bytes.CutPrefix(b, []byte("false"))
	case 'n':
		return bytes.CutPrefix(b, []byte("null"))
	}
	return skipNumber(b)
}

// skipList gives what comes after the members of an object or the elements of an array.
func skipList(b []byte, end byte, depth int) (_ []byte, ok bool) {
	if depth > maxNesting {
		return nil, false
	}
	if b = skipSpace(b); len(b) > 0 && b[0] == end {
		return b[1:], true
	}
	for {
		if end == '}' {
			if b, ok = skipName(b); !ok {
				return nil, false
			}
		}
		if b, ok = skipValue(skipSpace(b), depth); !ok {
			return nil, false
		}
		b = skipSpace(b)
		switch {
		case len(b) == 0:
			return nil, false
		case b[0] == end:
			return b[1:], true
		case b[0] != ',':
			return nil, false
		}
		b = skipSpace(b[1:])
	}
}

// skipName gives what comes after the name of a member and its colon.
func skipName(b []byte) (_ []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, false
	}
	if b, ok = skipString(b); !ok {
		return nil, false
	}
	return bytes.CutPrefix(skipSpace(b), []byte{':'})
}

func skipString(b []byte) ([]byte, bool) {
	for b = b[1:]; ; {
		b = b[plainPrefix(b):]
		switch {
		case len(b) == 0 || b[0] < ' ':
			return nil, false
		case b[0] == '"':
			return b[1:], true
		case len(b) < 2:
			return nil, false
		}
		switch b[1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			b = b[2:]
		case 'u':
			if len(b) < 6 || !isHex(b[2:6]) {
				return nil, false
			}
			b = b[6:]
		default:
			return nil, false
		}
	}
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func skipNumber(b []byte) ([]byte, bool) {
	b = bytes.TrimPrefix(b, []byte{'-'})
	whole := digits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return nil, false
	}
	b = b[whole:]
	if len(b) > 0 && b[0] == '.' {
		n := digits(b[1:])
		if n == 0 {
			return nil, false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := digits(b)
		if n == 0 {
			return nil, false
		}
		b = b[n:]
	}
	return b, true
}

// digits is how many bytes in front are digits.
func digits(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}
