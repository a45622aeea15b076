package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NetworkMode says how much of the network a command has.
type NetworkMode string

const (
	NetworkNone  NetworkMode = "none"  // loopback of its own only
	NetworkAllow NetworkMode = "allow" // the hosts of Network.Allow, through the egress proxy
	NetworkHost  NetworkMode = "host"  // no isolation
)

// A Network is `none`, `host`, or an allow-list. The zero value is not valid.
type Network struct {
	Mode NetworkMode
	// Allow holds host rules: "pypi.org:443", "*.golang.org", "192.0.2.7".
	Allow []string
	// Ask lets the operator be asked about a host that is not listed.
	Ask bool
}

// networkList is the mapping form of a Network.
type networkList struct {
	Allow []string `yaml:"allow" need:"required"`
	Ask   bool     `yaml:"ask"`
}

func (nw *Network) decodeNode(d *decoder, n *yaml.Node, field string) {
	words := []string{string(NetworkNone), string(NetworkHost)}
	switch {
	case n.Kind == yaml.MappingNode:
		var list networkList
		d.structure(n, reflect.ValueOf(&list).Elem(), field)
		*nw = Network{NetworkAllow, list.Allow, list.Ask}
	case n.Kind != yaml.ScalarNode:
		d.wrongType(n, field, "none, host or {allow: [...], ask: true}", "")
	case n.Value == words[0] || n.Value == words[1]:
		*nw = Network{Mode: NetworkMode(n.Value)}
	default:
		hint := "use none, host or {allow: [...], ask: true}"
		if s := suggest(n.Value, words); s != "" {
			hint = "did you mean " + quote(s) + "?"
		}
		d.problem(n, field, quote(n.Value)+" is not allowed here", hint)
	}
}

// rank orders networks from the strictest to the loosest.
func (nw Network) rank() int {
	switch nw.Mode {
	case NetworkHost:
		return 2
	case NetworkAllow:
		return 1
	}
	return 0
}

// A DNS name by RFC 1123, with underscores, which some services use.
var hostName = regexp.MustCompile(`^(?i:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)(?:\.(?i:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?))*$`)

// checkHostRule says what is wrong with a host rule, and what to write instead.
func checkHostRule(rule string) (problem, hint string) {
	if _, rest, ok := strings.Cut(rule, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return quote(rule) + " is a URL, not a host", "write " + quote(host)
	}
	host, port, err := splitHostRule(rule)
	if err != nil {
		return fmt.Sprintf("%s: %v", quote(rule), err), ""
	}
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Sprintf("%s: %s is not a port", quote(rule), quote(port)), "ports are 1 to 65535"
		}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return "", ""
	}
	if host == "*" {
		return `"*" would allow every host`, "name hosts, or write network: host for no isolation"
	}
	if name := strings.TrimPrefix(host, "*."); len(name) > 253 || !hostName.MatchString(name) {
		return quote(rule) + " is not a host rule", `write "example.org", "example.org:443", "*.example.org" or an address`
	}
	return "", ""
}

func splitHostRule(rule string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(rule, "["); ok {
		host, after, ok := strings.Cut(rest, "]")
		if !ok {
			return "", "", fmt.Errorf("the bracket is not closed")
		}
		port, ok := strings.CutPrefix(after, ":")
		if after != "" && !ok {
			return "", "", fmt.Errorf("only a port can follow the bracket")
		}
		return host, port, nil
	}
	if strings.Count(rule, ":") > 1 {
		return rule, "", nil // an IPv6 address without brackets and port
	}
	host, port, ok := strings.Cut(rule, ":")
	if ok && port == "" {
		return "", "", fmt.Errorf("the port is missing")
	}
	return host, port, nil
}
