package sandboxinit

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestProgramsHaveNoPriority: a user who may have real-time priority gives none of it to programs. What
// a profile leaves unlimited stays as it is.
func TestProgramsHaveNoPriority(t *testing.T) {
	got := map[uintptr]unix.Rlimit{}
	for _, l := range limits(wire.Rlimits{CPUSeconds: sandboxprofile.Unlimited, Processes: sandboxprofile.Unlimited, FileSize: sandboxprofile.Unlimited, OpenFiles: 1}, ownLimits()) {
		got[l.resource] = l.value
	}
	for resource, want := range map[uintptr]uint64{unix.RLIMIT_RTPRIO: 0, unix.RLIMIT_NICE: 0, unix.RLIMIT_NOFILE: 1} {
		if l, set := got[resource]; !set || l != (unix.Rlimit{Cur: want, Max: want}) {
			t.Errorf("limit %d: %v, set %v; want %d", resource, l, set, want)
		}
	}
	if l, set := got[unix.RLIMIT_FSIZE]; set {
		t.Errorf("the file size is limited: %v", l)
	}
}
