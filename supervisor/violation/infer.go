package violation

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol"
	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// maxLine is how much of one line is read, in bytes.
const maxLine = 2048

// maxPath is the longest path that is reported, in bytes: each goes into the log,
// and a program writes what it likes.
const maxPath = 1024

// Infer gives what the program that wrote stderr was refused, as far as it says so
// and the profile agrees: at most Max, each once, in the order of the text, and More. dir is
// the directory that the program started in, for relative paths. A program that
// goes elsewhere and names a relative path is misunderstood; since most of what
// it then names is granted, most of that goes unreported.
func (p Policy) Infer(stderr []byte, dir string) []protocol.Violation {
	if len(stderr) == 0 {
		return nil // most calls
	}
	f := finder{policy: p, dir: dir, calls: p.deniedCalls(), seen: map[protocol.Violation]bool{}}
	for line := range bytes.Lines(stderr) {
		f.line(string(line[:min(len(line), maxLine)]))
	}
	return append(f.found, More(protocol.ViolationFile, protocol.Inferred, len(f.seen)-len(f.found))...)
}

// deniedCalls are the system calls that the filter refuses whatever their
// arguments, each with its group.
func (p Policy) deniedCalls() map[string]seccomp.Group {
	calls := make(map[string]seccomp.Group)
	for _, g := range seccomp.Groups() {
		// A group that answers ENOSYS makes programs fall back, and they say nothing.
		if g.Errno != seccomp.EPERM || slices.Contains(p.Profile.Syscalls, g.Name) {
			continue
		}
		for _, r := range g.Rules {
			if len(r.When) == 0 {
				calls[r.Call] = g
			}
		}
	}
	return calls
}

type finder struct {
	policy Policy
	dir    string
	calls  map[string]seccomp.Group
	asked  string // the host that a program said last that it asks
	found  []protocol.Violation
	seen   map[protocol.Violation]bool // those, and what there is no room for
}

func (f *finder) add(v protocol.Violation) {
	if len(f.found) < Max && !f.seen[v] {
		f.found = append(f.found, v)
	}
	f.seen[v] = true
}

// line looks at one line of text. Most lines are about nothing here.
func (f *finder) line(text string) {
	text = strings.TrimRight(text, "\r\n")
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	lower := asciiLower(text) // of the same length, so that positions fit
	if e, at, ok := findErrno(lower); ok {
		f.failure(claim{errno: e, before: text[:at], after: text[at+len(e.text):]})
	}
	for _, l := range limitPhrases() {
		if strings.Contains(lower, l.text) {
			if v, ok := f.policy.Limit(l.limit, protocol.Inferred); ok {
				f.add(v)
			}
		}
	}
	if g, ok := f.calls[seccomp.Tracing]; ok && slices.ContainsFunc(tracerPhrases(), func(said string) bool { return strings.Contains(lower, said) }) {
		f.add(f.policy.systemCall(seccomp.Tracing, g))
	}
	if host, ok := unreachableHost(text, lower); ok {
		f.host(host)
	}
	if m := lines().asks.FindStringSubmatch(text); m != nil {
		f.asked = asciiLower(m[1])
	}
	// Some say in a line of its own that a name has no address, and not which.
	for _, said := range []struct{ text, host string }{{"name resolution')': /simple/", "pypi.org"}, {"failed to lookup address information", ""}} {
		if host := cmp.Or(f.asked, said.host); host != "" && strings.Contains(lower, said.text) {
			f.host(host)
		}
	}
	// pip that does not try again says no more than this. Where some hosts are reached, the name may be wrong.
	if f.policy.Profile.Network.Mode == sp.NetworkNone && strings.Contains(lower, "(from versions: none)") {
		f.host(cmp.Or(f.asked, "pypi.org"))
	}
}

// host is a host that a program could not reach. Where the network is not
// isolated, that was not the sandbox.
func (f *finder) host(host string) {
	n := f.policy.Profile.Network
	v := network(host, 0, protocol.Inferred)
	switch n.Mode {
	case sp.NetworkNone:
		v.Reason = "the sandbox has no network"
	case sp.NetworkProxied:
		v.Reason = "the sandbox reaches the listed hosts only, by the names and on the ports that are listed"
		v.Hint = "use a listed name, or HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, which are set; " + v.Hint
		v.Allow = "" // listed or not: a program that asks the proxy is told, and that is observed
	default:
		return
	}
	f.add(v)
}

// A claim is one line that says that something failed.
type claim struct {
	errno         errnoPhrase
	before, after string // of the words for the error
}

// failure holds a claim against the profile.
func (f *finder) failure(c claim) {
	names := c.paths()
	for _, name := range names {
		f.file(c, name)
	}
	if c.errno.eperm {
		f.systemCall(c)
	}
}

func (f *finder) file(c claim, name string) {
	given := name
	name, ok := absolute(f.dir, name)
	if !ok {
		return
	}
	if c.connecting() {
		if path.IsAbs(given) && !slices.Contains(f.policy.Profile.UnixSockets, name) {
			f.add(socket(name))
		}
		return
	}
	for _, right := range c.rights(f.policy.Profile.Rights(name)) {
		if f.policy.Refused(name, right) {
			f.add(f.policy.File(name, right, protocol.Inferred))
			return
		}
	}
}

// absolute resolves a name as the program would have from dir, and refuses what
// could not be a path that a person wants to read in a report.
func absolute(dir, name string) (string, bool) {
	if name == "" || len(name) > maxPath || strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsRune(name, utf8.RuneError) {
		return "", false
	}
	if !path.IsAbs(name) {
		if !path.IsAbs(dir) {
			return "", false
		}
		name = path.Join(dir, name)
	}
	return path.Clean(name), true
}

// systemCall finds the name of a call that the filter refuses among the words
// around an EPERM. Words of a path or in quotes are not looked at.
func (f *finder) systemCall(c claim) {
	for _, word := range words(bare(c.before)) {
		word = asciiLower(word)
		name, _, _ := strings.Cut(word, "_") // PTRACE_TRACEME, keyctl_read
		for _, call := range []string{word, name} {
			if g, ok := f.calls[call]; ok {
				f.add(f.policy.systemCall(call, g))
				return
			}
		}
	}
}

// asciiLower lowers ASCII letters only, so that the length stays.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
