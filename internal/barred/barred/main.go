//go:build linux && cgo

// Command barred runs a command where a plain container would run it; scripts/barred
// builds and starts it.
package main

import "github.com/sandgate/sandgate/internal/barred"

func main() { barred.Main() }
