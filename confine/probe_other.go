//go:build !linux && !darwin

package confine

import (
	"context"
	"runtime"
)

// Probe says that this system has no backend yet.
func Probe(context.Context, string) []Finding {
	return []Finding{{Name: "sandbox", Status: Absent, Needed: true, Detail: "no backend for " + runtime.GOOS, Remedy: "run sandgate on Linux"}}
}
