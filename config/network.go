package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/sandboxprofile"
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
	// Allow holds rules for hosts: "pkgs.example.org:443", "*.golang.org", "192.0.2.7".
	Allow []hostrule.Rule
	// Ask lets the operator be asked about a host that is not listed.
	Ask bool
	// Services of this machine that are offered inside, by name: "127.0.0.1:5432",
	// "[::1]:80", "unix:/run/x.sock".
	Services map[string]string
	// Expose holds ports inside that this machine's programs can connect to.
	Expose []Port
}

// A Port is an exposed port, in the file "HOST:INSIDE", or one number for both.
type Port sandboxprofile.ExposedPort

func (p Port) String() string {
	if p.Host == p.Inside {
		return strconv.Itoa(int(p.Inside))
	}
	return sandboxprofile.ExposedPort(p).String()
}

// MarshalText is String.
func (p Port) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (p *Port) decodeNode(d *decoder, n *yaml.Node, field string) {
	if !isScalar(n, "!!str", "!!int") {
		d.wrongType(n, field, "a port", "")
		return
	}
	port, err := sandboxprofile.ParseExposedPort(n.Value)
	if err != nil {
		d.problem(n, field, quote(n.Value)+" is not a port", `write 8080, or "HOST:INSIDE" such as "3000:8080"; a HOST of 0 is any free port`)
	}
	*p = Port(port)
}

// networkList is the mapping form of a Network. Without Allow it is for Expose alone.
type networkList struct {
	Allow    []hostrule.Rule   `yaml:"allow"`
	Ask      bool              `yaml:"ask"`
	Services map[string]string `yaml:"services"`
	Expose   []Port            `yaml:"expose"`
}

// exposeOnly is the mapping form of a Network that reaches nothing.
type exposeOnly struct {
	Expose []Port `yaml:"expose"`
}

