package audit

import (
	"bytes"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

// A span is a piece of a line; the zero span is empty.
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

// isValue reports whether b is one JSON value, without space around it and not null, which
// encoding/json treats in its own way.
func isValue(b []byte) bool {
	return len(b) > 0 && b[0] > ' ' && b[len(b)-1] > ' ' && b[0] != 'n' && jsontext.Value(b).IsValid(anyJSON)
}

// anyJSON takes what encoding/json takes.
var anyJSON = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
