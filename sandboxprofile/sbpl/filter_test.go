package sbpl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// parseFilter reads one filter.
func parseFilter(n node) (filter, error) {
	if n.head() == "" || len(n.list) < 2 {
		return nil, fmt.Errorf("want a filter, found %v", n)
	}
	switch n.head() {
	case "require-all", "require-any", "require-not":
		return parseCombination(n)
	case "remote", "local":
		return parseAddress(n)
	case "regex":
		return parseRegex(n)
	}
	if len(n.list) != 2 {
		return nil, fmt.Errorf("%s takes one value, found %v", n.head(), n)
	}
	return parseValue(n.head(), n.list[1])
}

func parseCombination(n node) (filter, error) {
	var parts []filter
	for _, item := range n.list[1:] {
		f, err := parseFilter(item)
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	switch n.head() {
	case "require-any":
		return func(r Request) bool { return matchesAny(parts, r) }, nil
	case "require-all":
		return func(r Request) bool {
			return !slices.ContainsFunc(parts, func(f filter) bool { return !f(r) })
		}, nil
	}
	if len(parts) != 1 {
		return nil, fmt.Errorf("require-not takes one filter, found %v", n)
	}
	return func(r Request) bool { return !parts[0](r) }, nil
}

// escaped is a character that stands for itself; a letter after a backslash never does.
var escaped = regexp.MustCompile(`\\[^0-9A-Za-z]`)

// parseRegex compiles an expression. Seatbelt's dialect has no flags, classes by
// name or counted repetition; what it has means the same in Go, but for the dot,
// which there matches a line break.
func parseRegex(n node) (filter, error) {
	if len(n.list) != 2 || n.list[1].kind != regexNode {
		return nil, fmt.Errorf(`want (regex #"..."), found %v`, n)
	}
	source := n.list[1].text
	if plain := escaped.ReplaceAllString(source, ""); strings.Contains(plain, "(?") || strings.ContainsAny(plain, `{}\`) {
		return nil, fmt.Errorf("%q is no expression of Seatbelt's", source)
	}
	re, err := regexp.Compile("(?s)" + source)
	if err != nil {
		return nil, err
	}
	return func(r Request) bool { return r.Path != "" && re.MatchString(r.Path) }, nil
}

// parseValue reads the filters with one value.
func parseValue(name string, v node) (filter, error) {
	if atoms := name == "target" || name == "socket-domain" || name == "file-mode"; atoms != (v.kind == atomNode) || v.kind == listNode || v.kind == regexNode {
		return nil, fmt.Errorf("%s does not take %v", name, v)
	}
	s := v.text
	switch name {
	case "literal", "path-literal":
		return func(r Request) bool { return r.Path == s }, nil
	case "subpath":
		return func(r Request) bool { return r.Path != "" && s != "" && sp.Contains(s, r.Path) }, nil
	case "target":
		return func(r Request) bool { return r.Target == s || s == "same-sandbox" && r.Target == "self" }, nil
	case "global-name", "sysctl-name", "ipc-posix-name":
		return func(r Request) bool { return r.Name == s }, nil
	case "sysctl-name-prefix":
		return func(r Request) bool { return strings.HasPrefix(r.Name, s) }, nil
	case "extension":
		return func(r Request) bool { return r.Extension == s }, nil
	case "socket-domain":
		return func(r Request) bool { return r.Domain == s }, nil
	case "file-mode":
		bits, ok := octal(s)
		if !ok {
			return nil, fmt.Errorf("file-mode does not take %v", v)
		}
		return func(r Request) bool { return r.Mode&bits == bits }, nil
	}
	return nil, fmt.Errorf("unknown filter %s", name)
}

// parseAddress reads (remote ip "host:port") and (remote unix-socket FILTER), and
// the same for local.
func parseAddress(n node) (filter, error) {
	if len(n.list) != 3 {
		return nil, fmt.Errorf("unknown address %v", n)
	}
	kind, value := n.list[1], n.list[2]
	switch {
	case kind.text == "unix-socket" && value.kind == listNode:
		f, err := parseFilter(value)
		if err != nil {
			return nil, err
		}
		return func(r Request) bool { return r.Host == "" && f(r) }, nil
	case kind.text == "ip" && value.kind == stringNode:
		return parseIP(value.text)
	}
	return nil, fmt.Errorf("unknown address %v", n)
}

// parseIP reads an address. Seatbelt knows no host but these two.
func parseIP(address string) (filter, error) {
	host, port, ok := strings.Cut(address, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if !ok || (host != "*" && host != "localhost") || (port != "*" && (err != nil || number == 0)) {
		return nil, fmt.Errorf("no such address: %q", address)
	}
	return func(r Request) bool {
		return r.Host != "" && (host == "*" || r.Host == host) && (port == "*" || uint64(r.Port) == number)
	}, nil
}
