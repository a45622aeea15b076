//go:build linux && cgo

package seccomp

import (
	"strings"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"pgregory.net/rapid"
)

// TestSharedProgramAgreesWithDecide runs the program in an interpreter over every
// call that a rule names, with arguments around those that the rules compare.
func TestSharedProgramAgreesWithDecide(t *testing.T) {
	for _, sockets := range []bool{false, true} {
		prog, err := SharedFilter(sockets)
		if err != nil {
			t.Fatal(err)
		}
		m, arch := interpret(t, prog), nativeArch(t)
		names := []string{"read", "kill", "openat", "connect"}
		values := []uint64{0, 1, 2, 3, 5, 10, 16, 1 << 31, 1 << 32, 0x5401, 0x5413, 0x802c542a, 0x40086602, 0x541b, low32, ^uint64(0)}
		for _, g := range SharedGroups(sockets) {
			for _, r := range g.Rules {
				names = append(names, r.Call)
			}
		}
		rapid.Check(t, func(t *rapid.T) {
			name := rapid.SampledFrom(names).Draw(t, "call")
			nr, err := lib.GetSyscallFromName(name)
			if err != nil || nr < 0 {
				return // a call that this architecture does not have
			}
			var args [6]uint64
			for i := range args {
				args[i] = rapid.SampledFrom(values).Draw(t, "arg")
			}
			want := DecideShared(sockets, name, args)
			number := expected(t, want)
			if got := m.run(t, uint32(nr), arch, args); got != number {
				t.Fatalf("%s%#x: the program says %#x, the table %v", name, args, got, want)
			}
		})
	}
}

// TestCeilingProgramAgreesWithDecide does the same for the filter of a ceiling.
func TestCeilingProgramAgreesWithDecide(t *testing.T) {
	prog, err := CeilingFilter()
	if err != nil {
		t.Fatal(err)
	}
	m, arch := interpret(t, prog), nativeArch(t)
	names := []string{"read", "execve", "connect", "ftruncate"}
	for _, g := range CeilingGroups() {
		for _, r := range g.Rules {
			names = append(names, r.Call)
		}
	}
	values := []uint64{0, 1, 2, fcntlSetLease, 1<<32 | fcntlSetLease, 0x200, 0x201, 0x202, 0x241, 0x40200, 1<<32 | 0x200, 0x5413, 0x40086602, ^uint64(0)}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "call")
		nr, err := lib.GetSyscallFromName(name)
		if err != nil || nr < 0 {
			return // a call that this architecture does not have
		}
		var args [6]uint64
		for i := range args {
			args[i] = rapid.SampledFrom(values).Draw(t, "arg")
		}
		want := DecideCeiling(name, args)
		if got := m.run(t, uint32(nr), arch, args); got != expected(t, want) {
			t.Fatalf("%s%#x: the program says %#x, the table %v", name, args, got, want)
		}
	})
}

// TestCeilingGroups: what a program under a ceiling must not do although Landlock lets
// it on some kernels, beside what it does all the time.
func TestCeilingGroups(t *testing.T) {
	for _, x := range []struct {
		call  string
		args  [6]uint64
		allow bool
	}{
		{"socket", [6]uint64{afUnix, sockStream}, false},
		{"socket", [6]uint64{afInet, sockStream}, false},
		{"fchmod", [6]uint64{3, 0o777}, false},
		{"utimensat", [6]uint64{}, false},
		{"fsetxattr", [6]uint64{}, false},
		{"truncate", [6]uint64{}, false},
		{"openat", [6]uint64{0, 0, 0x200}, false}, // O_RDONLY|O_TRUNC
		{"openat", [6]uint64{0, 0, 0x241}, true},  // O_WRONLY|O_CREAT|O_TRUNC: the domain says where
		{"openat", [6]uint64{0, 0, 0}, true},
		{"memfd_create", [6]uint64{}, false},
		{"fcntl", [6]uint64{3, fcntlSetLease, 0}, false},         // F_RDLCK
		{"fcntl", [6]uint64{3, fcntlSetLease | 1<<32, 1}, false}, // the upper half is not part of an int
		{"fcntl", [6]uint64{3, 1025}, true},                      // F_GETLEASE
		{"fcntl", [6]uint64{3, 6}, true},                         // F_SETLK
		{"execve", [6]uint64{}, true},
		{"ftruncate", [6]uint64{}, true}, // takes a descriptor that is open for writing
	} {
		if got := DecideCeiling(x.call, x.args); got.Allow != x.allow {
			t.Errorf("%s%#x: %v, want allow %t", x.call, x.args, got, x.allow)
		}
	}
}

// TestSharedGroups: each act that Landlock does not see, and one of the same kind
// that works.
func TestSharedGroups(t *testing.T) {
	for _, x := range []struct {
		call    string
		args    [6]uint64
		denied  Errno // with no network
		network bool  // and whether the host's network lets it through
	}{
		{"socket", [6]uint64{afInet, sockStream}, EACCES, true},
		{"socket", [6]uint64{afInet6, sockDgram}, EACCES, true},
		{"socket", [6]uint64{afNetlink, sockRaw}, EACCES, true},
		{"socket", [6]uint64{afUnix, sockStream}, EACCES, false},
		{"socket", [6]uint64{afUnix | 7<<32, sockStream}, EACCES, false}, // the upper half is not part of an int
		{"socketpair", [6]uint64{afUnix, sockDgram | 0x80000}, EACCES, false},
		{"socketpair", [6]uint64{afUnix, sockRaw}, EACCES, false},
		{"socketpair", [6]uint64{afUnix, sockStream | 0x80000}, "", true},
		{"ioctl", [6]uint64{3, 0x40086602}, ENOTTY, false}, // FS_IOC_SETFLAGS
		{"ioctl", [6]uint64{3, 0x40806685}, ENOTTY, false}, // FS_IOC_ENABLE_VERITY
		{"ioctl", [6]uint64{3, 0x5413}, "", true},          // TIOCGWINSZ
		{"chmod", [6]uint64{}, EPERM, false},
		{"utimensat", [6]uint64{}, EPERM, false},
		{"lgetxattr", [6]uint64{}, EOPNOTSUPP, false},
		{"inotify_add_watch", [6]uint64{}, EACCES, false},
		{"shmget", [6]uint64{}, EPERM, false},
		{"openat", [6]uint64{}, "", true},
	} {
		if got := DecideShared(false, x.call, x.args); got.Errno != x.denied || got.Allow != (x.denied == "") {
			t.Errorf("%s%v: %v, want %q", x.call, x.args, got, x.denied)
		}
		if got := DecideShared(true, x.call, x.args); got.Allow != x.network {
			t.Errorf("%s%v with the host's network: %v", x.call, x.args, got)
		}
	}
	if text := SharedListing(false); strings.Count(text, "# ") != len(SharedGroups(false)) {
		t.Errorf("the listing does not have a reason for each group:\n%s", text)
	}
}
