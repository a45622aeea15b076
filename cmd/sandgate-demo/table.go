package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// An outcome is how one call ended.
type outcome struct {
	step   step
	result protocol.CallResult
	err    *protocol.Error
}

// code is the outcome in the words of step.Expect.
func (o outcome) code() string {
	if o.err != nil {
		return string(o.err.Code)
	}
	return fmt.Sprintf("exit %d", o.result.ExitCode)
}

func (o outcome) decision() protocol.Decision {
	if o.err == nil {
		return o.result.Decision
	}
	if o.err.Decision != nil {
		return *o.err.Decision
	}
	return protocol.Decision{}
}

// by is who or what decided.
func (o outcome) by() string {
	d := o.decision()
	switch d.Action {
	case approval.NotNeeded, approval.BlockedAction:
		return cmp.Or(d.Rule, d.Source)
	}
	return cmp.Or(d.Approver, d.Rule, d.Source)
}

// said is the output of the call, or the refusal.
func (o outcome) said() string {
	if o.err != nil {
		return o.err.Message
	}
	var b strings.Builder
	for _, c := range o.result.Content {
		b.Write(c.Bytes())
	}
	return strings.TrimRight(b.String(), "\n")
}

// rows are the cells of the table, one row for each call.
func (d *demo) rows() [][]string {
	rows := [][]string{{"", "call", "decision", "by", "result"}}
	for i, o := range d.outcomes {
		rows = append(rows, []string{
			fmt.Sprint(i + 1), clip(o.step.line(), 44), string(o.decision().Action), clip(o.by(), 32), o.code(),
		})
	}
	return rows
}

// table prints what happened.
func (d *demo) table() {
	fmt.Fprintf(d.out, "\nWhat happened\n\n")
	writeTable(d.out, d.rows())
}

// writeTable aligns columns by the number of characters.
func writeTable(w io.Writer, rows [][]string) {
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(w, " "+strings.TrimRight(line.String(), " "))
	}
}

// clip makes s safe to print in one line of at most n characters.
func clip(s string, n int) string {
	s = approval.EscapeLine(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// unexpected is an error that names the calls that did not end as recorded.
func (d *demo) unexpected() error {
	var errs []error
	for i, o := range d.outcomes {
		if got := o.code(); got != o.step.Expect {
			errs = append(errs, fmt.Errorf("call %d (%s) ended with %q, expected %q", i+1, clip(o.step.line(), 44), got, o.step.Expect))
		}
	}
	if len(d.outcomes) != len(d.steps) {
		errs = append(errs, fmt.Errorf("%d of %d calls were made", len(d.outcomes), len(d.steps)))
	}
	return errors.Join(append(errs, d.strays...)...)
}
