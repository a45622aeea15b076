package broker

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Where there are no mounts, the pseudoterminals of all users are in one directory. A
// program may have new ones, and may open the ends of those by name.

// A terminal is the end of a pseudoterminal that programs use. Its number is used again
// when it is closed; when it was made tells two apart.
type terminal struct {
	rdev uint64
	made unix.Timespec
}

func terminalOf(st *unix.Stat_t) terminal { return terminal{st.Rdev, st.Ctim} }

// Device numbers of admin-guide/devices.txt.
const (
	majorTTY     = 5
	minorCurrent = 0 // /dev/tty
	minorPTMX    = 2 // /dev/ptmx
	majorPTS     = 136
	majorLastPTS = 143
)

func isDevice(st *unix.Stat_t, major, minor uint32) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && unix.Major(st.Rdev) == major && unix.Minor(st.Rdev) == minor
}

func isPTS(st *unix.Stat_t) bool {
	major := unix.Major(st.Rdev)
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && major >= majorPTS && major <= majorLastPTS
}

// openTerminal opens a terminal for a program, and reports whether t is one that it may
// have.
func (c *call) openTerminal(t target, flags int) (r reply, ok bool) {
	switch {
	case isDevice(&t.st, majorTTY, minorPTMX):
		if c.b.liveTerminals(t.fd) >= maxTerminals {
			return fails(unix.ENOSPC), true // what ptmx says when there are no more
		}
		fd, errno := c.b.again(t.fd, flags)
		if errno != 0 {
			return fails(errno), true
		}
		if err := c.b.noteTerminal(fd); err != nil {
			unix.Close(fd)
			return fails(unix.EIO), true
		}
		return c.gives(fd), true
	case isDevice(&t.st, majorTTY, minorCurrent):
		own, errno := c.controlling()
		if errno != 0 {
			return fails(errno), true
		}
		t = own
	case !isPTS(&t.st) || !t.open && !c.b.terminals[terminalOf(&t.st)]:
		return reply{}, false
	}
	fd, errno := c.b.again(t.fd, flags)
	if errno != 0 {
		return fails(errno), true
	}
	return c.gives(fd), true
}

// maxTerminals bounds the terminals that a sandbox has at once: the host has 4096 for all
// its users (kernel.pty.max).
const maxTerminals = 32

// liveTerminals counts the terminals of which an end is open, by a descriptor of ptmx. A
// terminal's name goes with the end that ptmx gave, and its number, of which the host has
// few, with the other.
func (b *Broker) liveTerminals(ptmx int) int {
	for t := range b.terminals {
		var st unix.Stat_t
		switch err := unix.Stat(ptsName(t.rdev), &st); {
		case err != nil:
			b.terminals[t] = false
		case terminalOf(&st) != t:
			delete(b.terminals, t) // somebody else has the number
		}
	}
	if len(b.terminals) >= maxTerminals {
		b.forgetClosed(ptmx)
	}
	return len(b.terminals)
}

// maxProbes bounds the terminals that are opened to find out which numbers are free.
const maxProbes = 2 * maxTerminals

// forgetClosed forgets terminals without a name whose number is free. The kernel gives the
// lowest one that is (devpts_new_index), so what it does not give is taken.
func (b *Broker) forgetClosed(ptmx int) {
	for range maxProbes {
		highest := -1
		for t, named := range b.terminals {
			if !named {
				highest = max(highest, ptsNumber(t.rdev))
			}
		}
		if highest < 0 {
			return
		}
		fd, errno := b.again(ptmx, unix.O_RDWR)
		if errno != 0 {
			return // there are no more: nothing is forgotten
		}
		defer unix.Close(fd) // when all are open that are needed: else it gives the same again
		n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
		if err != nil || int(n) > highest {
			return
		}
		for t, named := range b.terminals {
			if !named && ptsNumber(t.rdev) == int(n) {
				delete(b.terminals, t)
			}
		}
	}
}

func ptsNumber(rdev uint64) int { return int((unix.Major(rdev)-majorPTS)<<20 | unix.Minor(rdev)) }

func ptsName(rdev uint64) string { return "/dev/pts/" + strconv.Itoa(ptsNumber(rdev)) }

// noteTerminal takes the other end of a new terminal for this sandbox's.
func (b *Broker) noteTerminal(ours int) error {
	n, err := unix.IoctlGetUint32(ours, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat("/dev/pts/"+strconv.Itoa(int(n)), &st); err != nil {
		return err
	}
	remember(b.terminals, terminalOf(&st), true)
	return nil
}

// controlling is the thread's controlling terminal (proc_pid_stat(5), tty_nr): /dev/tty
// opened by the broker would be the broker's.
func (c *call) controlling() (target, unix.Errno) {
	dir, errno := c.directory()
	if errno != 0 {
		return target{}, errno
	}
	fields := statFields(linkOf(dir) + "/stat")
	const tty = 4 // state ppid pgrp session tty_nr
	if len(fields) <= tty {
		return target{}, unix.ENXIO
	}
	nr, err := strconv.Atoi(fields[tty])
	major, minor := uint32(nr>>8)&0xfff, uint32(nr)&0xff|uint32(nr>>12)&0xfff00
	if err != nil || major < majorPTS || major > majorLastPTS {
		return target{}, unix.ENXIO
	}
	w := walk{call: c}
	t, errno := w.find(cwd, ptsName(unix.Mkdev(major, minor)), false)
	if errno != 0 || !isPTS(&t.st) {
		return t, unix.ENXIO
	}
	return t, 0
}
