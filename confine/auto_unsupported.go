//go:build !linux && !darwin

package confine

// New fails with an *Unenforceable.
func New(Options) (*Backend, error) { return nil, errUnsupported() }
