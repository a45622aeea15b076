package sandboxinit

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// This file is about an init in the host's own namespaces, which is one process
// of its user among others. What a pid namespace does for process 1 is done here
// by other means:
//
//   - orphans come to us, because we are their subreaper (prctl(2));
//   - every program has a Landlock domain of its own below ours, so that it can
//     neither signal nor trace us, while we reach into it;
//   - our own domain scopes signals, so that kill(-1) reaches what is in it, and
//     not every process of the user.

// shared has what programs get and we do not have ourselves.
type shared struct {
	domain int // Landlock ruleset of every program, -1 without Landlock
	// unconfined: nothing is laid on programs.
	unconfined bool
	scoped     bool // our own domain keeps signals in it
	filter     *unix.SockFprog
	private    []string

	broker *broker.Broker // nil without one
	rules  *broker.Rules  // of it
	// profile is the source of rules.
	profile sandboxprofile.Profile
	base    *unix.SockFprog // a filter that init itself does not have, with a broker
}

func newShared(ctl *control, s *wire.Setup, queue *broker.Queue, diag broker.Diag) (*shared, error) {
	x := &shared{domain: -1, unconfined: s.Shared.Unconfined, scoped: s.Landlock.Scoped != 0, private: s.Shared.Private}
	programs := s.Landlock
	if s.Shared.Broker != nil {
		programs = s.Shared.Broker.Programs
		if err := x.addBroker(ctl, s.Shared, queue, diag); err != nil {
			return nil, fmt.Errorf("broker: %w", err)
		}
	}
	var err error
	if programs.HandledFS != 0 {
		if x.domain, err = programDomain(programs); err != nil {
			return nil, fmt.Errorf("landlock: %w", err)
		}
	}
	if len(s.Shared.Seccomp) > 0 || !s.Shared.Unconfined {
		x.filter, err = filterProgram(s.Shared.Seccomp)
	}
	return x, err
}

// addBroker makes the broker, and tries whether the kernel lets a program's filter have a
// listener: below another listener it does not (EBUSY, seccomp(2)).
func (x *shared) addBroker(ctl *control, s *wire.Shared, queue *broker.Queue, diag broker.Diag) error {
	p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{}, Protect: s.Broker.Protect, Hide: s.Broker.Hide}
	for _, g := range s.Broker.Paths {
		p.Paths[g.Path] = g.Rights
	}
	if s.Broker.Network != nil {
		p.UnixSockets = s.Broker.Network.Listed
	}
	x.profile = p
	x.rules = broker.NewRules(p, s.Private)
	o := broker.Options{Rules: x.rules, Redirected: s.Broker.Redirected, Queue: queue, Diag: diag}
	for _, id := range s.Broker.Kept {
		o.Kept = append(o.Kept, broker.FileID(id))
	}
	o.Ask = func(q broker.Question) error {
		a, fds := wire.Ask{ID: q.ID, Call: q.Call, Path: q.Path, Content: q.Before >= 0, Flags: q.Flags, Mode: q.Mode}, []int(nil)
		if a.Content {
			fds = []int{q.Before}
		}
		if q.Standing != broker.Writable {
			a.Why = q.Standing.String()
		}
		return ctl.sendWith(wire.Frame{Ask: &a}, fds)
	}
	o.Processes = func() []int { return proctree.Descendants(unix.Getpid()) }
	if n := s.Broker.Network; n != nil {
		o.Network = broker.Network{Key: n.Key, ProxyPort: n.ProxyPort, Listed: n.Listed, Sockets: n.Sockets}
		o.Network.Own, _ = netip.ParseAddr(n.Own)         // "": no loopback
		o.Network.Proxy, _ = netip.ParseAddrPort(n.Proxy) // "": no proxy
	}
	for _, p := range s.Broker.Pools {
		o.Pools = append(o.Pools, broker.Pool(p))
	}
	o.WritesMemory = s.Broker.WritesMemory
	var err error
	if x.base, err = filterProgram(s.Broker.Base); err != nil {
		return err
	}
	if err := broker.Try(); err != nil {
		return err
	}
	x.broker, err = broker.New(o)
	return err
}

