package platform

import (
	"context"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/linux"
)

// What New makes, and of what.
type (
	Options        = linux.Options
	Backend        = linux.Backend
	SessionBackend = linux.SessionBackend
)

// New makes the backend that o names. It fails with an *Unenforceable.
func New(o Options) (*Backend, error) { return linux.New(o) }

// Examine tries every backend of this system. bwrap is an absolute path of bubblewrap, ""
// for the usual places.
func Examine(ctx context.Context, bwrap string) confine.Report { return linux.Examine(ctx, bwrap) }

// WithoutReserve says what bounds this host sets without room to spare.
func WithoutReserve() []string { return linux.WithoutReserve() }
