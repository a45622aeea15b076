package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/internal/units"
	"github.com/sandgate/sandgate/profiles"
	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Operator gives the operator profile that is shipped under a name, or that
// stands in a file (anything with a slash or an extension). vars are the
// configured paths by name, which "$NAME" in a path stands for; "$*" is each of
// them. The result is normalised and is meant for Intersect. What is wrong with
// a profile is an *Error.
func Operator(nameOrFile string, vars map[string]string) (sp.Profile, error) {
	if !isProfileFile(nameOrFile) {
		data, err := profiles.Operator(nameOrFile)
		if err != nil {
			return sp.Profile{}, err
		}
		return parseOperator(data, nameOrFile+".yaml", vars)
	}
	f, err := os.Open(nameOrFile)
	if err != nil {
		return sp.Profile{}, fmt.Errorf("config: read operator profile: %w", err)
	}
	defer f.Close()
	data, err := readBounded(f)
	if err != nil {
		return sp.Profile{}, fmt.Errorf("config: read operator profile: %w", err)
	}
	return parseOperator(data, nameOrFile, vars)
}

// operatorFile is an operator profile as it is written. Every axis is named: a forgotten
// one must neither grant everything nor, by surprise, nothing.
type operatorFile struct {
	Name        string            `yaml:"name" need:"required"`
	Reason      string            `yaml:"reason" need:"required"`
	Paths       operatorPaths     `yaml:"paths" need:"any"`
	Network     operatorNetwork   `yaml:"network" need:"any"`
	UnixSockets operatorNames     `yaml:"unix_sockets" need:"any"`
	Devices     operatorNames     `yaml:"devices" need:"any"`
	Syscalls    operatorNames     `yaml:"syscalls" need:"any"`
	Env         operatorNames     `yaml:"env" need:"any"`
	Limits      operatorLimits    `yaml:"limits" need:"any"`
	Protect     []string          `yaml:"protect"`
	Hide        []string          `yaml:"hide"`
	Scratch     []string          `yaml:"scratch"`
	Fresh       bool              `yaml:"fresh"`
	Examples    []operatorExample `yaml:"examples"`
}

