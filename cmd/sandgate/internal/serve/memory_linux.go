package serve

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// dropProgramPages unmaps the pages of this program that are as they are in its file.
// They stay in the kernel's cache, and those that are needed again come back from there
// a few at a time: what only the start has used does not (madvise(2), MADV_DONTNEED).
func dropProgramPages() {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // the pages stay, which costs memory and nothing else
	}
	defer maps.Close()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, r := range unchanged(maps, self) {
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, r.from, r.to-r.from, unix.MADV_DONTNEED)
	}
}

// A span is a part of the address space.
type span struct{ from, to uintptr }

// unchanged are the mappings of a file that cannot be written to and of which no page
// is the process's own. A page that the dynamic linker has filled in is read-only too
// by now, and would be lost. A mapping of which that is not said is left alone. smaps
// is as in proc_pid_smaps(5).
func unchanged(smaps io.Reader, file string) []span {
	var list []span
	var read *span // the mapping that is being read, if it may be one
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		var (
			s                           span
			perms, offset, device, path string
			inode, own                  uint64
		)
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %4s %s %s %d %s", &s.from, &s.to, &perms, &offset, &device, &inode, &path); n >= 6 {
			read = nil
			if path == file && len(perms) == 4 && perms[0] == 'r' && perms[1] == '-' {
				read = &s
			}
			continue
		}
		if n, _ := fmt.Sscanf(lines.Text(), "Anonymous: %d kB", &own); n == 1 && own == 0 && read != nil {
			list = append(list, *read)
		}
	}
	return list
}
