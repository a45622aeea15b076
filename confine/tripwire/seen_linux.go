package tripwire

import (
	"fmt"
	"os"
	"slices"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Survey is the state of the host as it was seen.
type Survey struct {
	Kinds *Kinds
	Facts sandboxprofile.Facts // the kinds, and the masks of what was found
	Found []Finding
	Key   string   // of the profile
	Named []string // patterns of what configurations of git name
}

// KeyOf is p.Key, computed once for each profile, and what is wrong with p.
func (g *Guard) KeyOf(p sandboxprofile.Profile) (string, error) {
	compiled := g.profiles.Of(p)
	return compiled.key, compiled.invalid
}

// Survey refuses what no sandbox of this backend can keep, and surveys the host.
func (g *Guard) Survey(p sandboxprofile.Profile) (Survey, error) { return g.survey(p, nil) }

// SurveyAhead is Survey for a sandbox that is built before its call. Trees are taken to be as the
// last process left them. Before anything runs in the sandbox, confirm looks at those that no
// tool may write to, and reports whether they are, and then Survey looks at the others.
func (g *Guard) SurveyAhead(p sandboxprofile.Profile) (seen Survey, confirm func() bool, err error) {
	var later []*tree
	seen, err = g.survey(p, &later)
	return seen, func() bool {
		for _, t := range later {
			if !t.confirm() {
				return false
			}
		}
		return true
	}, err
}

func (g *Guard) survey(p sandboxprofile.Profile, later *[]*tree) (Survey, error) {
	compiled := g.profiles.Of(p)
	if compiled.invalid != nil {
		return Survey{}, confine.NewUnenforceable("the profile", compiled.invalid)
	}
	if err := refuseSecondMounts(p); err != nil {
		return Survey{}, err
	}
	seen, err := g.before(compiled, later)
	if err != nil {
		return Survey{}, err
	}
	seen.Facts.Proc = compiled.proc
	return seen, refuseLinks(seen.Facts)
}

// tellingProc lists the files of /proc that no namespace keeps from telling of the
// user: the names of the keys that the user holds outside, and how many
// (keyrings(7)). What is in them is kept by the system call filter.
func tellingProc() []string {
	return slices.DeleteFunc([]string{"/proc/keys", "/proc/key-users"}, func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil // a kernel without keyrings
	})
}

// SameDirectories fails if a cover would lie in another directory than the survey found
// its name in. What that directory was moved to would be seen, and not covered.
func (l Survey) SameDirectories(mounts []wire.Mount) error {
	dirs := map[string]ident{}
	for _, f := range l.Found {
		if f.class == mask {
			dirs[f.Path] = f.dir
		}
	}
	for _, m := range mounts {
		was, ok := dirs[m.Path]
		if now := (ident{m.Dir.Dev, m.Dir.Ino}); ok && now != was {
			return fmt.Errorf("confine: %q changed while the sandbox was built: it moved to another directory", m.Path)
		}
	}
	return nil
}

// Warnings says in words what a sandbox on such a host cannot keep.
func (l Survey) Warnings() []string {
	var names []string
	for _, f := range l.Found {
		if f.class == shared {
			names = append(names, f.Path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"hard links: what is written to " + hostfs.SomeOf(names) + " is written outside of the workspace too, where they have other names"}
}
