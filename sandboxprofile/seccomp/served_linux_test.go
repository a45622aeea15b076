//go:build linux && cgo

package seccomp

import (
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// TestServed: a set-group-id bit for a file that is there is the server's to judge, and
// refused where nobody serves. So is what would let everybody write, where somebody serves. What makes a set-id file is refused by the filter itself,
// and every other call goes as Filter has it go.
func TestServed(t *testing.T) {
	must := func(f []byte, err error) machine {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return interpret(t, f)
	}
	base, served := must(Filter(nil)), must(ServedFilter(nil))
	notifies, refuses := must(ModesFilter(nil, true)), must(ModesFilter(nil, false))
	arch, eperm := nativeArch(t), expected(t, Action{Errno: EPERM})
	const goes, asked = uint32(unix.SECCOMP_RET_ALLOW), uint32(unix.SECCOMP_RET_USER_NOTIF)
	for _, x := range []struct {
		call                  string
		args                  [6]uint64
		served, notify, plain uint32
	}{
		{"fchmod", [6]uint64{1: 0o2775}, goes, asked, eperm},
		{"fchmod", [6]uint64{1: 0o2775 | 1<<32}, goes, asked, eperm},
		{"fchmodat", [6]uint64{2: 0o2775}, goes, asked, eperm},
		{"fchmodat2", [6]uint64{2: 0o2775}, goes, asked, eperm},
		{"fchmod", [6]uint64{1: 0o6775}, eperm, asked, eperm},
		{"fchmod", [6]uint64{1: 0o4755}, eperm, goes, eperm},
		{"fchmod", [6]uint64{1: 0o1775}, goes, goes, goes},
		{"fchmod", [6]uint64{1: 0o1777}, goes, asked, goes},
		{"fchmodat", [6]uint64{1: 2, 2: 0o755}, goes, goes, goes},
		{"fchmodat", [6]uint64{2: 0o702 | 1<<32}, goes, asked, goes},
		{"fchmodat2", [6]uint64{2: 0o702}, goes, asked, goes},
		{"umask", [6]uint64{0: 0o22}, goes, goes, goes},
		{"umask", [6]uint64{0: 0o75 | 1<<33}, goes, asked, goes},
		{"umask", [6]uint64{}, goes, asked, goes},
		{"setxattr", [6]uint64{}, goes, asked, goes},
		{"fsetxattr", [6]uint64{}, goes, asked, goes},
		{"mknodat", [6]uint64{2: 0o102755}, eperm, goes, eperm},
		{"openat", [6]uint64{2: unix.O_CREAT, 3: 0o2755}, eperm, goes, eperm},
		{"openat", [6]uint64{3: 0o2755}, goes, goes, goes},
		{"mkdirat", [6]uint64{2: 0o2775}, goes, goes, goes}, // the kernel leaves the bit out (mkdir(2))
	} {
		nr, err := lib.GetSyscallFromName(x.call)
		if err != nil {
			t.Fatal(err)
		}
		for name, y := range map[string]struct {
			machine
			want uint32
		}{"ServedFilter": {served, x.served}, "with notifications": {notifies, x.notify}, "Filter": {base, x.plain}} {
			if got := y.run(t, uint32(nr), arch, x.args); got != y.want {
				t.Errorf("%s: %s%#o: %#x, want %#x", name, x.call, x.args, got, y.want)
			}
		}
	}
	// The two together are Filter, of which the kernel takes the stricter answer.
	for nr := range uint32(600) {
		for _, mode := range []uint64{0, 0o755, 0o2755, 0o4755, 0o6755, 1 << 32} {
			for at := range 6 {
				var args [6]uint64
				args[at] = mode
				both := served.run(t, nr, arch, args)
				if more := refuses.run(t, nr, arch, args); more != goes && both == goes {
					both = more
				}
				if want := base.run(t, nr, arch, args); both != want {
					t.Errorf("call %d %#o: %#x, want %#x", nr, args, both, want)
				}
			}
		}
	}
}

// TestServedLifted: where a profile lifts the group there is nothing to serve.
func TestServedLifted(t *testing.T) {
	if f, err := ModesFilter([]string{setIDName}, true); f != nil || err != nil {
		t.Errorf("%d bytes, %v", len(f), err)
	}
}
