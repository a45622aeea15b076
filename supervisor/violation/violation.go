// Package violation says what a sandbox refused a call: as it was observed, or as
// it follows from what a program printed.
//
// [Policy.Infer] reads a program's standard error. What it finds there is a claim
// of the program, which may lie, so it counts only if the profile does not grant
// what the claim is about; each such violation is marked inferred. What sandgate
// saw itself, or the kernel answered it, is marked observed.
//
// The package never looks at a disk. Whether a path exists is therefore in none of
// its answers: "no such file" and "permission denied" about a path that is not
// granted give the same violation.
package violation

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// Max bounds how many violations one source gives for one call. More says that there were others.
const Max = 20

// More is the end of a list that is bounded: n others were refused. Who refuses counts some of them each
// time that they are tried.
func More(kind protocol.ViolationKind, basis protocol.Basis, n int) []protocol.Violation {
	if n == 0 {
		return nil
	}
	return []protocol.Violation{{Kind: kind, Basis: basis, Reason: fmt.Sprintf("the list ends here: more was refused (%d)", n)}}
}

// A Policy is what a call ran under. Its zero value grants nothing.
type Policy struct {
	Profile  sp.Profile // of the plan: the tool's own, and the operator's over it
	Operator sp.Profile // the ceiling alone, so that the line that would allow can be told
	Fixed    []string   // private directories that the call writes nothing to: see sp.Ceiling.EmptyHome
	// Elsewhere: private directories have names of their own, and are not what stands at theirs.
	Elsewhere bool
}

// rightOf is the right of a profile behind a word of the wire.
func rightOf(r protocol.Right) sp.Rights {
	switch r {
	case protocol.RightRead:
		return sp.Read
	case protocol.RightWrite:
		return sp.Write
	case protocol.RightExecute:
		return sp.Execute
	}
	return 0
}

// Refused reports whether the profile grants less than right at the absolute,
// clean path name. A scratch directory can be written, whatever else.
func (p Policy) Refused(name string, right protocol.Right) bool {
	if right == protocol.RightWrite && p.fixed(name) {
		return true
	}
	if right == protocol.RightWrite && p.scratch(name) != "" && !p.Elsewhere {
		return false
	}
	return !rightOf(right).SubsetOf(p.Profile.Rights(name))
}

// fixed reports whether name lies in one of those, and nowhere else that the profile lets be written.
func (p Policy) fixed(name string) bool {
	bare := p.Profile
	bare.Protect, bare.Hide = nil, nil
	return slices.ContainsFunc(p.Fixed, func(dir string) bool { return sp.Contains(dir, name) }) && bare.Rights(name)&sp.Write == 0
}

// scratch is the private directory that name lies in, where no path of the profile lies
// deeper, or "".
func (p Policy) scratch(name string) string {
	for dir := name; ; dir = path.Dir(dir) {
		if slices.Contains(p.Profile.Scratch, dir) {
			return dir
		}
		if _, own := p.Profile.Paths[dir]; own || dir == "/" {
			return ""
		}
	}
}

// File is the refusal of a right at a path. It must be Refused.
func (p Policy) File(name string, right protocol.Right, basis protocol.Basis) protocol.Violation {
	v := protocol.Violation{Kind: protocol.ViolationFile, Basis: basis, Path: name, Right: right}
	v.Reason, v.Allow = p.why(name, right)
	v.Hint = p.fileHint(right)
	return v
}

// why names the part of the policy that withholds the right, and the line that
// would give it. The order is from what no line can change to what one can.
func (p Policy) why(name string, right protocol.Right) (reason, allow string) {
	withheld := func(operator bool, list string, patterns []string) (string, string) {
		pattern := covering(patterns, name)
		where := "sandbox." + list
		if operator {
			where = list + " of the operator's profile"
		}
		return fmt.Sprintf("%s is withheld by the pattern %q", right, pattern), fmt.Sprintf("%s: a list without %q", where, pattern)
	}
	switch write := right == protocol.RightWrite; {
	case write && p.fixed(name):
		return "several programs of one line write nothing to HOME, where each looks for orders: run them by calls of their own", ""
	case sp.Contains("/proc", name) || sp.Contains("/dev", name) || sp.Contains("/sys", name):
		return "/proc, /dev and /sys are the sandbox's own", ""
	case covering(p.Operator.Hide, name) != "":
		return withheld(true, "hide", p.Operator.Hide)
	case covering(p.Profile.Hide, name) != "":
		return withheld(false, "hide", p.Profile.Hide)
	case write && covering(p.Operator.Protect, name) != "":
		return withheld(true, "protect", p.Operator.Protect)
	case write && covering(p.Profile.Protect, name) != "":
		return withheld(false, "protect", p.Profile.Protect)
	case !rightOf(right).SubsetOf(p.Operator.Rights(name)):
		rights, _ := (p.Operator.Rights(name) | rightOf(right)).MarshalText() // known rights only
		return fmt.Sprintf("the operator's profile does not grant %s there", right),
			fmt.Sprintf("paths of the operator's profile: - {path: %s, rights: %s, reason: \"...\"}", strconv.Quote(name), quoteRights(rights))
	case write && p.Elsewhere && p.scratch(name) != "":
		return fmt.Sprintf("programs write to a directory of their own instead of %s; to write here, create a directory first and make it writable (run --rw)", p.scratch(name)), p.rootLine(name, right)
	case p.scratch(name) != "":
		return fmt.Sprintf("%s is the sandbox's own directory, not the machine's", p.scratch(name)), p.rootLine(name, right)
	}
	return fmt.Sprintf("the profile does not grant %s there", right), p.rootLine(name, right)
}