// word is the text of a scalar, "" for anything else.
func word(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

const anyWord = "any"

// operatorPaths is any, or a list.
type operatorPaths struct {
	any  bool
	list []operatorGrant
}

type operatorGrant struct {
	Path   string         `yaml:"path" need:"required"`
	Rights operatorRights `yaml:"rights" need:"required"`
	Reason string         `yaml:"reason" need:"required"`
	// IfPresent is for what a profile takes away: see present.
	IfPresent bool `yaml:"if_present"`
}

func (p *operatorPaths) decodeNode(d *decoder, n *yaml.Node, field string) {
	if p.any = word(n) == anyWord; !p.any {
		d.slice(n, reflect.ValueOf(&p.list).Elem(), field)
	}
}

type operatorRights sp.Rights

func (r *operatorRights) decodeNode(d *decoder, n *yaml.Node, field string) {
	rights, err := sp.ParseRights(word(n))
	if err != nil {
		d.problem(n, field, err.Error(), "")
	}
	*r = operatorRights(rights)
}

// An operatorExample is a path and what the profile has to say of it. A file whose
// examples fail does not load.
type operatorExample struct {
	Path   string         `yaml:"path" need:"required"`
	Rights operatorRights `yaml:"rights" need:"required"`
}

// operatorNames is none, any, or a list. Any is the list of sp.All.
type operatorNames []string

func (l *operatorNames) decodeNode(d *decoder, n *yaml.Node, field string) {
	if anyOrList(d, n, field, (*[]string)(l)) {
		*l = operatorNames{sp.All}
	} else if slices.Contains(*l, sp.All) {
		d.problem(n, field, quote(sp.All)+" is not a name", "write any instead of the list")
	}
}

// anyOrList reads none, any, or a list.
func anyOrList[T any](d *decoder, n *yaml.Node, field string, list *[]T) (anything bool) {
	switch {
	case word(n) == anyWord:
		return true
	case word(n) == "none":
	case n.Kind != yaml.SequenceNode:
		d.wrongType(n, field, "none, any or a list", "")
	default:
		d.slice(n, reflect.ValueOf(list).Elem(), field)
	}
	return false
}

type operatorPorts struct {
	any  bool
	list []Port
}

func (l *operatorPorts) decodeNode(d *decoder, n *yaml.Node, field string) {
	l.any = anyOrList(d, n, field, &l.list)
}

type operatorNetwork struct{ network sp.Network }

func (o *operatorNetwork) decodeNode(d *decoder, n *yaml.Node, field string) {
	switch {
	case word(n) == "none":
		return
	case word(n) == anyWord || word(n) == string(NetworkHost):
		o.network.Mode = sp.NetworkHost
		return
	case n.Kind != yaml.MappingNode:
		d.wrongType(n, field, "none, host, any or {allow: [HOST[:PORT], ...], expose: [PORT, ...]}", "")
		return
	}
	var list struct {
		Allow  []hostrule.Rule `yaml:"allow"`
		Expose operatorPorts   `yaml:"expose"`
	}
	d.structure(n, reflect.ValueOf(&list).Elem(), field)
	nw := Network{Allow: list.Allow, Expose: list.Expose.list}
	if o.network.Expose = nw.Exposed(); list.Expose.any {
		o.network.Expose = []string{sp.All}
	}
	_, exposes := d.origins[fieldKey(field, "expose")]
	switch {
	case d.bad[fieldKey(field, "allow")] || d.bad[fieldKey(field, "expose")] || list.Allow == nil && exposes:
	case len(list.Allow) == 0:
		d.problem(n, field, "allow is empty", "write none")
	default:
		o.network.Mode, o.network.Allow = sp.NetworkProxied, [][]string{nw.Hosts()}
	}
}

// operatorLimits is any, or every limit.
type operatorLimits struct {
	Wall      operatorLimit[time.Duration] `yaml:"wall" need:"any"`
	CPU       operatorLimit[time.Duration] `yaml:"cpu" need:"any"`
	Memory    operatorLimit[units.Size]    `yaml:"memory" need:"any"`
	Pids      operatorLimit[units.Size]    `yaml:"pids" need:"any"`
	FileSize  operatorLimit[units.Size]    `yaml:"file_size" need:"any"`
	OpenFiles operatorLimit[units.Size]    `yaml:"open_files" need:"any"`
	Output    operatorLimit[units.Size]    `yaml:"output" need:"any"`
	Scratch   operatorLimit[units.Size]    `yaml:"scratch" need:"any"`
}

func (l *operatorLimits) decodeNode(d *decoder, n *yaml.Node, field string) {
	if word(n) != anyWord {
		d.structure(n, reflect.ValueOf(l).Elem(), field)
	}
}

// An operatorLimit is any, which is 0, or the most that there may be.
type operatorLimit[T time.Duration | units.Size] struct{ most T }

func (l *operatorLimit[T]) decodeNode(d *decoder, n *yaml.Node, field string) {
	if word(n) == anyWord {
		return
	}
	d.scalar(n, reflect.ValueOf(&l.most).Elem(), field)
	if l.most <= 0 && !d.bad[field] {
		d.problem(n, field, n.Value+" is not greater than zero", "write any to leave it unlimited")
	}
}

func (l operatorLimits) limits() sp.Limits {
	no := sp.NoLimits()
	return sp.Limits{
		Wall: cmp.Or(l.Wall.most, no.Wall), CPU: cmp.Or(l.CPU.most, no.CPU),
		Memory: cmp.Or(int64(l.Memory.most), no.Memory), Pids: cmp.Or(int64(l.Pids.most), no.Pids),
		FileSize: cmp.Or(int64(l.FileSize.most), no.FileSize), OpenFiles: cmp.Or(int64(l.OpenFiles.most), no.OpenFiles),
		Output: cmp.Or(int64(l.Output.most), no.Output), Scratch: cmp.Or(int64(l.Scratch.most), no.Scratch),
	}
}

func parseOperator(data []byte, file string, vars map[string]string) (sp.Profile, error) {
	doc, err := parseDocument(data, file)
	if err != nil {
		return sp.Profile{}, err
	}
	if doc == nil {
		return sp.Profile{}, oneProblem(Position{file, 1, 1}, "the file is empty", "")
	}
	var f operatorFile
	d := newDecoder(file)
	d.value(doc, reflect.ValueOf(&f).Elem(), "")
	k := operatorChecker{checker{c: &Config{Origins: d.origins}, d: d}, &f}
	k.heading()
	p := k.profile(vars)
	if len(d.problems) == 0 {
		if err := p.Validate(); err != nil {
			return sp.Profile{}, oneProblem(Position{file, 1, 1}, err.Error(), "")
		}
		k.examples(p, vars)
	}
	return p.Normalize(), newError(file, d.problems)
}

// An operatorChecker makes a profile of what is written.
type operatorChecker struct {
	checker
	f *operatorFile
}

func (k *operatorChecker) heading() {
	base := filepath.Base(k.d.file)
	if want := strings.TrimSuffix(base, filepath.Ext(base)); k.f.Name != want && !k.unusable("name") {
		k.problem("name", fmt.Sprintf("the name must be %q, like the file's", want), "")
	}
	if k.f.Reason == "" && !k.unusable("reason") {
		k.problem("reason", "the reason is empty", "write a sentence")
	}
}

func (k *operatorChecker) profile(vars map[string]string) sp.Profile {
	f := k.f
	return sp.Profile{
		Paths:       k.paths(vars, onThisHost),
		Scratch:     f.Scratch,
		Protect:     WithShipped(f.Protect, profiles.Protect()),
		Hide:        WithShipped(f.Hide, profiles.Hide()),
		Network:     f.Network.network,
		UnixSockets: f.UnixSockets,
		Devices:     f.Devices,
		Syscalls:    f.Syscalls,
		Env:         f.Env.env(),
		Limits:      f.Limits.limits(),
		Fresh:       f.Fresh,
	}
}

func (l operatorNames) env() sp.Env {
	if slices.Contains(l, sp.All) {
		return sp.Env{All: true}
	}
	return sp.Env{Names: l}
}

// examples holds the examples against the profile as it is for configured paths that lie
// beside each other and outside of everything else. Where a person's lie in one another or
// in the system, other rights are right.
func (k *operatorChecker) examples(p sp.Profile, vars map[string]string) {
	apart := map[string]string{"workspace": "/examples/workspace"}
	for name := range vars {
		apart[name] = path.Join("/examples", url.PathEscape(name))
	}
	p.Paths = k.paths(apart, anywhere)
	for i, e := range k.f.Examples {
		field := fieldIndex("examples", i)
		names, err := substitute(e.Path, apart)
		if err != nil {
			k.problem(field+".path", err.Error(), "")
		}
		for _, name := range names {
			if got := p.Rights(name); got != sp.Rights(e.Rights) {
				k.problem(field, fmt.Sprintf("%s has %v, and not %v as the example says", name, got, sp.Rights(e.Rights)), "")
			}
		}
	}
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

// paths are the rights of the list. Where two lines speak of one path, both hold.
func (k *operatorChecker) paths(vars map[string]string, h host) map[string]sp.Rights {
	if k.f.Paths.any {
		return sp.Top().Paths
	}
	paths := map[string]sp.Rights{}
	for i, g := range k.f.Paths.list {
		field := fieldIndex("paths", i)
		if g.Reason == "" && !k.unusable(field+".reason") {
			k.problem(field+".reason", quote(g.Path)+" has no reason", "write a sentence")
		}
		targets, err := substitute(g.Path, vars)
		if err == nil && g.IfPresent {
			targets, err = g.present(targets, h)
		}
		if err != nil {
			k.problem(field, err.Error(), "")
		}
		for _, name := range targets {
			rights := sp.Rights(g.Rights)
			if have, ok := paths[name]; ok {
				rights &= have
			}
			paths[name] = rights
		}
	}
	return paths
}

// present gives those of targets that the host has, by their real names. A path that
// is not there can be taken out of no directory that stays: nothing can be mounted
// over it. One that is made later is not covered until the profile is read again.
func (g operatorGrant) present(targets []string, h host) ([]string, error) {
	if g.Rights != 0 {
		return nil, fmt.Errorf("%q: if_present removes a path, so rights must be \"---\"", g.Path)
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
	known := slices.Sorted(maps.Keys(vars))
	if variable == "*" {
		var all []string
		for _, v := range known {
			all = append(all, path.Join(vars[v], below))
		}
		return all, nil
	}
	value, ok := vars[variable]
	if !ok {
		return nil, fmt.Errorf("path %q: no path is configured as %q, known are %s", name, variable, strings.Join(known, ", "))
	}
	return []string{path.Join(value, below)}, nil
}

// WithShipped puts the shipped list where the word "default" stands.
func WithShipped(list, shipped []string) []string {
	var out []string
	for _, p := range list {
		if p == DefaultList {
			out = append(out, shipped...)
		} else {
			out = append(out, p)
		}
	}
	return out
}
