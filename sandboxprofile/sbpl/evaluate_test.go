package sbpl

import (
	"fmt"
	"slices"
	"strings"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A Request is one thing that a process asks the kernel for. Which fields
// matter depends on the operation.
type Request struct {
	Op string // file-read-data, network-outbound, mach-lookup, ...
	// Path is the file or the Unix socket, as the kernel names it (Resolve).
	Path string
	// Mode is the mode of the file, for process-exec.
	Mode uint32
	// Extension is what the system has attached to a file for this sandbox.
	Extension string
	// Target is the process meant by signal and process-info: self,
	// same-sandbox, others.
	Target string
	// Name is the Mach service, the sysctl or the shared memory.
	Name string
	// Domain is the family of a new socket: AF_UNIX, AF_INET, ...
	Domain string
	// Host and Port are the other end of an IP connection, or the own one when
	// binding; Host is localhost for every address of this machine.
	Host string
	Port uint16
}

// A Decision says whether a request is allowed, and by which line of the text.
// Line is 0 if no rule speaks of it.
type Decision struct {
	Allowed bool
	Line    int
	Message string // of the denial, for the system log
}

// A Policy is a profile that has been read.
type Policy struct{ rules []rule }

type rule struct {
	allow   bool
	ops     []string
	filters []filter // one of them has to match; none means always
	message string
	line    int
}

// A filter reports whether a rule speaks of a request.
type filter func(Request) bool

// Parse reads the part of the language that Compile writes. What it does not
// know is an error, since it could not say what that means.
func Parse(text string) (*Policy, error) {
	nodes, err := readAll(text)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 || nodes[0].String() != "(version 1)" {
		return nil, fmt.Errorf("sbpl: parse: want (version 1) first")
	}
	p := &Policy{}
	for _, n := range nodes[1:] {
		r, err := parseRule(n)
		if err != nil {
			return nil, err
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

// Decide answers one request: the last rule that matches wins. What no rule
// speaks of is allowed, so that a profile without (deny default) shows.
func (p *Policy) Decide(r Request) Decision {
	for _, rule := range slices.Backward(p.rules) {
		if rule.covers(r.Op) && rule.matches(r) {
			return Decision{Allowed: rule.allow, Line: rule.line, Message: rule.message}
		}
	}
	return Decision{Allowed: true}
}

// Rights is what the file operations on a path add up to, in the words of a
// profile. The path is the kernel's (Resolve).
func (p *Policy) Rights(name string) sp.Rights {
	var rights sp.Rights
	for _, e := range []struct {
		op    string
		right sp.Rights
	}{{"file-read-data", sp.Read}, {"file-write-data", sp.Write}, {"process-exec", sp.Execute}} {
		if p.Decide(Request{Op: e.op, Path: name}).Allowed {
			rights |= e.right
		}
	}
	return rights
}

// notDefault are the operations that (deny default) says nothing about.
var notDefault = [...]string{"process-info*", "nvram*", "iokit-get-properties", "file-map-executable"}

func (r rule) covers(op string) bool {
	return slices.ContainsFunc(r.ops, func(pattern string) bool {
		if pattern == "default" {
			return !slices.ContainsFunc(notDefault[:], func(p string) bool { return matchOp(p, op) })
		}
		return matchOp(pattern, op)
	})
}

func matchOp(pattern, op string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return op == pattern || wild && strings.HasPrefix(op, prefix)
}

func (r rule) matches(req Request) bool {
	return len(r.filters) == 0 || matchesAny(r.filters, req)
}

func matchesAny(filters []filter, req Request) bool {
	return slices.ContainsFunc(filters, func(f filter) bool { return f(req) })
}

// parseRule reads (allow OPERATION... FILTER... MODIFIER...).
func parseRule(n node) (rule, error) {
	r := rule{line: n.line}
	switch n.head() {
	case "allow":
		r.allow = true
	case "deny":
	default:
		return r, fmt.Errorf("sbpl: parse: line %d: want (allow ...) or (deny ...)", n.line)
	}
	for _, item := range n.list[1:] {
		if err := r.add(item); err != nil {
			return r, fmt.Errorf("sbpl: parse: line %d: %w", item.line, err)
		}
	}
	if len(r.ops) == 0 {
		return r, fmt.Errorf("sbpl: parse: line %d: a rule without an operation", n.line)
	}
	return r, nil
}

func (r *rule) add(item node) error {
	switch {
	case item.kind == atomNode:
		r.ops = append(r.ops, item.text)
		return nil
	case item.head() == "with":
		return r.addModifier(item)
	}
	f, err := parseFilter(item)
	r.filters = append(r.filters, f)
	return err
}

// addModifier reads (with message "..."), which only a denial takes.
func (r *rule) addModifier(item node) error {
	if len(item.list) != 3 || item.list[1].text != "message" || item.list[2].kind != stringNode || r.allow {
		return fmt.Errorf("unknown modifier %v", item)
	}
	r.message = item.list[2].text
	return nil
}
