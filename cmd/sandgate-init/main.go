//go:build linux

// One thread does all of the work, whatever the cgroup allows, and reading what that is
// takes a tenth of the start: it is found in the table of mounts.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command sandgate-init is the first process inside a sandbox. It is not started by
// hand: package confine carries it, and talks to it over descriptor 3.
package main

import (
	"os"

	"github.com/sandgate/sandgate/confine/sandboxinit"
)

func main() { os.Exit(sandboxinit.Main()) }
