package tools

import (
	"errors"
	"io/fs"
	"syscall"
)

// stat fills in what only the kernel's own record tells.
func (p *Pin) stat(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no stat record")
	}
	p.Device = uint64(st.Dev)
	p.Inode = st.Ino
	p.ChangeTime = st.Ctimespec.Nano()
	p.Mode = uint32(st.Mode)
	return nil
}
