package sandboxprofile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Class is the effect class of a call: how far what it does can reach. Of two classWords
// the smaller reaches less far. The zero value is not a class: nothing is known of such
// a call, and only a person can allow it.
type Class uint8

const (
	Unclassified Class = iota
	// ClassRead reads what the profile shows, writes only to private scratch directories, and has
	// no network.
	ClassRead
	// ClassWorkspace also changes the files that the profile lets be written, and
	// reaches the hosts that it lists.
	ClassWorkspace
	// ClassBeyond reaches what undoing a change of files does not take back: the
	// network of the host, a socket, a device, a secret.
	ClassBeyond
)

var classWords = [...]string{"unclassified", "read", "workspace", "beyond"}

func (c Class) known() bool { return c > Unclassified && int(c) < len(classWords) }

func (c Class) String() string {
	if int(c) >= len(classWords) {
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
	return classWords[c]
}

// MarshalText writes the class as the word that String gives.
func (c Class) MarshalText() ([]byte, error) {
	if int(c) >= len(classWords) {
		return nil, fmt.Errorf("sandboxprofile: unknown class %d", uint8(c))
	}
	return []byte(classWords[c]), nil
}

// UnmarshalText reads the words that String gives, and no others.
func (c *Class) UnmarshalText(b []byte) error {
	i := slices.Index(classWords[:], string(b))
	if i < 0 {
		return fmt.Errorf("sandboxprofile: unknown class %q: use read, workspace or beyond", b)
	}
	*c = Class(i)
	return nil
}

// Can says in words what a call of the class can do.
func (c Class) Can() string {
	switch c {
	case ClassRead:
		return "reads files, changes nothing, has no network"
	case ClassWorkspace:
		return "changes at most files in the workspace, and reaches listed hosts"
	case ClassBeyond:
		return "reaches beyond the workspace"
	}
	return "its effect is unknown"
}

// ClassOf is the class of a under p: what it can do at most, whatever it is about. It
// follows from what the kernel enforces, and not from the text of a command.
func ClassOf(p Profile, a Action) Class {
	switch a.Kind {
	case ReadFile, ListFiles, GlobFiles, GrepFiles:
		return ClassRead
	case WriteFile, EditFile:
		return ClassWorkspace
	case Exec:
	default:
		return Unclassified
	}
	given := a.Exec != nil && slices.ContainsFunc(a.Exec.Secrets, func(s Secret) bool { return !s.Unseen() })
	switch {
	case p.Network.Mode > NetworkProxied, len(p.UnixSockets) > 0, len(p.Devices) > 0, given:
		return ClassBeyond
	case p.Network.Mode != NetworkNone, len(p.Network.Expose) > 0:
		return ClassWorkspace
	}
	for _, r := range p.Paths {
		if r&Write != 0 {
			return ClassWorkspace
		}
	}
	return ClassRead
}

// A Ceiling is the most that an action may do without a person's approval: what the decision
// assumed, and no more. The kernel enforces it in addition to the profile, so a decision based
// on a misread command costs only an EACCES. The zero value cannot be enforced, so an action
// with it does not run.
type Ceiling struct {
	Class Class `json:"class"`
	// AnyProgram lets every program run that the profile lets run. Without it only
	// the files in Programs are executed: absolute paths, links resolved, sorted, with
	// the loaders and interpreters that the kernel starts for them.
	AnyProgram bool     `json:"any_program,omitempty"`
	Programs   []string `json:"programs,omitempty"`
	// Withheld lists directories that the call's profile leaves out, because no one was asked
	// whether they may be read.
	Withheld []string `json:"withheld,omitempty"`
	// EmptyHome: the call writes nothing to private directories that other calls find again. Programs read
	// settings from HOME (.gitconfig, .curlrc), and no one has approved settings that another call wrote there.
	EmptyHome bool `json:"empty_home,omitempty"`
}

// Fleeting are the scratch directories that do not outlive a call, HOME above all: a start-up file or a git
// configuration that one call leaves there would decide what the next one runs.
func (p Profile) Fleeting() []string {
	return slices.DeleteFunc(slices.Clone(p.Scratch), func(dir string) bool { return dir == "/tmp" || dir == "/var/tmp" })
}

// Holds reports whether the ceiling takes something from an action whose class is c:
// a layer has to be laid on it.
func (l Ceiling) Holds(c Class) bool { return l.Class < c || !l.AnyProgram || l.EmptyHome }

// String says what the ceiling lets an action do: "read: reads files, ...; runs cat, wc".
func (l Ceiling) String() string {
	s := l.Class.String() + ": " + l.Class.Can() + l.Without()
	if l.AnyProgram {
		return s
	}
	var names []string
	for _, p := range l.Programs {
		names = append(names, p[strings.LastIndexByte(p, '/')+1:])
	}
	return s + "; starts only " + strings.Join(names, ", ")
}

// Without says what the profile leaves out, "" if that is nothing.
func (l Ceiling) Without() string {
	s := ""
	if len(l.Withheld) > 0 {
		s = "; sees nothing of " + strings.Join(l.Withheld, ", ")
	}
	if l.EmptyHome {
		s += "; cannot write to HOME"
	}
	return s
}

// Validate returns an error if the ceiling cannot be enforced on a.
func (l Ceiling) Validate(a Action) error {
	switch {
	case !l.Class.known():
		return fmt.Errorf("sandboxprofile: class %v cannot be a ceiling", l.Class)
	case l.AnyProgram && len(l.Programs) > 0:
		return fmt.Errorf("sandboxprofile: a ceiling cannot name programs and also let every program run")
	case a.Kind == WriteFile && l.Class < ClassWorkspace, a.Kind == EditFile && l.Class < ClassWorkspace:
		return fmt.Errorf("sandboxprofile: a ceiling of class %[2]v does not allow %[1]s", a.Kind, l.Class)
	}
	return nil
}

// Open are the scratch directories that stay writable under a ceiling of ClassRead. One
// that has something writable of the profile's below it (HOME, where the workspace lies
// in it) is not: a Landlock layer that grants a directory grants what is mounted below
// it as well.
func (p Profile) Open() []string {
	return slices.DeleteFunc(slices.Clone(p.Scratch), func(dir string) bool {
		for k, r := range p.Paths {
			if r&Write != 0 && Contains(dir, k) {
				return true
			}
		}
		return false
	})
}

// Under is p cut down to a class. It is for backends that give every action a profile
// text of its own; the others lay a layer on the process.
func (p Profile) Under(c Class) Profile {
	if c >= ClassWorkspace {
		return p
	}
	p.Paths = maps.Clone(p.Paths)
	for k, r := range p.Paths {
		p.Paths[k] = r &^ Write
	}
	p.Network, p.UnixSockets, p.Devices = Network{}, nil, nil
	return p
}
