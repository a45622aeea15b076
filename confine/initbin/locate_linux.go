package initbin

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errElsewhere = errors.New("not in the executable's file")

// locate finds where in the executable's file a constant of this program lies
// (proc(5), /proc/pid/maps). The file is the one that is mapped, whatever its path leads
// to by now, and its pages are those of the mapping.
func locate(constant string) (file *os.File, offset int64, err error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, 0, err
	}
	defer maps.Close()
	if file, err = os.Open("/proc/self/exe"); err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, 0, err
	}
	begin := uint64(uintptr(unsafe.Pointer(unsafe.StringData(constant))))
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to, at, major, minor, inode uint64
		var rights string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %x:%x %d", &from, &to, &rights, &at, &major, &minor, &inode); err != nil {
			continue
		}
		if begin < from || begin >= to {
			continue
		}
		if begin+uint64(len(constant)) > to || inode != st.Ino || unix.Mkdev(uint32(major), uint32(minor)) != st.Dev {
			break
		}
		return file, int64(at + begin - from), nil
	}
	return nil, 0, errElsewhere
}
