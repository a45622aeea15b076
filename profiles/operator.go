package profiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/internal/units"
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

// Source is the text of a shipped operator profile, to begin one's own with: under
// another name it loads from a file that is called so.
func Source(name, as string) ([]byte, error) {
	b, file, err := read("operator", "profile", name)
	if err != nil {
		return nil, err
	}
	if as != stem(as) || as == "" || strings.ContainsAny(as, " \t\n\"'#:{}[]") {
		return nil, fmt.Errorf("profiles: %q is not the name of a profile: it is that of its file, without .yaml", as)
	}
	own, found := "name: "+stem(file)+"\n", false
	text := strings.SplitAfter(string(b), "\n")
	for i, line := range text {
		if line == own && !found {
			text[i], found = "name: "+as+"\n", true
		}
	}
	if !found {
		return nil, fmt.Errorf("profiles: bug: %s has no line %q", file, own)
	}
	return []byte(strings.Join(text, "")), nil
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
	Examples    []example   `yaml:"examples"`
}

// An example is a path and what the profile has to say of it. A file whose
// examples fail does not load.
type example struct {
	Path   string `yaml:"path"`
	Rights string `yaml:"rights"`
	line   int
}

// UnmarshalYAML keeps the line, and is as strict as the decoder around it.
func (e *example) UnmarshalYAML(n *yaml.Node) error {
	if err := onlyKeys(n, "path", "rights"); err != nil {
		return err
	}
	type plain example
	e.line = n.Line
	return n.Decode((*plain)(e))
}

// check holds the example against p, once for each path that it stands for.
func (e example) check(p sp.Profile, vars map[string]string) error {
	want, err := sp.ParseRights(e.Rights)
	if err != nil {
		return fmt.Errorf("line %d: example: %w", e.line, err)
	}
	paths, err := substitute(e.Path, vars)
	if err != nil {
		return fmt.Errorf("line %d: example: %w", e.line, err)
	}
	for _, name := range paths {
		if got := p.Rights(name); got != want {
			return fmt.Errorf("line %d: example: %s has %v, and not %v as the example says", e.line, name, got, want)
		}
	}
	return nil
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
	if err := onlyKeys(n, "allow", "expose"); err != nil {
		return fmt.Errorf("network: want none, host, any or {allow: [HOST[:PORT], ...], expose: [PORT, ...]}: %w", err)
	}
	var list struct {
		Allow  []string   `yaml:"allow"`
		Expose exposeList `yaml:"expose"`
	}
	if err := n.Decode(&list); err != nil {
		return err
	}
	p.value.Expose = list.Expose.names()
	if list.Allow == nil && list.Expose.set {
		return nil
	}
	if len(list.Allow) == 0 {
		return fmt.Errorf("line %d: network: allow is empty; write none", n.Line)
	}
	p.value.Mode, p.value.Allow = sp.NetworkProxied, [][]string{list.Allow}
	return nil
}

// An exposeList is a nameList of ports: PORT, or "HOST:INSIDE".
type exposeList struct{ nameList }

func (l *exposeList) UnmarshalYAML(n *yaml.Node) error {
	if err := l.nameList.UnmarshalYAML(n); err != nil {
		return err
	}
	for i, s := range l.list {
		port, err := sp.ParseExposedPort(s)
		if err != nil {
			return fmt.Errorf("line %d: network: %w", n.Line, err)
		}
		l.list[i] = port.String()
	}
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
		d, err := units.ParseDuration(s)
		if err == nil && d <= 0 {
			err = fmt.Errorf("%s is not more than nothing; write any to leave it alone", s)
		}
		*to = d
		return err
	}
}

func number(to *int64) func(string) error {
	return func(s string) error {
		if s == "any" {
			return nil
		}
		n, err := units.ParseSize(s)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s is not more than nothing; write any to leave it alone", s)
		}
		*to = int64(n)
		return err
	}
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
	if err == nil {
		err = f.checkExamples(p, vars)
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
	paths, err := f.Paths.expand(vars, onThisHost)
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

// checkExamples holds the examples against the profile as it is for configured
// paths that lie beside each other and outside of everything else. Where a person's
// lie in one another or in the system, other rights are right.
func (f operatorFile) checkExamples(p sp.Profile, vars map[string]string) error {
	if len(f.Examples) == 0 {
		return nil
	}
	apart := map[string]string{"workspace": "/examples/workspace"}
	for name := range vars {
		apart[name] = path.Join("/examples", url.PathEscape(name))
	}
	var err error
	if p.Paths, err = f.Paths.expand(apart, anywhere); err != nil {
		return err
	}
	for _, e := range f.Examples {
		if err := e.check(p, apart); err != nil {
			return err
		}
	}
	return nil
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

// A host tells where a path leads to, and "" of one that is not there.
type host func(name string) (string, error)

func onThisHost(name string) (string, error) {
	real, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	return real, err
}

// anywhere is a host that has everything, so that examples hold on each machine.
func anywhere(name string) (string, error) { return name, nil }

func (p pathList) expand(vars map[string]string, h host) (map[string]sp.Rights, error) {
	if p.any {
		return sp.Top().Paths, nil
	}
	paths := make(map[string]sp.Rights)
	for _, g := range p.list {
		if err := g.addTo(paths, vars, h); err != nil {
			return nil, fmt.Errorf("line %d: %w", g.line, err)
		}
	}
	return paths, nil
}

// addTo adds what one line says. Where two speak of one path, both hold.
func (g grantAt) addTo(paths map[string]sp.Rights, vars map[string]string, h host) error {
	rights, err := sp.ParseRights(g.Rights)
	if err != nil {
		return err
	}
	if g.Reason == "" {
		return fmt.Errorf("%q has no reason", g.Path)
	}
	targets, err := substitute(g.Path, vars)
	if err == nil && g.IfPresent {
		targets, err = g.present(rights, targets, h)
	}
	if err != nil {
		return err
	}
	for _, k := range targets {
		if have, ok := paths[k]; ok {
			paths[k] = have & rights
		} else {
			paths[k] = rights
		}
	}
	return nil
}

// present gives those of targets that the host has, by their real names. A path that
// is not there can be taken out of no directory that stays: nothing can be mounted
// over it. One that is made later is not covered until the profile is read again.
func (g grantAt) present(rights sp.Rights, targets []string, h host) ([]string, error) {
	if rights != 0 {
		return nil, fmt.Errorf("%q: if_present takes a path away, so rights has to be \"---\"", g.Path)
	}
	var there []string
	for _, name := range targets {
		real, err := h(name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", g.Path, err)
		}
		if real != "" {
			there = append(there, real)
		}
	}
	return there, nil
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
