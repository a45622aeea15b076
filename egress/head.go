package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// A head is a request line and the header fields after it (RFC 9112). It is read
// more strictly than the RFC asks of a server: wherever two programs are known to
// disagree about where a request ends or whom it is for, it is an error. What is
// sent on is written anew from the parsed form, never copied.
type head struct {
	method string
	target string
	minor  int // of HTTP/1.x
	fields []field

	framing framing
	length  int64 // of framedLength
}

type field struct{ name, value string }

// framing is how the end of a body is known.
type framing uint8

const (
	framedNone framing = iota
	framedLength
	framedChunked
)

// readHead reads a head of at most limit bytes. The error is io.EOF if the client
// closed instead of sending one.
func readHead(r *bufio.Reader, limit int) (*head, error) {
	line, err := readLine(r, &limit)
	if err != nil {
		return nil, err
	}
	h := &head{}
	if err := h.parseRequestLine(line); err != nil {
		return nil, err
	}
	for {
		line, err := readLine(r, &limit)
		if errors.Is(err, io.EOF) {
			return nil, malformed("the header is incomplete")
		}
		if err != nil {
			return nil, err
		}
		if line == "" {
			return h, h.parseFraming()
		}
		if err := h.parseField(line); err != nil {
			return nil, err
		}
	}
}

// readLine reads a line that ends in CR LF, and takes its length off the limit. A
// bare LF, which some servers take for the end of a line and some do not, is an error.
func readLine(r *bufio.Reader, limit *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if *limit -= len(part); *limit < 0 {
			return "", refuse(ReasonLimit, Target{}, "the header is too long")
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return "", malformed("the header is incomplete")
		}
		if err != nil {
			return "", err
		}
		break
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.ContainsAny(text, "\r\n\x00") {
		return "", malformed("a header line does not end in CR LF, or contains CR or NUL")
	}
	return string(text), nil
}

func (h *head) parseRequestLine(line string) error {
	parts := strings.Split(line, " ")
	if len(parts) != 3 {
		return malformed("request line %.80q: want METHOD TARGET VERSION", line)
	}
	h.method, h.target = parts[0], parts[1]
	switch parts[2] {
	case "HTTP/1.0":
	case "HTTP/1.1":
		h.minor = 1
	default:
		return malformed("request line %.80q: want HTTP/1.1 or HTTP/1.0", line)
	}
	if !isToken(h.method) {
		return malformed("request line %.80q: invalid method", line)
	}
	for _, c := range []byte(h.target) {
		if c <= ' ' || c >= 0x7f || c == '#' || c == '\\' {
			return malformed("request line %.80q: %q is not allowed in a URL", line, c)
		}
	}
	if h.target == "" {
		return malformed("request line %.80q: the target is missing", line)
	}
	return nil
}

// parseField refuses continuation lines and blanks before the colon (RFC 9112,
// sections 5.1 and 5.2): both have hidden a field from a proxy that its server saw.
func (h *head) parseField(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !isToken(name) {
		return malformed("header line %.80q: want NAME: VALUE", line)
	}
	value = strings.Trim(value, " \t")
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return malformed("header %s: the value contains a control character", name)
		}
	}
	h.fields = append(h.fields, field{name, value})
	return nil
}

// parseFraming decides how long the body is, and refuses requests for which two
// programs could decide differently (RFC 9112, section 6.3 and section 11.2).
func (h *head) parseFraming() error {
	lengths, codings := h.all("Content-Length"), h.all("Transfer-Encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		return malformed("more than one of Content-Length and Transfer-Encoding")
	case len(codings) == 1 && (h.minor == 0 || !strings.EqualFold(codings[0], "chunked")):
		return malformed("Transfer-Encoding %.80q: only chunked is supported, and only in HTTP/1.1", codings[0])
	case len(codings) == 1:
		h.framing = framedChunked
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || !isDigit(lengths[0][0]) {
			return malformed("Content-Length %.80q: not a number", lengths[0])
		}
		h.framing, h.length = framedLength, int64(n)
	}
	return nil
}

// all returns the values of a field.
func (h *head) all(name string) []string {
	var values []string
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			values = append(values, f.value)
		}
	}
	return values
}

