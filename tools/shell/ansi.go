package shell

import (
	"strings"
	"unicode/utf8"
)

// decodeANSI gives the value of the text between $' and ' (bash(1), QUOTING).
// It reports false when the value has a NUL, where bash cuts it.
func decodeANSI(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		n, ok := decodeEscape(&b, s[i+1:])
		if !ok {
			return b.String(), false
		}
		i += 1 + n
	}
	return b.String(), true
}

// decodeEscape writes what the escape at the start of s (its backslash already
// taken) stands for, and gives its length.
func decodeEscape(b *strings.Builder, s string) (n int, ok bool) {
	if i := strings.IndexByte(`abeEfnrtv\'"?`, s[0]); i >= 0 {
		b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[i])
		return 1, true
	}
	switch c := s[0]; {
	case c >= '0' && c <= '7':
		v, n := digits(s, 8, 3)
		b.WriteByte(byte(v))
		return n, byte(v) != 0
	case c == 'x' && strings.HasPrefix(s, "x{"):
		return 0, false // a form of some bash versions only
	case c == 'x', c == 'u', c == 'U':
		return decodeHex(b, s)
	case c == 'c' && len(s) > 1:
		v := s[1] & 0x1f
		b.WriteByte(v)
		return 2, v != 0 && s[1] != '\\'
	}
	b.WriteByte('\\') // an unknown escape stays as it is
	b.WriteByte(s[0])
	return 1, true
}

func decodeHex(b *strings.Builder, s string) (n int, ok bool) {
	most := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	v, n := digits(s[1:], 16, most)
	switch {
	case n == 0:
		b.WriteString(`\` + s[:1])
		return 1, true
	case v == 0:
		return 0, false
	case s[0] == 'x':
		b.WriteByte(byte(v))
	case v > utf8.MaxRune:
		return 0, false
	default:
		b.WriteRune(rune(v))
	}
	return 1 + n, true
}

// digits reads up to most digits of the base at the start of s.
func digits(s string, base, most int) (v, n int) {
	for n < len(s) && n < most {
		d := strings.IndexByte("0123456789abcdef", s[n]|0x20)
		if s[n] <= '9' {
			d = int(s[n]) - '0'
		}
		if d < 0 || d >= base {
			break
		}
		v = v*base + d
		n++
	}
	return v, n
}
