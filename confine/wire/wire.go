// Package wire is the conversation between a confiner and the init of the
// sandbox it built: length-prefixed JSON frames over one Unix stream socket,
// with the standard streams of a program beside the frame that starts it.
//
//	confiner                         init (process 1 of the sandbox)
//	   │ ── Setup ──────────────────▶ │ restricts itself: Landlock, seccomp
//	   │ ◀───────────── Ready|Failed ─│
//	   │ ── Run + descriptors ──────▶ │ forks, sets limits, waits at the gate, execs
//	   │ ◀──── Opened + 1 descriptor ─│ before that, if it has a terminal
//	   │ ── Signal ─────────────────▶ │ signals every process but itself
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
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// MaxFrame bounds one frame. A file's content travels base64-coded in it.
const MaxFrame = 64 << 20

// MaxFiles bounds the descriptors beside one frame of the confiner's.
const MaxFiles = 3 + 16 + 1

// MaxSockets bounds those beside Ready. The kernel's limit is 253 (unix(7), SCM_MAX_FD).
const MaxSockets = 200

// A Frame is one message; exactly one field is set.
type Frame struct {
	Setup  *Setup  `json:"setup,omitempty"`
	Run    *Run    `json:"run,omitempty"`
	Signal *Signal `json:"signal,omitempty"`
	Socket *Socket `json:"socket,omitempty"`

	Ready  *Ready  `json:"ready,omitempty"`
	Failed *Failed `json:"failed,omitempty"`
	Opened *Opened `json:"opened,omitempty"`
	Made   *Made   `json:"made,omitempty"`
	Done   *Done   `json:"done,omitempty"`
}

// Setup tells init what to lay on itself before it serves anything.
type Setup struct {
	Landlock Landlock `json:"landlock"`
	// Seccomp is an array of struct sock_filter in native byte order.
	Seccomp []byte `json:"seccomp"`
	// Mounts are what init must find where tools of this session could have swapped
	// a directory while bubblewrap mounted by path. Anything else, and it fails.
	Mounts []Mount `json:"mounts,omitempty"`
	// EgressPort, if not 0, is the port of the sandbox's own loopback on which init
	// opens a listening socket. Its descriptor travels with Ready: what connects to
	// it inside is accepted outside.
	EgressPort int `json:"egress_port,omitempty"`
	// Exposes lets the confiner ask for sockets.
	Exposes bool `json:"exposes,omitempty"`
	// Unbound, if not 0, is how many TCP sockets init makes besides, and one for
	// datagrams. The confiner gives them their addresses: it may, as the owner of the
	// network, and init has no capability for that.
	Unbound int `json:"unbound,omitempty"`
	// Unshared are scratch directories that one action must not find another's
	// files in: HOME, but not the session's /tmp.
	Unshared []string `json:"unshared,omitempty"`
	// Tmpfs are the directories whose files lie in memory.
	Tmpfs []string `json:"tmpfs,omitempty"`
	// Shared is set for an init that is not process 1 of a sandbox's own namespaces.
	Shared *Shared `json:"shared,omitempty"`
}

// Shared is what an init needs that runs in the host's namespaces, where it is one
// process among those of its user.
type Shared struct {
	// Own are rules that init has beyond Setup.Landlock, and no program: it counts
	// its processes in /proc.
	Own []LandlockRule `json:"own,omitempty"`
	// Seccomp is laid on every program beside Setup.Seccomp, and not on init.
	Seccomp []byte `json:"seccomp,omitempty"`
	// Private are directories that are emptied when the confiner hangs up.
	Private []string `json:"private,omitempty"`
	// Unconfined accepts that Setup has no ruleset or no filter.
	Unconfined bool `json:"unconfined,omitempty"`
}

// Landlock is a ruleset of landlock(7). Init hands it to the kernel as it is and
// fails if the kernel cannot keep every part of it.
type Landlock struct {
	HandledFS  uint64         `json:"handled_fs"`
	HandledNet uint64         `json:"handled_net,omitempty"` // no rule grants a port
	Scoped     uint64         `json:"scoped"`
	Rules      []LandlockRule `json:"rules"`
}

// A Mount is one mount point as it has to be. File is the host's file there, and
// Dir the directory that has it, both found without following a link. A cover hides
// what it lies on; that it lies in the right directory is what can be seen. Where
// that directory is none of the host's, Around is the mount of kind tmpfs that it
// is in, and Dir does not count.
type Mount struct {
	Path   string    `json:"path"`
	Kind   MountKind `json:"kind"`
	Dir    FileID    `json:"dir"`
	File   FileID    `json:"file"`
	Around string    `json:"around,omitempty"`
	// ReadOnly is what keeps a protected file from being written.
	ReadOnly bool `json:"read_only,omitempty"`
}

