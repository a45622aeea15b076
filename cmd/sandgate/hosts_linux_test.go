package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// TestHosts runs every testdata/hosts/*.txtar: what sandgate does on a host that is
// otherwise than most. Such a script is left out where the host is not what it is
// about, and says what that would be; scripts/vm boots such hosts, and there
// nothing may be left out. Beyond what TestScript has, they know
//
//	[cgroups]         a cgroup v2 directory can be delegated to a program
//	[userns]          this user can make user namespaces
//	[landlock]        the kernel has Landlock
//	[scopes]          and in a version that keeps signals in a sandbox (ABI 6)
//	[yama]            Yama lets no process read its children (scope 2 or 3)
func TestHosts(t *testing.T) {
	p := scripts(t, "hosts")
	p.Condition = hostCondition
	testscript.Run(t, p)
}

func hostCondition(cond string) (bool, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) // LANDLOCK_CREATE_RULESET_VERSION
	switch cond {
	case "cgroups":
		return cgroupsCanBeMade(), nil
	case "userns":
		return exec.Command("unshare", "--user", "true").Run() == nil, nil
	case "landlock":
		return errno == 0, nil
	case "scopes": // signals, and abstract sockets
		v, err := landlock.Handled(int(abi))
		return errno == 0 && err == nil && v.Scope, nil
	case "yama":
		scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
		return strings.TrimSpace(string(scope)) >= "2", nil
	case "root":
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// cgroupsCanBeMade reports whether a cgroup with a memory and a pids controller can
// be made beside that of this process.
func cgroupsCanBeMade() bool {
	self, _ := os.ReadFile("/proc/self/cgroup")
	path, ok := strings.CutPrefix(string(self), "0::")
	if !ok {
		return false
	}
	dir := filepath.Dir(filepath.Join("/sys/fs/cgroup", strings.TrimSpace(path)))
	given, _ := os.ReadFile(dir + "/cgroup.subtree_control")
	has := func(controller string) bool { return slices.Contains(strings.Fields(string(given)), controller) }
	return has("memory") && has("pids") && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil
}
