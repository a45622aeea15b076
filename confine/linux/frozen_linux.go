package linux

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// freezing is l, what was seen of the host, with the frozen files that p lets be written: they
// are kept like files that a pattern protects. The tripwire does not look for them: they
// belong to the user, even if a tool made them.
func freezing(l tripwire.Survey, p sandboxprofile.Profile, frozen []confine.Frozen) tripwire.Survey {
	l.Facts.Masks = slices.Clone(l.Facts.Masks)
	for _, f := range frozen {
		if p.Rights(f.Path)&sandboxprofile.Write != 0 {
			l.Facts.Masks = append(l.Facts.Masks, sandboxprofile.Mask{Path: f.Path, Kind: sandboxprofile.File})
		}
	}
	return l
}

// frozenPatterns are those of frozen files.
func frozenPatterns(frozen []confine.Frozen) (list []string) {
	for _, f := range frozen {
		list = append(list, sandboxprofile.PatternOf(f.Path))
	}
	return list
}

// withFrozen lists the places where init has to find the content of frozen files.
func withFrozen(mounts []wire.Mount, frozen []confine.Frozen) []wire.Mount {
	mounts = slices.Clone(mounts)
	for i, m := range mounts {
		if slices.ContainsFunc(frozen, func(f confine.Frozen) bool { return f.Path == m.Path && f.Content != nil }) {
			mounts[i].Kind, mounts[i].ReadOnly = wire.MountData, true
		}
	}
	return mounts
}

// quiet fails if a frozen file is open for writing, by anybody: a descriptor or a mapping
// from before would still change it. The kernel knows, and says so when it is asked for a
// lease (fcntl(2), F_SETLEASE).
func quiet(frozen []confine.Frozen) error {
	for _, f := range frozen {
		if f.Content == nil {
			continue
		}
		if err := quietFile(f.Path); err != nil {
			return err
		}
	}
	return nil
}

func quietFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("confine: freeze: %w", err)
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == unix.EAGAIN {
		return &confine.Unenforceable{
			Part: fmt.Sprintf("that %q stays as it was approved", path), Reason: "it is open for writing",
			Hint: "call again when whoever writes it is done; end the background task that does",
		}
	}
	if err != nil {
		return &confine.Unenforceable{
			Part: fmt.Sprintf("that %q stays as it was approved", path), Reason: "the file system cannot say who has it open: " + err.Error(),
			Hint: "copy it into a local directory",
		}
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err
}
