package sandboxprofile

import (
	"math"
	"time"
)

// Rights is the set of things that may be done below a path.
// The zero value is nothing.
type Rights uint8

const (
	// Read opens files for reading and lists directories.
	Read Rights = 1 << iota
	// Write creates, changes, renames and removes.
	Write
	// Execute runs a file.
	Execute
)

// Network says how much of the network a sandbox has. The smaller value is the
// stricter one; the zero value gives no access.
type NetworkMode uint8

const (
	NetworkNone    NetworkMode = iota // own network namespace, loopback only
	NetworkProxied                    // own network namespace, one exit through the egress proxy
	NetworkHost                       // the host's network, no isolation
)

// Network is the network part of a profile.
type Network struct {
	Mode NetworkMode `json:"mode"`
	// Allow holds the host rules of NetworkProxied. A host must match at least
	// one rule of every inner list: intersecting two profiles keeps both lists.
	Allow [][]string `json:"allow,omitempty"`
	// Ask says that a host which is on no list is put to the operator instead of
	// being refused. It holds only if every profile that was intersected asks.
	Ask bool `json:"ask,omitempty"`
	// Expose holds the ports inside that the host can reach, as ExposedPort writes
	// them, or All. With the host's network every port is exposed, and none listed.
	Expose []string `json:"expose,omitempty"`
	// Terminated are the hosts, HOST:PORT, whose TLS ends at the egress proxy, which
	// then reads and changes what goes to them. A sandbox of such a profile has the
	// file TrustBundle. Intersecting two profiles keeps the hosts of both.
	Terminated []string `json:"terminated,omitempty"`
}

// TrustBundle is where a sandbox has the certificates that its programs are to trust:
// those of the machine, and the one of the proxy where it ends TLS. It lies in the
// sandbox's own /dev, which every one has and no profile grants.
const TrustBundle = "/dev/sandgate-ca-bundle.pem"

// Unlimited is the value of a limit that does not bind. A limit left at zero
// allows nothing, and a profile with such a limit cannot be prepared.
const Unlimited int64 = math.MaxInt64

// Limits bound what one call may use: all of its processes together, but for
// files and descriptors. Sizes are bytes, times are nanoseconds.
type Limits struct {
	Wall      time.Duration `json:"wall"`       // from start to the first signal
	CPU       time.Duration `json:"cpu"`        // processor time
	Memory    int64         `json:"memory"`     // bytes, files in memory included
	Pids      int64         `json:"pids"`       // processes and threads
	FileSize  int64         `json:"file_size"`  // largest file written
	OpenFiles int64         `json:"open_files"` // descriptors of one process
	Output    int64         `json:"output"`     // stdout and stderr together
	Scratch   int64         `json:"scratch"`    // bytes in each scratch directory
}

// InodeSize is what each file, directory and link counts beside its content, where what they take
// together is limited: about what Linux keeps in memory of one on a tmpfs, with its name
// (BOGO_INODE_SIZE in the kernel's mm/shmem.c).
const InodeSize = 1 << 10

// Env is the set of environment variable names that may exist in a sandbox.
// The zero value is the empty set.
type Env struct {
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"` // sorted
}

// A Profile is everything a sandboxed process may reach. Its zero value grants
// nothing. Profiles combine in one way only: Intersect.
type Profile struct {
	// Paths maps an absolute, clean host path to the rights at and below it.
	// The longest path that is a prefix (by whole components) of the path asked
	// about wins.
	Paths map[string]Rights `json:"paths"`
	// Scratch lists directories that inside the sandbox are private, empty and
	// writable, and never the host's: /tmp and HOME. As host paths they carry no
	// rights, like an entry in Paths with none.
	Scratch []string `json:"scratch"`
	// Protect lists patterns whose files lose Write, Hide those that lose every
	// right, wherever they lie. See MatchPattern for the syntax.
	Protect []string `json:"protect"`
	Hide    []string `json:"hide"`

	Network     Network  `json:"network"`
	UnixSockets []string `json:"unix_sockets"` // paths that may be connected to
	Devices     []string `json:"devices"`      // device nodes beyond the minimal /dev
	Syscalls    []string `json:"syscalls"`     // groups of package seccomp lifted from the filter
	Env         Env      `json:"env"`
	Limits      Limits   `json:"limits"`
	// Fresh asks for a sandbox that serves this one call and no other.
	Fresh bool `json:"fresh"`
}
