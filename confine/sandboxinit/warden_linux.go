package sandboxinit

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runWarden waits for the end of a confiner, and kills what is left in the process group that
// it leads: bubblewraps that no parent-death signal reaches (confine's warden). No other
// signal ends it, so that pkill(1) by a name does not take it away before the others.
func runWarden() int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0) // for ps(1) alone
	var none [1]byte
	for {
		if n, err := os.Stdin.Read(none[:]); n == 0 || err != nil {
			break
		}
	}
	_ = unix.Kill(0, unix.SIGKILL) // and this process with it
	return 1
}

// name is shown by ps(1).
var name = []byte("sandgate-warden\x00")
