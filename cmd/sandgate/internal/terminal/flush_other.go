//go:build !linux

package terminal

import "golang.org/x/sys/unix"

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// flush drops what was typed at a terminal and has not been read.
func flush(fd int) error {
	const queue = 1 // FREAD, sys/fcntl.h: what is to be read
	return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, queue)
}
