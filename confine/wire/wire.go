// Package wire is the conversation between a confiner and the init of the
// sandbox it built: length-prefixed binary frames over one Unix stream socket,
// with the standard streams of a program beside the frame that starts it.
//
//	confiner                         init (process 1 of the sandbox)
//	   │ ── Setup ──────────────────▶ │ restricts itself: Landlock, seccomp
//	   │ ◀───────────── Ready|Failed ─│
//	   │ ── Run + descriptors ──────▶ │ forks, sets limits, waits at the latch, execs
//	   │ ◀──── Opened + 1 descriptor ─│ before that, if it has a terminal
//	   │ ── Signal ─────────────────▶ │ signals every process but itself
//	   │ ── Keep ───────────────────▶ │ at any time after Ready, if it has a broker
//	   │ ◀───────────────────── Kept ─│
//	   │ ◀─────── Ask ( + 1 descriptor)│ while a program runs, if Run wants to hear
//	   │ ── Answer ( + 1 descriptor)▶ │
//	   │ ── Socket ─────────────────▶ │ at any time after Ready, if Setup exposes ports
//	   │ ◀──── Made + 1 descriptor ───│
//	   │ ◀───────────────────── Done ─│ every process is dead
//	   │ ── Run ... or end of file ─▶ │ end of file: exits, and the kernel kills the rest
//
// An init that shares the host's namespaces (Shared) kills the rest itself.
//
// A frame that is not expected at its place ends the sandbox. The confiner
// treats what init says as untrusted: it bounds the size and checks the order.
package wire

