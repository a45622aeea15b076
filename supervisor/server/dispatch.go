package server

import (
	"context"

	"github.com/sandgate/sandgate/protocol"
)

// A phase is the time at which a method is allowed on a connection.
type phase int

const (
	afterInitialize  phase = iota // the zero value is the usual case
	beforeInitialize              // and never again
	anyTime
)

// A method is one row of a dispatch table. C is the kind of connection, so a
// handler of the one socket cannot be put into the table of the other.
type method[C any] struct {
	handle func(C, context.Context, protocol.Message) (any, error)
	when   phase
	// once is the error of a second request after one that succeeded; "" means
	// that there may be many.
	once protocol.Code
	// long marks what may wait: it runs beside the connection's other requests.
	// All others are answered in the order in which they came.
	long bool
}

// A table is everything that a kind of connection can be asked.
type table[C any] map[protocol.Method]method[C]

// allowed returns the row for m, or why m may not come now.
func (t table[C]) allowed(name protocol.Method, initialized bool, used map[protocol.Method]bool) (method[C], *protocol.Error) {
	row, ok := t[name]
	switch {
	case !ok:
		return row, protocol.Errorf(protocol.CodeUnknownMethod, "unknown method %.64q", name)
	case row.once != "" && used[name]:
		return row, protocol.Errorf(row.once, "%s was done already on this connection", name)
	case row.when == afterInitialize && !initialized:
		return row, protocol.Errorf(protocol.CodeNotInitialized, "%s before %s", name, protocol.MethodInitialize).
			WithHint("the first request of a connection is initialize")
	}
	return row, nil
}

// with makes a handler from a function on decoded params.
func with[C, P, R any](f func(C, context.Context, *P) (R, error)) func(C, context.Context, protocol.Message) (any, error) {
	return func(c C, ctx context.Context, m protocol.Message) (any, error) {
		p := new(P)
		if err := protocol.UnmarshalParams(m, p); err != nil {
			return nil, err
		}
		return f(c, ctx, p)
	}
}
