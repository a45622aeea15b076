package linux_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
)

// TestSetIDBitsWithoutAListener: below another supervisor's filter with a listener no
// other can have one (EBUSY, seccomp(2)). Then no set-group-id bit is given, and all else
// goes on.
func TestSetIDBitsWithoutAListener(t *testing.T) {
	const child = "SANDGATE_TEST_BELOW_A_LISTENER"
	if os.Getenv(child) == "" {
		number := map[string]int{"amd64": 317, "arm64": 277}[runtime.GOARCH] // seccomp
		below := fmt.Sprintf(`import ctypes, os, sys
l = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(b'\x06\0\0\0\0\0\xff\x7f', 8)
class Prog(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('p', ctypes.c_void_p)]
l.prctl(38, 1, 0, 0, 0)
fd = l.syscall(%d, 1, 8, ctypes.byref(Prog(1, ctypes.addressof(allow))))
if fd < 0: sys.exit('seccomp: errno %%d' %% ctypes.get_errno())
os.set_inheritable(fd, True)
os.execv(sys.argv[1], sys.argv[1:])`, number)
		cmd := exec.Command("/usr/bin/python3", "-c", below, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	c, ws := newBwrap(t), confinetest.Workspace(t)
	for act, want := range map[string]string{
		"os.chmod('.', 0o2775)": "EPERM", "os.chmod('.', 0o775)": "ok", "open('f', 'w'); os.chmod('f', 0o2755)": "EPERM",
	} {
		if got := confinetest.Python(t, c, confinetest.Profile(t, ws), ws, act); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
}