import (
	"fmt"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// MaxFiles bounds the descriptors beside one frame of the confiner's.
const MaxFiles = 64

// MaxSockets bounds those beside Ready. The kernel's limit is 253 (unix(7), SCM_MAX_FD).
const MaxSockets = 200

// Warden is the second argument of an init that belongs to no sandbox: it waits for the end of
// its standard input, a socket, and then kills its process group. Before that it notes when each
// sandbox that it knows has ended. It learns of one by a message of WardenWatch with two
// descriptors, of process 1 (pidfd_open(2)) and of a file, to which it adds an Ended as JSON. A
// message of WardenEnd says that there is nothing to note.
const (
	Warden      = "warden"
	WardenWatch = 'w'
	WardenEnd   = 'e'
)

// Ended says when a sandbox's last process had ended whose confiner was killed.
type Ended struct {
	Ended int64 `json:"ended"` // nanoseconds since 1970
}

// JSON is e as JSON, without the package for that in process 1.
func (e Ended) JSON() []byte { return fmt.Appendf(nil, `{"ended":%d}`, e.Ended) }

// A Frame is one message; exactly one field is set.
type Frame struct {
	Setup  *Setup
	Run    *Run
	Signal *Signal
	Socket *Socket
	Keep   *Keep
	Answer *Answer

	Ready  *Ready
	Failed *Failed
	Opened *Opened
	Made   *Made
	Kept   *Kept
	Ask    *Ask
	Done   *Done
}

// Setup tells init what to lay on itself before it serves anything.
type Setup struct {
	Landlock Landlock
	// Seccomp is an array of struct sock_filter in native byte order.
	Seccomp []byte
	// Mounts are the mounts that init must find where tools of this session could have
	// swapped a directory while bubblewrap mounted by path. Anything else, and it
	// fails.
	Mounts []Mount
	// EgressPort, if not 0, is the port of the sandbox's own loopback on which init
	// opens a listening socket. Its descriptor travels with Ready: what connects to
	// it inside is accepted outside.
	EgressPort int
	// Exposes lets the confiner ask for sockets.
	Exposes bool
	// Unbound, if not 0, is how many TCP sockets init makes besides, and one for
	// datagrams. The confiner gives them their addresses: it may, as the owner of the
	// network, and init has no capability for that.
	Unbound int
	// Loopback has init make one more socket for each version of IP, through which the
	// confiner gives the loopback device its own addresses.
	Loopback bool
	// First asks for a descriptor of process 1.
	First bool
	// Keyring says that the session keyring which init inherits is the confiner's, for
	// all sandboxes, in which no program can put a key.
	Keyring bool
	// Fleeting are the scratch directories that end with an action, HOME above all: none finds another's
	// files there.
	Fleeting []Pool
	// Tmpfs are the directories whose files lie in memory.
	Tmpfs []string
	// Shared is set for an init that is not process 1 of a sandbox's own namespaces.
	Shared  *Shared
	Ceiling Ceiling
	// Modes are of programs in namespaces of their own: Seccomp leaves out what process 1 judges.
	Modes Modes
}

// Modes are two filters of programs for set-group-id bits, each like Setup.Seccomp. There
// is no sandbox without them, unless the profile lifts what they deny: then Free is set.
type Modes struct {
	Free   bool
	Notify []byte // has init asked
	Refuse []byte // for a program whose filter cannot have a listener
}

// Ceiling has what an init puts on a program that runs under a ceiling of the class
// "read" (sandboxprofile.Ceiling), besides what it puts on every program. It makes it
// ready before any program has run.
type Ceiling struct {
	// Changing are the access rights of landlock(7) by which files are changed, as far
	// as the kernel knows them, and Execute the one by which they are executed.
	Changing, Execute uint64
	// Writable are the only places that can still be written to: private directories
	// and the plain devices.
	Writable []LandlockRule
	// Homes are the private directories that nothing is written to where a ceiling says so.
	Homes []string
	// Seccomp keeps the program from what Landlock does not cover: sockets, and a
	// file's mode, owner, times and attributes.
	Seccomp []byte
	// Absent says that this kernel cannot hold a ceiling, and that the operator wants
	// programs to run all the same.
	Absent bool
}

// Shared has what an init needs that runs in the host's namespaces, where it is one
// process among those of its user.
type Shared struct {
	// Own are rules that init has beyond Setup.Landlock, and no program: it counts
	// its processes in /proc.
	Own []LandlockRule
	// Seccomp is laid on every program beside Setup.Seccomp, and not on init.
	Seccomp []byte
	// Private are directories that are emptied when the confiner hangs up.
	Private []string
	// Unconfined accepts that Setup has no ruleset or no filter.
	Unconfined bool
	// Broker, if set, has init make the changes that programs ask for: see package
	// confine/broker. The locks of its queue travel with Setup.
	Broker *Broker
}

// Broker has what an init needs that makes its programs' changes.
type Broker struct {
	// Programs is the ruleset of programs. It lets nothing be changed but scratch.
	Programs Landlock
	// Base is the filter of programs that Setup.Seccomp is otherwise: init itself needs
	// calls that they do not.
	Base []byte
	// Rules decide about names.
	Paths         []Grant
	Protect, Hide []string
	// Kept are the protected and hidden files of the start, and Redirected the
	// directories that are read through the broker.
	Kept       []FileID
	Redirected []string
	// Queue are the ranges that are locked in the file that travels with Setup; without any,
	// none does.
	Queue []Range
	// Pools are where private places get their entries from.
	Pools []Pool
	// WritesMemory says that files of /proc may be written to, which are programs' memory.
	WritesMemory bool
	// Network stands for a network namespace; with nil, programs have no socket.
	Network *Network
}

// Network is broker.Network.
type Network struct {
	Own       string // an address
	Key       []byte
	Proxy     string // address and port, "" for none
	ProxyPort uint16
	Listed    []string
	Sockets   string
}

// A Pool is broker.Pool.
type Pool struct{ Place, Dir string }

// A Grant is one of a profile's paths.
type Grant struct {
	Path   string
	Rights sandboxprofile.Rights
}

// A Refusal is one change that a program asked for and did not get. Why is
// "protected", "hidden" or "outside".
type Refusal struct {
	Call string
	Path string
	Why  string
}

// Landlock is a ruleset of landlock(7). Init hands it to the kernel as it is and
// fails if the kernel cannot keep every part of it.
type Landlock struct {
	HandledFS  uint64
	HandledNet uint64 // no rule grants a port
	Scoped     uint64
	Rules      []LandlockRule
}

// A Mount is one mount point as it has to be. File is the host's file there, and Dir
// the directory that has it, both found without following a link. A cover hides what it
// lies on; what can be checked is that it lies in the right directory. If that
// directory does not belong to the host, Around is the mount of kind tmpfs that it is
// in, and Dir does not count.
type Mount struct {
	Path   string
	Kind   MountKind
	Dir    FileID
	File   FileID
	Around string
	// ReadOnly keeps a protected file from being written.
	ReadOnly bool
}

// A Range is a part of a file's numbers.
type Range struct{ Start, Length int64 }

// A FileID names a file whatever its path, until it is removed.
type FileID struct {
	Dev uint64
	Ino uint64
}

// MountKind says what stands at a mount point.
type MountKind string

const (
	MountBind  MountKind = "bind"  // the host's own file
	MountNull  MountKind = "null"  // a device that cannot be opened, over a hidden file
	MountTmpfs MountKind = "tmpfs" // a file system of the sandbox's own
	MountData  MountKind = "data"  // a file of the sandbox's own, over the host's
)

// A LandlockRule grants the access rights of landlock(7) below a path.
type LandlockRule struct {
	Path   string
	Access uint64
	// File, if set, is the file that has to be there. It is then opened without
	// following a link at its end.
	File FileID
}

// Run asks for one action. For an Exec action descriptors travel with the frame:
// standard input, output and error, and then those that the program gets as 3, 4, ...
type Run struct {
	Action sandboxprofile.Action
	// Held says that the last descriptor is a latch: everything is made ready, and the
	// action begins when a byte can be read there. At end of file it does not.
	Held bool
	// Temporary is the name under which a new content lies beside the file that it
	// replaces, for the moment in between.
	Temporary string
	Limits    Rlimits
	Totals    Totals
	// Changes and Refusals are broker.Asks.
	Changes, Refusals bool
}

// Totals bound what all the processes of an action use together. Init counts, and
// kills the action that is over one.
type Totals struct {
	Processes int64 // and threads
	Memory    int64 // bytes
	CPU       time.Duration
	// Kernel says that a cgroup holds the memory too.
	Kernel bool
}

// Exceeded names the total for which init ended an action, "" for none.
type Exceeded string

const (
	ExceededProcesses Exceeded = "processes"
	ExceededMemory    Exceeded = "memory"
	ExceededCPU       Exceeded = "cpu"
)

// Rlimits are the limits of getrlimit(2) that the program starts with, hard and
// soft alike; sandboxprofile.Unlimited leaves one alone.
type Rlimits struct {
	CPUSeconds int64
	Processes  int64
	FileSize   int64
	OpenFiles  int64
}

// Signal asks init to send a signal to every other process of the sandbox.
type Signal struct {
	Number int
}

// Socket asks for an unconnected TCP socket of the sandbox's network, to which the
// socket always belongs. The confiner connects it: init says nothing about where.
type Socket struct {
	ID   uint64
	IPv6 bool
}

// Made answers a Socket. The descriptor travels with it, or Errno says why not.
type Made struct {
	ID    uint64
	Errno int
}

// Keep replaces the patterns that the broker of a sandbox protects, and the files that it
// protects besides, whatever their names. It may come while an action runs.
type Keep struct {
	Protect []string
	Files   []FileID
}

// Kept answers a Keep: it holds.
type Kept struct{}

// Ask is broker.Question. With Content the regular file that is there travels with it,
// open for reading. Why is as in a Refusal, "" for a change that nothing bars.
type Ask struct {
	ID      uint64
	Call    string
	Path    string
	Why     string
	Content bool
	Flags   int    // of open(2), if Why is "outside"
	Mode    uint32 // the same
}

// Outside is Ask.Why and Refusal.Why for what lies outside of what may be written.
const Outside = "outside"

// Answer answers an Ask. If that is for an open outside and allowed, the file travels with it.
type Answer struct {
	ID    uint64
	Allow bool
}

// Ready says that every restriction is in place. The sockets that Setup asked for
// travel with it: the listening one, the one for datagrams, the unbound ones, and those of the loopback device; and
// last the descriptor of process 1.
type Ready struct{}

// Opened comes before a program with a terminal starts. The terminal's other end
// travels with it; init keeps none, so the terminal hangs up when the confiner
// closes it.
type Opened struct{}

// Failed says which step failed; nothing has run.
type Failed struct {
	Step  string
	Error string
}

// Done reports an action after the last of its processes is gone.
type Done struct {
	// Errno is set when execve or the file operation failed.
	Errno  int
	Op     string // the system call that failed
	Status int    // as from wait4(2)

	Duration time.Duration
	Exceeded Exceeded
	// Refused are changes that programs asked for and did not get, and RefusedMore how
	// many others there were.
	Refused     []Refusal
	RefusedMore int
	// Fault is a mistake of init's own that ended the action, "" for none.
	Fault string
	// Spoiled says that the action left something outside its writable paths that
	// the next one in this sandbox could see. The sandbox must not serve another.
	Spoiled bool
	// Gone are some of the names that the action made in directories that end with it.
	Gone []string

	Content   []byte
	Size      int64
	Mode      uint32
	Truncated bool
	Created   bool
	// SHA256 is of the whole file, as it was read or is now, in hexadecimal.
	SHA256   string
	Replaced int64                     // occurrences, by EditFile
	Edit     *sandboxprofile.EditError // beside Errno
	Found    *sandboxprofile.Findings  // by a search
}
