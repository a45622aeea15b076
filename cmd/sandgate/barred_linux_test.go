//go:build cgo

package main

import "github.com/sandgate/sandgate/internal/barred"

// launchBarred is the launcher of package barred.
func launchBarred() { barred.Main() }
