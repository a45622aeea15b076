//go:build !linux

package main

import "os"

// On other systems the kernel's own sandbox starts the tool; there is no init.
func main() { os.Exit(1) }
