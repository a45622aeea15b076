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
	e := Entry{Version: FormatVersion}
	s := scanner{b: body[:tail]}
	s.bad = !s.skip(`{"v":1`) || !s.number(`,"seq":`, 1<<64-1, &e.Seq)
	time, kind, writer := s.text("time"), s.text("kind"), s.text("writer")
	s.bad = s.bad || time.to == 0 || kind.to == 0 || writer.to == 0
	session, call := s.text("session"), s.text("call")
	s.peer(&e)
	agent, tool, digest := s.text("agent"), s.text("tool"), s.text("digest")
	head := s.at
	if s.member("data") {
		e.Data, s.at = body[s.at:tail:tail], tail
		s.bad = s.bad || !isValue(e.Data)
	}
	if s.bad || s.at != tail || e.Time.UnmarshalJSON(body[time.from-1:time.to+1]) != nil || !e.cutTail(body[tail:]) {
		return Entry{}, false
	}
	text := string(body[:head]) // one for all of them
	e.Kind, e.Writer, e.Session, e.Call = Kind(kind.of(text)), writer.of(text), session.of(text), call.of(text)
	e.Agent, e.Tool, e.Digest = agent.of(text), tool.of(text), digest.of(text)
	return e, true
}

// tailLen is the length of what every line ends with.
const (
	prevMark = `,"prev":"`
	tailLen  = len(prevMark) + len(ZeroHash) + len(`"`) + sealLen
)

func (e *Entry) cutTail(b []byte) bool {
	const at = len(prevMark) + len(ZeroHash)
	if string(b[:len(prevMark)]) != prevMark || string(b[at:at+1+len(hashMark)]) != `"`+hashMark || string(b[len(b)-len(hashEnd):]) != hashEnd {
		return false
	}
	text := string(b[len(prevMark) : len(b)-len(hashEnd)])
	e.Prev, e.Hash = text[:len(ZeroHash)], text[len(text)-len(ZeroHash):]
	return isHex(e.Prev) && isHex(e.Hash)
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
	b   []byte
	at  int
	bad bool
}

func (s *scanner) skip(text string) bool {
	if len(s.b)-s.at < len(text) || string(s.b[s.at:s.at+len(text)]) != text {
		return false
	}
	s.at += len(text)
	return true
}

// member goes on to the value of the member name, if that comes next.
func (s *scanner) member(name string) bool {
	n := len(name) + len(`,"":`)
	if len(s.b)-s.at < n {
		return false
	}
	m := s.b[s.at : s.at+n]
	if m[0] != ',' || m[1] != '"' || string(m[2:n-2]) != name || m[n-2] != '"' || m[n-1] != ':' {
		return false
	}
	s.at += n
	return true
}

// A span is a piece of a line; the zero span is none.
type span struct{ from, to int }

func (p span) of(text string) string { return text[p.from:p.to] }

// text takes a member, if that comes next, whose value is a string that stands for
// itself.
func (s *scanner) text(name string) span {
	if !s.member(name) {
		return span{}
	}
	end := -1
	if s.skip(`"`) {
		end = bytes.IndexByte(s.b[s.at:], '"')
	}
	if end < 0 || !plain(s.b[s.at:s.at+end]) {
		s.bad = true
		return span{}
	}
	p := span{s.at, s.at + end}
	s.at = p.to + 1
	return p
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

// number takes what follows mark, a whole number of at most limit.
func (s *scanner) number(mark string, limit uint64, to *uint64) bool {
	if !s.skip(mark) {
		return false
	}
	from := s.at
	var n uint64
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		n = n*10 + uint64(s.b[s.at]-'0')
		s.at++
	}
	*to = n
	return s.at > from && s.at-from <= 19 && (s.b[from] != '0' || s.at == from+1) && n <= limit
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
		return str(b, i+1)
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
			if i = str(b, i+1); i < 0 {
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

// str gives the end of the string whose first character is at i.
func str(b []byte, i int) int {
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
