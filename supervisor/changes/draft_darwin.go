package changes

import "errors"

// Mount lays a draft over its roots, where the system has overlays.
func (d *Draft) Mount() error { return errors.ErrUnsupported }

func isOpaque(int) bool { return false }
