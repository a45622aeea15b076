//go:build !linux && !darwin

package platform

import (
	"context"
	"runtime"

	"github.com/sandgate/sandgate/confine"
)

// New fails with an *Unenforceable.
func New(Options) (*Backend, error) {
	return nil, &confine.Unenforceable{Part: "any profile", Reason: "no backend for " + runtime.GOOS, Hint: "run sandgate on Linux"}
}

func probe(context.Context, string) []confine.Finding {
	return []confine.Finding{{Name: "sandbox", Status: confine.Absent, Needed: true, Detail: "no backend for " + runtime.GOOS, Remedy: "run sandgate on Linux"}}
}
