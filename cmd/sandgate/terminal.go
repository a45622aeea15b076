package main

import (
	"io"

	"github.com/sandgate/sandgate/ui/vtfilter"
)

// A programsOutput is where a program's own output goes: byte for byte into a file or a
// pipe, and onto a terminal without what the terminal would act on.
type programsOutput struct {
	out, err io.Writer
	filters  []*vtfilter.Writer
}

func (a *app) programsOutput() *programsOutput {
	p := &programsOutput{}
	p.out, p.err = p.filtered(a.out), p.filtered(a.err)
	return p
}

func (p *programsOutput) filtered(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	f := vtfilter.New(w)
	p.filters = append(p.filters, f)
	return f
}

// end is for when the program has ended: what is written next is not its.
func (p *programsOutput) end() {
	for _, f := range p.filters {
		_ = f.Close() // a terminal that is gone
	}
}
