//go:build linux && cgo

package seccomp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// probeVar, when set, makes the test binary load the filter and make every
// denied call for real; with bareVar it leaves out the filter.
const (
	probeVar = "SANDGATE_SECCOMP_PROBE"
	bareVar  = "SANDGATE_SECCOMP_BARE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(probeVar); dir != "" {
		if err := probeChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// report is what the child found: for each rule, and each twin, an errno.
type report struct {
	Denied map[string]int
	Twins  map[string]string
}

// TestKernelRefusesEveryRow makes each denied call in a process under the filter
// and compares the kernel's errno; beside them calls of the same kind that must work.
func TestKernelRefusesEveryRow(t *testing.T) {
	got := probe(t)
	for _, g := range Groups() {
		want, err := number(g.Errno)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range g.Rules {
			errno, ok := got.Denied[r.String()]
			if ok && errno != int(want) {
				t.Errorf("%s: %v: got %v, want %v", g.Name, r, syscall.Errno(errno), syscall.Errno(want))
			}
		}
	}
	if len(got.Denied) < 150 {
		t.Errorf("only %d rows were tried", len(got.Denied))
	}
	for name, failure := range got.Twins {
		if failure != "" {
			t.Errorf("%s should work: %s", name, failure)
		}
	}
	if len(got.Twins) != len(twins("")) {
		t.Errorf("%d of %d twins were tried", len(got.Twins), len(twins("")))
	}
}

// TestWithoutTheFilterTheKernelAnswersOtherwise makes the same calls in a process
// without the filter: each is let in and refused for its invalid arguments, so
// that the errno of the row above is the filter's and not the kernel's own.
func TestWithoutTheFilterTheKernelAnswersOtherwise(t *testing.T) {
	filtered, bare := probe(t), probe(t, bareVar+"=1")
	for name, errno := range bare.Denied {
		got := syscall.Errno(errno)
		switch {
		case errno != filtered.Denied[name]:
		case got == syscall.ENOSYS: // a call that this kernel was built without
		case got == syscall.EPERM && os.Geteuid() != 0: // the kernel keeps it from this user by itself
		default:
			t.Errorf("%s: %v with the filter and without it", name, got)
		}
	}
	if len(bare.Denied) < 150 {
		t.Errorf("only %d rows were tried", len(bare.Denied))
	}
}

// probe runs the child and reads its report.
func probe(t *testing.T, env ...string) report {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), probeVar+"="+t.TempDir()), env...)
	cmd.Stderr = os.Stderr
	// Whatever a hole in the filter would let through must not reach this machine's terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

func probeChild(dir string) error {
	rules := map[string]rowCall{}
	for _, g := range Groups() {
		for _, r := range g.Rules {
			if nr, err := lib.GetSyscallFromName(r.Call); err == nil && nr >= 0 {
				rules[r.String()] = rowCall{uintptr(nr), provoke(r)}
			}
		}
	}
	if os.Getenv(bareVar) == "" {
		prog, err := Filter(nil)
		if err != nil {
			return err
		}
		if err := install(prog); err != nil {
			return err
		}
	}
	rep := report{Denied: map[string]int{}, Twins: map[string]string{}}
	for name, c := range rules {
		if os.Getenv(bareVar) != "" && c.nr == unix.SYS_CLONE {
			continue // would make a process; ordinary fork and exec are among the twins
		}
		a := c.args
		_, _, errno := syscall.Syscall6(c.nr, uintptr(a[0]), uintptr(a[1]), uintptr(a[2]), uintptr(a[3]), uintptr(a[4]), uintptr(a[5]))
		rep.Denied[name] = int(errno)
	}
	for name, twin := range twins(dir) {
		rep.Twins[name] = ""
		if err := twin(); err != nil {
			rep.Twins[name] = err.Error()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(rep)
}

type rowCall struct {
	nr   uintptr
	args [6]uint64
}

// provoke gives arguments that the rule matches and that are invalid otherwise,
// so that a hole in the filter does no harm here.
func provoke(r Rule) [6]uint64 {
	args := [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	for _, c := range r.When {
		args[c.Arg] = c.Value
	}
	return args
}

func install(prog []byte) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	fprog := unix.SockFprog{Len: uint16(len(prog) / instructionSize), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 || r != 0 {
		return fmt.Errorf("seccomp: %v, thread %d", errno, r)
	}
	return nil
}

// twins are acts beside the denied ones: the same calls with other arguments.
func twins(dir string) map[string]func() error {
	file := filepath.Join(dir, "file")
	socket := func(domain, kind, protocol int) func() error {
		return func() error {
			fd, err := unix.Socket(domain, kind, protocol)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}
	}
	return map[string]func() error{
		"create": func() error {
			fd, err := unix.Open(file, unix.O_CREAT|unix.O_WRONLY, 0o755)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
		"open with a stray mode": func() error {
			fd, err := unix.Open(dir, unix.O_RDONLY, 0o6755)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
		"chmod":          func() error { return unix.Chmod(dir, 0o700) },
		"sticky":         func() error { return unix.Chmod(dir, 0o1700) },
		"fifo":           func() error { return unix.Mknod(filepath.Join(dir, "fifo"), unix.S_IFIFO|0o600, 0) },
		"regular node":   func() error { return unix.Mknod(filepath.Join(dir, "node"), unix.S_IFREG|0o600, 0) },
		"tcp":            socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0),
		"udp6":           socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP),
		"unix":           socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0),
		"netlink routes": socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		"socketpair": func() error {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err == nil {
				err = unix.Close(fds[0])
			}
			return err
		},
		"ioctl": func() error {
			var p [2]int
			if err := unix.Pipe(p[:]); err != nil {
				return err
			}
			_, err := unix.IoctlGetInt(p[0], 0x541b) // FIONREAD
			return err
		},
		"ask for the personality": func() error {
			_, _, errno := syscall.Syscall(unix.SYS_PERSONALITY, low32, 0, 0)
			if errno != 0 {
				return errno
			}
			return nil
		},
		"start a program and threads": func() error { return exec.Command("/bin/sh", "-c", "true | true").Run() },
		"pidfd_open": func() error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
		"inotify": func() error {
			fd, err := unix.InotifyInit1(0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
		"System V segment": func() error {
			id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
			if err == nil {
				_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			}
			return err
		},
		"xattr": func() error {
			_, err := unix.Listxattr(dir, nil)
			return err
		},
	}
}
