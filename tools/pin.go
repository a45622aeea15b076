package tools

import (
	"fmt"
	"os"
	"strings"
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
	now, err := PinFile(p.Path)
	if err != nil {
		return &DriftError{Path: p.Path, Err: err}
	}
	if changed := p.differences(now); len(changed) > 0 {
		return &DriftError{Path: p.Path, Changed: changed}
	}
	return nil
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
