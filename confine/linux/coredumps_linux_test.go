package linux_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestCrashesStartNoHandler: a program has the one limit of core dumps with which the kernel neither writes a file nor
// starts the host's handler, which would run as root outside. No call changes that limit, also where
// the program is told that it was set; other limits can be lowered.
func TestCrashesStartNoHandler(t *testing.T) {
	const program = `
import ctypes, os, resource
core, files = resource.RLIMIT_CORE, resource.RLIMIT_NOFILE
libc = ctypes.CDLL(None, use_errno=True)
zero = (ctypes.c_ulong * 2)(0, 0)
resource.setrlimit(core, (0, 0))
resource.prlimit(0, core, (0, 0))
try: resource.prlimit(os.getpid(), core, (0, 0))
except PermissionError: pass
libc.syscall(ctypes.c_long(302 if os.uname().machine == "x86_64" else 261), ctypes.c_long(0), ctypes.c_long(0x7700000004), zero, None)
libc.syscall(ctypes.c_long(160 if os.uname().machine == "x86_64" else 164), ctypes.c_long(0x7700000004), zero)
resource.setrlimit(files, (50, 50))
print(*resource.getrlimit(core), *resource.getrlimit(files), flush=True)
if os.fork() == 0: os.execv("/usr/bin/python3", ["python3", "-c", "import resource; resource.setrlimit(4, (0, 0)); print(*resource.getrlimit(4))"])
os.wait()`
	var host unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &host); err != nil {
		t.Fatal(err)
	}
	limit := min(1, host.Max) // a lower one of the host's is not ours to raise
	want := fmt.Sprintf("%[1]d %[1]d 50 50\n%[1]d %[1]d", limit)
	for _, c := range []confine.Confiner{newBwrap(t), newLandlock(t, linux.LandlockOptions{})} {
		for _, debug := range []bool{false, true} {
			ws := confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			if debug {
				p.Syscalls = append(p.Syscalls, "ptrace")
			}
			o := confinetest.Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", program)
			if got := strings.TrimSpace(o.Out); got != want {
				t.Errorf("%s, debug %v: %q, want %q; %s", c.Name(), debug, got, want, o.Err)
			}
		}
	}
}
