package protocol

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// Output is most of what the agent socket carries. A client that asks for it gets the bytes as
// they are, behind a line that counts them. For the others one message, tool.output, has an
// encoder of its own, which looks at each byte once. It knows the message as it is written here
// and nothing else: everything that differs is left to encoding/json, with the same result.

// RawOutput is a ToolOutput as the program wrote it: the same message, encoded without
// a copy of its bytes in between.
type RawOutput struct {
	CallID  CallID
	Stream  Stream
	Data    []byte
	Omitted int64 // as in ToolOutput
}

// ToolOutput is the client's form of the message. It keeps nothing of Data.
func (o RawOutput) ToolOutput() ToolOutput {
	made := NewToolOutput(o.CallID, o.Stream, o.Data)
	made.Base64, made.Omitted = bytes.Clone(made.Base64), o.Omitted
	return made
}

// MarshalJSON implements json.Marshaler.
func (o RawOutput) MarshalJSON() ([]byte, error) { return marshal(o.ToolOutput()) }

// The parts of the message in front of its values.
const (
	outputStart  = `{"jsonrpc":"2.0","method":"tool.output","params":{"call_id":"`
	outputStream = `","stream":"`
	outputText   = `,"text":"`
	outputBase64 = `,"base64":"`
	outputEnd    = `"}}`
	outputRaw    = `,"raw_bytes":`
	outputRawEnd = `}}`
)

// AppendNotification appends the line of a notification, as EncodeNotification makes it.
func AppendNotification(b []byte, method Method, params any) ([]byte, error) {
	if o, ok := params.(RawOutput); ok && method == MethodToolOutput && o.isPlain() {
		return appendOutput(b, o), nil
	}
	line, err := EncodeNotification(method, params)
	return append(b, line...), err
}

// isPlain reports whether appendOutput can write o.
func (o RawOutput) isPlain() bool {
	return o.isUsual() && !hasSeparator(o.Data)
}

// isUsual reports whether o is a piece of output and nothing else, of a call whose id needs no
// escapes.
func (o RawOutput) isUsual() bool {
	return len(o.Data) > 0 && o.Omitted == 0 && isPlain(o.CallID) && isPlain(o.Stream)
}

// hasSeparator reports whether text holds one of the two characters beyond ASCII that
// encoding/json escapes, for the sake of old JavaScript.
func hasSeparator(text []byte) bool {
	return bytes.Contains(text, []byte("\u2028")) || bytes.Contains(text, []byte("\u2029"))
}

func appendOutput(b []byte, o RawOutput) []byte {
	b = append(b, outputStart...)
	b = append(b, o.CallID...)
	b = append(b, outputStream...)
	b = append(b, o.Stream...)
	b = append(b, '"')
	if utf8.Valid(o.Data) {
		b = append(b, outputText...)
		b = appendEscaped(b, o.Data)
	} else {
		b = append(b, outputBase64...)
		b = base64.StdEncoding.AppendEncode(b, o.Data)
	}
	return append(b, outputEnd...)
}

// AppendRawHeader appends the line of a tool.output, with its newline, that o.Data is to follow
// as it is. It says no to what such a line cannot say.
func AppendRawHeader(b []byte, o RawOutput) ([]byte, bool) {
	if !o.isUsual() {
		return b, false
	}
	b = append(append(b, outputStart...), o.CallID...)
	b = append(append(b, outputStream...), o.Stream...)
	b = append(append(b, '"'), outputRaw...)
	return append(strconv.AppendInt(b, int64(len(o.Data)), 10), outputRawEnd+"\n"...), true
}

// ParseRawHeader reads such a line, without its newline, exactly as AppendRawHeader writes it.
// Others are for ParseFromServer.
func ParseRawHeader(line []byte) (o ToolOutput, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(outputStart))
	if !ok {
		return ToolOutput{}, false
	}
	id, rest, ok := bytes.Cut(rest, []byte(outputStream))
	stream, rest, more := bytes.Cut(rest, []byte(`"`+outputRaw))
	count, end := bytes.CutSuffix(rest, []byte(outputRawEnd))
	n, err := strconv.ParseInt(string(count), 10, 64)
	if !ok || !more || !end || err != nil || n <= 0 || count[0] < '1' || !isPlain(id) || !isPlain(stream) {
		return ToolOutput{}, false
	}
	return ToolOutput{CallID: CallID(id), Stream: Stream(stream), RawBytes: n}, true
}

// isPlain reports whether s stands for itself between quotes.
func isPlain[T ~string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// appendEscaped appends text, which is well-formed UTF-8 without separators, as it
// stands in a JSON string of encoding/json.
func appendEscaped(b, text []byte) []byte {
	for {
		n := plainPrefix(text)
		b = append(b, text[:n]...)
		if n == len(text) {
			return b
		}
		switch c := text[n]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			const digits = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		text = text[n+1:]
	}
}

// Eight bytes are looked at as one number (Warren, Hacker's Delight, 6-1).
const (
	each = 0x0101010101010101 // times a byte: eight of it
	tops = 0x80 * each
)

// special marks, by its top bit, a byte of x that does not stand for itself in a JSON
// string: one below a space, a quote, a backslash. The lowest mark is right; those
// above it may not be.
func special(x uint64) uint64 {
	return ((x - ' '*each) | ((x ^ '"'*each) - each) | ((x ^ '\\'*each) - each)) &^ x & tops
}

// plainPrefix is how many bytes come before the first special one.
func plainPrefix(text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		if m := special(binary.LittleEndian.Uint64(text[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}
