package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sandgate/sandgate/internal/unixsock"
)

// FormatVersion is the "v" of every line that this package writes.
const FormatVersion = 1

// MaxLine bounds a line in bytes, its newline included. A reader may refuse a
// longer one.
const MaxLine = 1 << 20

// Kind says what an entry records.
type Kind string

const (
	// KindDecision opens a call: it was allowed or denied, and by what.
	KindDecision Kind = "decision"
	// KindEnd closes a call that has a decision.
	KindEnd Kind = "end"
	// KindRefused is the only entry of a call that never came to a decision:
	// unknown tool, bad arguments.
	KindRefused Kind = "refused"
	// KindAnswer is the end of a request for approval that is not a call's own
	// decision: for a host, for a call that does not wait, or one that a supervisor
	// left behind when it ended.
	KindAnswer Kind = "answer"
	// KindConnection is one connection that a call made through the egress proxy,
	// written when it has ended.
	KindConnection Kind = "connection"
	// KindSession opens or closes a session.
	KindSession Kind = "session"
	// KindRules is a change of the standing rules, written before it happens.
	KindRules Kind = "rules"
	// KindStart and KindStop frame the life of a supervisor.
	KindStart Kind = "start"
	KindStop  Kind = "stop"

	// KindRecovered and KindInterrupted are written by the log itself, when it
	// finds what a crash left behind.
	KindRecovered   Kind = "recovered"
	KindInterrupted Kind = "interrupted"
)

// Kinds lists every kind, in the order of the documentation.
func Kinds() []Kind {
	return []Kind{KindDecision, KindEnd, KindRefused, KindAnswer, KindConnection, KindSession, KindRules, KindStart, KindStop, KindRecovered, KindInterrupted}
}

// A Peer is the process at the other end of a socket, as the kernel names it.
type Peer struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	PID int32  `json:"pid"`
}

// PeerOf is the peer of a connection.
func PeerOf(p unixsock.Peer) *Peer {
	return &Peer{UID: uint32(p.UID), GID: uint32(p.GID), PID: int32(p.PID)}
}

// A Record is an entry as a caller passes it to the log. Secrets in Agent, Tool and Data are
// redacted before they are written; Session and Call are identifiers that tie entries together
// and are kept as they are.
type Record struct {
	Kind    Kind
	Session string
	Call    string
	Peer    *Peer
	Agent   string
	Tool    string
	// Digest is the digest of the call's plan.
	Digest string
	// Data is any value that encodes to JSON.
	Data any
}

// An Entry is one line of the log. The order of the fields is the order on disk.
type Entry struct {
	Version int       `json:"v"`
	Seq     uint64    `json:"seq"` // from 1, without gaps
	Time    time.Time `json:"time"`
	Kind    Kind      `json:"kind"`
	// Writer identifies the process that wrote the entry; see Writer.
	Writer  string          `json:"writer"`
	Session string          `json:"session,omitempty"`
	Call    string          `json:"call,omitempty"`
	Peer    *Peer           `json:"peer,omitempty"`
	Agent   string          `json:"agent,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	// Prev is the Hash of the entry before this one, ZeroHash in the first.
	Prev string `json:"prev"`
	// Hash is the SHA-256 of the line as it would be without this field.
	Hash string `json:"hash"`
}

// ZeroHash is the predecessor's hash in the first entry of a log.
const ZeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

// A line ends with the hash field, so that the bytes which are hashed can be cut
// out of it without parsing: everything before hashMark, and a closing brace.
const (
	hashMark = `,"hash":"`
	hashEnd  = `"}`
	sealLen  = len(hashMark) + 2*sha256.Size + len(hashEnd)
)

// Line is e as it stands in the log, without the newline. It has no character in
// it that a terminal would obey or hide.
func (e Entry) Line() ([]byte, error) {
	if e.Data != nil {
		data, err := encodeJSON(e.Data) // the caller may have added spaces, or it may not be JSON at all
		if err != nil {
			return nil, fmt.Errorf("audit: encode entry %d: %w", e.Seq, err)
		}
		e.Data = data
	}
	body, err := e.body()
	if err != nil {
		return nil, err
	}
	return e.sealed(body), nil
}

