//go:build !linux && !darwin

package tools

import (
	"errors"
	"io/fs"
)

// stat fails: without a device and an inode number a pin would bind nothing.
func (p *Pin) stat(fs.FileInfo) error {
	return errors.ErrUnsupported
}
