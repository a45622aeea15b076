//go:build !linux

package confine

import "github.com/sandgate/sandgate/confine/quarantine"

// A Guard exists on Linux only: what stands in for it elsewhere keeps nothing, for
// there is no sandbox that it would look after.
type Guard struct{}

// NewGuard gives a Guard that does nothing.
func NewGuard(*quarantine.Store, ...string) *Guard { return &Guard{} }

// Remember does nothing: no survey is made here.
func (g *Guard) Remember(string) {}

// Recover finds nothing.
func (*Guard) Recover() ([]Planted, error) { return nil, nil }

// Use does nothing.
func (*Bwrap) Use(*Guard) {}

// WithoutReserve knows of no bounds here.
func WithoutReserve() []string { return nil }
