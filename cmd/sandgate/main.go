// Command sandgate is the gate between an AI agent and the machine it works on.
//
// Every subcommand is one file of this package; commands in app.go is the list.
package main

import "os"

func main() {
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).run(os.Args[1:]))
}
