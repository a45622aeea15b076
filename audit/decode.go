package audit

import (
	"bytes"
	"unicode/utf8"
)

// decodeOwn is decodeEntry for the body of a line as this package writes it: its members
// in their order, each once, spelled in the only way. It reports false for any other,
// which is for encoding/json to read: that takes ten times as long, and most of it for
// what our lines never have. The entry shares memory with body.
func decodeOwn(body []byte) (Entry, bool) {
	tail := len(body) - tailLen
	if tail < 0 {
		return Entry{}, false
	}
	prev, hash, ok := cutTail(body[tail:])
	s := scanner{rest: body[:tail]}
	e := Entry{Version: FormatVersion, Prev: prev, Hash: hash}
	ok = ok && s.skip(`{"v":1`) && s.number(`,"seq":`, 1<<64-1, &e.Seq) && s.member("time") && e.Time.UnmarshalJSON(s.quoted()) == nil
	if !ok || !s.member("kind") {
		return Entry{}, false
	}
	kind := s.quoted()
	if !s.member("writer") {
		return Entry{}, false
	}
	writer := s.quoted()
	e.Kind, e.Writer = Kind(unquote(kind)), unquote(writer)
	s.text("session", &e.Session)
	s.text("call", &e.Call)
	s.peer(&e)
	s.text("agent", &e.Agent)
	s.text("tool", &e.Tool)
	s.text("digest", &e.Digest)
	if s.member("data") {
		e.Data, s.rest = s.rest[:len(s.rest):len(s.rest)], nil
		s.bad = s.bad || !isValue(e.Data)
	}
	if s.bad || len(s.rest) > 0 || kind == nil || writer == nil {
		return Entry{}, false
	}
	return e, true
}

// tailLen is the length of what every line ends with.
const (
	prevMark = `,"prev":"`
	tailLen  = len(prevMark) + len(ZeroHash) + len(`"`) + sealLen
)

func cutTail(b []byte) (prev, hash string, ok bool) {
	const at = len(prevMark) + len(ZeroHash)
	if string(b[:len(prevMark)]) != prevMark || string(b[at:at+1+len(hashMark)]) != `"`+hashMark || string(b[len(b)-len(hashEnd):]) != hashEnd {
		return "", "", false
	}
	text := string(b[len(prevMark) : len(b)-len(hashEnd)])
	prev, hash = text[:len(ZeroHash)], text[len(text)-len(ZeroHash):]
	return prev, hash, isHex(prev) && isHex(hash)
}

func isHex(s string) bool {
	other := false
	for i := range len(s) {
		other = other || !lowerHex[s[i]]
	}
	return !other
}

var lowerHex = func() (table [256]bool) {
	for _, c := range "0123456789abcdef" {
		table[c] = true
	}
	return table
}()

// A scanner goes along the members of a line. Once it is bad it stays so.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) skip(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// member goes on to the value of the member name, if that comes next.
func (s *scanner) member(name string) bool {
	n := len(name) + len(`,"":`)
	if len(s.rest) < n || s.rest[0] != ',' || s.rest[1] != '"' || string(s.rest[2:n-2]) != name || s.rest[n-2] != '"' || s.rest[n-1] != ':' {
		return false
	}
	s.rest = s.rest[n:]
	return true
}

// quoted takes a string that stands for itself, quotes included; nil if there is none.
func (s *scanner) quoted() []byte {
	if len(s.rest) == 0 || s.rest[0] != '"' {
		s.bad = true
		return nil
	}
	end := bytes.IndexByte(s.rest[1:], '"') + 2
	if end < 2 || !plain(s.rest[1:end-1]) {
		s.bad = true
		return nil
	}
	text := s.rest[:end]
	s.rest = s.rest[end:]
	return text
}

// plain reports whether encoding/json takes every byte of a string as it is.
func plain(b []byte) bool {
	high := false
	for _, c := range b {
		if c < ' ' || c == '\\' {
			return false
		}
		high = high || c >= utf8.RuneSelf
	}
	return !high || utf8.Valid(b)
}

func unquote(quoted []byte) string {
	if quoted == nil {
		return ""
	}
	return string(quoted[1 : len(quoted)-1])
}

// text takes a member that may be left out.
func (s *scanner) text(name string, to *string) {
	if s.member(name) {
		*to = unquote(s.quoted())
	}
}

// number takes what follows mark, a whole number of at most limit.
func (s *scanner) number(mark string, limit uint64, to *uint64) bool {
	if !s.skip(mark) {
		return false
	}
	digits := 0
	var n uint64
	for digits < len(s.rest) && s.rest[digits] >= '0' && s.rest[digits] <= '9' {
		n = n*10 + uint64(s.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 19 || s.rest[0] == '0' && digits > 1 || n > limit {
		return false
	}
	*to, s.rest = n, s.rest[digits:]
	return true
}

func (s *scanner) peer(e *Entry) {
	if !s.member("peer") {
		return
	}
	var uid, gid, pid uint64
	if !s.number(`{"uid":`, 1<<32-1, &uid) || !s.number(`,"gid":`, 1<<32-1, &gid) || !s.number(`,"pid":`, 1<<31-1, &pid) || !s.skip("}") {
		s.bad = true
		return
	}
	e.Peer = &Peer{UID: uint32(uid), GID: uint32(gid), PID: int32(pid)}
}

// maxNesting is how deep a value may be for isValue.
const maxNesting = 64

// isValue reports whether b is one JSON value, without space around it. It may say no
// of one that is nested deeply, and of null, which encoding/json treats in its own way.
func isValue(b []byte) bool {
	if len(b) == 0 || b[0] == 'n' {
		return false
	}
	end := value(b, 0, 0)
	return end == len(b)
}

// value gives the end of the value that begins at i, -1 if there is none.
func value(b []byte, i, depth int) int {
	if i >= len(b) || depth > maxNesting {
		return -1
	}
	switch b[i] {
	case '{':
		return members(b, i+1, depth+1, '}', true)
	case '[':
		return members(b, i+1, depth+1, ']', false)
	case '"':
		return text(b, i+1)
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	case 'n':
		return word(b, i, "null")
	}
	return number(b, i)
}

// members gives the end of an object or an array whose first member may begin at i.
func members(b []byte, i, depth int, last byte, named bool) int {
	if i = space(b, i); i < len(b) && b[i] == last {
		return i + 1
	}
	for {
		if i = space(b, i); named {
			if i >= len(b) || b[i] != '"' {
				return -1
			}
			if i = text(b, i+1); i < 0 {
				return -1
			}
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = space(b, i+1)
		}
		if i = value(b, i, depth); i < 0 {
			return -1
		}
		if i = space(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case last:
			return i + 1
		case ',':
			i++
		default:
			return -1
		}
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// text gives the end of the string whose first character is at i.
func text(b []byte, i int) int {
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c != '\\':
			i++
		case i+1 < len(b) && b[i+1] == 'u':
			if i += 6; i > len(b) || !isHexAny(b[i-4:i]) {
				return -1
			}
		case i+1 < len(b) && bytes.IndexByte([]byte(`"\/bfnrt`), b[i+1]) >= 0:
			i += 2
		default:
			return -1
		}
	}
	return -1
}

func isHexAny(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c|' ' < 'a' || c|' ' > 'f') {
			return false
		}
	}
	return true
}

func word(b []byte, i int, w string) int {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

func number(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch end := digits(b, i); {
	case end < 0 || b[i] == '0' && end > i+1:
		return -1
	default:
		i = end
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|' ' == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits gives the end of one digit or more, -1 if there is none.
func digits(b []byte, i int) int {
	from := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}
