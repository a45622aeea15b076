package sandboxprofile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Explanation says in plain words what a profile lets a tool do.
type Explanation struct {
	Sections []Section  `json:"sections"`
	Exposure []Exposure `json:"exposure"`
}

// A Section is one thing that a tool may do, and to what.
type Section struct {
	Verb  string   `json:"verb"` // "reads and runs", "changes", ...
	Items []string `json:"items"`
}

// An Exposure is one way in which a tool could do harm, in the manner of
// systemd-analyze(1) security but without a number: the lines do not add up.
type Exposure struct {
	Name    string `json:"name"`
	Exposed bool   `json:"exposed"`
	Why     string `json:"why"`
	// Close says how to close it; "" if it is closed or cannot be closed.
	Close string `json:"close,omitempty"`
}

// Explain describes p. It says what the profile means; what enforces it on a host
// is the backend's to say.
func Explain(p Profile) Explanation {
	p = p.Normalize()
	return Explanation{Sections: sections(p), Exposure: exposures(p)}
}

func sections(p Profile) []Section {
	all := []Section{
		{"reads and runs", p.withRights(Read|Execute, Read|Execute)},
		{"reads", p.withRights(Read|Execute, Read)},
		{"runs, unread", p.withRights(Read|Execute, Execute)},
		{"changes", p.withRights(Write, Write)},
		{"but never changes", patternsText(p.Protect)},
		{"and never sees", append(p.withheld(), patternsText(p.Hide)...)},
		{"has for itself", scratchText(p)},
		{"reaches", reachText(p)},
		{"is told", []string{envText(p.Env)}},
		{"uses at most", limitsText(p.Limits)},
		{"keeps", []string{keepsText(p)}},
	}
	return slices.DeleteFunc(all, func(s Section) bool { return len(s.Items) == 0 })
}

// withRights are the paths whose rights under mask are exactly want, and change there. Those of
// the system are one item, because people do not read forty lines.
func (p Profile) withRights(mask, want Rights) []string {
	var list, system []string
	for _, k := range p.Keys() {
		if p.granted(k)&mask != want || k != "/" && p.around(k)&mask == want {
			continue
		}
		if IsSystemTree(k) {
			system = append(system, k)
		} else {
			list = append(list, k)
		}
	}
	const most = 8
	if more := len(system) - most; more > 1 {
		system = append(system[:most:most], fmt.Sprintf("and %d more of the system", more))
	}
	return append(list, system...)
}

// withheld are the paths inside granted ones that have no right at all.
func (p Profile) withheld() []string {
	var list []string
	for _, k := range p.Keys() {
		if p.granted(k) == 0 && !slices.Contains(p.Scratch, k) && p.around(k) != 0 {
			list = append(list, k)
		}
	}
	return list
}

func patternsText(patterns []string) []string {
	const most = 6
	if more := len(patterns) - most; more > 1 {
		return append(slices.Clone(patterns[:most]), fmt.Sprintf("and %d more names, at any depth", more))
	}
	return patterns
}

func scratchText(p Profile) []string {
	if len(p.Scratch) == 0 {
		return nil
	}
	return append(slices.Clone(p.Scratch), "empty at first and gone with the sandbox, "+limit{"scratch", p.Limits.Scratch}.text()+" each")
}

func reachText(p Profile) []string {
	items := []string{"no host; only its own loopback"}
	switch p.Network.Mode {
	case NetworkHost:
		items = []string{"every host and service that this machine can reach"}
	case NetworkProxied:
		items = []string{"through the egress proxy, which works for every program: " + strings.Join(p.Network.lists(), "; of these ")}
		if len(p.Network.Terminated) > 0 {
			items = append(items, "with credentials, TLS ending at sandgate: "+setText(p.Network.Terminated))
		}
	}
	if exposed := p.Network.exposeText(); len(exposed) > 0 {
		items = append(items, "can be reached by other programs of this user: "+strings.Join(exposed, ", "))
	}
	if len(p.UnixSockets) == 0 {
		items = append(items, "no Unix socket of the machine")
	}
	return append(items, Outside(p)...)
}

// Outside lists what a profile reaches on the machine besides files and hosts: Unix sockets and
// devices, each of which may do anything.
func Outside(p Profile) (items []string) {
	for _, s := range p.UnixSockets {
		items = append(items, "Unix socket "+orEvery(s, "(every one)"))
	}
	for _, d := range p.Devices {
		items = append(items, "device "+orEvery(d, "(every one)"))
	}
	return items
}

func envText(e Env) string {
	switch {
	case e.All:
		return "every environment variable"
	case len(e.Names) == 0:
		return "no environment variable"
	}
	return strings.Join(e.Names, " ")
}

func limitsText(l Limits) []string {
	var items []string
	for _, e := range l.table() {
		if e.value != Unlimited && e.name != "scratch" {
			items = append(items, strings.ReplaceAll(e.name, "_", " ")+" "+e.text())
		}
	}
	return items
}

func keepsText(p Profile) string {
	var kept []string
	if grantsWrite(p) {
		kept = append(kept, "changes in writable directories")
	}
	if !p.Fresh && slices.Contains(p.Scratch, "/tmp") {
		kept = append(kept, "/tmp, for calls of the same session that the same rule or answer allows")
	}
	if len(kept) == 0 {
		kept = []string{"nothing"}
	}
	return strings.Join(kept, ", ") + "; no process outlives its call"
}

// text writes a limit in the unit that people use for it.
func (l limit) text() string {
	switch {
	case l.value == Unlimited:
		return "unlimited"
	case l.name == "wall" || l.name == "cpu":
		return time.Duration(l.value).String()
	case l.name == "pids" || l.name == "open_files":
		return strconv.FormatInt(l.value, 10)
	}
	return sizeText(l.value)
}

// sizeText writes bytes in the largest binary unit that divides them.
func sizeText(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
