//go:build !linux

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput drops what was typed at a terminal and has not been read.
func flushInput(tty *os.File) error {
	const queue = 1 // FREAD, sys/fcntl.h: what is to be read
	_, err := onTerminal(tty, func(fd int) (any, error) { return nil, unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, queue) })
	return err
}