// A FileID names a file whatever its path, until it is removed.
type FileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// MountKind says what stands at a mount point.
type MountKind string

const (
	MountBind  MountKind = "bind"  // the host's own file
	MountNull  MountKind = "null"  // a device that cannot be opened, over a hidden file
	MountTmpfs MountKind = "tmpfs" // a file system of the sandbox's own
)

// A LandlockRule grants the access rights of landlock(7) below a path.
type LandlockRule struct {
	Path   string `json:"path"`
	Access uint64 `json:"access"`
	// File, if set, is the file that has to be there. It is then opened without
	// following a link at its end.
	File FileID `json:"file,omitzero"`
}

// Run asks for one action. For an Exec action descriptors travel with the frame:
// standard input, output and error, and then those that the program gets as 3, 4, ...
type Run struct {
	Action sandboxprofile.Action `json:"action"`
	// Held says that the last descriptor is a gate: everything is made ready, and the
	// action begins when a byte can be read there. At end of file it does not.
	Held   bool    `json:"held,omitempty"`
	Limits Rlimits `json:"limits"`
	Totals Totals  `json:"totals"`
}

// Totals bound what all the processes of an action use together. Init counts, and
// kills the action that is over one.
type Totals struct {
	Processes int64         `json:"processes"` // and threads
	Memory    int64         `json:"memory"`    // bytes
	CPU       time.Duration `json:"cpu"`
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
	CPUSeconds int64 `json:"cpu_seconds"`
	Data       int64 `json:"data"`
	Processes  int64 `json:"processes"`
	FileSize   int64 `json:"file_size"`
	OpenFiles  int64 `json:"open_files"`
}

// Signal asks init to send a signal to every other process of the sandbox.
type Signal struct {
	Number int `json:"number"`
}

// Socket asks for an unconnected TCP socket of the sandbox's network, which a socket
// belongs to for good. The confiner connects it: init says nothing about where.
type Socket struct {
	ID   uint64 `json:"id"`
	IPv6 bool   `json:"ipv6,omitempty"`
}

// Made answers a Socket. The descriptor travels with it, or Errno says why not.
type Made struct {
	ID    uint64 `json:"id"`
	Errno int    `json:"errno,omitempty"`
}

// Ready says that every restriction is in place. The sockets that Setup asked for
// travel with it: the listening one, the one for datagrams, and the unbound ones.
type Ready struct{}

// Opened comes before a program with a terminal starts. The terminal's other end
// travels with it; init keeps none, so the terminal hangs up when the confiner
// closes it.
type Opened struct{}

// Failed says which step failed; nothing has run.
type Failed struct {
	Step  string `json:"step"`
	Error string `json:"error"`
}

// Done reports an action after the last of its processes is gone.
type Done struct {
	// Errno is set when execve or the file operation failed.
	Errno  int    `json:"errno,omitempty"`
	Op     string `json:"op,omitempty"` // the system call that failed
	Status int    `json:"status"`       // as from wait4(2)

	Duration time.Duration `json:"duration"`
	Exceeded Exceeded      `json:"exceeded,omitempty"`
	// Spoiled says that the action left something outside its writable paths that
	// the next one in this sandbox could see. The sandbox must not serve another.
	Spoiled bool `json:"spoiled,omitempty"`

	Content   []byte `json:"content,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Mode      uint32 `json:"mode,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Created   bool   `json:"created,omitempty"`
	// SHA256 is of the whole file, as it was read or is now, in hexadecimal.
	SHA256   string                    `json:"sha256,omitempty"`
	Replaced int64                     `json:"replaced,omitempty"` // occurrences, by EditFile
	Edit     *sandboxprofile.EditError `json:"edit,omitempty"`     // beside Errno
	Found    *sandboxprofile.Findings  `json:"found,omitempty"`    // by a search
}

// Encode returns the frame's bytes.
func Encode(f Frame) ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("wire: encode: %w", err)
	}
	if len(body) > MaxFrame {
		return nil, fmt.Errorf("wire: frame of %d bytes, at most %d", len(body), MaxFrame)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

// Decode reads one frame. It returns io.EOF only between frames.
func Decode(r io.Reader) (Frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("wire: frame of %d bytes, at most %d", n, MaxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return Frame{}, fmt.Errorf("wire: frame cut short: %w", err)
	}
	var f Frame
	if err := json.Unmarshal(body, &f); err != nil {
		return Frame{}, fmt.Errorf("wire: decode: %w", err)
	}
	return f, nil
}
