package landlock

import (
	"fmt"
	"strings"
)

// AccessFS is a set of Landlock's file system access rights; the bits are the
// kernel's LANDLOCK_ACCESS_FS_* values.
type AccessFS uint64

const (
	Execute AccessFS = 1 << iota
	WriteFile
	ReadFile
	ReadDir
	RemoveDir
	RemoveFile
	MakeChar
	MakeDir
	MakeReg
	MakeSock
	MakeFifo
	MakeBlock
	MakeSym
	Refer       // ABI 2: link and rename between directories
	Truncate    // ABI 3
	IoctlDev    // ABI 5
	ResolveUnix // ABI 9: connect to a Unix socket by its path
)

var accessNames = [...]string{
	"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir",
	"make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev", "resolve_unix",
}

// forFiles are the rights that a rule on anything but a directory may have; the
// kernel rejects the others with EINVAL.
const forFiles = Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix

// SubsetOf reports whether a allows nothing that b does not.
func (a AccessFS) SubsetOf(b AccessFS) bool { return a&^b == 0 }

// String writes the set in Landlock's words: {read_file,read_dir}.
func (a AccessFS) String() string {
	var names []string
	for i, n := range accessNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := a >> len(accessNames); rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint64(rest<<len(accessNames))))
	}
	return "{" + strings.Join(names, ",") + "}"
}

// MarshalText writes the set as String does.
func (a AccessFS) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what String writes, and no unknown names.
func (a *AccessFS) UnmarshalText(b []byte) error {
	list, ok := strings.CutPrefix(string(b), "{")
	list, closed := strings.CutSuffix(list, "}")
	if !ok || !closed {
		return fmt.Errorf("landlock: access rights %q: want a set such as {read_file,read_dir}", b)
	}
	*a = 0
	for name := range strings.SplitSeq(list, ",") {
		if list == "" {
			break
		}
		bit, err := parseAccess(name)
		if err != nil {
			return err
		}
		*a |= bit
	}
	return nil
}

func parseAccess(name string) (AccessFS, error) {
	for i, n := range accessNames {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("landlock: unknown access right %q", name)
}

// Version is what one ABI version of the kernel can handle.
type Version struct {
	ABI    int
	Linux  string // first release with it, where it matters for a hint
	Access AccessFS
	// Net is the number of LANDLOCK_ACCESS_NET_* rights, lowest bits first:
	// bind_tcp, connect_tcp, and from ABI 10 the same for UDP.
	Net int
	// Scope says that signals and abstract Unix sockets can be scoped.
	Scope bool
}

// Versions lists every ABI version whose file system rights this package knows,
// oldest first.
func Versions() []Version {
	const v1 = 1<<13 - 1
	return []Version{
		{ABI: 1, Linux: "5.13", Access: v1},
		{ABI: 2, Linux: "5.19", Access: v1 | Refer},
		{ABI: 3, Linux: "6.2", Access: v1 | Refer | Truncate},
		{ABI: 4, Linux: "6.7", Access: v1 | Refer | Truncate, Net: 2},
		{ABI: 5, Linux: "6.10", Access: v1 | Refer | Truncate | IoctlDev, Net: 2},
		{ABI: 6, Linux: "6.12", Access: v1 | Refer | Truncate | IoctlDev, Net: 2, Scope: true},
		{ABI: 7, Linux: "6.15", Access: v1 | Refer | Truncate | IoctlDev, Net: 2, Scope: true},
		{ABI: 8, Access: v1 | Refer | Truncate | IoctlDev, Net: 2, Scope: true},
		{ABI: 9, Access: v1 | Refer | Truncate | IoctlDev | ResolveUnix, Net: 2, Scope: true},
		{ABI: 10, Access: v1 | Refer | Truncate | IoctlDev | ResolveUnix, Net: 4, Scope: true},
		{ABI: 11, Access: v1 | Refer | Truncate | IoctlDev | ResolveUnix, Net: 4, Scope: true},
	}
}

// Handled is the set of rights that a kernel with this ABI version controls. A
// newer kernel than this package knows is used as the newest known one.
func Handled(abi int) (Version, error) {
	known := Versions()
	if abi < known[0].ABI {
		return Version{}, fmt.Errorf("landlock: the kernel has ABI version %d, at least %d is needed (Linux %s)", abi, known[0].ABI, known[0].Linux)
	}
	return known[min(abi, len(known))-1], nil
}
