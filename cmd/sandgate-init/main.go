//go:build linux

// Command sandgate-init is the first process inside a sandbox. Nobody starts it
// by hand: package confine carries it, and talks to it over descriptor 3.
package main

import (
	"os"

	"github.com/sandgate/sandgate/confine/sandboxinit"
)

func main() { os.Exit(sandboxinit.Main()) }
