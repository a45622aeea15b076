// Package confine says what makes a profile real: sandboxes that can do no more
// than a profile allows, run one action at a time, and kill everything that an
// action started before they report the result.
//
// Nothing of it computes policy. The compilers below package sandboxprofile turn a
// profile into bubblewrap arguments, Landlock rules and a BPF program; the backends
// below this package (linux, seatbelt) hand them to the kernel, and fail if the
// kernel cannot keep every part of them. Package platform picks the backend of a
// system, and package tripwire looks at what an action has left.
package confine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// NoBackend is the name of what runs tools without an operating-system sandbox.
const NoBackend = "none"

// UnconfinedWarning is for every result that came about so.
const UnconfinedWarning = "sandbox.require_os_sandbox is false and no sandbox works here: tools run with this user's rights, which is for development only"

// A Confiner prepares sandboxes that can do no more than a profile allows.
type Confiner interface {
	// Name is the backend's name: "bwrap", "landlock", or "none".
	Name() string
	// Prepare builds a sandbox for p; no program of the caller runs in it yet. It fails
	// with an *Unenforceable if this host cannot keep every part of p.
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

// A Warned sandbox knows of things on this host that it does not keep.
type Warned interface {
	Sandbox
	// Warnings are sentences for people.
	Warnings() []string
}

// A Watched sandbox can be looked at while an action that stays runs in it.
type Watched interface {
	Sandbox
	// Look undoes what the action has left by now where a program of the user's would run or
	// follow it, and gives all of that since it began, as Result.Planted does. With an error
	// the sandbox does not hold its profile any more, and the action is to be ended. With begins, a
	// call of a server is to begin: a file that is hidden by its name, and has come since, counts too.
	Look(begins bool) ([]Planted, error)
}

// Hostname is the host name inside a sandbox with a network of its own.
const Hostname = bwrap.Hostname

// EgressPort is the port on a sandbox's own loopback where its egress proxy
// answers, if its profile has NetworkProxied. It is 3128, as proxies have it.
const EgressPort = 3128

// A Proxied sandbox can connect only to sockets that were created inside and are accepted on
// outside. The code that accepts decides what may be reached; without Egress or Carry, nothing
// can.
type Proxied interface {
	Sandbox
	// Egress gives a listener of its own for each caller. Closing it leaves the
	// sandbox's socket open.
	Egress() (net.Listener, error)
	// Carry makes the sandbox take addresses for its own, and gives what is connected
	// and sent to them. Later calls want the same addresses. Its error is an
	// *Unenforceable where this host does not let us; Egress works without it.
	Carry(Addresses) (Carried, error)
}

// Addresses lists the addresses that a sandbox treats as its own.
type Addresses struct {
	// Local are addresses; the first of a prefix is the sandbox's end of connections
	// to one of them.
	Local []netip.Prefix
	// Listen is for TCP. An unspecified address is every one.
	Listen []netip.AddrPort
	// Datagrams is for UDP.
	Datagrams netip.AddrPort
}

// Carried are the sockets at Addresses. Closing one leaves the sandbox's own open.
type Carried struct {
	Streams   []net.Listener
	Datagrams net.PacketConn
}

// A Freezer is a sandbox that can be kept from taking the names of files, and of the
// directories above them, while something runs in it.
type Freezer interface {
	Sandbox
	// Keep returns when no program in the sandbox can rename, replace or remove any of
	// files, absolute and without links, until release is called.
	Keep(files []string) (release func(), err error)
}

// An Exposed sandbox can be entered at the ports that its profile exposes.
type Exposed interface {
	Sandbox
	// Entrance gives what connects to one of those ports, on the sandbox's own
	// loopback and nowhere else. Its error is an *Unenforceable.
	Entrance() (Entrance, error)
}

// An Entrance connects to a port inside of a sandbox. What it gives is a
// *net.TCPConn. It is of use while something runs there.
type Entrance func(ctx context.Context, port uint16) (net.Conn, error)

// Stdio connects a program's standard streams. A nil Stdin is empty, a nil
// writer discards. Writers are called from one goroutine each. If Stdout and Stderr are the
// same writer, as comparable values, the program has one pipe for both, and its output keeps
// its order, as with os/exec.
type Stdio struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Beyond is how many bytes more than its output limit the program may write, and
	// the writers are given, before it is killed for it. Zero kills it at the limit.
	Beyond int64
	// Files are inherited by the program as descriptors 3, 4, ...: at most 16. Run closes them.
	Files []*os.File
	// Terminal, if set, is who a program's terminal is for. Otherwise it is for Stdin, Stdout.
	Terminal *Terminal
	// Hold, if set, is asked once, when everything is ready: the action begins after it
	// has returned nil. When it fails nothing runs, and Run returns its error.
	Hold func() error
	// Changes and Refusals, if set, hear of changes of files before they are made, where a
	// broker makes them (Result.Exact): see Change. Each is called from goroutines of its
	// own, and returns when its context ends.
	Changes, Refusals func(context.Context, Change) bool
}

// OneStream reports whether the program writes both streams into one pipe.
func (s Stdio) OneStream() bool {
	return s.Stdout != nil && reflect.TypeOf(s.Stdout).Comparable() && s.Stdout == s.Stderr
}