// quoteRights keeps "---" and "-wx" from being YAML of another kind.
func quoteRights(text []byte) string {
	if text[0] == '-' {
		return strconv.Quote(string(text))
	}
	return string(text)
}

// rootLine is the line that shows a path. What may be written is a directory, and the line
// names the one that the path lies in, but none of the system's, and none that has the
// sandbox's own directories below it: a person's home is more than a file that was missing.
func (p Policy) rootLine(name string, right protocol.Right) string {
	if right != protocol.RightWrite {
		return fmt.Sprintf("sandbox.paths.extra: {root: %s, mode: ro}", strconv.Quote(name))
	}
	dir := path.Dir(name)
	within := func(k string) bool { return sp.Contains(dir, k) }
	if sp.IsSystemTree(dir) || dir == "/" || slices.ContainsFunc(p.Profile.Scratch, within) {
		return ""
	}
	return fmt.Sprintf("sandbox.paths.extra: {root: %s, mode: rw}", strconv.Quote(dir))
}

// covering is the first of patterns that covers name, where patterns apply.
func covering(patterns []string, name string) string {
	if sp.IsSystemTree(name) {
		return ""
	}
	for _, p := range patterns {
		if sp.MatchPattern(p, name) {
			return p
		}
	}
	return ""
}

// fileHint says where the right is granted.
func (p Policy) fileHint(right protocol.Right) string {
	if right == protocol.RightExecute {
		return "run a program of the system directories or of the workspace, or ask the operator"
	}
	verb := "read"
	var dirs []string
	for _, k := range p.Profile.Keys() {
		if !sp.IsSystemTree(k) && rightOf(right).SubsetOf(p.Profile.Paths[k]) && p.Profile.Paths[k] != 0 {
			dirs = append(dirs, k)
		}
	}
	if right == protocol.RightWrite {
		verb = "write"
		if dirs = append(dirs, p.Profile.Scratch...); p.Elsewhere {
			dirs = append(dirs[:len(dirs)-len(p.Profile.Scratch)], "TMPDIR and HOME")
		}
	}
	if len(dirs) == 0 {
		return "ask the operator for this path"
	}
	return fmt.Sprintf("%s below %s, or ask the operator for this path", verb, listed(dirs, 4))
}

// listed joins the first few of a list.
func listed(list []string, most int) string {
	if len(list) > most {
		return strings.Join(list[:most], ", ") + ", ..."
	}
	return strings.Join(list, ", ")
}

// Connection is a connection that the egress proxy refused for reason.
func Connection(host string, port uint16, reason string) protocol.Violation {
	v := network(host, port, protocol.Observed)
	v.Reason = fmt.Sprintf("connection to %s refused: %s", target(host, port), reason)
	return v
}

// Address is a connection that the egress proxy refused for what the host's name leads
// to. To list the name again would change nothing: the addresses have to be listed too.
// A host that is an address itself only leads to itself.
func Address(host string, port uint16, refused []netip.Addr, detail string) protocol.Violation {
	v := network(host, port, protocol.Observed)
	v.Reason = fmt.Sprintf("connection to %s refused: %s", target(host, port), detail)
	if a, err := netip.ParseAddr(host); err == nil {
		refused = []netip.Addr{a}
	} else if len(refused) > 0 {
		v.Hint = "do without this host, or, if that network is intended, ask the operator to list its addresses, or their network, too"
	}
	rules := []string{strconv.Quote(target(host, port))}
	for _, a := range refused[:min(len(refused), 4)] {
		if a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() || strings.Contains(detail, "cloud's") {
			// This machine, its neighbours and the addresses that give cloud credentials: they are never
			// listed by mistake.
			v.Hint, v.Allow = "do without this host: its name leads to where no name may lead", ""
			return v
		}
		if a.String() != host {
			rules = append(rules, strconv.Quote(target(a.String(), port)))
		}
	}
	v.Allow = fmt.Sprintf("shell.network: {allow: [%s]}", strings.Join(rules, ", "))
	return v
}

