//go:build unix && !darwin

package confine

import "runtime"

// NewSeatbelt fails with an *Unenforceable: Seatbelt is part of macOS.
func NewSeatbelt() (*Seatbelt, error) {
	return nil, &Unenforceable{Part: "Seatbelt", Reason: "it is part of macOS, and this is " + runtime.GOOS, Hint: "use another backend"}
}
