package changes

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func shareBlocks(_, _ *os.File) error { return errors.ErrUnsupported }

func timesOf(st *unix.Stat_t) []unix.Timespec { return []unix.Timespec{st.Atim, st.Mtim} }
