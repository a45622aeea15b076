// Package wire is the conversation between a confiner and the init of the
// sandbox it built: length-prefixed JSON frames over one Unix stream socket,
// with the standard streams of a program beside the frame that starts it.
//
//	confiner                         init (process 1 of the sandbox)
//	   │ ── Setup ──────────────────▶ │ restricts itself: Landlock, seccomp
//	   │ ◀───────────── Ready|Failed ─│
//	   │ ── Run + 3 descriptors ────▶ │ forks, sets limits, execs
//	   │ ── Signal ─────────────────▶ │ signals every process but itself
//	   │ ◀───────────────────── Done ─│ every process is dead
//	   │ ── Run ... or end of file ─▶ │ end of file: exits, and the kernel kills the rest
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

// A Frame is one message; exactly one field is set.
type Frame struct {
	Setup  *Setup  `json:"setup,omitempty"`
	Run    *Run    `json:"run,omitempty"`
	Signal *Signal `json:"signal,omitempty"`

	Ready  *Ready  `json:"ready,omitempty"`
	Failed *Failed `json:"failed,omitempty"`
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
	// it inside is accepted outside, and there is no other way out.
	EgressPort int `json:"egress_port,omitempty"`
	// Unshared are scratch directories that one action must not find another's
	// files in: HOME, but not the session's /tmp.
	Unshared []string `json:"unshared,omitempty"`
}

// Landlock is a ruleset of landlock(7). Init hands it to the kernel as it is and
// fails if the kernel cannot keep every part of it.
type Landlock struct {
	HandledFS uint64         `json:"handled_fs"`
	Scoped    uint64         `json:"scoped"`
	Rules     []LandlockRule `json:"rules"`
}

// A Mount is one mount point as it has to be. Dev and Ino are those of the host's
// file, found without following a link.
type Mount struct {
	Path string    `json:"path"`
	Kind MountKind `json:"kind"`
	Dev  uint64    `json:"dev"`
	Ino  uint64    `json:"ino"`
	// ReadOnly is what keeps a protected file from being written.
	ReadOnly bool `json:"read_only,omitempty"`
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
}

// Run asks for one action. For an Exec action three descriptors travel with the
// frame: standard input, output and error.
type Run struct {
	Action sandboxprofile.Action `json:"action"`
	Limits Rlimits               `json:"limits"`
}

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

// Ready says that every restriction is in place. The descriptor of the listening
// socket travels with it if Setup asked for one.
type Ready struct{}

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
	// TooMany says that init killed the program for having more processes than its
	// limit.
	TooMany bool `json:"too_many,omitempty"`
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