// network is a violation of the network's rules, without its reason.
func network(host string, port uint16, basis protocol.Basis) protocol.Violation {
	return protocol.Violation{
		Kind: protocol.ViolationNetwork, Basis: basis, Host: host, Port: port,
		Hint:  "do without this host, or ask the operator for it",
		Allow: fmt.Sprintf("shell.network: {allow: [%s]}", strconv.Quote(target(host, port))),
	}
}

// socket is a Unix socket of the machine that no profile of a tool lists. What
// could be seen of its file makes no difference.
func socket(name string) protocol.Violation {
	return protocol.Violation{
		Kind: protocol.ViolationNetwork, Basis: protocol.Inferred, Path: name,
		Reason: "no Unix socket of the machine can be connected to, unless the profile lists its path",
		Hint:   "start the service inside, in the same call, or do without it",
	}
}

// target writes host and port as a rule of the configuration does.
func target(host string, port uint16) string {
	switch {
	case port == 0:
		return host
	case strings.Contains(host, ":"):
		return fmt.Sprintf("[%s]:%d", host, port)
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// systemCall is a call that a group of the filter denies. No configuration lifts
// a group but that of tracing: tools are derived without any other.
func (p Policy) systemCall(call string, g seccomp.Group) protocol.Violation {
	v := protocol.Violation{
		Kind: protocol.ViolationSystemCall, Basis: protocol.Inferred, SystemCall: call,
		Reason: fmt.Sprintf("the system call filter refuses the group %s: %s", g.Name, g.Reason),
		Hint:   "do without it; nothing in the sandbox allows it",
	}
	if g.Name != seccomp.Tracing {
		return v
	}
	v.Hint, v.Allow = "do without a debugger, or ask the operator for tracing", "sandbox.debug: true"
	if lifted := p.Operator.Syscalls; !slices.Contains(lifted, sp.All) && !slices.Contains(lifted, g.Name) {
		v.Allow = "syscalls of the operator's profile: a list with " + g.Name
	}
	return v
}

// A limit is one axis of the limits as the configuration names it.
type limit struct {
	name  string
	value func(sp.Limits) int64
	text  func(int64) string // as the configuration writes a value
	hint  string
}

// limits are the axes that a call can run into, by the name in sandbox.limits.
func limits() []limit {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	span := func(n int64) string { return time.Duration(n).String() }
	return []limit{
		{"timeout", func(l sp.Limits) int64 { return int64(l.Wall) }, span, "split the work"},
		{"cpu", func(l sp.Limits) int64 { return int64(l.CPU) }, span, "split the work"},
		{"memory", func(l sp.Limits) int64 { return l.Memory }, number, "work on less at a time"},
		{"pids", func(l sp.Limits) int64 { return l.Pids }, number, "start fewer at a time (make -j4)"},
		{"file_size", func(l sp.Limits) int64 { return l.FileSize }, number, "write smaller files"},
		{"output", func(l sp.Limits) int64 { return l.Output }, number, "write to a file, or print less (head, tail, grep)"},
		{"open_files", func(l sp.Limits) int64 { return l.OpenFiles }, number, "keep fewer files open"},
	}
}

// Limit is a limit that was used up, by its name in sandbox.limits. There is none
// to report where the name is unknown or nothing limits it.
func (p Policy) Limit(name string, basis protocol.Basis) (protocol.Violation, bool) {
	for _, l := range limits() {
		value := l.value(p.Profile.Limits)
		if l.name != name || value == sp.Unlimited {
			continue
		}
		v := protocol.Violation{Kind: protocol.ViolationLimit, Basis: basis, Limit: name, Hint: l.hint,
			Reason: fmt.Sprintf("the limit %s is %s", name, l.text(value)), Allow: "sandbox.limits." + name + ": " + l.text(more(value))}
		if l.value(p.Operator.Limits) == value {
			v.Allow = "limits of the operator's profile: " + name + ": " + l.text(more(value))
		}
		return v, true
	}
	return protocol.Violation{}, false
}

// more is the next value worth trying.
func more(value int64) int64 {
	if value > math.MaxInt64/2 {
		return value
	}
	return 2 * value
}
