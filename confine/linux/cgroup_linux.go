package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Where a cgroup v2 directory is delegated to us, each sandbox is made in a cgroup
// of its own: the kernel then counts what its processes use together, kernel memory
// and page cache included, and holds it (cgroups(7), and cgroup-v2.rst of the kernel).
// Elsewhere init counts; see package sandboxinit.

// cgroupControllers are those without which a cgroup is of no use to us.
var cgroupControllers = []string{"memory", "pids"}

const cgroupRemedy = "start sandgate from a systemd unit or scope of its own with Delegate=yes " +
	"(systemd-run --user --scope -p Delegate=yes sandgate ...); without it, init counts what a call uses"

// A cgroupTree is a directory in which we may make cgroups.
type cgroupTree struct {
	dir         string
	controllers []string // that bound the cgroups made here
	leaf        string   // the cgroup that we moved to so that dir may have controllers; "" for none
	count       atomic.Int64
	users       int // of ownCgroups that have not closed it
}

// ownTree is the tree of this process while anybody uses it. All of a process is in one
// cgroup: a second tree would lie below the leaf of the first, and closing one would
// take the controllers from the other.
var ownTree struct {
	sync.Mutex
	tree *cgroupTree
}

// ownCgroups gives the directory that is delegated to this process, ready to make
// cgroups in. The receiver closes it.
func ownCgroups() (*cgroupTree, error) {
	ownTree.Lock()
	defer ownTree.Unlock()
	if ownTree.tree == nil {
		t, err := takeCgroups()
		if err != nil {
			return nil, err
		}
		ownTree.tree = t
	}
	ownTree.tree.users++
	return ownTree.tree, nil
}

func takeCgroups() (*cgroupTree, error) {
	mount, self, err := hostCgroups()
	if err != nil {
		return nil, fmt.Errorf("confine: cgroups: %w", err)
	}
	t, err := findCgroups(mount, self)
	if err != nil {
		return nil, err
	}
	if err := t.enable(); err != nil {
		return nil, &confine.Unenforceable{Part: "cgroups", Reason: fmt.Sprintf("%s does not give its controllers away: %v", t.dir, err), Hint: cgroupRemedy}
	}
	t.sweep()
	return t, nil
}

// hostCgroups is where the kernel shows the cgroups of this host, and which of them
// this process is in.
func hostCgroups() (mount, self string, err error) {
	mount = "/sys/fs/cgroup"
	if _, err := os.Stat(mount + "/cgroup.controllers"); err != nil {
		mount += "/unified" // beside the hierarchies of version 1
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	return mount, string(b), err
}

// findCgroups looks for the directory that is delegated to the process whose
// /proc/PID/cgroup is self. It changes nothing. Its error is an *Unenforceable.
func findCgroups(mount, self string) (*cgroupTree, error) {
	lack := func(format string, args ...any) (*cgroupTree, error) {
		return nil, &confine.Unenforceable{Part: "cgroups", Reason: fmt.Sprintf(format, args...), Hint: cgroupRemedy}
	}
	path := ""
	for line := range strings.Lines(self) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSuffix(rest, "\n")
		}
	}
	dir := filepath.Join(mount, path)
	if path == "" || strings.HasPrefix(path, "/..") {
		return lack("this process is in no cgroup of version 2 that it can see")
	}
	have, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		return lack("no cgroup v2 tree is mounted")
	}
	for _, want := range cgroupControllers {
		if !slices.Contains(strings.Fields(string(have)), want) {
			return lack("the %s controller is not available in %s, which has %q", want, dir, strings.TrimSpace(string(have)))
		}
	}
	if unix.Access(dir, unix.W_OK) != nil || unix.Access(dir+"/cgroup.procs", unix.W_OK) != nil || !delegated(dir, path) {
		return lack("%s is not delegated to this process", dir)
	}
	return &cgroupTree{dir: dir, controllers: cgroupControllers}, nil
}

// delegated reports whether the manager of dir has delegated it to us. To a user it has
// by giving the directory away. Root may write everywhere, so root asks for the mark of
// systemd's (systemd.resource-control(5), Delegate=), or for the top of what it sees,
// as in a container.
func delegated(dir, path string) bool {
	if os.Geteuid() != 0 || path == "/" {
		return true
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var value [1]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// enable gives the controllers to the cgroups below dir. The kernel does so only
// where no process is in dir itself, so we move to a leaf if we have to.
func (t *cgroupTree) enable() error {
	err := t.control("+")
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	leaf := filepath.Join(t.dir, cgroupName("supervisor"))
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := put(leaf, "cgroup.procs", "0"); err != nil {
		_ = os.Remove(leaf)
		return err
	}
	t.leaf = leaf
	if err := t.control("+"); err != nil { // others are in dir, too
		return errors.Join(err, t.leave())
	}
	return nil
}

// control adds or removes the controllers.
func (t *cgroupTree) control(sign string) error {
	return put(t.dir, "cgroup.subtree_control", sign+strings.Join(t.controllers, " "+sign))
}

// close gives back what ownCgroups gave; the last one goes back to where we were.
func (t *cgroupTree) close() error {
	if t == nil {
		return nil
	}
	ownTree.Lock()
	defer ownTree.Unlock()
	if t.users--; t.users > 0 {
		return nil
	}
	if ownTree.tree == t {
		ownTree.tree = nil
	}
	return t.leave()
}

func (t *cgroupTree) leave() error {
	if t.leaf == "" {
		return nil
	}
	_ = t.control("-") // while another of us has cgroups there, the next step says so
	if err := put(t.dir, "cgroup.procs", "0"); err != nil {
		return err
	}
	return os.Remove(t.leaf)
}

// cgroupName is the name of a cgroup of this process.
func cgroupName(what string) string { return fmt.Sprintf("sandgate-%d-%s", os.Getpid(), what) }

// sweep removes the cgroups of supervisors that were killed. One with processes in
// it stays: the kernel does not remove it.
func (t *cgroupTree) sweep() {
	dirs, _ := filepath.Glob(t.dir + "/sandgate-*-*") // an error is a malformed pattern
	for _, dir := range dirs {
		pid := strings.Split(filepath.Base(dir), "-")[1]
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(dir)
		}
	}
}

// A cgroup belongs to one sandbox. A nil one bounds nothing.
type cgroup struct {
	dir         string
	controllers []string
	killed      int64 // oom_kill events that have been reported
}

// create makes a cgroup, in which all ends when memory does.
func (t *cgroupTree) create() (*cgroup, error) {
	if t == nil {
		return nil, nil
	}
	g := &cgroup{dir: filepath.Join(t.dir, cgroupName(strconv.FormatInt(t.count.Add(1), 10))), controllers: t.controllers}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("confine: make a cgroup: %w", err)
	}
	if !slices.Contains(t.controllers, "memory") {
		return g, nil
	}
	err := put(g.dir, "memory.swap.max", "0")
	if errors.Is(err, os.ErrNotExist) {
		err = nil // a kernel without swap
	}
	if err = errors.Join(err, put(g.dir, "memory.oom.group", "1")); err != nil {
		g.remove()
		return nil, fmt.Errorf("confine: cgroup: %w", err)
	}
	return g, nil
}

