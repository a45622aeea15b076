package broker

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Programs make links to names in TMPDIR or HOME that do not exist, to try what is done to a link. In a directory of the
// sandbox's own no pattern holds, so a link there from the workspace would give a repository with hooks a place in it. And when
// the directory is gone, another user may make one of the same name in /tmp. So such a link leads to nothing: its target
// is refused as long as the sandbox lives, and then the link is removed.

// maxDangling bounds them, and the descriptors.
const maxDangling = 64

// A dangling link is one with this text. It has a name in a directory of which the broker has a descriptor, as the directory may
// be moved. A link that gets another name is judged again.
type dangling struct {
	dir        int
	name, text string
	to         string
}

// leadsNowhere reports whether a link may lead to a name that does not exist, directly in a directory of the sandbox's own, and
// notes that the name is refused from now on. The queue for names is held.
func (b *Broker) leadsNowhere(full, text string) bool {
	to, ok := textOf(path.Dir(full), text)
	var st unix.Stat_t
	if !ok || !slices.Contains(b.Rules.private, path.Dir(to)) || len(b.dangling) >= maxDangling || unix.Lstat(to, &st) != unix.ENOENT {
		return false
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	dir, err := unix.Openat2(unix.AT_FDCWD, path.Dir(full), &how)
	if err != nil {
		return false
	}
	b.dangling = append(b.dangling, dangling{dir, path.Base(full), text, to})
	return true
}

// barred reports whether a link leads to name that is to lead to nothing.
func (b *Broker) barred(name string) bool {
	return slices.ContainsFunc(b.dangling, func(d dangling) bool { return fold(d.to) == fold(name) })
}

// clearDangling removes those links that are still there. No program lives any more.
func (b *Broker) clearDangling() {
	b.locked(func() reply {
		for _, d := range b.dangling {
			if text, errno := readLink(d.dir, d.name); errno == 0 && text == d.text {
				takeAway(d.dir, func() error { return unix.Unlinkat(d.dir, d.name, 0) })
			}
			unix.Close(d.dir)
		}
		b.dangling = nil
		return reply{}
	})
}
