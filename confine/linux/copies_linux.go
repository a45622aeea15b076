package linux

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// maxCopy bounds a file that is copied into a sandbox: what is larger costs more to copy than
// to mount.
const maxCopy = 256 << 10

// copyFiles has bubblewrap copy the single small files of the machine's settings, where args
// have it mount them. For each mount bubblewrap reads the whole table of mounts, which
// for 35 files below /etc took a third of a fresh sandbox's time. A copy lies in the
// sandbox's root, which is read-only like the mount would be. It is opened here, by the user
// that the sandbox runs as, so that it shows nothing that the mount would not.
//
// A copy does not show what is written to the file later: it is for a sandbox that serves one
// call. inherited are the descriptors that args name already; the copies' follow them.
func copyFiles(p sandboxprofile.Profile, args []string, inherited []*os.File) (out []string, files []*os.File) {
	if _, granted := p.Paths["/"]; granted {
		return args, nil // the root is the host's
	}
	mounts := mountsOf(args)
	for i := 0; i < len(args); i++ {
		if args[i] != "--ro-bind" || args[i+1] != args[i+2] || !isSetting(args[i+2]) || mountAround(mounts, args[i+2]).Path != "" {
			out = append(out, args[i])
			continue
		}
		path := args[i+2]
		if f, mode := openCopied(path); f != nil {
			fd := strconv.Itoa(bwrap.NameFileFD + len(inherited) + len(files))
			out = append(out, "--perms", fmt.Sprintf("%04o", mode), "--file", fd, path)
			files = append(files, f)
		} else {
			out = append(out, args[i:i+3]...)
		}
		i += 2
	}
	return out, files
}

// isSetting reports whether path lies where the machine's settings do.
func isSetting(path string) bool {
	return sandboxprofile.Contains("/etc", path) || sandboxprofile.Contains("/sys", path)
}

// openCopied opens a file that can be copied, and gives the mode of the copy. It is one that
// everybody may read: a copy belongs to another user than the file, and has none of its
// access control lists.
func openCopied(path string) (*os.File, uint32) {
	const readable = 0o444
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&readable != readable || st.Size > maxCopy {
		unix.Close(fd)
		return nil, 0
	}
	return os.NewFile(uintptr(fd), path), st.Mode & 0o555
}
