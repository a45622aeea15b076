package platform

import (
	"context"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/seatbelt"
)

// New makes the backend of macOS. It fails with an *Unenforceable.
func New(Options) (*Backend, error) {
	s, err := seatbelt.New()
	if err != nil {
		return nil, err
	}
	return &Backend{s}, nil
}

func probe(ctx context.Context, path string) []confine.Finding { return seatbelt.Probe(ctx, path) }
