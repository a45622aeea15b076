//go:build !linux

package initbin

// RunIfInit does nothing: other systems have no init.
func RunIfInit() {}

func openSelf() (*Image, error) { return nil, ErrNotBuilt }
