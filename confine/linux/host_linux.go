package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// bwrapPlaces is where bubblewrap is looked for. PATH is not used: a directory that
// another user can write to must not choose the program that builds the sandbox.
var bwrapPlaces = []string{"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"}

// minBwrap is the oldest bubblewrap that knows every option we pass (--size
// for tmpfs came with 0.6.0).
var minBwrap = [3]int{0, 6, 0}

// Parts that a host lacks as a whole, whatever a profile says.
const (
	partBwrap  = "bubblewrap"
	partUserns = "user namespaces"
	partMounts = "mounts"
	partProc   = "a /proc of its own"
)

var hostParts = []string{partBwrap, partUserns, partMounts, partProc}

const installBwrap = "install it: `scripts/bootstrap`, or `apt-get install bubblewrap`"

// findBwrap returns the path of bubblewrap. Its version is not asked for, which
// would cost a third of a sandbox: one that is too old fails on an option that it
// does not know, and doctor asks.
func findBwrap(path string) (string, error) {
	places := bwrapPlaces
	if path != "" {
		places = []string{path}
	}
	for _, p := range places {
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if info.Mode()&0o022 != 0 {
			return "", &confine.Unenforceable{Part: partBwrap, Reason: fmt.Sprintf("%s can be changed by others (mode %v)", p, info.Mode().Perm()), Hint: "chmod go-w " + p}
		}
		return p, nil
	}
	return "", &confine.Unenforceable{Part: partBwrap, Reason: "not found in " + hostfs.SomeOf(places), Hint: installBwrap}
}

func checkBwrapVersion(path string) ([3]int, error) {
	v, err := bwrapVersion(path)
	if err != nil {
		return v, &confine.Unenforceable{Part: partBwrap, Reason: err.Error(), Hint: installBwrap}
	}
	if older(v, minBwrap) {
		return v, &confine.Unenforceable{
			Part:   partBwrap,
			Reason: fmt.Sprintf("%s is version %d.%d.%d, at least %d.%d.%d is needed", path, v[0], v[1], v[2], minBwrap[0], minBwrap[1], minBwrap[2]),
			Hint:   "install a newer bubblewrap",
		}
	}
	return v, nil
}

func bwrapVersion(path string) (v [3]int, err error) {
	out, err := (&exec.Cmd{Path: path, Args: []string{"bwrap", "--version"}, Env: []string{}, Dir: "/"}).Output()
	if err != nil {
		return v, fmt.Errorf("%s --version: %w", path, err)
	}
	if _, err := fmt.Sscanf(string(out), "bubblewrap %d.%d.%d", &v[0], &v[1], &v[2]); err != nil {
		return v, fmt.Errorf("%s --version printed %q", path, strings.TrimSpace(string(out)))
	}
	return v, nil
}

func older(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// Arguments of landlock_create_ruleset(2) that ask instead of creating.
const (
	landlockVersion = 1 << 0
	landlockErrata  = 1 << 1
)

// landlockABI is the highest ABI version that the kernel and our table share.
// A kernel of ABI 6 or later without the second erratum fixed does not scope
// signals right and counts as 5, as in go-landlock.
func landlockABI() (landlock.Version, error) {
	v, err := askLandlock(landlockVersion)
	if err != nil {
		u := &confine.Unenforceable{
			Part:   "Landlock",
			Reason: "the kernel does not offer it: " + err.Error(),
			Hint:   "Linux 5.13 or newer, with landlock in the `lsm=` boot parameter (see /sys/kernel/security/lsm)",
		}
		if isGVisor() {
			u.Reason = "gVisor stands in for the kernel here, and has no Landlock: " + err.Error()
			u.Hint = "run sandgate in a container of the runtime runc or crun, or outside of this one"
		}
		return landlock.Version{}, u
	}
	if errata, err := askLandlock(landlockErrata); v >= 6 && (err != nil || errata&(1<<1) == 0) {
		v = 5
	}
	return landlock.Handled(v)
}

// isGVisor tells it by what it says in place of a version, which is always the same
// (pkg/sentry/kernel/version.go, pkg/sentry/syscalls/linux).
func isGVisor() bool {
	b, err := os.ReadFile("/proc/version")
	return err == nil && strings.HasPrefix(string(b), "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016")
}

func askLandlock(question uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, question)
	if errno != 0 {
		return 0, errno
	}
	if n == 0 {
		return 0, errors.New("version 0")
	}
	return int(n), nil
}

// explainBwrap turns what bubblewrap said before it died into the part that
// cannot be enforced, with the remedy that fits this host, or into what was used up.
func explainBwrap(text string) error {
	text, _, _ = strings.Cut(text, ", likely because") // what follows is a guess, with two addresses
	// With none allowed at all the kernel says what it says when they are used up.
	if !noNamespaces() || !strings.Contains(text, "namespace") {
		if short := shortageIn("build a sandbox", text); short != nil {
			return short
		}
	}
	u := &confine.Unenforceable{Part: "the sandbox", Reason: text, Hint: "run `sandgate doctor`"}
	switch {
	case strings.Contains(text, "namespace"), strings.Contains(text, "uid map"):
		u.Part, u.Hint = partUserns, usernsRemedy()
	case strings.Contains(text, "nknown option"):
		u.Part, u.Hint = partBwrap, fmt.Sprintf("install bubblewrap %d.%d or newer", minBwrap[0], minBwrap[1])
	case strings.Contains(text, "find source path"): // as the user whose sandbox it is
		u.Part, u.Hint = partMounts, notReached
	case !isRefused(text):
	case strings.Contains(text, "mount proc"):
		u.Part, u.Hint = partProc, "unmask /proc: --security-opt systempaths=unconfined in Docker and podman, procMount: Unmasked in Kubernetes"
	default:
		u.Part, u.Hint = partMounts, mountRemedy()
	}
	return u
}

// notReached helps if something to show belongs to another user: to root, for a workspace
// that belongs to somebody else.
const notReached = "leave it out: programs run as the owner of what they may write, who has no way to it"

// noNamespaces reports whether of one kind none is allowed at all.
func noNamespaces() bool {
	return slices.ContainsFunc([]string{"user", "mnt", "pid", "net", "ipc"}, func(kind string) bool {
		return sysctl("user/max_"+kind+"_namespaces") == "0"
	})
}

// isRefused reports whether text ends with the errno of a refusal: every container and
// security module stops bubblewrap at another step, and all say it so.
func isRefused(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	return strings.HasSuffix(text, unix.EPERM.Error()) || strings.HasSuffix(text, unix.EACCES.Error())
}

const appArmorRemedy = "AppArmor leaves user namespaces without rights: install the profile for bubblewrap (docs/containers.md)"

// usernsRemedy reads which of the known switches bars user namespaces.
func usernsRemedy() string {
	switch {
	case sysctl("user/max_user_namespaces") == "0":
		return "user namespaces are switched off: sysctl user.max_user_namespaces=10000"
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return "unprivileged user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1"
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return appArmorRemedy
	default:
		return "in a container, give it the system call filter of docs/containers.md, which allows user namespaces"
	}
}

func mountRemedy() string {
	if sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" {
		return appArmorRemedy
	}
	return "in a container, let AppArmor allow mounts: --security-opt apparmor=unconfined, or a profile of your own (docs/containers.md)"
}

func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
