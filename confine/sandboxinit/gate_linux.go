package sandboxinit

import "golang.org/x/sys/unix"

// A gate is the descriptor at which an action waits until it may begin.
type gate int

// open is no gate: the action begins at once.
const open gate = -1

// pass waits for the byte that opens the gate, and reports whether it came. The other
// end is closed, and it does not come, when the confiner refuses or has died.
func (g gate) pass() bool {
	if g == open {
		return true
	}
	var b [1]byte
	n, err := readFull(int(g), b[:])
	return n == 1 && err == nil
}

func (g gate) close() {
	if g != open {
		unix.Close(int(g))
	}
}
