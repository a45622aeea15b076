// Command sandgate is the gate between an AI agent and the machine it works on.
//
// A subcommand is one file of this package, or a package below internal where it has a logic
// of its own; commands in app.go is the list.
package main

import (
	"os"
	"runtime/debug"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/confine/initbin"
)

// Most commands end before a collection would be worth its time; those that stay set
// their own pace (see serve).
const patientGC = 400

func main() {
	initbin.RunIfInit()
	debug.SetGCPercent(patientGC)
	assemble.FindHome()
	os.Exit(execute(newApp(os.Stdin, os.Stdout, os.Stderr), os.Args[1:]))
}