// seal sets e.Hash and returns e's line, newline included. e.Data is as encodeJSON
// gives it.
func (e *Entry) seal() ([]byte, error) {
	body, err := e.body()
	if err != nil {
		return nil, err
	}
	e.Hash = hashOf(body)
	return append(e.sealed(body), '\n'), nil
}

func (e *Entry) sealed(body []byte) []byte {
	line := append(body, hashMark...)
	line = append(line, e.Hash...)
	return append(line, hashEnd...)
}

// body is the line up to the hash field: what encoding/json makes of the entry, made
// without it. Most of a line is e.Data, which is JSON already.
func (e *Entry) body() ([]byte, error) {
	b := make([]byte, 0, 512+len(e.Data))
	b = fmt.Appendf(b, `{"v":%d,"seq":%d,"time":`, e.Version, e.Seq)
	stamp, err := e.Time.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("audit: encode entry %d: %w", e.Seq, err)
	}
	b = append(b, stamp...)
	b = appendText(b, `,"kind":`, string(e.Kind))
	b = appendText(b, `,"writer":`, e.Writer)
	for _, f := range [...]struct{ name, value string }{{`,"session":`, e.Session}, {`,"call":`, e.Call}} {
		if f.value != "" {
			b = appendText(b, f.name, f.value)
		}
	}
	if p := e.Peer; p != nil {
		b = fmt.Appendf(b, `,"peer":{"uid":%d,"gid":%d,"pid":%d}`, p.UID, p.GID, p.PID)
	}
	for _, f := range [...]struct{ name, value string }{{`,"agent":`, e.Agent}, {`,"tool":`, e.Tool}, {`,"digest":`, e.Digest}} {
		if f.value != "" {
			b = appendText(b, f.name, f.value)
		}
	}
	if len(e.Data) > 0 {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return escapeInvisible(appendText(b, `,"prev":`, e.Prev)), nil
}

// appendText appends a member whose value is s.
func appendText(b []byte, name, s string) []byte {
	b = append(b, name...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, _ := encodeJSON(s) // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// hashOf is the hash of an entry whose line is body, the hash field, and "}".
func hashOf(body []byte) string {
	var sum [sha256.Size]byte
	h := sha256.New()
	h.Write(body)
	h.Write([]byte{'}'})
	return hex.EncodeToString(h.Sum(sum[:0]))
}

// splitSeal cuts a line, without its newline, into the bytes that were hashed
// and the hash that the line claims.
func splitSeal(line []byte) (body, hash []byte, ok bool) {
	at := len(line) - sealLen
	if at < 0 {
		return nil, nil, false
	}
	seal := line[at:]
	if !bytes.HasPrefix(seal, []byte(hashMark)) || !bytes.HasSuffix(seal, []byte(hashEnd)) {
		return nil, nil, false
	}
	return line[:at], seal[len(hashMark) : len(seal)-len(hashEnd)], true
}

// encodeJSON is json.Marshal that leaves <, > and & as they are: a log of shell
// commands is full of them, and it is read by people.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// escapeInvisible spells every character of the JSON text b that does not show as
// \uXXXX: bidirectional overrides, zero-width characters, C1 controls. A log is
// read with cat and tail too, and an agent chooses much of what is in it. Such a
// character can only stand inside a string, so the text means the same.
func escapeInvisible(b []byte) []byte {
	if !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x7f }) {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r < 0x7f || unicode.IsPrint(r) && !blank(r) {
			out = append(out, b[i:i+n]...)
		} else {
			out = appendEscape(out, r)
		}
		i += n
	}
	return out
}

// blank reports whether r counts as printable and yet shows nothing: fillers and
// variation selectors.
func blank(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800'
}

func appendEscape(b []byte, r rune) []byte {
	if r1, r2 := utf16.EncodeRune(r); r1 != unicode.ReplacementChar {
		return fmt.Appendf(b, `\u%04x\u%04x`, r1, r2)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
