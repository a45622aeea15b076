package sandboxprofile

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A Change is one thing in which a second profile differs from a first.
type Change struct {
	// Axis is the field of the profile as JSON names it: "paths", "limits", ...
	Axis string `json:"axis"`
	// Name is the path, pattern, variable or limit; "" where the axis is one value.
	Name string `json:"name,omitempty"`
	// Before and After describe the two profiles in words; "" means nothing.
	Before string `json:"before"`
	After  string `json:"after"`
	Effect Effect `json:"effect"`
}

// Effect says how a change affects what a tool may do.
type Effect string

// The effects of a change. Both is less of one right and more of another. Same is
// a path at which the change of a path above ends.
const (
	Less Effect = "less"
	More Effect = "more"
	Both Effect = "both"
	Same Effect = "same"
)

// Diff lists what changes from a to b, nothing twice and nothing that follows from
// something else in the list: a change at a path holds below it, up to the next
// path in the list. It is empty exactly if a and b are Equal. From a to
// Intersect(a, b) every change is a Less: something that the ceiling b takes away.
func Diff(a, b Profile) []Change {
	a, b = a.Normalize(), b.Normalize()
	changes := diffPaths(a, b)
	changes = append(changes, diffNames("scratch", a.Scratch, b.Scratch, Less)...)
	changes = append(changes, diffNames("protect", a.Protect, b.Protect, Less)...)
	changes = append(changes, diffNames("hide", a.Hide, b.Hide, Less)...)
	changes = append(changes, diffNetwork(a.Network, b.Network)...)
	changes = append(changes, diffSets("unix_sockets", a.UnixSockets, b.UnixSockets)...)
	changes = append(changes, diffSets("devices", a.Devices, b.Devices)...)
	changes = append(changes, diffSets("syscalls", a.Syscalls, b.Syscalls)...)
	changes = append(changes, diffEnv(a.Env, b.Env)...)
	changes = append(changes, diffLimits(a.Limits, b.Limits)...)
	if a.Fresh != b.Fresh {
		changes = append(changes, Change{Axis: "fresh", Before: yesNo(a.Fresh), After: yesNo(b.Fresh), Effect: pick(b.Fresh, Less, More)})
	}
	return changes
}

// diffPaths compares the rights at every key of either, before patterns.
func diffPaths(a, b Profile) []Change {
	keys := sortedSet(append(a.Keys(), b.Keys()...))
	slices.SortFunc(keys, ComparePaths)
	var changes []Change
	for _, k := range keys {
		before, after := a.granted(k), b.granted(k)
		upBefore, upAfter := Rights(0), Rights(0)
		if k != "/" {
			upBefore, upAfter = a.granted(path.Dir(k)), b.granted(path.Dir(k))
		}
		if before == upBefore && after == upAfter || before == after && upBefore == upAfter {
			continue // it follows from the line above, or nothing changes in either
		}
		changes = append(changes, Change{Axis: "paths", Name: k, Before: letters(before), After: letters(after), Effect: rightsEffect(before, after)})
	}
	return changes
}

func rightsEffect(before, after Rights) Effect {
	switch {
	case after == before:
		return Same
	case after.SubsetOf(before):
		return Less
	case before.SubsetOf(after):
		return More
	}
	return Both
}

// letters is a set of rights as ls(1) writes it.
func letters(r Rights) string {
	b, err := r.MarshalText()
	if err != nil {
		return r.String()
	}
	return string(b)
}

// diffSets compares two sets of grants, of which All is every one there is.
func diffSets(axis string, a, b []string) []Change {
	if everyA, everyB := slices.Contains(a, All), slices.Contains(b, All); everyA != everyB {
		return []Change{{Axis: axis, Before: setText(a), After: setText(b), Effect: pick(everyB, More, Less)}}
	}
	return diffNames(axis, a, b, More)
}

// diffNames lists the names that only one of two lists has; added says whether one
// more name gives more or less.
func diffNames(axis string, a, b []string, added Effect) []Change {
	var changes []Change
	for _, s := range sortedSet(append(slices.Clone(a), b...)) {
		switch inA, inB := slices.Contains(a, s), slices.Contains(b, s); {
		case inA && !inB:
			changes = append(changes, Change{Axis: axis, Name: s, Before: "yes", Effect: pick(added == More, Less, More)})
		case inB && !inA:
			changes = append(changes, Change{Axis: axis, Name: s, After: "yes", Effect: added})
		}
	}
	return changes
}

func setText(s []string) string {
	switch {
	case len(s) == 0:
		return "none"
	case slices.Contains(s, All):
		return "any"
	}
	return strings.Join(s, ", ")
}

func diffEnv(a, b Env) []Change {
	if a.All != b.All {
		return []Change{{Axis: "env", Before: envText(a), After: envText(b), Effect: pick(b.All, More, Less)}}
	}
	return diffNames("env", a.Names, b.Names, More)
}

// diffNetwork compares modes, and between two lists of hosts the lists: a further
// list that a host has to be on allows less.
//
// What the host can reach follows from the mode where one of them is the host's.
func diffNetwork(a, b Network) []Change {
	changes := diffReach(a, b)
	if a.Mode == NetworkHost || b.Mode == NetworkHost {
		return changes
	}
	return append(changes, diffSets("expose", a.Expose, b.Expose)...)
}

func diffReach(a, b Network) []Change {
	if a.Mode != b.Mode {
		return []Change{{Axis: "network", Before: a.text(), After: b.text(), Effect: pick(b.Mode < a.Mode, Less, More)}}
	}
	return append(diffHosts(a, b), diffNames("hosts with TLS ending at sandgate", a.Terminated, b.Terminated, Less)...)
}

func diffHosts(a, b Network) []Change {
	listA, listB := a.lists(), b.lists()
	if len(listA) == 1 && len(listB) == 1 && listA[0] != listB[0] {
		return diffNames("network", a.Allow[0], b.Allow[0], More)
	}
	return diffNames("network", listA, listB, Less)
}

// lists is each list of hosts as text.
func (n Network) lists() []string {
	var lists []string
	for _, l := range n.Allow {
		lists = append(lists, "only "+setText(l))
	}
	return lists
}

func (n Network) text() string {
	return strings.TrimSuffix(n.Mode.String()+": "+strings.Join(n.lists(), "; "), ": ")
}

func diffLimits(a, b Limits) []Change {
	var changes []Change
	after := b.table()
	for i, l := range a.table() {
		if o := after[i]; l.value != o.value {
			changes = append(changes, Change{Axis: "limits", Name: l.name, Before: l.text(), After: o.text(), Effect: pick(cmp.Less(o.value, l.value), Less, More)})
		}
	}
	return changes
}

func pick(first bool, a, b Effect) Effect {
	if first {
		return a
	}
	return b
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
