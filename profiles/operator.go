package profiles

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Operator gives the operator profile that is shipped under a name, or that
// stands in a file (anything with a slash or an extension). vars are the
// configured paths by name, which "$NAME" in a path stands for; "$*" is each of
// them. The result is normalised and is meant for Intersect.
func Operator(nameOrFile string, vars map[string]string) (sp.Profile, error) {
	if strings.ContainsRune(nameOrFile, '/') || path.Ext(nameOrFile) != "" {
		b, err := readFile(nameOrFile)
		if err != nil {
			return sp.Profile{}, fmt.Errorf("profiles: read operator profile: %w", err)
		}
		return parseOperator(nameOrFile, b, vars)
	}
	b, file, err := read("operator", "profile", nameOrFile)
	if err != nil {
		return sp.Profile{}, err
	}
	return parseOperator(file, b, vars)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Reason is the sentence of a shipped operator profile.
func Reason(name string) (string, error) {
	b, file, err := read("operator", "profile", name)
	if err != nil {
		return "", err
	}
	var f operatorFile
	err = decode(file, b, &f)
	return f.Reason, err
}

type operatorFile struct {
	Name        string      `yaml:"name"`
	Reason      string      `yaml:"reason"`
	Paths       pathList    `yaml:"paths"`
	Network     networkPart `yaml:"network"`
	UnixSockets nameList    `yaml:"unix_sockets"`
	Devices     nameList    `yaml:"devices"`
	Syscalls    nameList    `yaml:"syscalls"`
	Env         nameList    `yaml:"env"`
	Limits      limitsPart  `yaml:"limits"`
	Protect     []string    `yaml:"protect"`
	Hide        []string    `yaml:"hide"`
	Scratch     []string    `yaml:"scratch"`
	Fresh       bool        `yaml:"fresh"`
}

// Each part knows whether it was written at all.

type pathList struct {
	set, any bool
	list     []grantAt
}

func (p *pathList) UnmarshalYAML(n *yaml.Node) error {
	p.set = true
	if word(n) == "any" {
		p.any = true
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("line %d: paths: want any, or a list of {path, rights, reason}", n.Line)
	}
	return n.Decode(&p.list)
}

// A nameList is none, any, or a list.
type nameList struct {
	set, any bool
	list     []string
}

func (l *nameList) UnmarshalYAML(n *yaml.Node) error {
	l.set = true
	switch word(n) {
	case "any":
		l.any = true
		return nil
	case "none":
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("line %d: want none, any or a list", n.Line)
	}
	if err := n.Decode(&l.list); err != nil {
		return err
	}
	if slices.Contains(l.list, sp.All) {
		return fmt.Errorf("line %d: %q is no name; write any instead of the list", n.Line, sp.All)
	}
	return nil
}

func (l nameList) names() []string {
	if l.any {
		return []string{sp.All}
	}
	return l.list
}

type networkPart struct {
	set   bool
	value sp.Network
}

func (p *networkPart) UnmarshalYAML(n *yaml.Node) error {
	p.set = true
	switch word(n) {
	case "none":
		return nil
	case "host", "any":
		p.value.Mode = sp.NetworkHost
		return nil
	}
	if err := onlyKeys(n, "allow"); err != nil {
		return fmt.Errorf("network: want none, host, any or {allow: [HOST[:PORT], ...]}: %w", err)
	}
	var list struct {
		Allow []string `yaml:"allow"`
	}
	if err := n.Decode(&list); err != nil {
		return err
	}
	if len(list.Allow) == 0 {
		return fmt.Errorf("line %d: network: allow is empty; write none", n.Line)
	}
	p.value = sp.Network{Mode: sp.NetworkProxied, Allow: [][]string{list.Allow}}
	return nil
}

// word is the text of an unquoted or quoted scalar, "" for anything else.
func word(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

type limitsPart struct {
	set    bool
	limits sp.Limits
}

func (p *limitsPart) UnmarshalYAML(n *yaml.Node) error {
	p.set = true
	p.limits = sp.NoLimits()
	if word(n) == "any" {
		return nil
	}
	fields := p.fields()
	known := slices.Sorted(maps.Keys(fields))
	if err := onlyKeys(n, known...); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	var values map[string]string
	if err := n.Decode(&values); err != nil {
		return err
	}
	for _, k := range known {
		v, ok := values[k]
		if !ok {
			return fmt.Errorf("line %d: limits: %s is missing; write any to leave it alone", n.Line, k)
		}
		if err := fields[k](v); err != nil {
			return fmt.Errorf("line %d: limits: %s: %w", n.Line, k, err)
		}
	}
	return nil
}

func (p *limitsPart) fields() map[string]func(string) error {
	l := &p.limits
	return map[string]func(string) error{
		"wall": duration(&l.Wall), "cpu": duration(&l.CPU),
		"memory": number(&l.Memory), "pids": number(&l.Pids), "file_size": number(&l.FileSize),
		"open_files": number(&l.OpenFiles), "output": number(&l.Output), "scratch": number(&l.Scratch),
	}
}

func duration(to *time.Duration) func(string) error {
	return func(s string) error {
		if s == "any" {
			return nil
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no positive time such as 90s or 5m", s)
		}
		*to = d
		return nil
	}
}

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

func number(to *int64) func(string) error {
	return func(s string) error {
		if s == "any" {
			return nil
		}
		n, err := parseSize(s)
		if err == nil {
			*to = n
		}
		return err
	}
}

func parseSize(s string) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && n > 0 && n <= math.MaxInt64/u.bytes {
			return n * u.bytes, nil
		}
		break
	}
	return 0, fmt.Errorf("%q is no positive number, or size such as 512MiB", s)
}

