package shell

import (
	"strconv"
	"strings"
)

// decodeANSI gives the value of the text between $' and ' (bash(1), QUOTING), as far
// as it does not depend on the locale or the version. It reports false for others, and
// where the value has a NUL, at which bash cuts it.
func decodeANSI(s string) (string, bool) {
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !found {
			return b.String(), true
		}
		c, n := ansiEscape(rest)
		if n == 0 {
			return b.String(), false
		}
		b.WriteByte(c)
		s = rest[n:]
	}
}

// ansiEscape gives the byte that the escape at the start of s stands for, its backslash
// already taken, and its length; 0 if there is none.
func ansiEscape(s string) (c byte, n int) {
	if s == "" {
		return 0, 0
	}
	if i := strings.IndexByte(`abeEfnrtv\'"?`, s[0]); i >= 0 {
		return "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[i], 1
	}
	digits, base, most, from := "01234567", 8, 3, 0
	if i := strings.IndexByte("xuU", s[0]); i >= 0 {
		digits, base, most, from = "0123456789abcdefABCDEF", 16, []int{2, 4, 8}[i], 1
	}
	n = from
	for n < len(s) && n < from+most && strings.IndexByte(digits, s[n]) >= 0 {
		n++
	}
	v, err := strconv.ParseUint(s[from:n], base, 32)
	if err != nil || v == 0 || v > 0xff || v > 0x7f && s[0] != 'x' {
		return 0, 0
	}
	return byte(v), n
}
