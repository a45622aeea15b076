package confine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// bubblewrap finds what it mounts, and where, by path. Inside a writable tree a
// path is not ours: another call of the same session can exchange a directory for
// a link between the survey and the mount, and have something else mounted, or
// have the mount land elsewhere. So the identity of each such file is taken here,
// following no link, and init compares it with what has come of it.

// expectMounts gives what init has to find for args, bubblewrap's arguments.
func expectMounts(p sandboxprofile.Profile, args []string) ([]wire.Mount, error) {
	var mounts []wire.Mount
	for i := 0; i < len(args); i++ {
		var m wire.Mount
		switch args[i] {
		case "--bind", "--ro-bind":
			m = wire.Mount{Path: args[i+2], Kind: wire.MountBind, ReadOnly: args[i] == "--ro-bind"}
			if args[i+1] != args[i+2] {
				m.Kind = wire.MountNull
			}
			i += 2
		case "--tmpfs":
			m = wire.Mount{Path: args[i+1], Kind: wire.MountTmpfs}
			i++
		default:
			continue
		}
		root := writableAround(p, m.Path)
		if root == "" {
			continue // nobody in a sandbox can change what the path leads to
		}
		st, err := statBelow(root, m.Path)
		if errors.Is(err, unix.ENOENT) && m.Kind == wire.MountTmpfs {
			continue // the sandbox's own, over nothing
		}
		if err != nil {
			return nil, fmt.Errorf("confine: %q changed while the sandbox was built: %w", m.Path, err)
		}
		m.Dev, m.Ino = st.Dev, st.Ino
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// writableAround is the outermost writable path of p that has name strictly
// below it, "" if there is none. What lies above is not the tools' to change.
func writableAround(p sandboxprofile.Profile, name string) string {
	var roots []string
	for path, rights := range p.Paths {
		if rights&sandboxprofile.Write != 0 && path != name && sandboxprofile.Contains(path, name) {
			roots = append(roots, path)
		}
	}
	if len(roots) == 0 {
		return ""
	}
	return slices.MinFunc(roots, func(a, b string) int { return len(a) - len(b) })
}

// statBelow looks at name, following no link in any component below root.
func statBelow(root, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(at)
	rel := strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
	fd, err := unix.Openat2(at, rel, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}
