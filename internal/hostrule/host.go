// Package hostrule reads what names hosts, ports and services of this machine: rules of a
// configuration, and what a client asks the proxy for. Both are read by the same code, so
// that the check and the match agree.
package hostrule

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// A Host is where a connection wants to go, in the one spelling that rules are held
// against: a DNS name in lower-case ASCII without the final dot, or an IP address. Two
// hosts are the same if they are equal with ==. The zero Host matches nothing.
type Host struct {
	name string
	addr netip.Addr
}

// HostAt is the host that is given as an address. An IPv4 address inside an IPv6 one is
// that IPv4 address.
func HostAt(addr netip.Addr) Host { return Host{addr: addr.Unmap()} }

// Name is the name of a host that was given as one; it is "" for an address.
func (h Host) Name() string { return h.name }

// Addr is the address of a host that was given as one; it is invalid for a name.
func (h Host) Addr() netip.Addr { return h.addr }

// IsAddr reports whether the host was given as an address and not as a name.
func (h Host) IsAddr() bool { return h.addr.IsValid() }

func (h Host) String() string {
	if h.IsAddr() {
		return h.addr.String()
	}
	return h.name
}

// Longest forms of RFC 1035, section 2.3.4, without the final dot; and of what is
// looked at at all, which leaves room for the Unicode spelling of a long name.
const (
	MaxLabel    = 63
	maxName     = 253
	maxSpelling = 1024
)

// ParseHost reads a host as a client may spell it: case, one final dot, Unicode
// (IDNA, UTS #46), brackets around IPv6, and every form of an IPv4 address that
// inet_aton(3) takes (0x7f.1, 2130706433, 0177.0.0.1), so that an address cannot
// pass for a name. An IPv4 address inside an IPv6 one (::ffff:127.0.0.1) is that
// IPv4 address. The underscore is taken in plain ASCII names only.
//
// Escapes, user information and zones are refused rather than taken off: programs
// differ in how they read them, and no honest client sends them here.
func ParseHost(s string) (Host, error) {
	if err := checkSpelling(s); err != nil {
		return Host{}, fmt.Errorf("host %.80q: %w", s, err)
	}
	h, err := parseHost(s)
	if err != nil {
		return Host{}, fmt.Errorf("host %.80q: %w", s, err)
	}
	return h, nil
}

func checkSpelling(s string) error {
	switch {
	case s == "":
		return errors.New("empty")
	case len(s) > maxSpelling:
		return errors.New("too long")
	case strings.Contains(s, "@"):
		return errors.New("user information before the host is not taken")
	case strings.Contains(s, "%"):
		return errors.New("percent escapes and zones are not taken")
	}
	return nil
}

func parseHost(s string) (Host, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok || !strings.Contains(inner, ":") {
			return Host{}, errors.New("brackets hold an IPv6 address")
		}
		return parseIPv6(inner)
	}
	if strings.Contains(s, ":") {
		return parseIPv6(s)
	}
	name, err := asciiName(s)
	if err != nil {
		return Host{}, err
	}
	if endsInNumber(name) {
		addr, err := parseNumeric(name)
		return Host{addr: addr}, err
	}
	return Host{name: name}, checkName(name)
}

func parseIPv6(s string) (Host, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Is6() {
		return Host{}, errors.New("not an IPv6 address")
	}
	return Host{addr: addr.Unmap()}, nil
}

// asciiName maps a name to lower-case ASCII. The mapping comes before every other
// check: it turns full-width digits and ideographic full stops into plain ones.
func asciiName(s string) (string, error) {
	lower := strings.ToLower(s)
	if !isASCII(s) || strings.Contains(lower, "xn--") {
		if !utf8.ValidString(s) {
			return "", errors.New("not UTF-8")
		}
		profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false))
		mapped, err := profile.ToASCII(s)
		if err != nil {
			return "", fmt.Errorf("not a valid international name: %w", err)
		}
		lower = strings.ToLower(mapped)
	}
	return strings.TrimSuffix(lower, "."), nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// checkName holds an ASCII name against RFC 1123, with the underscore that some
// services use. What IDNA maps to a slash or an "@" is caught here.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("longer than %d characters", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := CheckLabel(label); err != nil {
			return err
		}
	}
	return nil
}

// CheckLabel says what is wrong with one label of a name.
func CheckLabel(label string) error {
	switch {
	case label == "":
		return errors.New("a label is empty")
	case len(label) > MaxLabel:
		return fmt.Errorf("a label is longer than %d characters", MaxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("a label begins or ends with a hyphen")
	}
	for _, c := range []byte(label) {
		if c != '-' && c != '_' && !isDigit(c) && (c < 'a' || c > 'z') {
			return fmt.Errorf("%q is not a character of a host name", c)
		}
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// endsInNumber is the test of the WHATWG URL standard ("ends in a number checker")
// for what must be an IPv4 address or an error. No top-level domain is a number.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// parseNumeric reads an IPv4 address in the forms of inet_aton(3): one to four
// numbers, of which the last fills the bytes that are left.
func parseNumeric(s string) (netip.Addr, error) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, errors.New("an address has at most four numbers")
	}
	var sum uint64
	for i, part := range parts {
		n, err := parseNumber(part)
		if err != nil {
			return netip.Addr{}, err
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if n >= 1<<bits {
			return netip.Addr{}, fmt.Errorf("%q is too large for its place in an address", part)
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), nil
}

// parseNumber reads one number of C: hexadecimal after 0x, octal after 0.
func parseNumber(s string) (uint64, error) {
	digits, base := s, 10
	switch {
	case strings.HasPrefix(s, "0x"):
		digits, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		digits, base = s[1:], 8
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of an address", s)
	}
	return n, nil
}

// A Target is a host and the TCP port on it.
type Target struct {
	Host Host
	Port uint16
}

func (t Target) String() string {
	if t.Host.addr.Is6() {
		return "[" + t.Host.String() + "]:" + strconv.Itoa(int(t.Port))
	}
	return t.Host.String() + ":" + strconv.Itoa(int(t.Port))
}

// ParseTarget reads HOST:PORT. If the port is missing it is the default, and an
// error if that is zero.
func ParseTarget(s string, defaultPort uint16) (Target, error) {
	host, port, err := splitPort(s)
	if err != nil {
		return Target{}, err
	}
	t := Target{Port: defaultPort}
	if port != "" {
		if t.Port, err = parsePort(port); err != nil {
			return Target{}, err
		}
	}
	if t.Port == 0 {
		return Target{}, fmt.Errorf("%.80q: the port is missing", s)
	}
	t.Host, err = ParseHost(host)
	return t, err
}

// splitPort takes the port off. Colons without brackets are an IPv6 address only
// if there is more than one; port is then empty.
func splitPort(s string) (host, port string, err error) {
	end := strings.LastIndexByte(s, ']') + 1
	if end == 0 && strings.Count(s, ":") > 1 {
		return s, "", nil
	}
	host, port, found := strings.Cut(s[end:], ":")
	if end > 0 && host != "" {
		return "", "", fmt.Errorf("%.80q: only a port can follow the bracket", s)
	}
	if found && port == "" {
		return "", "", fmt.Errorf("%.80q: the port is missing after the colon", s)
	}
	return s[:end] + host, port, nil
}

// parsePort reads a port in its one spelling: no sign, no leading zero.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || !isDigit(s[0]) {
		return 0, fmt.Errorf("%.80q is not a port: want 1 to %d", s, math.MaxUint16)
	}
	return uint16(n), nil
}
