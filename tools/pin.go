package tools

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A DriftError says that a file is no longer the one that was approved.
type DriftError struct {
	Path string
	// Changed names what differs, in the words of stat(2): "inode", "size". It is
	// empty if the file cannot be looked at any more; Err then says why.
	Changed []string
	Err     error
}

func (e *DriftError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%q is not the file that was approved: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%q is not the file that was approved: its %s changed", e.Path, strings.Join(e.Changed, ", "))
}

func (e *DriftError) Unwrap() error { return e.Err }

// PinFile records which file path is now. The path must be free of links, as
// Resolve and LookPath give it, and name a regular file.
//
// A pin notices any change that goes through the kernel's file system calls,
// since each of them moves the change time, which no call can set back. It does
// not bind what happens between Verify and execve(2); an executable that nothing
// inside the sandbox may write needs no such binding, and see Trusted for that.
func PinFile(path string) (Pin, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Pin{}, fmt.Errorf("pin: %w", err)
	}
	return pinOf(path, info)
}

func pinOf(path string, info os.FileInfo) (Pin, error) {
	if !info.Mode().IsRegular() {
		return Pin{}, fmt.Errorf("pin %q: not a regular file but %s", path, info.Mode().Type())
	}
	pin := Pin{
		Path:    path,
		Size:    info.Size(),
		ModTime: info.ModTime().UnixNano(),
	}
	if err := pin.stat(info); err != nil {
		return Pin{}, fmt.Errorf("pin %q: %w", path, err)
	}
	return pin, nil
}

// Verify checks that the pinned file is still behind its path, unchanged. Its
// error is a *DriftError.
func (p Pin) Verify() error {
	if err := p.verifyContent(); err != nil || p.Absent || p.Kind != "" || p.SHA256 != "" {
		return err
	}
	now, err := PinFile(p.Path)
	if err != nil {
		return &DriftError{Path: p.Path, Err: err}
	}
	if changed := p.differences(now); len(changed) > 0 {
		return &DriftError{Path: p.Path, Changed: changed}
	}
	return nil
}

// ReadFile reads the pinned file, at most limit bytes of it, and only if it is the
// one that was pinned: the open file is compared, so that nothing can be swapped
// in between. Its error is a *DriftError if it is another.
func (p Pin) ReadFile(limit int64) ([]byte, error) {
	f, err := os.OpenFile(p.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &DriftError{Path: p.Path, Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &DriftError{Path: p.Path, Err: err}
	}
	now, err := pinOf(p.Path, info)
	if err != nil {
		return nil, &DriftError{Path: p.Path, Err: err}
	}
	if changed := p.differences(now); len(changed) > 0 {
		return nil, &DriftError{Path: p.Path, Changed: changed}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", p.Path, err)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("read %q: more than %d bytes", p.Path, limit)
	}
	return b, nil
}

func (p Pin) differences(now Pin) []string {
	var changed []string
	for _, field := range []struct {
		name string
		same bool
	}{
		{"device", p.Device == now.Device},
		{"inode", p.Inode == now.Inode},
		{"size", p.Size == now.Size},
		{"modification time", p.ModTime == now.ModTime},
		{"change time", p.ChangeTime == now.ChangeTime},
		{"mode", p.Mode == now.Mode},
	} {
		if !field.same {
			changed = append(changed, field.name)
		}
	}
	return changed
}
