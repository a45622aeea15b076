//go:build unix && !darwin

package seatbelt

import (
	"github.com/sandgate/sandgate/confine"
	"runtime"
)

// New fails with an *Unenforceable: Seatbelt is part of macOS.
func New() (*Backend, error) {
	return nil, &confine.Unenforceable{Part: "Seatbelt", Reason: "it is part of macOS, and this is " + runtime.GOOS, Hint: "use another backend"}
}
