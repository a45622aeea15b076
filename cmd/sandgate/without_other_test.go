//go:build !linux

package main

import "os"

// withoutLandlock is for Linux; elsewhere no script gets as far.
func withoutLandlock() { os.Exit(1) }
