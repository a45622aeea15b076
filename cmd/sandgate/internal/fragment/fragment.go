package fragment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
)

// A Fragment is a part of a configuration that follows from what was seen, with a reason
// for each line. `learn` and `rules suggest` print it, and nothing puts it in force.
type Fragment struct {
	Presets []Reasoned `json:"presets,omitempty"`
	Paths   []Path     `json:"paths,omitempty"`
	Env     []Reasoned `json:"env,omitempty"` // nil: as it is
	// Network is the access of programs to the network; nil says nothing about it.
	Network *Network `json:"network,omitempty"`
	Rules   []Rule   `json:"rules,omitempty"`
}

type Reasoned struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

type Path struct {
	config.Path `json:"-"`
	Name        string      `json:"name"`
	Root        string      `json:"root"`
	Mode        config.Mode `json:"mode"`
	Reason      string      `json:"reason"`
}

type Network struct {
	Hosts    []Reasoned    `json:"hosts"`
	Services []Service     `json:"services,omitempty"`
	Expose   []config.Port `json:"expose,omitempty"`
}

type Service struct {
	Name   string `json:"name"`
	At     string `json:"at"`
	Reason string `json:"reason"`
}

type Rule struct {
	Pattern string `json:"pattern"`
	Exact   bool   `json:"exact,omitempty"`
	Reason  string `json:"reason"`
}

// Suggested has rules that were suggested.
func Suggested(s protocol.RulesSuggested) (f Fragment) {
	f.Rules = []Rule{}
	for _, g := range s.Suggestions {
		f.Rules = append(f.Rules, AllowedRule(g.Rule.Shell, g.Rule.Exact, g.Saved))
	}
	return f
}

func AllowedRule(pattern string, exact bool, saved int) Rule {
	return Rule{pattern, exact, cli.Plural(saved, "question was", "questions were") + " answered with yes, and none with no"}
}

// Text is the fragment as a file that loads. A reason is a comment: it is of programs'
// words, and one line.
func (f Fragment) Text() string {
	var b strings.Builder
	line := func(indent int, text, reason string) {
		if reason != "" {
			text += "  # " + approval.EscapeLine(reason)
		}
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", indent), text)
	}
	list := func(indent int, key string, l []Reasoned) {
		if len(l) == 0 {
			line(indent, key+": []", "")
			return
		}
		line(indent, key+":", "")
		for _, r := range l {
			line(indent+1, "- "+strconv.Quote(r.Name), r.Reason)
		}
	}
	line(0, "version: 1", "")
	if f.Presets != nil || f.Paths != nil || f.Env != nil {
		line(0, "sandbox:", "")
	}
	if f.Presets != nil {
		list(1, "presets", f.Presets)
	}
	if f.Paths != nil {
		line(1, "paths:", "")
		for _, p := range f.Paths {
			line(2, p.text(), p.Reason)
		}
	}
	if f.Env != nil {
		line(1, "env:", "")
		list(2, "allow", f.Env)
	}
	if f.Network != nil || f.Rules != nil {
		line(0, "shell:", "")
	}
	if n := f.Network; n != nil {
		switch {
		case len(n.Hosts)+len(n.Services)+len(n.Expose) == 0:
			line(1, "network: none", "nothing was sent anywhere")
		default:
			line(1, "network:", "")
			list(2, "allow", n.Hosts)
			if len(n.Services) > 0 {
				line(2, "services:", "")
				for _, s := range n.Services {
					line(3, s.Name+": "+strconv.Quote(s.At), s.Reason)
				}
			}
			if len(n.Expose) > 0 {
				var l []string
				for _, p := range n.Expose {
					l = append(l, strconv.Quote(p.String()))
				}
				line(2, "expose: ["+strings.Join(l, ", ")+"]", "")
			}
		}
	}
	switch {
	case f.Rules == nil:
	case len(f.Rules) == 0:
		line(1, "rules: []", "")
	default:
		line(1, "rules:", "")
		for _, r := range f.Rules {
			exact := ""
			if r.Exact {
				exact = "exact: true, "
			}
			line(2, fmt.Sprintf("- {pattern: %s, %sapproval: false}", strconv.Quote(r.Pattern), exact), r.Reason)
		}
	}
	return b.String()
}

func (p Path) text() string {
	words := []string{"root: " + strconv.Quote(p.Root), "mode: " + string(p.Mode)}
	if p.Mode == config.ReadWrite && !p.WriteApproval {
		words = append(words, "write_approval: false")
	}
	if p.ReadApproval {
		words = append(words, "read_approval: true")
	}
	if len(p.Suffixes) > 0 {
		var l []string
		for _, s := range p.Suffixes {
			l = append(l, strconv.Quote(s))
		}
		words = append(words, "suffixes: ["+strings.Join(l, ", ")+"]")
	}
	return p.Name + ": {" + strings.Join(words, ", ") + "}"
}

