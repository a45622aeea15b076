//go:build !linux

package main

import "os"

// These are for Linux; elsewhere no script gets as far.
func withoutLandlock()      { os.Exit(1) }
func withoutNotifications() { os.Exit(1) }
func listened()             { os.Exit(1) }