// A Terminal represents a person at a screen and a keyboard.
type Terminal struct {
	Keys   io.Reader
	Screen io.Writer
	// Opened gets the other end of the program's terminal, before the program starts.
	// Only its size is sent through it. It is closed when the program has ended.
	Opened func(tty *os.File)
	// Ended is called when the last process has closed the terminal: no more is read.
	Ended func()
}

// A Change is a change to a file that a program is about to make. The thread that asked
// for it waits for the answer and others go on; the action's time goes on too.
//
// Stdio.Changes hears of each name once, and again when another file has it: the change
// is made if it returns true, and refused as if a pattern protected the name otherwise. A
// directory that gets another name is one change, whatever lies in it. Content changes
// unheard through a descriptor that was open for writing before the action began.
//
// Stdio.Refusals hears of names that are about to be refused, of each once, and of at most
// 16: protected ones, and regular files outside of what may be written that are opened. If
// it returns true, that one name may be changed, or that file opened, until the action ends.
type Change struct {
	Call string // the first system call that asks for it
	Path string // absolute, as the kernel has it
	Why  string // it is about to be refused: "protected" or "outside"
	// Before is the regular file that is there, open for reading from its beginning; nil
	// for none. It is closed when the call returns.
	Before *os.File
}

// OutputBound is how many bytes a program may write before it is killed.
func (s Stdio) OutputBound(l sandboxprofile.Limits) int64 {
	if l.Output > sandboxprofile.Unlimited-s.Beyond {
		return sandboxprofile.Unlimited
	}
	return l.Output + s.Beyond
}

// Cause is why an action ended.
type Cause string

const (
	Exited      Cause = "exited"       // the program ended by itself, or by a signal
	TimedOut    Cause = "timed_out"    // its wall time was used up
	Cancelled   Cause = "cancelled"    // the context ended
	OutputLimit Cause = "output_limit" // it wrote more than its output limit and was killed, if it had not ended by then
	PidsLimit   Cause = "pids_limit"   // it had more processes and threads than its limit and was killed
	MemoryLimit Cause = "memory_limit" // its processes together used more memory than their limit and were killed
	HostMemory  Cause = "host_memory"  // the host or the container had no memory left, and the sandbox was killed
	CPULimit    Cause = "cpu_limit"    // its processes together used up their processor time and were killed
	// FileSizeLimit is a program that SIGXFSZ ended (setrlimit(2), RLIMIT_FSIZE).
	FileSizeLimit Cause = "file_size_limit"
	// ScratchLimit: its private directories held more than their limit and it was killed.
	ScratchLimit Cause = "scratch_limit"
	NotStarted   Cause = "not_started" // execve, or a step before it, failed; Op and Errno say how
)

// OpChdir is the step that enters a program's working directory.
const OpChdir = "chdir"

// A Result is the outcome of one action.
type Result struct {
	Cause    Cause
	ExitCode int    // 128+N after signal N, 127 not found, 126 not executable
	Signal   string // "SIGKILL", or "" if it exited
	// Errno is the symbolic error ("ENOENT") of an execve or file operation that failed.
	Errno string
	// Op is the step that failed with Errno: "execve", or OpChdir when the directory
	// to start in is not there; "" if the backend does not tell.
	Op        string
	Duration  time.Duration
	Stdout    int64 // bytes written by the program
	Stderr    int64
	Truncated bool // some output was dropped at the output limit
	// Processes is how many processes and threads a program might have: its limit, or
	// fewer where the host had no more to give.
	Processes int64
	// Planted is a file that the action left where a program of the user's would run or
	// follow it, and what was done about it.
	Planted []Planted
	// Refused are the changes that programs asked the broker for and did not get, each
	// once. Exact says that they are all, but for RefusedMore others of what is protected or hidden, and what lies outside: without it nothing
	// is known of them.
	Refused     []Refused
	RefusedMore int
	Exact       bool
	// Gone are some of the names that the action made in private directories that ended with it, such as HOME.
	Gone []string
	// Ceiling says what held the action to its ceiling, in words; "" if it had none.
	Ceiling string
	// File is the result of a file operation.
	File *FileResult
}

// A Refused is one change that was not made.
type Refused struct {
	Call string // the system call
	Path string // or an address
	// Why is "protected", "hidden" or "outside": outside of what may be written.
	Why string
}

// Count says what came through. A program that ended by itself before it could be killed
// for its output has still lost output: that is not a success.
func (r *Result) Count(stdout, stderr int64, truncated bool) {
	r.Stdout, r.Stderr, r.Truncated = stdout, stderr, truncated
	if truncated && r.Cause == Exited {
		r.Cause = OutputLimit
	}
}

// A FileResult is the result of a file operation.
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
	// Ceiling is the limit that held an unapproved call to what the answer had assumed;
	// "" for a call that a person allowed.
	Ceiling string `json:"ceiling,omitempty"`
}

// ErrJournal is in the errors of the notes about a running sandbox, which are kept in
// the state directory in case its supervisor is killed.
var ErrJournal = errors.New("journal")

// An Unenforceable says which part of a profile this host cannot keep.
type Unenforceable struct {
	Part   string // "user namespaces", "network allow-list"
	Reason string
	Hint   string
}

func (e *Unenforceable) Error() string {
	return "confine: cannot enforce " + e.Part + ": " + e.Reason
}

// NewUnenforceable is err about a part of a profile, with its hint if it has one.
func NewUnenforceable(part string, err error) error {
	u := &Unenforceable{Part: part, Reason: err.Error()}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		u.Hint = h.Hint()
	}
	return u
}