// Of is the access that a configuration gives to programs. The network of the host is
// not taken over: learn is to find out which hosts are needed.
func Of(cfg *config.Config, reason string) Fragment {
	f := Fragment{Presets: []Reasoned{}, Paths: []Path{}, Network: &Network{Expose: cfg.Shell.Network.Expose}}
	for _, name := range slices.Sorted(maps.Keys(cfg.Shell.Network.Services)) {
		f.Network.Services = append(f.Network.Services, Service{name, cfg.Shell.Network.Services[name], reason})
	}
	for _, name := range cfg.Sandbox.Presets {
		f.Presets = append(f.Presets, Reasoned{name, reason})
	}
	for _, p := range cfg.Sandbox.Paths {
		f.Paths = append(f.Paths, Path{p, p.Name, p.Root, p.Mode, reason})
	}
	if cfg.Shell.Network.Mode == config.NetworkAllow {
		for _, h := range cfg.Shell.Network.Hosts() {
			f.Network.Hosts = append(f.Network.Hosts, Reasoned{h, reason})
		}
	}
	return f
}

// Clone is a copy of which lists can be changed.
func (f Fragment) Clone() Fragment {
	f.Presets, f.Paths, f.Env, f.Rules = slices.Clone(f.Presets), slices.Clone(f.Paths), slices.Clone(f.Env), slices.Clone(f.Rules)
	if f.Network != nil {
		n := *f.Network
		n.Hosts, n.Services = slices.Clone(n.Hosts), slices.Clone(n.Services)
		f.Network = &n
	}
	return f
}

// With is a fragment and another one: what either of them has.
func (f Fragment) With(g Fragment) Fragment {
	f = f.Clone()
	f.Presets = Union(f.Presets, g.Presets)
	if f.Env != nil && g.Env != nil {
		f.Env = Union(f.Env, g.Env)
	} else {
		f.Env = nil // one of them has all
	}
	f.Rules = append(f.Rules, g.Rules...)
	if g.Network != nil {
		f.Network.Hosts = Union(f.Network.Hosts, g.Network.Hosts)
		for _, s := range g.Network.Services {
			if !slices.ContainsFunc(f.Network.Services, func(o Service) bool { return o.Name == s.Name }) {
				f.Network.Services = append(f.Network.Services, s)
			}
		}
	}
	for _, p := range g.Paths {
		f.addPath(p)
	}
	return f
}

func Union(a, b []Reasoned) []Reasoned {
	for _, r := range b {
		if !slices.ContainsFunc(a, func(x Reasoned) bool { return x.Name == r.Name }) {
			a = append(a, r)
		}
	}
	return a
}

// addPath adds a path, or makes one that is there writable. It reports whether that is more.
func (f *Fragment) addPath(p Path) bool {
	for i, q := range f.Paths {
		if q.Root != p.Root {
			continue
		}
		if q.Mode == config.ReadWrite || p.Mode == config.ReadOnly {
			return false
		}
		f.Paths[i].Mode, f.Paths[i].WriteApproval, f.Paths[i].Reason = p.Mode, p.WriteApproval, p.Reason
		return true
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(f.Paths, func(q Path) bool { return q.Name == name })
	}
	name := cmp.Or(p.Name, "learned")
	for n := 1; p.Name == "" || taken(p.Name); n++ {
		p.Name = name + strconv.Itoa(n)
	}
	f.Paths = append(f.Paths, p)
	return true
}

// Lacks reports whether it is without a variable of these.
func (f Fragment) Lacks(list []needs.Need) bool {
	return slices.ContainsFunc(list, func(n needs.Need) bool {
		return n.Env != "" && !slices.ContainsFunc(f.Env, func(e Reasoned) bool { return e.Name == n.Env })
	})
}

// Add adds what a call was refused. It reports whether that is more than there was.
func (f *Fragment) Add(n needs.Need, reason string) bool {
	switch {
	case n.Env != "":
		if slices.ContainsFunc(f.Env, func(e Reasoned) bool { return e.Name == n.Env }) {
			return false
		}
		f.Env = append(f.Env, Reasoned{n.Env, reason})
		return true
	case n.Host != "":
		if slices.ContainsFunc(f.Network.Hosts, func(h Reasoned) bool { return h.Name == n.Host }) {
			return false
		}
		f.Network.Hosts = append(f.Network.Hosts, Reasoned{n.Host, reason})
		return true
	case n.Preset != "":
		if slices.ContainsFunc(f.Presets, func(p Reasoned) bool { return p.Name == n.Preset }) {
			return false
		}
		f.Presets = append(f.Presets, Reasoned{n.Preset, reason})
		return true
	}
	p := Path{Root: n.Path, Mode: config.ReadOnly, Reason: reason}
	p.WriteApproval = true
	if n.Write {
		p.Mode = config.ReadWrite
	}
	return f.addPath(p)
}

// Overlay puts a fragment that was read back in the place of what cfg has.
func Overlay(cfg, part *config.Config) {
	cfg.Sandbox.Presets, cfg.Sandbox.Paths, cfg.Shell.Network = part.Sandbox.Presets, part.Sandbox.Paths, part.Shell.Network
	const env = "sandbox.env.allow"
	if part.Set(env) {
		cfg.Sandbox.Env.Allow, cfg.Origins[env] = part.Sandbox.Env.Allow, part.Origins[env]
	}
	cfg.Shell.Rules = append(part.Shell.Rules, cfg.Shell.Rules...)
}
