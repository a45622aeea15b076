package linux

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// plainDevices may be written to even by a program that must change nothing: their
// input is discarded, or shown on a terminal of the sandbox's own.
var plainDevices = []string{"/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"}

// ceiling is what init needs to limit an action to the class "read": own are the private
// directories, by their names where init is, and homes those of them that do not outlive a call.
func ceiling(abi landlock.Version, own, homes []string) (wire.Ceiling, error) {
	filter, err := seccomp.CeilingFilter()
	if err != nil {
		return wire.Ceiling{}, confine.NewUnenforceable("the system call filter of a ceiling", err)
	}
	c := wire.Ceiling{
		Homes:    homes,
		Changing: uint64(landlock.Changing & abi.Access), Execute: uint64(landlock.Execute & abi.Access), Seccomp: filter,
	}
	devices := slices.DeleteFunc(slices.Clone(plainDevices), func(path string) bool { return unix.Access(path, unix.F_OK) != nil })
	for _, r := range landlock.StillWritable(slices.Concat(own, devices)) {
		c.Writable = append(c.Writable, wire.LandlockRule{Path: r.Path, Access: uint64(r.Access)})
	}
	return c, nil
}

// nothing is what holds a call where no backend does.
const nothing = "nothing"

// ceilingHolds says what holds a ceiling where init lays a layer on the program.
const ceilingHolds = "a Landlock layer and a system call filter of the program's own"

// allowedBy checks that the sandbox can hold the ceiling of an action: by a layer, or
// because its profile gives no more.
func allowedBy(p sandboxprofile.Profile, a sandboxprofile.Action) error {
	if a.Ceiling == nil {
		return nil
	}
	if err := a.Ceiling.Validate(a); err != nil {
		return &confine.Unenforceable{Part: "the ceiling of a call", Reason: err.Error(), Hint: "have a person allow the call: ask about it in the rule that lets it run"}
	}
	if has := sandboxprofile.ClassOf(p, a); a.Ceiling.Class > sandboxprofile.ClassRead && has > a.Ceiling.Class {
		return &confine.Unenforceable{
			Part:   "the ceiling of a call",
			Reason: "its class is " + a.Ceiling.Class.String() + " and its profile reaches further: " + has.Can(),
			Hint:   "have the call approved, or take the network of the host, sockets and devices out of the configuration",
		}
	}
	return nil
}

// heldBy says what holds the ceiling of an action, "" without one.
func heldBy(p sandboxprofile.Profile, backend string, a sandboxprofile.Action) string {
	switch l := a.Ceiling; {
	case l == nil:
		return ""
	case backend == confine.NoBackend:
		return nothing
	case a.Kind != sandboxprofile.Exec:
		return l.Class.String() + ": the operation itself, done by the sandbox's init"
	case !l.Holds(sandboxprofile.ClassOf(p, a)):
		return l.Class.String() + ": the profile gives no more" + l.Without()
	case l.Class > sandboxprofile.ClassRead:
		return l.String() + "; by a Landlock layer of the program's own"
	default:
		return l.String() + "; by " + ceilingHolds
	}
}

// changesFiles reports whether an action can change files of the user's, so that what it
// left has to be looked at.
func changesFiles(backend string, a sandboxprofile.Action) bool {
	if a.Kind != sandboxprofile.Exec {
		return a.Kind == sandboxprofile.WriteFile || a.Kind == sandboxprofile.EditFile
	}
	return a.Ceiling == nil || a.Ceiling.Class != sandboxprofile.ClassRead || backend == confine.NoBackend
}
