//go:build unix

package config

import (
	"io/fs"
	"syscall"
)

const nonblock, nofollow = syscall.O_NONBLOCK, syscall.O_NOFOLLOW

// ownerOf is the user id of a file's owner.
func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