// keep changes what is protected.
func (x *shared) keep(k wire.Keep) {
	x.profile.Protect = k.Protect
	x.rules = broker.NewRules(x.profile, x.private)
	var files []broker.FileID
	for _, id := range k.Files {
		files = append(files, broker.FileID(id))
	}
	x.broker.Keep(x.rules, files)
}

// firstOwn is above every number that a program's own descriptors get.
const firstOwn = 64

// programDomain is the ruleset, where no descriptor of a program overwrites it.
func programDomain(l wire.Landlock) (int, error) {
	fd, err := ruleset(l, openSame)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstOwn)
}

// ruleset makes a domain, for this process or for programs. go-landlock's own functions
// restrict the process itself, and always set no_new_privs.
func ruleset(l wire.Landlock, open func(wire.LandlockRule) (int, error)) (int, error) {
	set, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: l.HandledFS, HandledAccessNet: l.HandledNet, Scoped: l.Scoped}, 0)
	if err != nil {
		return -1, fmt.Errorf("create ruleset: %w", err)
	}
	for _, r := range l.Rules {
		access := r.Access & l.HandledFS
		if access == 0 && r.File == (wire.FileID{}) {
			continue // it grants nothing: the kernel refuses such a rule (ENOMSG)
		}
		fd, err := open(r)
		if err == nil {
			if access != 0 {
				err = ll.LandlockAddPathBeneathRule(set, &ll.PathBeneathAttr{ParentFd: fd, AllowedAccess: access}, 0)
			}
			unix.Close(fd)
		}
		if err != nil {
			unix.Close(set)
			return -1, fmt.Errorf("rule for %q: %w", r.Path, err)
		}
	}
	return set, nil
}

// bars says what the file tools are kept from by name: init itself may read /proc, and,
// as a broker, change what programs may not. They follow no link, so that a name means
// itself. Nil bars nothing.
func (x *shared) bars(kind sandboxprofile.Kind, name string) bool {
	name = path.Clean(name)
	switch {
	case x == nil || x.domain < 0:
		return false
	case sandboxprofile.Contains("/proc", name):
		return true
	case x.rules == nil || sandboxprofile.Contains("/dev", name): // where Landlock says enough
		return false
	case kind == sandboxprofile.WriteFile || kind == sandboxprofile.EditFile:
		return x.rules.Of(name) != broker.Writable
	}
	return !x.rules.Readable(name)
}

// listener is where the broker's work arrives, -1 without one.
func (x *shared) listener() int {
	if x == nil {
		return -1
	}
	return x.broker.Listener()
}

// questions is where questions arrive that programs ask by sockets, -1 without any.
func (x *shared) questions() int {
	if x == nil {
		return -1
	}
	return x.broker.Asked()
}

// unsettled is how soon the broker has something to look at, 0 for never.
func (x *shared) unsettled() time.Duration {
	if x == nil {
		return 0
	}
	return x.broker.Unsettled()
}

// rest ends the broker's service: every program is dead.
func (x *shared) rest() {
	if x != nil {
		x.broker.Rest()
	}
}

// report adds what the broker refused.
func (x *shared) report(d *wire.Done) {
	if x == nil || x.broker == nil {
		return
	}
	var list []broker.Refusal
	list, d.RefusedMore = x.broker.Refused()
	for _, r := range list {
		d.Refused = append(d.Refused, wire.Refusal{Call: r.Call, Path: r.Path, Why: r.Standing.String()})
	}
}

// processes lists those below us, for a census.
func (x *shared) processes() []string {
	pids := []string{} // nil would be an error
	for _, pid := range proctree.Descendants(unix.Getpid()) {
		pids = append(pids, strconv.Itoa(pid))
	}
	return pids
}

// accepts says whether a missing restriction is meant.
func accepts(s *wire.Shared) bool { return s != nil && s.Unconfined }

