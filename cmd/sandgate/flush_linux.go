package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput drops what was typed at a terminal and has not been read.
func flushInput(tty *os.File) error {
	return withDescriptor(tty, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) })
}
