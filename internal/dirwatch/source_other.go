//go:build !linux

package dirwatch

import "errors"

// Events are the changes that are
// reported.
type Events uint32

// These are reported on Linux.
const (
	Names Events = iota
	Contents
	Inodes
)

type source struct{}

func newSource(Events) (source, error)             { return source{}, errors.ErrUnsupported }
func (source) add(int) (int32, error)              { return 0, errors.ErrUnsupported }
func (source) remove(int32)                        {}
func (source) changed(func(event)) (complete bool) { return false }
func closeWith[K comparable](*Watcher[K])          {}
