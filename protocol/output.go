package protocol

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Output is most of what the agent socket carries. So one message, tool.output, has
// an encoder and a decoder of its own, which look at each byte once. They know the
// message as it is written here and nothing else: everything that differs is left to
// encoding/json, with the same result.

// RawOutput is a ToolOutput as the program wrote it: the same message, encoded without
// a copy of its bytes in between.
type RawOutput struct {
	CallID CallID
	Stream Stream
	Data   []byte
}

// ToolOutput is the client's form of the message.
func (o RawOutput) ToolOutput() ToolOutput { return NewToolOutput(o.CallID, o.Stream, o.Data) }

// MarshalJSON implements json.Marshaler.
func (o RawOutput) MarshalJSON() ([]byte, error) { return marshal(o.ToolOutput()) }

// The parts of the message in front of its values.
const (
	outputStart  = `{"jsonrpc":"2.0","method":"tool.output","params":{"call_id":"`
	outputStream = `","stream":"`
	outputText   = `,"text":"`
	outputBase64 = `,"base64":"`
	outputEnd    = `"}}`
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
	return len(o.Data) > 0 && isPlain(o.CallID) && isPlain(o.Stream) && !hasSeparator(o.Data)
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

// ParseToolOutput reads the line of a tool.output. It knows lines as this package
// writes them. Of others, good ones too, it says no: they are for ParseFromServer.
func ParseToolOutput(line []byte) (o ToolOutput, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(outputStart))
	if !ok {
		return ToolOutput{}, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte(outputEnd)); !ok {
		return ToolOutput{}, false
	}
	id, rest, ok := bytes.Cut(rest, []byte(outputStream))
	if !ok || !isPlain(id) {
		return ToolOutput{}, false
	}
	stream, rest, _ := bytes.Cut(rest, []byte{'"'})
	switch o.CallID = CallID(id); string(stream) {
	case string(Stdout):
		o.Stream = Stdout
	case string(Stderr):
		o.Stream = Stderr
	default:
		return ToolOutput{}, false
	}
	if text, is := bytes.CutPrefix(rest, []byte(outputText)); is {
		o.Text, ok = unescape(text)
	} else if data, is := bytes.CutPrefix(rest, []byte(outputBase64)); is {
		o.Base64, ok = decodeBase64(data)
	} else {
		ok = false
	}
	if !ok {
		return ToolOutput{}, false
	}
	return o, true
}

// decodeBase64 refuses line ends, which package base64 passes over.
func decodeBase64(data []byte) ([]byte, bool) {
	if len(data) == 0 || bytes.IndexByte(data, '\r') >= 0 || bytes.IndexByte(data, '\n') >= 0 {
		return nil, false
	}
	decoded, err := base64.StdEncoding.AppendDecode(nil, data)
	return decoded, err == nil
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

// unescape reads what stands between the quotes of a JSON string. It says no to
// whatever is not such a string, and to surrogates, which come in pairs.
func unescape(raw []byte) (string, bool) {
	if !utf8.Valid(raw) {
		return "", false
	}
	var text strings.Builder
	text.Grow(len(raw))
	for {
		n := plainPrefix(raw)
		text.Write(raw[:n])
		if raw = raw[n:]; len(raw) == 0 {
			return text.String(), true
		}
		if len(raw) < 2 || raw[0] != '\\' {
			return "", false
		}
		c := raw[1]
		raw = raw[2:]
		switch c {
		case '"', '\\', '/':
		case 'n':
			c = '\n'
		case 't':
			c = '\t'
		case 'r':
			c = '\r'
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'u':
			r, ok := unit(raw)
			if !ok {
				return "", false
			}
			text.WriteRune(r)
			raw = raw[4:]
			continue
		default:
			return "", false
		}
		text.WriteByte(c)
	}
}

// unit reads the four hexadecimal digits of a character that is not half of a pair.
func unit(raw []byte) (rune, bool) {
	if len(raw) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[:4]), 16, 16)
	return rune(n), err == nil && !utf16.IsSurrogate(rune(n))
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