// adopt makes us the parent of every orphan below us.
func adopt(s *wire.Shared) error {
	if s == nil {
		return nil // process 1 is
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// capabilities checks that there are none, and drops them first where no
// bubblewrap has. Credentials are a thread's: programs are forked from this one.
func capabilities(s *wire.Shared) error {
	if s == nil {
		return checkCapabilities()
	}
	return dropCapabilities()
}

// dropCapabilities empties every set. Changing the bounding set takes CAP_SETPCAP. A
// process without it gains nothing by the set, since no_new_privs keeps execve from
// giving any capability (capabilities(7)). What a thread has it acts with, so they go
// from all: a broker has threads that open FIFOs for programs. Only this one executes
// anything.
func dropCapabilities() error {
	for c := uintptr(0); c <= 63; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			break // EPERM, or past the last capability of this kernel
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none, left [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return errno
	}
	if err := unix.Capget(&head, &left[0]); err != nil {
		return err
	}
	if left != none {
		return fmt.Errorf("capabilities are left: %+v", left)
	}
	if unix.Geteuid() != 0 {
		return nil
	}
	// Uid 0 gets the capabilities of the bounding set back at execve, if there are any.
	if set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, 0, 0, 0, 0); err != nil || set != 0 {
		return fmt.Errorf("uid 0 would regain capabilities: the bounding set cannot be emptied (%v)", err)
	}
	return nil
}

// openRule opens a rule's path, and compares it with the file that was meant if the rule
// says which. Otherwise the path leads where mounts have it lead.
func openRule(r wire.LandlockRule) (int, error) {
	if r.File != (wire.FileID{}) {
		return openSame(r)
	}
	fd, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("%q: %w", r.Path, err)
	}
	return fd, nil
}

// openSame opens a rule's path and compares it with the file that was meant.
func openSame(r wire.LandlockRule) (int, error) {
	fd, err := unix.Open(r.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("%q: %w", r.Path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || r.File != (wire.FileID{Dev: st.Dev, Ino: st.Ino}) {
		unix.Close(fd)
		return -1, fmt.Errorf("%q changed while the sandbox was built (%v)", r.Path, err)
	}
	return fd, nil
}

// checkScope tries to signal our parent, where Landlock is to keep that from us. If it
// were possible, kill(-1) would end every process of the user.
func checkScope(s *wire.Setup) error {
	if s.Shared == nil || s.Landlock.Scoped == 0 {
		return nil
	}
	if err := unix.Kill(unix.Getppid(), 0); err != unix.EPERM {
		return fmt.Errorf("the confiner can be signalled (%v)", err)
	}
	return nil
}

// signalAll signals what is below us. Within a domain that scopes signals, -1
// means the processes of the domain and of those below it.
func (x *shared) signalAll(n unix.Signal) {
	if x.scoped {
		_ = unix.Kill(-1, n)
		return
	}
	for _, pid := range proctree.Descendants(unix.Getpid()) {
		_ = unix.Kill(pid, n)
	}
}

// killAll ends everything below us. In a domain one kill(-1) reaches all of it,
// as it does in a pid namespace; without one, what forks while we look is found
// the next time round, and the limit of processes bounds how often.
func (x *shared) killAll() {
	for {
		x.signalAll(unix.SIGKILL)
		for {
			pid, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
			if err == unix.ECHILD {
				return // orphans come to us: nobody is left anywhere below
			}
			if pid == 0 {
				time.Sleep(time.Millisecond) // the dying take a moment
				break
			}
		}
	}
}

// leave is the end of an init whose confiner has gone: nothing runs on, and
// nothing is left in the private directories.
func (w *worker) leave() error {
	if w.shared == nil {
		return nil // the kernel kills the rest of a pid namespace
	}
	w.killAll()
	w.shared.broker.Clear()
	for _, dir := range w.shared.private {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // never made, or gone
		}
		for _, e := range entries {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the confiner's successor tries again
		}
	}
	return nil
}
