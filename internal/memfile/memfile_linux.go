package memfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is for how long the kernel may hold pages of a file that is to be sealed.
const patience = 5 * time.Second

// New returns a sealed file with content, at its start and close-on-exec
// (memfd_create(2)). The name is shown by /proc.
func New(name string, content io.Reader) (*os.File, error) {
	return create(name, content, 0)
}

// NewProgram is New for a file that is to be executed: a kernel whose
// vm.memfd_noexec says so refuses the others.
func NewProgram(name string, content io.Reader) (*os.File, error) {
	return create(name, content, unix.MFD_EXEC)
}

func create(name string, content io.Reader, flags int) (_ *os.File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("file in memory: %s: %w", name, err)
		}
	}()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3 does not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = io.Copy(f, content); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = seal(f, patience)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// seal takes away everybody's right to change f (F_ADD_SEALS, fcntl(2)). EBUSY says
// that a page of it is held. If no process has the file mapped, the kernel itself holds
// it, which is moving pages about: it waits 150 ms for that to end (memfd_wait_for_pins
// in mm/memfd.c), which on a loaded machine is not enough.
func seal(f *os.File, patience time.Duration) error {
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
		if !errors.Is(err, unix.EBUSY) || time.Since(start) > patience {
			return os.NewSyscallError("fcntl(F_ADD_SEALS)", err)
		}
	}
}