// host returns what the Host field names; it must be there once in HTTP/1.1.
func (h *head) host(defaultPort uint16) (Target, error) {
	hosts := h.all("Host")
	if len(hosts) != 1 {
		return Target{}, malformed("%d Host fields, want one", len(hosts))
	}
	t, err := hostrule.ParseTarget(hosts[0], defaultPort)
	if err != nil {
		return Target{}, malformed("Host: %w", err)
	}
	return t, nil
}

// absolute reads the target of a request to a proxy, http://HOST[:PORT]/PATH, and
// holds Host against it.
func (h *head) absolute() (t Target, path string, err error) {
	scheme, rest, ok := strings.Cut(h.target, "://")
	switch {
	case !ok:
		r := malformed("the target %.80q has no scheme: this is a proxy", h.target)
		r.Hint = "send METHOD http://HOST/PATH, or CONNECT HOST:PORT"
		return Target{}, "", r
	case !strings.EqualFold(scheme, "http"):
		r := refuse(ReasonUnsupported, Target{}, "scheme %.80q", scheme)
		r.Hint = "use CONNECT HOST:PORT for anything but plain HTTP"
		return Target{}, "", r
	}
	end := strings.IndexAny(rest+"/", "/?")
	if t, err = hostrule.ParseTarget(rest[:end], hostrule.PortHTTP); err != nil {
		return Target{}, "", malformed("%w", err)
	}
	path = rest[min(end, len(rest)):]
	if path == "" && h.method == "OPTIONS" {
		path = "*" // RFC 9112, section 3.2.4
	} else if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if h.minor == 0 && len(h.all("Host")) == 0 {
		return t, path, nil
	}
	inner, err := h.host(hostrule.PortHTTP)
	if err == nil && inner != t {
		err = refuse(ReasonMismatch, t, "Host names %s", inner)
	}
	return t, path, err
}

// hopByHop are the fields that belong to one connection (RFC 9110, section 7.6.1)
// or that send writes itself. Proxy-* and what Connection lists go with them.
var hopByHop = []string{
	"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	"host", "content-length",
}

// drops returns a function that reports whether a field is left out.
func drops(connection []string) func(name string) bool {
	gone := slices.Clone(hopByHop)
	for _, value := range connection {
		for name := range strings.SplitSeq(value, ",") {
			gone = append(gone, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	return func(name string) bool {
		name = strings.ToLower(name)
		return strings.HasPrefix(name, "proxy-") || slices.Contains(gone, name)
	}
}

// hostField is how t is written in Host: without the port that goes without saying.
func (c *client) hostField(t Target) string {
	usual := uint16(hostrule.PortHTTP)
	if c.sealed {
		usual = hostrule.PortHTTPS
	}
	if t.Port == usual {
		return strings.TrimSuffix(t.String(), ":"+strconv.Itoa(int(usual)))
	}
	return t.String()
}

// marshal writes the head as it goes to a server, with one way to read it.
func (h *head) marshal(host, path string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", h.method, path, host)
	switch h.framing {
	case framedLength:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", h.length)
	case framedChunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	dropped := drops(h.all("Connection"))
	for _, f := range h.fields {
		if !dropped(f.name) {
			fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// send writes the request, with its body from r, to a server. The body passes
// through inspect.
func (h *head) send(w io.Writer, r *bufio.Reader, host, path string, inspect func(io.Reader) io.Reader) error {
	if _, err := w.Write(h.marshal(host, path)); err != nil {
		return err
	}
	switch h.framing {
	case framedLength:
		_, err := io.CopyN(w, inspect(r), h.length)
		return err
	case framedChunked:
		return copyChunked(w, r, inspect)
	}
	return nil
}

// maxTrailer bounds the trailer fields, in bytes.
const maxTrailer = 4 << 10

// copyChunked passes a chunked body on, chunked anew, without its trailer.
func copyChunked(w io.Writer, r *bufio.Reader, inspect func(io.Reader) io.Reader) error {
	out := httputil.NewChunkedWriter(w)
	if _, err := io.Copy(out, inspect(httputil.NewChunkedReader(r))); err != nil {
		return err
	}
	limit := maxTrailer
	for {
		line, err := readLine(r, &limit)
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\r\n")
	return err
}

func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenChar(s[i]) {
			return false
		}
	}
	return s != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isTokenChar is tchar of RFC 9110, section 5.6.2.
func isTokenChar(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
