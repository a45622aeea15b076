package linux

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// owner is the user and group as which a sandbox runs. A supervisor that root
// started runs tools as the owner of what they may write: they have the owner's
// files and no others, what they make is the owner's, and the kernel's limits hold
// them, which those on processes do not hold for root. nil is the supervisor's own.
//
// Where root owns everything, tools run as root without any capability over the
// host: as the owner of the files, and no more.
func owner(p sandboxprofile.Profile) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil // nobody else can become another user
	}
	own, err := ownersOf(p, func(_ string, r sandboxprofile.Rights) bool { return r&sandboxprofile.Write != 0 })
	if err != nil {
		return nil, err
	}
	if len(own) > 1 {
		return nil, severalOwners(own)
	}
	if len(own) == 0 { // nothing is written: the owner of what is read, if it is one
		own, err = ownersOf(p, func(path string, r sandboxprofile.Rights) bool {
			return r&sandboxprofile.Read != 0 && !sandboxprofile.IsSystemTree(path)
		})
		if err != nil || len(own) > 1 {
			return nil, err
		}
	}
	for id := range own {
		if id.Uid != 0 {
			return &syscall.Credential{Uid: id.Uid, Gid: id.Gid}, nil // and no other group
		}
	}
	return nil, nil
}

// An account is a user and a group.
type account struct{ Uid, Gid uint32 }

// ownersOf finds who owns the paths of p that ask picks, with one path of each
// user. Of two groups with one user the first path's counts.
func ownersOf(p sandboxprofile.Profile, ask func(string, sandboxprofile.Rights) bool) (map[account]string, error) {
	owners := map[account]string{}
	users := map[uint32]bool{}
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		if !ask(path, p.Paths[path]) {
			continue
		}
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			continue // nothing is mounted for it
		case err != nil:
			return nil, fmt.Errorf("confine: owner of %q: %w", path, err)
		case !users[st.Uid]:
			users[st.Uid] = true
			owners[account{st.Uid, st.Gid}] = path
		}
	}
	return owners, nil
}

func severalOwners(own map[account]string) error {
	paths := slices.Sorted(maps.Values(own))
	return &confine.Unenforceable{
		Part:   "the owner of files",
		Reason: fmt.Sprintf("%q and %q may be written and belong to different users, and a tool can be one of them only", paths[0], paths[1]),
		Hint:   "start sandgate as the user whose files these are, or give both the same owner (chown)",
	}
}
