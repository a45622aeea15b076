package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func thisProcess() (writer, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errors.Is(err, fs.ErrNotExist) {
		boot, err = []byte(unknownBoot), nil
	}
	if err != nil {
		return writer{}, err
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &ns); err != nil {
		return writer{}, &os.PathError{Op: "stat", Path: "/proc/self/ns/pid", Err: err}
	}
	start, _, err := processStat(os.Getpid())
	if err != nil {
		return writer{}, err
	}
	return writer{PID: os.Getpid(), Start: start, Namespace: ns.Ino, Boot: strings.TrimSpace(string(boot))}, nil
}

// running reports whether w, of this boot and pid namespace, may still write. A
// zombie cannot: it has run its last instruction.
func running(w writer) bool {
	start, state, err := processStat(w.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		return true // hidepid, see proc(5): nothing is known
	}
	return start == w.Start && state != 'Z' && state != 'X'
}

// processStat reads the start time in clock ticks and the state letter of pid
// from proc_pid_stat(5).
func processStat(pid int) (start uint64, state byte, err error) {
	name := "/proc/" + strconv.Itoa(pid) + "/stat"
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	return parseStat(name, b)
}

// parseStat skips the command name, field 2, by its last parenthesis: a process
// chooses its own name, and may choose ") Z 1".
func parseStat(name string, b []byte) (start uint64, state byte, err error) {
	const startField, firstField = 22, 3
	_, rest, ok := cutLast(b, ')')
	fields := bytes.Fields(rest)
	if !ok || len(fields) <= startField-firstField {
		return 0, 0, fmt.Errorf("%s: not understood", name)
	}
	start, err = strconv.ParseUint(string(fields[startField-firstField]), 10, 64)
	return start, fields[0][0], err
}

func cutLast(b []byte, sep byte) (before, after []byte, found bool) {
	i := bytes.LastIndexByte(b, sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}
