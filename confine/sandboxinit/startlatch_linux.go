package sandboxinit

import "golang.org/x/sys/unix"

// A startLatch is the descriptor at which an action waits until it may begin.
type startLatch int

// open is used without a latch: the action begins at once.
const open startLatch = -1

// pass waits for the byte that opens it, and reports whether it came. The other
// end is closed, and it does not come, when the confiner refuses or has died.
func (g startLatch) pass() bool {
	if g == open {
		return true
	}
	var b [1]byte
	n, err := readFull(int(g), b[:])
	return n == 1 && err == nil
}

func (g startLatch) close() {
	if g != open {
		unix.Close(int(g))
	}
}
