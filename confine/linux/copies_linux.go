package linux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// What is copied into a sandbox: what is larger costs more to copy than to mount.
const (
	maxCopy        = 256 << 10 // bytes of a file
	maxCopied      = 16        // what lies at and below a directory
	maxCopiedDepth = 3

	leastDescriptors = 1024 // that a process may have
)

// copyFiles has bubblewrap copy single small files of the machine's settings, and directories
// of a few, where args have it mount them. For each mount bubblewrap reads the whole table
// of mounts, which for 35 files below /etc took a third of a fresh sandbox's time. A copy lies
// in the sandbox's root, which is read-only like the mount would be. It is opened here, by the
// user that the sandbox runs as, so that it shows nothing that the mount would not.
//
// A copy does not show later writes to the file: it is for a sandbox that serves one call.
// inherited are the descriptors that args name already; the copies' follow them.
func copyFiles(p sandboxprofile.Profile, args []string, inherited []*os.File) (out []string, files []*os.File) {
	if _, granted := p.Paths["/"]; granted || !manyDescriptors() {
		return args, nil // the root is the host's, or each file takes what another sandbox needs
	}
	mounts := mountsOf(args)
	for i := 0; i < len(args); i++ {
		if args[i] != "--ro-bind" || args[i+1] != args[i+2] || !isSetting(args[i+2]) || !alone(mounts, args[i+2]) {
			out = append(out, args[i])
			continue
		}
		c := copier{left: maxCopied, fd: bwrap.NameFileFD + len(inherited) + len(files)}
		if c.add(args[i+2], maxCopiedDepth) {
			out, files = append(out, c.args...), append(files, c.files...)
		} else {
			closeFiles(c.files)
			out = append(out, args[i:i+3]...)
		}
		i += 2
	}
	return out, files
}

// manyDescriptors reports whether a process may have enough descriptors for copies.
func manyDescriptors() bool {
	var files unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur >= leastDescriptors
}

// isSetting reports whether path lies where the machine's settings do.
func isSetting(path string) bool {
	return sandboxprofile.Contains("/etc", path) || sandboxprofile.Contains("/sys", path)
}

// alone reports whether the path lies in the sandbox's own root, and nothing is mounted in it:
// a copy would include files that a mount below hides.
func alone(mounts []wire.Mount, path string) bool {
	return mountAround(mounts, path).Path == "" &&
		!slices.ContainsFunc(mounts, func(m wire.Mount) bool { return m.Path != path && sandboxprofile.Contains(path, m.Path) })
}

// A copier collects what copies one path.
type copier struct {
	args  []string
	files []*os.File
	fd    int // of the first file, for bubblewrap
	left  int // how much more there may be
}

// add reports whether everything at path can be copied. These are files that everybody may
// read: a copy belongs to another user than the file, and has none of its access control lists.
func (c *copier) add(path string, depth int) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	c.left--
	const readable, searchable = 0o444, 0o555
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
	case st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&readable == readable && st.Size <= maxCopy && c.left >= 0:
		c.args = append(c.args, "--perms", fmt.Sprintf("%04o", st.Mode&0o555), "--file", strconv.Itoa(c.fd+len(c.files)), path)
		c.files = append(c.files, f)
		return true
	case st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&searchable == searchable && depth > 0:
		c.args = append(c.args, "--perms", "0755", "--dir", path)
		defer f.Close()
		return c.addAll(f, path, depth-1)
	}
	f.Close()
	return false
}

// addAll adds what lies in the directory f.
func (c *copier) addAll(f *os.File, path string, depth int) bool {
	entries, err := f.ReadDir(maxCopied + 1)
	if err != nil && !errors.Is(err, io.EOF) || len(entries) > c.left {
		return false
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		at := path + "/" + e.Name()
		if e.Type() != fs.ModeSymlink {
			if !c.add(at, depth) {
				return false
			}
			continue
		}
		target, err := os.Readlink(at)
		if c.left--; err != nil {
			return false
		}
		c.args = append(c.args, "--symlink", target, at)
	}
	return c.left >= 0
}
