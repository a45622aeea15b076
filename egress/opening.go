package egress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// What a client says first in a tunnel can hold the name of a server: in TLS, or as Host.
// Servers are lenient, each in its own way: one drops a TLS alert that comes before the
// hello, one parts the words of a request at any white space, one trims what stands before
// it. So the question is not what is TLS or HTTP. No server accepts such bytes in their
// place, and only that passes unseen.

// tlsPorts carry TLS from the first byte. There nothing passes unseen but SSH, which is
// offered on 443 for networks that let nothing else out.
var tlsPorts = []uint16{443, 465, 563, 636, 853, 990, 992, 993, 995, 5061, 5671, 6697, 8443, 8883}

// textPorts have a protocol whose client speaks first, in lines: whois, Redis, IRC,
// memcached, STOMP. Such a line can look like a request of HTTP/0.9.
var textPorts = []uint16{43, 6379, 6667, 11211, 61613}

// redisArray begins with what looks like a method. No server of HTTP takes it, since it has
// no second word.
var redisArray = regexp.MustCompile(`^\*[0-9]+\r\n`)

const sshBanner = "SSH-"

// asksPostgres are the messages (but for their last byte) by which a client of PostgreSQL
// asks for TLS or GSS encryption. The server answers with one byte, and the client begins
// anew.
const (
	asksPostgres = "\x00\x00\x00\x08\x04\xd2\x16"
	asksLength   = len(asksPostgres) + 1
	asksControls = 5 // so many may be all that another client says
)

// A beginning is the kind of a client's first bytes.
type beginning int

const (
	undecided  beginning = iota // more of it has to be seen
	harmless                    // no server takes it for TLS or HTTP
	aHello                      // TLS: it has to be a ClientHello
	aRequest                    // HTTP: it has to be a proper request
	nothingYet                  // some bytes pass, and it goes on after them
	anAsk                       // some bytes pass, and it begins anew after an answer of one byte
)

// An opening judges clear text by its first line.
type opening struct {
	text   bool   // lines that do not speak of HTTP are none
	binary bool   // control characters have passed
	passed []byte // what has passed after them
	first  []byte // of all that has passed, as much as an ask is long
}

// maxPassed is more than a request line has anywhere.
const maxPassed = 64 << 10

// beginning reads as much as it takes to know, and consumes nothing. Of nothingYet, n
// bytes are to be passed on.
func (c *client) beginning(t Target, g *greeting, o *opening) (what beginning, n int, err error) {
	if !o.binary && c.looksLikeTLS() {
		return aHello, 0, nil
	}
	o.text = o.text || g.spoke.Load() // a server of HTTP/1 or TLS does not speak first
	what, n, err = o.read(c.r)
	if err != nil {
		return undecided, 0, err
	}
	if what == aRequest {
		return what, 0, nil
	}
	b, _ := c.r.Peek(c.r.Buffered())
	if slices.Contains(tlsPorts, t.Port) && !bytes.HasPrefix(b, []byte(sshBanner)) {
		return what, 0, refuse(ReasonMismatch, t, "the first bytes are not TLS, and port %d carries only TLS", t.Port)
	}
	if what == anAsk {
		g.asked.Add(1)
	}
	return what, n, nil
}

// read judges what r begins with. It consumes nothing.
func (o *opening) read(r *bufio.Reader) (what beginning, n int, err error) {
	for want := 1; ; {
		b, err := r.Peek(max(want, r.Buffered()))
		what, n = o.judge(b)
		switch {
		case what != undecided:
			return what, n, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return aRequest, 0, nil
		case errors.Is(err, io.EOF):
			return harmless, 0, nil // incomplete, and no more will come
		case err != nil:
			return undecided, 0, err
		}
		want = len(b) + 1
	}
}

