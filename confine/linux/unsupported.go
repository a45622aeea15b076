//go:build !linux

package linux

import (
	"context"
	"runtime"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Bwrap exists on Linux only: NewBwrap fails here, and with it whatever asks for
// a sandbox.
type Bwrap struct{}

// NewBwrap fails with an *Unenforceable.
func NewBwrap(string) (*Bwrap, error) { return nil, errUnsupported() }

// Name implements Confiner.
func (*Bwrap) Name() string { return "bwrap" }

// Prepare implements Confiner.
func (*Bwrap) Prepare(context.Context, sandboxprofile.Profile) (confine.Sandbox, error) {
	return nil, errUnsupported()
}

// Close frees nothing.
func (*Bwrap) Close() error { return nil }

// Use does nothing.
func (*Bwrap) Use(*tripwire.Guard) {}

// WarmPool exists on Linux only, as Bwrap does.
type WarmPool struct{ *Bwrap }

// NewWarmPool gives a Confiner that fails.
func NewWarmPool(b *Bwrap) *WarmPool { return &WarmPool{b} }

func errUnsupported() error {
	return &confine.Unenforceable{Part: "any profile", Reason: "no backend for " + runtime.GOOS, Hint: "run sandgate on Linux"}
}