func (nw *Network) decodeNode(d *decoder, n *yaml.Node, field string) {
	words := []string{string(NetworkNone), string(NetworkHost)}
	switch {
	case n.Kind == yaml.MappingNode:
		nw.decodeList(d, n, field)
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

func (nw *Network) decodeList(d *decoder, n *yaml.Node, field string) {
	var list networkList
	d.structure(n, reflect.ValueOf(&list).Elem(), field)
	*nw = Network{NetworkAllow, list.Allow, list.Ask, list.Services, list.Expose}
	_, hasAllow := d.origins[fieldKey(field, "allow")]
	switch {
	case hasAllow || d.bad[fieldKey(field, "allow")] || d.bad[fieldKey(field, "expose")]:
	case list.Expose != nil && !list.Ask && len(list.Services) == 0:
		nw.Mode = NetworkNone
	default:
		d.problem(n, fieldKey(field, "allow"), "missing", "add `allow:`")
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

// A service's name is one label: it cannot stand before a name that others own.
var serviceName = lazily(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// services checks what is offered inside of what listens on this machine.
func (k *checker) services(field string, list map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := fieldKey(field, name)
		if problem, hint := checkService(name, list[name]); problem != "" {
			k.problem(at, problem, hint)
		}
	}
}

func checkService(name, address string) (problem, hint string) {
	if !serviceName().MatchString(name) {
		return quote(name) + " is not a service's name", "use one word of lower-case letters, digits and hyphens that begins with a letter"
	}
	if _, err := hostrule.ServiceRule(name, address); err != nil {
		return err.Error(), ""
	}
	if socket, ok := strings.CutPrefix(address, "unix:"); ok {
		return checkSocket(socket)
	}
	return "", ""
}

// checkSocket wants the path without links: the proxy follows none, since a tool
// could have made them.
func checkSocket(socket string) (problem, hint string) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(socket))
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %s", quote(socket), cause(err)), "create its directory; the socket itself may appear later"
	case dir != filepath.Dir(socket):
		return quote(socket) + " is behind a symbolic link", "write " + quote(filepath.Join(dir, filepath.Base(socket)))
	}
	return "", ""
}

// credentials checks that each goes to one service or host of a network.
func (k *checker) credentials(field string, list []Credential, network string, nw Network) {
	for i := range list {
		s := &list[i]
		at := fieldKey(field, s.Name)
		switch {
		case !envName().MatchString(s.Name):
			k.problem(at, quote(s.Name)+" is not the name of an environment variable", "")
		case slices.Contains(k.c.Sandbox.Env.Allow, s.Name) || k.c.Sandbox.Env.Set[s.Name] != "":
			k.problem(at, quote(s.Name)+" has a value from sandbox.env too", "remove one of the two")
		}
		if !k.unusable(network) {
			k.credentialPlace(at, *s, network, nw)
		}
		if !k.unusable(at + ".file") {
			s.File = k.secretFile(at+".file", s.File)
		}
	}
}

func (k *checker) credentialPlace(at string, s Credential, network string, nw Network) {
	services := slices.Sorted(maps.Keys(nw.Services))
	switch {
	case k.unusable(at+".service") || k.unusable(at+".host"):
	case s.Service == "" && s.Host == "":
		k.problem(at, "a credential needs a service or a host", "add service: or host:, the only place to which it is sent")
	case s.Service != "" && s.Host != "":
		k.problem(at+".host", "a credential cannot have both a service and a host", "write two credentials")
	case s.Service != "":
		if !slices.Contains(services, s.Service) {
			hint := "add it there: the list is empty"
			if len(services) > 0 {
				hint = didYouMean(s.Service, services)
			}
			k.problem(at+".service", quote(s.Service)+" is not in "+network+".services", hint)
		}
	default:
		k.credentialHost(at+".host", s.Host, network, nw)
	}
}

func (k *checker) credentialHost(at, host, network string, nw Network) {
	t, err := hostrule.CredentialHost(host)
	name, _, _ := strings.Cut(host, ":")
	switch {
	case err != nil:
		k.problem(at, err.Error(), `write "example.org", or "example.org:8443"`)
	case nw.Services[name] != "":
		k.problem(at, quote(name)+" is the name of a service", "write service: "+name)
	case !slices.ContainsFunc(nw.Allow, func(r hostrule.Rule) bool { return r.Matches(t) }):
		k.problem(at, quote(host)+" is not in "+network+".allow", "add it there: a credential does not allow a host by itself")
	}
}

// expose checks the ports that this machine's programs can connect to.
func (k *checker) expose(field string, ports []Port) {
	taken := map[uint16]bool{}
	for i, p := range ports {
		at := fieldIndex(field, i)
		switch {
		case k.unusable(at):
		case p.Inside < unprivileged:
			k.problem(at, fmt.Sprintf("no program in a sandbox can listen on port %d", p.Inside), fmt.Sprintf(`use a port from %d on inside; the host's port is free to choose: "%d:8080"`, unprivileged, p.Host))
		case p.Host != 0 && taken[p.Host]:
			k.problem(at, fmt.Sprintf("port %d of this machine is given twice", p.Host), `write "0:`+strconv.Itoa(int(p.Inside))+`" for any free port`)
		}
		taken[p.Host] = true
	}
}

// unprivileged is the first port that a program without capabilities can listen on
// (ip(7), ip_unprivileged_port_start), which every network namespace begins with.
const unprivileged = 1024

// exposes reports whether nw exposes all ports of other.
func (nw Network) exposes(other Network) bool {
	return nw.Mode == NetworkHost || !slices.ContainsFunc(other.Expose, func(p Port) bool { return !slices.Contains(nw.Expose, p) })
}

// Exposed are the ports of Expose as profiles write them.
func (nw Network) Exposed() []string {
	var list []string
	for _, p := range nw.Expose {
		list = append(list, sandboxprofile.ExposedPort(p).String())
	}
	return list
}

// AllowHosts is the network that reaches hosts by rules as the file format has them.
func AllowHosts(rules ...string) (Network, error) {
	nw := Network{Mode: NetworkAllow, Allow: make([]hostrule.Rule, len(rules))}
	for i, text := range rules {
		if err := nw.Allow[i].UnmarshalText([]byte(text)); err != nil {
			return Network{}, fmt.Errorf("%s: %w", quote(text), err)
		}
	}
	return nw, nil
}

// Hosts are the rules of Allow as the file format has them.
func (nw Network) Hosts() []string {
	var list []string
	for _, r := range nw.Allow {
		list = append(list, r.String())
	}
	return list
}

// withoutAllow is what to write instead of an empty list of hosts.
func (nw Network) withoutAllow() string {
	if len(nw.Expose) > 0 {
		return "leave allow out"
	}
	return "write network: none"
}

// HostNetwork is the notice about each network that is the host's.
const HostNetwork = "commands can use the host's whole network, without isolation"
