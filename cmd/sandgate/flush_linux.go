package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput drops what was typed at a terminal and has not been read.
func flushInput(tty *os.File) error {
	_, err := onTerminal(tty, func(fd int) (any, error) { return nil, unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) })
	return err
}