// looksLikeTLS recognises what a TLS server takes for the first record, or drops before
// it. An alert may have any version: crypto/tls looks at that later. The ClientHello of
// SSL 2.0, which TLS 1.0 servers took too, has no place for a name.
func (c *client) looksLikeTLS() bool {
	first, err := c.r.Peek(1)
	switch {
	case err != nil:
		return false
	case first[0] == recordHandshake:
		return true
	case first[0]&0x80 != 0:
		b, err := c.r.Peek(3)
		return err == nil && b[2] == typeClientHello
	case first[0] < recordChangeCipherSpec || first[0] > recordHeartbeat:
		return false
	}
	b, err := c.r.Peek(5)
	return err == nil && (b[1] == 3 || b[0] == recordAlert && binary.BigEndian.Uint16(b[3:]) == 2)
}

// judge looks for a word, and what some server takes for a blank, behind whatever some
// server skips.
func (o *opening) judge(b []byte) (what beginning, n int) {
	if what, n = o.judgeAsk(b); what == anAsk || what == undecided && len(o.first)+len(b) > asksControls {
		return what, n
	}
	lead := 0
	if len(o.passed) == 0 {
		lead = skipped(b)
	}
	if o.binary = o.binary || slices.ContainsFunc(b[:lead], isControl); o.binary {
		return o.judgeBinary(b, lead)
	}
	what = o.judgeLine(b[lead:])
	if lead == 0 && (redisArray.Match(b) || bytes.HasPrefix(b, []byte(sshBanner))) {
		what = harmless
	}
	return what, 0
}

// judgeAsk knows an ask by its first bytes.
func (o *opening) judgeAsk(b []byte) (what beginning, n int) {
	whole := append(slices.Clone(o.first), b[:min(len(b), asksLength-len(o.first))]...)
	k := min(len(whole), len(asksPostgres))
	switch {
	case string(whole[:k]) != asksPostgres[:k]:
		return harmless, 0
	case len(whole) < asksLength:
		return undecided, 0
	}
	n = asksLength - len(o.first)
	*o = opening{text: o.text}
	return anAsk, n
}

// judgeBinary lets pass what is not yet a whole line. The message of a binary protocol can
// look like the beginning of one, and its client waits for an answer.
func (o *opening) judgeBinary(b []byte, lead int) (what beginning, n int) {
	o.passed = append(o.passed, b[lead:]...)
	switch what = o.judgeLine(o.passed); {
	case what != undecided:
		return what, 0
	case len(o.passed) > maxPassed:
		return aRequest, 0
	}
	o.first = append(o.first, b[:min(len(b), asksLength-len(o.first))]...)
	return nothingYet, len(b)
}

// judgeLine looks at the first line of what no server skips. No method begins with a digit
// or has control characters behind it, as a packet of git or LDAP has.
func (o *opening) judgeLine(b []byte) beginning {
	end := slices.IndexFunc(b, func(c byte) bool { return !isTokenChar(c) })
	switch {
	case end < 0 || string(b[end:]) == "\r":
		return undecided
	case !isBlank(b[end]):
		return harmless
	}
	line, _, whole := bytes.Cut(b, []byte("\n"))
	packet := o.binary || isDigit(b[0])
	switch {
	case packet && slices.ContainsFunc(line, isControl):
		return harmless
	case (packet || o.text) && !whole:
		return undecided
	case o.text && !strings.Contains(strings.ToUpper(string(line)), "HTTP/"):
		return harmless
	}
	return aRequest
}

// skipped is how many bytes at the beginning of b some server skips.
func skipped(b []byte) int {
	n := slices.IndexFunc(b, func(c byte) bool { return !isBlank(c) && !isControl(c) })
	if n < 0 {
		return len(b)
	}
	return n
}

// isBlank accepts what a language's own split takes for white space, in Latin-1 too.
func isBlank(c byte) bool {
	return '\t' <= c && c <= '\r' || 0x1c <= c && c <= ' ' || c == 0x85 || c == 0xa0
}

// isControl is every other control character of ASCII.
func isControl(c byte) bool { return (c < ' ' || c == 0x7f) && !isBlank(c) }