// open gives the descriptor through which a process is started in the cgroup
// (clone(2), CLONE_INTO_CGROUP).
func (g *cgroup) open() (*os.File, error) {
	fd, err := unix.Open(g.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("confine: cgroup: %w", err)
	}
	return os.NewFile(uintptr(fd), g.dir), nil
}

// startIn starts a sandbox's first process, in a cgroup of its own where we may make
// one: not a moment of it is outside.
func (t *cgroupTree) startIn(cmd *exec.Cmd, start func(*exec.Cmd) error) (*cgroup, error) {
	group, err := t.create()
	if err != nil {
		return nil, err
	}
	if group != nil {
		dir, err := group.open()
		if err != nil {
			group.remove()
			return nil, err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := start(cmd); err != nil {
		group.remove()
		return nil, err
	}
	return group, nil
}

// supervisedTasks is room for the threads that init may start of its own.
const supervisedTasks = 32

// limit sets what the next action may use beyond what is used already: by init, and
// by files that earlier actions left in memory. What the kernel would give up is not in
// use: an action that reads files would leave the next one room for that many bytes more.
func (g *cgroup) limit(l sandboxprofile.Limits) error {
	if g == nil {
		return nil
	}
	for _, x := range []struct {
		controller string
		limit      int64
		room       int64
	}{{"memory", l.Memory, 0}, {"pids", l.Pids, supervisedTasks}} {
		if !slices.Contains(g.controllers, x.controller) {
			continue
		}
		value := "max"
		if x.limit != sandboxprofile.Unlimited {
			now, err := g.number(x.controller + ".current")
			if err != nil {
				return err
			}
			if x.controller == "memory" {
				idle, used := reclaimable(g.dir)
				now = max(now-idle-used, 0)
			}
			if most := sandboxprofile.Unlimited - now - x.room; x.limit < most {
				value = strconv.FormatInt(x.limit+now+x.room, 10)
			}
		}
		if err := put(g.dir, x.controller+".max", value); err != nil {
			return fmt.Errorf("confine: cgroup: %w", err)
		}
	}
	return nil
}

// outOfMemory reports whether the kernel has killed since it was last asked.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
	b, err := os.ReadFile(g.dir + "/memory.events")
	if err != nil {
		return false
	}
	before := g.killed
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			g.killed, _ = strconv.ParseInt(strings.TrimSpace(n), 10, 64) // the kernel writes a number
		}
	}
	return g.killed > before
}

// removePatience is how long the kernel may take to let go of killed processes.
const removePatience = 2 * time.Second

// remove kills what is left in the cgroup and takes it away.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	_ = put(g.dir, "cgroup.kill", "1") // a kernel before 5.14 has it not; bubblewrap has ended already
	for deadline := time.Now().Add(removePatience); ; time.Sleep(time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return // the next start sweeps what could not be removed
		}
	}
}

func (g *cgroup) number(file string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, fmt.Errorf("confine: cgroup: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("confine: cgroup: %s: %w", file, err)
	}
	return n, nil
}

// put writes to a file of a cgroup, which the kernel has made.
func put(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// reclaimable is the part of a cgroup's memory that the kernel frees before it refuses more:
// its own structures and the pages of files, with those that were used lately apart.
func reclaimable(dir string) (idle, used int64) {
	b, err := os.ReadFile(dir + "/memory.stat")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "inactive_file", "slab_reclaimable", "total_inactive_file":
			n, _ := strconv.ParseInt(value, 10, 64) // the kernel writes a number
			idle += n
		case "active_file", "total_active_file":
			n, _ := strconv.ParseInt(value, 10, 64)
			used += n
		}
	}
	return idle, used
}

// readNumber reads a file of a cgroup; "max" means no limit.
func readNumber(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n < 1<<60
}

// killedForMemory is how many processes the kernel has killed on this host because memory
// had run out, in a container or in all (vmstat of proc(5)).
func killedForMemory() (n int64) {
	b, err := os.ReadFile("/proc/vmstat")
	if _, rest, ok := strings.Cut(string(b), "\noom_kill "); ok && err == nil {
		number, _, _ := strings.Cut(rest, "\n")
		n, _ = strconv.ParseInt(number, 10, 64) // the kernel writes a number
	}
	return n
}
