package linux

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// bubblewrap finds what it mounts, and where, by path. Inside a writable tree a
// path is not ours: another call of the same session can exchange a directory for
// a link between the survey and the mount, and have something else mounted, or
// have the mount land elsewhere. So the identity of each such file, and of the
// directory that it is in, is taken here, following no link, and init compares it
// with what has come of it.

// expectMounts gives what init has to find for args, bubblewrap's arguments.
func expectMounts(p sandboxprofile.Profile, args []string) ([]wire.Mount, error) {
	var mounts []wire.Mount
	all := mountsOf(args)
	for _, m := range all {
		root := hostfs.WritableAround(p, m.Path)
		if root == "" || sandboxprofile.Contains("/proc", m.Path) || sandboxprofile.Contains("/dev", m.Path) {
			continue // nobody in a sandbox can change what the path leads to
		}
		around := mountAround(all, m.Path)
		if around.Kind == wire.MountTmpfs {
			m.Around = around.Path
		}
		var err error
		m.Dir, m.File, err = hostfs.Locate(root, m.Path)
		if errors.Is(err, unix.ENOENT) && m.Kind == wire.MountTmpfs && around.Kind != wire.MountBind {
			continue // the sandbox's own, in what is its own
		}
		if err != nil {
			return nil, fmt.Errorf("confine: %q changed while the sandbox was built: %w", m.Path, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, distinct(mounts)
}

// mountsOf reads the mounts out of bubblewrap's arguments.
func mountsOf(args []string) []wire.Mount {
	var mounts []wire.Mount
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--bind", "--ro-bind":
			m := wire.Mount{Path: args[i+2], Kind: wire.MountBind, ReadOnly: args[i] == "--ro-bind"}
			if args[i+1] != args[i+2] {
				m.Kind = wire.MountNull
			}
			mounts = append(mounts, m)
			i += 2
		case "--tmpfs":
			mounts = append(mounts, wire.Mount{Path: args[i+1], Kind: wire.MountTmpfs})
			i++
		}
	}
	return mounts
}

// mountAround is the mount in which name has its mount point, the zero value if that
// is the sandbox's empty root. What is granted below a denied directory, for one, is
// mounted in the tmpfs over that.
func mountAround(mounts []wire.Mount, name string) wire.Mount {
	var around wire.Mount
	for _, m := range mounts {
		if m.Path != name && sandboxprofile.Contains(m.Path, name) && len(m.Path) > len(around.Path) {
			around = m
		}
	}
	return around
}

// bornAt is when the file at path was made; where the file system does not know, when it last changed.
func bornAt(path string) int64 {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_CTIME, &st) != nil {
		return 0
	}
	at := st.Ctime
	if st.Mask&unix.STATX_BTIME != 0 {
		at = st.Btime
	}
	return at.Sec*1e9 + int64(at.Nsec)
}

// distinct fails if two paths were found to be one: a directory that was moved
// from the first name to the second while we looked would be covered twice, and
// what it was exchanged with not at all.
func distinct(mounts []wire.Mount) error {
	type entry struct {
		dir  wire.FileID
		name string
	}
	seen := map[entry]string{}
	for _, m := range mounts {
		at := entry{m.Dir, path.Base(m.Path)}
		if other, ok := seen[at]; ok && other != m.Path {
			return fmt.Errorf("confine: %q changed while the sandbox was built: it was %q a moment ago", m.Path, other)
		}
		seen[at] = m.Path
	}
	return nil
}

// A cover is a file that a mount hides or keeps from being written, as it was when
// the mount was made.
type cover struct {
	path      string
	dir, file wire.FileID
	born      int64 // of file: a number of an inode is used again as soon as it is free
}

// coversOf gives the covers of a sandbox for p on the host that f describes. The
// mount is bound to the file and not to its name: when another file takes the name,
// as an editor does that saves by renaming, the kernel takes the mount away
// (rename(2) over a mount point of another namespace), and that file lies open.
func coversOf(p sandboxprofile.Profile, f sandboxprofile.Facts) []cover {
	covers := make([]cover, 0, len(f.Masks))
	for _, m := range f.Masks {
		c := cover{path: m.Path}
		if root := hostfs.Outermost(p, m.Path, sandboxprofile.Read|sandboxprofile.Write|sandboxprofile.Execute); root != "" {
			c.dir, c.file, _ = hostfs.Locate(root, m.Path) // one that cannot be found is equal to no other that can
			c.born = bornAt(m.Path)
		}
		covers = append(covers, c)
	}
	return covers
}
