package changes

import (
	"os"

	"golang.org/x/sys/unix"
)

// shareBlocks makes out a second file of the same blocks, where the file system can
// (ioctl_ficlonerange(2): btrfs, xfs, bcachefs). out is empty.
func shareBlocks(out, in *os.File) error { return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) }

func timesOf(st *unix.Stat_t) []unix.Timespec { return []unix.Timespec{st.Atim, st.Mtim} }
