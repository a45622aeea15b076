//go:build !linux

package initbin

import (
	"errors"
	"os"
)

// locate finds nothing: only Linux has sandboxes with an init.
func locate(string) (*os.File, int64, error) { return nil, 0, errors.ErrUnsupported }
