//go:build !linux

package platform

import (
	"context"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Options are the options of New. There is one for each system but Linux, so
// there is nothing to choose from.
type Options struct {
	Backend, Bwrap string
	// Unconfined is accepted and gives nothing: where the one backend does not
	// work, tools are refused.
	Unconfined bool
}

// Backend is the one of this system.
type Backend struct{ confine.Confiner }

// SessionBackend is a Backend with what is kept for one session: nothing.
type SessionBackend struct{ *Backend }

// Close frees nothing: the backend stays.
func (SessionBackend) Close() error { return nil }

// Ahead does nothing: each call's sandbox is its own.
func (SessionBackend) Ahead(sandboxprofile.Profile) {}

// Try builds a sandbox that holds nothing, to learn at the start what the first
// call would.
func (b *Backend) Try(ctx context.Context) (confine.Enforced, error) {
	box, err := b.Prepare(ctx, sandboxprofile.Profile{Limits: sandboxprofile.NoLimits()})
	if err != nil {
		return confine.Enforced{}, err
	}
	return box.Enforced(), box.Close()
}

// Session is a Confiner for one session.
func (b *Backend) Session() SessionBackend { return SessionBackend{b} }

// Use does nothing: there is no Guard outside of Linux.
func (*Backend) Use(*tripwire.Guard) {}

// Close ends nothing: the owners of the sandboxes close those.
func (b *Backend) Close() error { return nil }

// WithoutReserve knows of no bounds here.
func WithoutReserve() []string { return nil }

// Examine tries the backend of this system.
func Examine(ctx context.Context, path string) confine.Report {
	probes := probe(ctx, path)
	return confine.NewReport([]confine.BackendReport{confine.NewBackendReport("seatbelt", probes)}, probes)
}
