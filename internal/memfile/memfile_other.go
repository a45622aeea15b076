//go:build !linux

package memfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// New fails: memfd_create(2) has no counterpart here, and a file on a disk is not what
// was asked for.
func New(name string, _ io.Reader) (*os.File, error) {
	return nil, fmt.Errorf("file in memory: %s: %w", name, errors.ErrUnsupported)
}
