package sandboxprofile

import "fmt"

// Facts describes the host for the compilers, which never access the disk themselves. A
// surveyor gathers it right before a sandbox is built; what changes between the survey and the
// mount is caught by bubblewrap (a bind source that has gone is an error) or by the check after
// a call (a file that appeared).
type Facts struct {
	// Kinds has an entry for every key of Profile.Paths, Scratch, Devices and
	// UnixSockets. An absent entry counts as Missing.
	Kinds map[string]FileKind `json:"kinds"`
	// Links maps each key whose kind is Symlink to the text of the link, as
	// readlink(2) gives it: "/bin" to "usr/bin".
	Links map[string]string `json:"links,omitempty"`
	// Masks are the existing files and directories inside granted trees that
	// match Protect or Hide. A survey may add what is to be hidden for another
	// reason: Unix sockets that the profile does not list, since connecting to
	// one takes no more than seeing it (before Landlock ABI 9).
	Masks []Mask `json:"masks,omitempty"`
	// Proc are the files that this kernel has in /proc and that tell a sandbox of
	// the user's: /proc/keys.
	Proc []string `json:"proc,omitempty"`
}

// A Mask is one existing path that a pattern takes rights from. When a
// directory is a Mask, nothing below it needs one, except a Hide below a Protect.
type Mask struct {
	Path string   `json:"path"`
	Kind FileKind `json:"kind"`
	// Hide is true for a Hide pattern and false for a Protect pattern.
	Hide bool `json:"hide"`
}

// FileKind is the kind of a file according to lstat(2). The zero value is Missing.
type FileKind uint8

const (
	Missing FileKind = iota
	Dir
	File
	Symlink
	Other // socket, fifo, device node
)

var fileKinds = [...]string{"missing", "dir", "file", "symlink", "other"}

func (k FileKind) String() string {
	if int(k) < len(fileKinds) {
		return fileKinds[k]
	}
	return fmt.Sprintf("FileKind(%d)", k)
}

// MarshalText writes the kind as the word that String gives.
func (k FileKind) MarshalText() ([]byte, error) {
	if int(k) >= len(fileKinds) {
		return nil, fmt.Errorf("sandboxprofile: unknown file kind %d", k)
	}
	return []byte(fileKinds[k]), nil
}

// UnmarshalText reads the words that String gives, and no others.
func (k *FileKind) UnmarshalText(b []byte) error {
	for i, s := range fileKinds {
		if s == string(b) {
			*k = FileKind(i)
			return nil
		}
	}
	return fmt.Errorf("sandboxprofile: unknown file kind %q", b)
}
