// Package confine makes a profile real: it builds sandboxes that can do no more
// than a profile allows, runs one action at a time in them, and kills everything
// that an action started before it reports the result.
//
// It computes nothing about policy. The compilers below package sandboxprofile
// turn a profile into bubblewrap arguments, Landlock rules and a BPF program;
// this package hands them to the kernel, and fails if the kernel cannot keep
// every part of them.
package confine

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Confiner prepares sandboxes that can do no more than a profile allows.
type Confiner interface {
	// Name is the backend's name: "bwrap".
	Name() string
	// Prepare builds a sandbox for p and runs nothing of a caller's in it yet.
	// It fails with an *Unenforceable if this host cannot keep every part of p.
	Prepare(ctx context.Context, p sandboxprofile.Profile) (Sandbox, error)
}

// A Sandbox runs actions one after another.
type Sandbox interface {
	// Run does a and returns when every process that it started is dead. When
	// ctx ends first, the action is killed and Result.Cause says so. The error
	// is non-nil only if the sandbox itself failed; what the action did is in
	// the result.
	Run(ctx context.Context, a sandboxprofile.Action, s Stdio) (Result, error)
	// Enforced says what really holds the profile.
	Enforced() Enforced
	// Close kills what is left and frees the sandbox.
	Close() error
}

// EgressPort is the port on a sandbox's own loopback where its egress proxy
// answers, if its profile has NetworkProxied. It is 3128, as proxies have it.
const EgressPort = 3128

// A Proxied sandbox has one way out, the listening socket that Egress gives.
// Whoever accepts there decides what may be reached; nobody does, unless Egress
// is called.
type Proxied interface {
	Sandbox
	// Egress gives a listener of its own for each caller. Closing it leaves the
	// sandbox's socket open.
	Egress() (net.Listener, error)
}

// Stdio connects a program's standard streams. A nil Stdin is empty, a nil
// writer discards. Writers are called from one goroutine each.
type Stdio struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Cause is why an action ended.
type Cause string

const (
	Exited      Cause = "exited"       // the program ended by itself, or by a signal
	TimedOut    Cause = "timed_out"    // its wall time was used up
	Cancelled   Cause = "cancelled"    // the context ended
	OutputLimit Cause = "output_limit" // it wrote more than its output limit and was killed
	PidsLimit   Cause = "pids_limit"   // it had more processes than its limit and was killed
	NotStarted  Cause = "not_started"  // execve failed; Errno says how
)

// A Result is what one action did.
type Result struct {
	Cause    Cause
	ExitCode int    // 128+N after signal N, 127 not found, 126 not executable
	Signal   string // "SIGKILL", or "" if it exited
	// Errno is the symbolic error ("ENOENT") of an execve or file operation that failed.
	Errno     string
	Duration  time.Duration
	Stdout    int64 // bytes written by the program
	Stderr    int64
	Truncated bool // some output was dropped at the output limit
	// Appeared lists files that match a protected pattern and that the action
	// made. They could not be covered, since they were not there; they are covered
	// from the next action on.
	Appeared []string
	// File is the result of a file operation.
	File *FileResult
}

// A FileResult is what a file operation gives back.
type FileResult struct {
	Content   []byte
	Size      int64
	Mode      uint32
	Truncated bool
	Created   bool
	SHA256    string // of the whole file, in hexadecimal; "" if only a part was read
	Replaced  int64
	// Edit says why an edit failed; Result.Errno is set too.
	Edit  *sandboxprofile.EditError
	Found *sandboxprofile.Findings
}

// Enforced names the mechanism that holds each axis of a profile, in words for
// people; an empty string means nothing does.
type Enforced struct {
	Backend     string `json:"backend"`
	Files       string `json:"files"`
	Network     string `json:"network"`
	SystemCalls string `json:"system_calls"`
	Processes   string `json:"processes"`
	Limits      string `json:"limits"`
}

// An Unenforceable says which part of a profile this host cannot keep.
type Unenforceable struct {
	Part   string // "user namespaces", "network allow-list"
	Reason string
	Hint   string
}

func (e *Unenforceable) Error() string {
	return "confine: cannot enforce " + e.Part + ": " + e.Reason
}
