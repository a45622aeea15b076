package assemble

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/profiles/toolchains"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// An account is the user and group as which programs run.
type account struct{ uid, gid uint32 }

// foreignOwner is the owner of the writable places, if root has started sandgate and the owner
// is another user. Programs then run as that user (package confine), who has no access to
// root's home directory. The other result is false where programs run as who started sandgate.
func foreignOwner(writable []string) (account, bool) {
	if os.Geteuid() != 0 {
		return account{}, false
	}
	for _, root := range writable {
		if st, ok := statOf(root); ok && st.Uid != 0 {
			return account{st.Uid, st.Gid}, true
		}
	}
	return account{}, false
}

func statOf(path string) (*syscall.Stat_t, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return st, ok
}

// reaches reports whether the modes of a path and of the directories above it let the user read
// it. Access lists are not examined: places that only they allow are left out, which is
// harmless.
func (a account) reaches(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return true // there is nothing to show
	}
	for p, want := real, uint32(4); ; p, want = filepath.Dir(p), 1 {
		st, ok := statOf(p)
		if !ok {
			return false
		}
		mode := uint32(st.Mode)
		switch {
		case st.Uid == a.uid:
			mode >>= 6
		case st.Gid == a.gid:
			mode >>= 3
		}
		if mode&want == 0 {
			return false
		}
		if p == "/" {
			return true
		}
	}
}

// CanBeGranted reports whether a flag for a path would help: programs run as the owner of
// what they may write, to whom no flag opens what is another user's.
func (d Derived) CanBeGranted(path string, write bool) bool {
	var writable []string
	for _, r := range d.Needs.Roots {
		if r.Write {
			writable = append(writable, r.Path)
		}
	}
	user, other := foreignOwner(writable)
	if !other {
		return true
	}
	st, ok := statOf(path)
	return user.reaches(path) && (!write || ok && st.Uid == user.uid)
}

// withinReach leaves out what the user that programs run as cannot reach: no sandbox could
// show it to them, and none would be built that has to.
func withinReach(user account, n *sandboxprofile.Needs, found *toolchains.Found) {
	beyond := func(g sandboxprofile.Grant) bool {
		path := g.Path
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(n.Home, rest)
		}
		if user.reaches(path) {
			return false
		}
		if note := fmt.Sprintf("%s is not shown: programs run as the owner of the workspace, uid %d, who cannot reach it", path, user.uid); !slices.Contains(found.Notes, note) {
			found.Notes = append(found.Notes, note)
		}
		return true
	}
	found.Grants = slices.DeleteFunc(slices.Clone(found.Grants), beyond)
	for i, p := range n.Presets {
		n.Presets[i].Grants = slices.DeleteFunc(slices.Clone(p.Grants), beyond)
	}
}