func parseOperator(file string, b []byte, vars map[string]string) (sp.Profile, error) {
	var f operatorFile
	if err := decode(file, b, &f); err != nil {
		return sp.Profile{}, err
	}
	p, err := f.profile(file, vars)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return sp.Profile{}, fmt.Errorf("profiles: %s: %w", file, err)
	}
	return p.Normalize(), nil
}

func (f operatorFile) profile(file string, vars map[string]string) (sp.Profile, error) {
	if err := f.complete(file); err != nil {
		return sp.Profile{}, err
	}
	paths, err := f.Paths.expand(vars)
	if err != nil {
		return sp.Profile{}, err
	}
	return sp.Profile{
		Paths:       paths,
		Scratch:     f.Scratch,
		Protect:     withDefaults(f.Protect, Protect),
		Hide:        withDefaults(f.Hide, Hide),
		Network:     f.Network.value,
		UnixSockets: f.UnixSockets.names(),
		Devices:     f.Devices.names(),
		Syscalls:    f.Syscalls.names(),
		Env:         sp.Env{All: f.Env.any, Names: f.Env.list},
		Limits:      f.Limits.limits,
		Fresh:       f.Fresh,
	}, nil
}

// complete says which sections are missing. A forgotten section must neither
// grant everything nor, by surprise, nothing.
func (f operatorFile) complete(file string) error {
	var errs []error
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"paths", f.Paths.set}, {"network", f.Network.set}, {"unix_sockets", f.UnixSockets.set},
		{"devices", f.Devices.set}, {"syscalls", f.Syscalls.set}, {"env", f.Env.set}, {"limits", f.Limits.set},
	} {
		if !s.set {
			errs = append(errs, fmt.Errorf("section %s is missing; write \"%s: any\" to leave it alone", s.name, s.name))
		}
	}
	if f.Name != stem(file) || f.Reason == "" {
		errs = append(errs, fmt.Errorf("name has to be %q, as the file is called, and reason a sentence", stem(file)))
	}
	return errors.Join(errs...)
}

func (p pathList) expand(vars map[string]string) (map[string]sp.Rights, error) {
	if p.any {
		return sp.Top().Paths, nil
	}
	paths := make(map[string]sp.Rights)
	for _, g := range p.list {
		rights, err := sp.ParseRights(g.Rights)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", g.line, err)
		}
		if g.Reason == "" {
			return nil, fmt.Errorf("line %d: %q has no reason", g.line, g.Path)
		}
		targets, err := substitute(g.Path, vars)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", g.line, err)
		}
		for _, k := range targets {
			if have, ok := paths[k]; ok {
				paths[k] = have & rights
			} else {
				paths[k] = rights
			}
		}
	}
	return paths, nil
}

// substitute gives the paths that a path of the file stands for: itself, or with
// "$NAME" in front the configured path of that name, or with "$*" each of them.
func substitute(name string, vars map[string]string) ([]string, error) {
	rest, ok := strings.CutPrefix(name, "$")
	if !ok {
		return []string{name}, nil
	}
	variable, below, _ := strings.Cut(rest, "/")
	if variable == "*" {
		var all []string
		for _, v := range slices.Sorted(maps.Keys(vars)) {
			all = append(all, path.Join(vars[v], below))
		}
		return all, nil
	}
	value, ok := vars[variable]
	if !ok {
		return nil, fmt.Errorf("path %q: no path is configured as %q, known are %s",
			name, variable, strings.Join(slices.Sorted(maps.Keys(vars)), ", "))
	}
	return []string{path.Join(value, below)}, nil
}

// withDefaults puts the shipped list where the word "default" stands.
func withDefaults(list []string, shipped func() []string) []string {
	var out []string
	for _, p := range list {
		if p == "default" {
			out = append(out, shipped()...)
		} else {
			out = append(out, p)
		}
	}
	return out
}
