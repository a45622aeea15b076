//go:build linux && cgo

package barred

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const probeEnv = "BARRED_PROBE"

// TestMain lets the test binary be what the places are tried with, too.
func TestMain(m *testing.M) {
	if file := os.Getenv(layEnv); file != "" {
		panic(bubblewrapUnder(file))
	}
	if os.Getenv(probeEnv) != "" && !asCommand() {
		if err := json.NewEncoder(os.Stdout).Encode(probe()); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	Run(m)
}

// probe makes calls that change nothing, with arguments that the kernel itself
// answers with another error than a filter does, and says what each gave.
func probe() map[string]string {
	const bad = ^uintptr(0)
	said := map[string]string{}
	for name, call := range map[string][]uintptr{
		"uname":            {unix.SYS_UNAME},
		"keyctl":           {unix.SYS_KEYCTL, bad},
		"join":             {unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0},
		"add_key":          {unix.SYS_ADD_KEY},
		"request_key":      {unix.SYS_REQUEST_KEY},
		"unshare":          {unix.SYS_UNSHARE, unix.CLONE_NEWUSER}, // EINVAL with several threads
		"clone":            {unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_THREAD},
		"clone3":           {unix.SYS_CLONE3},
		"mount":            {unix.SYS_MOUNT},
		"umount2":          {unix.SYS_UMOUNT2},
		"setns":            {unix.SYS_SETNS, bad},
		"pidfd_open":       {unix.SYS_PIDFD_OPEN, 0},
		"pidfd_getfd":      {unix.SYS_PIDFD_GETFD, bad, 0, 1},
		"process_vm_readv": {unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid())},
		"ptrace":           {unix.SYS_PTRACE, bad},
		"landlock":         {unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1},
		"seccomp":          {unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL},
		"io_uring_setup":   {unix.SYS_IO_URING_SETUP, 1},
		"personality":      {unix.SYS_PERSONALITY, 0x0040000}, // ADDR_NO_RANDOMIZE
		"openat2":          {unix.SYS_OPENAT2, bad},
		"vsock":            {unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM},
		"stream":           {unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM},
	} {
		var a [7]uintptr
		copy(a[:], call)
		said[name] = "ok"
		if _, _, errno := unix.RawSyscall6(a[0], a[1], a[2], a[3], a[4], a[5], a[6]); errno != 0 {
			said[name] = unix.ErrnoName(errno)
		}
	}
	for name, path := range map[string]string{"core pattern": "/proc/sys/kernel/core_pattern", "usr": "/usr", "shadow": "/etc/shadow"} {
		said["write "+name] = "ok"
		if unix.Access(path, unix.W_OK) != nil {
			said["write "+name] = "refused"
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, field := range regexp.MustCompile(`(?m)^(Uid|Gid|Groups|CapBnd|CapEff|NoNewPrivs):\t?(\S*).*$`).FindAllStringSubmatch(string(status), -1) {
		said[field[1]] = field[2]
	}
	return said
}

// TestPlacesBar: in each place exactly those calls are refused that its real one
// refuses; all others answer as they do outside of it.
func TestPlacesBar(t *testing.T) {
	const (
		none   = "0000000000000000"
		docker = "00000000a80425fb" // as `docker run debian grep Cap /proc/self/status` says
	)
	root := os.Geteuid() == 0
	filter := map[string]string{
		"keyctl": "EPERM", "join": "EPERM", "add_key": "EPERM", "request_key": "EPERM", "unshare": "EPERM", "clone": "EPERM", "clone3": "ENOSYS",
		"mount": "EPERM", "umount2": "EPERM", "setns": "EPERM", "pidfd_getfd": "EPERM", "io_uring_setup": "EPERM", "personality": "EPERM", "vsock": "EPERM",
		"write core pattern": "refused",
	}
	with := func(more ...string) map[string]string {
		all := maps.Clone(filter)
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	ordinary := []string{"Uid", "1000", "Gid", "1000", "Groups", "", "write usr", "refused", "write shadow", "refused"}
	contained := with("CapBnd", docker, "CapEff", docker, "NoNewPrivs", "0")
	differs := map[string]map[string]string{
		"restricted":      with(append(ordinary, "CapBnd", none, "CapEff", none, "NoNewPrivs", "1")...),
		"read-only":       with(append(ordinary, "CapBnd", none, "CapEff", none, "NoNewPrivs", "1")...),
		"bare-root":       with("CapBnd", none, "CapEff", none, "NoNewPrivs", "1"),
		"docker":          contained,
		"nested":          contained,
		"old-docker":      with("CapBnd", docker, "CapEff", docker, "NoNewPrivs", "0", "process_vm_readv", "EPERM"),
		"old-docker-user": with(append(ordinary, "CapBnd", none, "CapEff", none, "NoNewPrivs", "0", "process_vm_readv", "EPERM")...),
		"no-userns": without(with(append(ordinary, "CapBnd", none, "CapEff", none, "NoNewPrivs", "0",
			"unshare", "ENOSPC", "clone", "ENOSPC", "clone3", "ENOSYS")...), filter, "unshare", "clone", "clone3", "write core pattern"),
		"no-mounts": without(with(append(ordinary, "CapBnd", none, "CapEff", none, "NoNewPrivs", "0",
			"mount", "EACCES", "umount2", "EACCES")...), filter, "mount", "umount2", "write core pattern"),
		"half-keys": without(with(append(ordinary, "CapBnd", none, "CapEff", none, "NoNewPrivs", "1",
			"unshare", "ENOSPC", "clone", "ENOSPC", "clone3", "ENOSYS", "join", "EPERM")...), filter, "join", "unshare", "clone", "clone3", "write core pattern"),
		"masked": {"write core pattern": "refused"},
	}
	outside := ask(t, exec.Command("/proc/self/exe"))
	for _, p := range Places() {
		t.Run(p.Name, func(t *testing.T) {
			if p.NeedsRoot() && !root {
				t.Skip("only root can make this place")
			}
			want := maps.Clone(outside)
			maps.Copy(want, differs[p.Name])
			if !root { // who is nobody else's user stays who it is, without privileges
				for _, same := range []string{"Uid", "Gid", "Groups", "CapBnd", "write core pattern", "write usr", "write shadow"} {
					want[same] = outside[same]
				}
				want["NoNewPrivs"], want["CapEff"] = "1", none
			}
			got := ask(t, p.Command("/proc/self/exe"))
			for name := range got {
				if got[name] != want[name] {
					t.Errorf("%s: %q, want %q (outside %q)", name, got[name], want[name], outside[name])
				}
			}
		})
	}
}

// without drops the keys of all from m but those that are named.
func without(m, all map[string]string, but ...string) map[string]string {
	for name := range all {
		if !strings.Contains(" "+strings.Join(but, " ")+" ", " "+name+" ") {
			delete(m, name)
		}
	}
	return m
}

func ask(t *testing.T, cmd *exec.Cmd) map[string]string {
	t.Helper()
	cmd.Env = append(os.Environ(), probeEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]string
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return said
}

// TestReadOnlyLeavesAVolume: what is listed can be written, and nothing else.
func TestReadOnlyLeavesAVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make this place")
	}
	p, err := Find("read-only")
	if err != nil {
		t.Fatal(err)
	}
	volume, other := "/tmp/barred-volume-"+strconv.Itoa(os.Getpid()), "/tmp/barred-other-"+strconv.Itoa(os.Getpid())
	for _, dir := range []string{volume, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chown(dir, p.UID, p.UID); err != nil {
			t.Fatal(err)
		}
	}
	cmd := p.Command("sh", "-c", `echo x > $0/x && cat $0/x; echo y > $1/y`, volume, other)
	cmd.Env = append(os.Environ(), WritableEnv+"="+volume)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "x\n") || !strings.Contains(string(out), "Read-only file system") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestInside: a test that runs again in a place runs there as the
// place's user, and its result is the outer one's.
func TestInside(t *testing.T) {
	p, err := Find("restricted")
	if err != nil {
		t.Fatal(err)
	}
	if !Inside(t, p) {
		return
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, ^uintptr(0), 0, 0); errno != unix.EPERM {
		t.Errorf("keyctl: %v", errno)
	}
	if os.Geteuid() == 0 {
		t.Error("still root")
	}
	for _, dir := range []string{t.TempDir(), os.Getenv("HOME")} {
		if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownPlaces(t *testing.T) {
	if _, err := Find("moon"); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("%v", err)
	}
}
