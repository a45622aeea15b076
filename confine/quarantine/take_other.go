//go:build !linux

package quarantine

import "errors"

var errUnsupported = errors.New("quarantine: moving files safely needs openat2(2), which only Linux has")

// Restore fails here.
func (s *Store) Restore(string, int) error { return errUnsupported }
