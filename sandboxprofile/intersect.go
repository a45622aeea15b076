package sandboxprofile

import (
	"cmp"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"
)

// All, as the only element of UnixSockets, Devices or Syscalls, stands for
// every one there is. It lets a ceiling leave an axis alone; the compilers
// refuse a profile in which it is left over.
const All = "*"

// Top is the profile that restricts nothing, the neutral element of Intersect.
func Top() Profile {
	return Profile{
		Paths:       map[string]Rights{"/": allRights},
		Network:     Network{Mode: NetworkHost},
		UnixSockets: []string{All},
		Devices:     []string{All},
		Syscalls:    []string{All},
		Env:         Env{All: true},
		Limits:      NoLimits(),
	}
}

// NoLimits is the limits that do not bind.
func NoLimits() Limits {
	return Limits{
		Wall: math.MaxInt64, CPU: math.MaxInt64,
		Memory: Unlimited, Pids: Unlimited, FileSize: Unlimited,
		OpenFiles: Unlimited, Output: Unlimited, Scratch: Unlimited,
	}
}

// Intersect is the exact meet of a and b: what both allow, no more and no less.
// The result is normalised. It is commutative, associative and idempotent, and
// its result is within both operands.
func Intersect(a, b Profile) Profile {
	m := Profile{
		Paths:       intersectPaths(a, b),
		Scratch:     union(a.Scratch, b.Scratch),
		Protect:     union(a.Protect, b.Protect),
		Hide:        union(a.Hide, b.Hide),
		Network:     intersectNetwork(a.Network, b.Network),
		UnixSockets: intersectSets(a.UnixSockets, b.UnixSockets),
		Devices:     intersectSets(a.Devices, b.Devices),
		Syscalls:    intersectSets(a.Syscalls, b.Syscalls),
		Env:         intersectEnv(a.Env, b.Env),
		Limits:      intersectLimits(a.Limits, b.Limits),
		Fresh:       a.Fresh || b.Fresh,
	}
	return m.Normalize()
}

// Within reports whether a allows nothing that b does not. It compares patterns
// as text, so it may say no where two patterns cover the same paths under
// different spellings; it never says yes wrongly.
func Within(a, b Profile) bool {
	return Equal(Intersect(a, b), a)
}

// Equal reports whether a and b are the same profile once normalised.
func Equal(a, b Profile) bool {
	return reflect.DeepEqual(a.Normalize(), b.Normalize())
}

// intersectPaths evaluates both profiles at every key of either. Between keys
// neither changes, so this is exact for every path. Patterns are left aside:
// taking rights away commutes with the intersection.
func intersectPaths(a, b Profile) map[string]Rights {
	m := make(map[string]Rights)
	for _, p := range []Profile{a, b} {
		for k := range p.Paths {
			m[k] = a.granted(k) & b.granted(k)
		}
		for _, k := range p.Scratch {
			m[k] = 0
		}
	}
	return m
}

func intersectNetwork(a, b Network) Network {
	n := Network{Mode: min(a.Mode, b.Mode), Ask: true, Expose: intersectSets(a.exposes(), b.exposes())}
	for _, side := range []Network{a, b} {
		if side.Mode == NetworkProxied {
			n.Allow = append(n.Allow, side.Allow...)
			n.Ask = n.Ask && side.Ask
			n.Terminated = append(n.Terminated, side.Terminated...)
		}
	}
	return n
}

func intersectSets(a, b []string) []string {
	switch {
	case slices.Contains(a, All):
		return b
	case slices.Contains(b, All):
		return a
	}
	return common(a, b)
}

func common(a, b []string) []string {
	var both []string
	for _, s := range a {
		if slices.Contains(b, s) {
			both = append(both, s)
		}
	}
	return both
}

func intersectEnv(a, b Env) Env {
	switch {
	case a.All:
		return b
	case b.All:
		return a
	}
	return Env{Names: common(a.Names, b.Names)}
}

func intersectLimits(a, b Limits) Limits {
	return Limits{
		Wall:      min(a.Wall, b.Wall),
		CPU:       min(a.CPU, b.CPU),
		Memory:    min(a.Memory, b.Memory),
		Pids:      min(a.Pids, b.Pids),
		FileSize:  min(a.FileSize, b.FileSize),
		OpenFiles: min(a.OpenFiles, b.OpenFiles),
		Output:    min(a.Output, b.Output),
		Scratch:   min(a.Scratch, b.Scratch),
	}
}

func union(a, b []string) []string {
	return append(slices.Clone(a), b...)
}

// Normalize gives the one way to write p: entries that change nothing dropped,
// sets sorted and without repetition, empty collections nil but for Paths. It
// shares no memory with p.
func (p Profile) Normalize() Profile {
	p.Scratch = sortedSet(p.Scratch)
	p.Paths = p.distinctPaths()
	p.Protect = sortedSet(p.Protect)
	p.Hide = sortedSet(p.Hide)
	p.Network = p.Network.normalize()
	p.UnixSockets = normalizeSet(p.UnixSockets)
	p.Devices = normalizeSet(p.Devices)
	p.Syscalls = normalizeSet(p.Syscalls)
	p.Env = p.Env.normalize()
	return p
}

// distinctPaths drops the entries whose rights are those of the entry around
// them, and those that a scratch directory at the same path overrules.
func (p Profile) distinctPaths() map[string]Rights {
	kept := make(map[string]Rights, len(p.Paths))
	for k, r := range p.Paths {
		if !slices.Contains(p.Scratch, k) && r != p.around(k) {
			kept[k] = r
		}
	}
	return kept
}

// around is the rights of the entry that contains k without being k.
func (p Profile) around(k string) Rights {
	if k == "/" {
		return 0
	}
	return p.granted(path.Dir(k))
}

func (n Network) normalize() Network {
	switch n.Mode {
	case NetworkHost:
		return Network{Mode: n.Mode}
	case NetworkNone:
		return Network{Mode: n.Mode, Expose: normalizeSet(n.Expose)}
	}
	n.Expose = normalizeSet(n.Expose)
	var lists [][]string
	for _, l := range n.Allow {
		lists = append(lists, append([]string{}, sortedSet(l)...))
	}
	slices.SortFunc(lists, slices.Compare[[]string])
	n.Allow = slices.CompactFunc(lists, slices.Equal[[]string])
	n.Terminated = sortedSet(n.Terminated)
	return n
}

func (e Env) normalize() Env {
	if e.All {
		return Env{All: true}
	}
	return Env{Names: sortedSet(e.Names)}
}

// Has reports whether a variable of this name may exist.
func (e Env) Has(name string) bool { return e.All || slices.Contains(e.Names, name) }

func normalizeSet(s []string) []string {
	if slices.Contains(s, All) {
		return []string{All}
	}
	return sortedSet(s)
}

// sortedSet copies s in order, each element once; an empty set is nil.
func sortedSet(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(s)))
}

// Keys are the paths at which the profile's rights can change, parents before
// children: the keys of Paths and the scratch directories.
func (p Profile) Keys() []string {
	keys := slices.Collect(maps.Keys(p.Paths))
	keys = sortedSet(append(keys, p.Scratch...))
	slices.SortFunc(keys, ComparePaths)
	return keys
}

// ComparePaths orders paths so that a directory is followed by all that lies
// below it, before any path beside it.
func ComparePaths(a, b string) int {
	a, b = strings.Trim(a, "/"), strings.Trim(b, "/")
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
