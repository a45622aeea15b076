// Command sandgate-demo is both ends of `make demo`: an agent that sends a
// recorded list of real tool calls to a running supervisor, and an operator that
// answers what is asked, through the operator socket. Without a terminal the
// list's own answers are given, and each call must end as the list says.
//
// It needs no model and has no powers: it is a client of the two sockets, like
// any agent runtime and any approver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"golang.org/x/term"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "sandgate-demo: error: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	calls, socket, operatorSocket string
	script                        bool
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("sandgate-demo", flag.ContinueOnError)
	fs.StringVar(&o.calls, "calls", "scripts/demo.d/calls.json", "`file` with the list of calls")
	fs.StringVar(&o.socket, "socket", "", "agent socket `path`")
	fs.StringVar(&o.operatorSocket, "operator-socket", "", "operator socket `path`")
	fs.BoolVar(&o.script, "script", false, "give the list's own answers, on a terminal too")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.socket == "" || o.operatorSocket == "" || fs.NArg() > 0 {
		return o, errors.New("usage: sandgate-demo --socket PATH --operator-socket PATH [--calls FILE] [--script]")
	}
	o.script = o.script || !term.IsTerminal(int(os.Stdin.Fd()))
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	steps, err := loadSteps(o.calls)
	if err != nil {
		return err
	}
	d := newDemo(os.Stdout, steps)
	if o.script {
		d.ask = d.script
	} else {
		d.ask = (&person{in: os.Stdin, out: os.Stdout}).ask
	}
	if err := d.play(ctx, o); err != nil {
		return err
	}
	d.table()
	if o.script {
		return d.unexpected()
	}
	return nil
}
