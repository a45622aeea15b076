//go:build linux && cgo

package barred

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	docker "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

var update = flag.Bool("update", false, "rewrite the filter in docs/containers")

// forBubblewrap are the calls that bubblewrap makes and Docker's filter keeps from a
// container without CAP_SYS_ADMIN. The kernel still asks for that capability, and gives
// it in a user namespace of one's own only.
var forBubblewrap = []string{"clone", "clone3", "unshare", "setns", "mount", "umount2", "pivot_root", "keyctl"}

// TestFilterForContainers: docs/containers/seccomp.json is Docker's own filter and these
// calls, so that it can be compared with the one that it replaces.
func TestFilterForContainers(t *testing.T) {
	const file = "../../docs/containers/seccomp.json"
	profile := docker.DefaultProfile()
	profile.Syscalls = append([]*docker.Syscall{{
		LinuxSyscall: specs.LinuxSyscall{Names: forBubblewrap, Action: specs.ActAllow},
		Comment:      "what bubblewrap builds a sandbox with",
	}}, profile.Syscalls...)
	// clone3 and clone have rules of their own, which another action would contradict.
	var kept []*docker.Syscall
	for i, call := range profile.Syscalls {
		if i > 0 && len(call.Names) == 1 && (call.Names[0] == "clone3" || call.Names[0] == "clone") {
			continue
		}
		kept = append(kept, call)
	}
	profile.Syscalls = kept
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetIndent("", "\t")
	if err := e.Encode(profile); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not Docker's filter and %v; go test ./internal/barred -update rewrites it", file, forBubblewrap)
	}
}

const layEnv = "BARRED_LAY" // a filter's file

// TestFilterForContainersLoads: under the documented filter bubblewrap builds a sandbox as
// an ordinary user without capabilities, and under Docker's own it does not.
func TestFilterForContainersLoads(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user, and lay a filter without no_new_privs")
	}
	own := t.TempDir() + "/docker.json"
	b, err := json.Marshal(docker.DefaultProfile())
	if err == nil {
		err = os.WriteFile(own, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for file, works := range map[string]bool{"../../docs/containers/seccomp.json": true, own: false} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), layEnv+"="+file)
		out, err := cmd.CombinedOutput()
		if works != (err == nil && string(out) == "2\n") || !works && !bytes.Contains(out, []byte("namespace")) {
			t.Errorf("%s: %v %s", file, err, out)
		}
	}
}

// bubblewrapUnder runs it in place of this process, which becomes what Docker makes of an
// ordinary user.
func bubblewrapUnder(file string) error {
	runtime.LockOSThread()
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	profile, err := docker.LoadProfile(string(b), &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return err
	}
	p := Place{UID: ordinary, Capabilities: []string{}}
	for _, step := range []func() error{p.noNewPrivs, func() error { return lay(profile) }, p.bound, p.become} {
		if err := step(); err != nil {
			return err
		}
	}
	return syscall.Exec("/usr/bin/bwrap", []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
		"--", "sh", "-c", "set -- /proc/[0-9]*; echo $#"}, []string{"PATH=/usr/bin:/bin"})
}
