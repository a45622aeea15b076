//go:build !linux

package egress

import (
	"context"
	"errors"
	"net"
)

// dialSocket refuses: nothing here says whether the path leads through links.
func dialSocket(context.Context, Dialer, string) (net.Conn, error) {
	return nil, errors.New("Unix sockets are supported on Linux only")
}
