package sandboxinit

import (
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
)

// Bounds of a look at a private home: what lies in it is a program's choice.
const (
	goneLooked = 2000 // names
	goneNamed  = 5
)

// A homeLook knows what lay in the private directories that end with an action. A person takes what a
// program makes there for kept: a work tree beside the workspace, a report. Names with a dot are left
// out: programs make their settings and caches again.
type homeLook struct {
	homes  []wire.Pool
	before map[string]bool
}

func lookAtHomes(homes []wire.Pool) homeLook {
	h := homeLook{homes: homes}
	before := map[string]bool{}
	h.walk(func(name, _ string) bool { before[name] = true; return true })
	h.before = before
	return h
}

// gone are the first new names, as a person knows them.
func (h homeLook) gone() (names []string) {
	h.walk(func(name, known string) bool {
		if !h.before[name] && len(names) < goneNamed {
			names = append(names, strings.ToValidUTF8(known, "\uFFFD"))
		}
		return h.before[name]
	})
	slices.Sort(names)
	return names
}

// walk goes through each home without what is mounted there, and into the directories for which into
// reports true. A name is given as it is here, and as it is known.
func (h homeLook) walk(into func(name, known string) bool) {
	left := goneLooked
	for _, home := range h.homes {
		var top unix.Stat_t
		if unix.Lstat(home.Dir, &top) == nil {
			walkHome(home.Dir, top.Dev, &left, func(name string) bool {
				return into(name, home.Place+strings.TrimPrefix(name, home.Dir))
			})
		}
	}
}

func walkHome(dir string, device uint64, left *int, into func(string) bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it is for the program's own use
	}
	d := os.NewFile(uintptr(fd), dir)
	names, _ := d.Readdirnames(*left + 1) // what cannot be read is not named
	d.Close()
	for _, name := range names {
		if *left--; *left < 0 {
			return
		}
		if strings.HasPrefix(name, ".") {
			continue
		}
		name = path.Join(dir, name)
		var st unix.Stat_t
		if into(name) && unix.Lstat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Dev == device {
			walkHome(name, device, left, into)
		}
	}
}
