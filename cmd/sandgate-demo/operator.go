package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// shownLines is how much of a presentation fits between two questions.
const shownLines = 24

// show prints a request as an approver sees it. Its text comes from the agent,
// so it is escaped.
func show(w io.Writer, a protocol.Approval) {
	fmt.Fprintf(w, "    ? %s\n", approval.EscapeLine(a.Description))
	if p := a.Presentation; p != nil && !strings.Contains(a.Description, p.Content) {
		text, cut := approval.Truncate(p.Content, shownLines, 4<<10)
		indent(w, "      ", approval.Escape(text))
		if cut != nil {
			fmt.Fprintln(w, "      (shortened)")
		}
	}
}

func indent(w io.Writer, by, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintln(w, strings.TrimRight(by+strings.TrimRight(line, "\n"), " "))
	}
}

// script answers as the list says, and denies what the list did not foresee.
func (d *demo) script(a protocol.Approval) protocol.ApprovalsDecide {
	s := d.steps[len(d.outcomes)]
	answer := protocol.ApprovalsDecide{ID: a.ID, Decision: s.Answer, Feedback: s.Feedback}
	if s.Answer == "" {
		d.strays = append(d.strays, fmt.Errorf("call %d was asked about: %s", len(d.outcomes)+1, approval.EscapeLine(a.Description)))
		answer.Decision = protocol.Deny
	}
	if a.Tool != s.Tool { // what the sandbox refused, once more: the list speaks about the call
		answer.Decision, answer.Mode, answer.Feedback = protocol.Deny, approval.RejectSoft, ""
	}
	fmt.Fprintf(d.out, "    > %s\n", strings.TrimSpace(fmt.Sprintf("%s  %s", answer.Decision, quoted(answer.Feedback))))
	return answer
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

// A person answers at the terminal.
type person struct {
	in    io.Reader
	out   io.Writer
	lines *bufio.Scanner
}

// ask reads one answer. No answer, or the end of the input, is a no.
func (p *person) ask(a protocol.Approval) protocol.ApprovalsDecide {
	if p.lines == nil {
		p.lines = bufio.NewScanner(p.in)
	}
	answer := protocol.ApprovalsDecide{ID: a.ID, Decision: protocol.Deny}
	fmt.Fprint(p.out, "    > allow? [y]es, for the [s]ession, [N]o: ")
	if !p.lines.Scan() {
		return answer
	}
	switch strings.ToLower(strings.TrimSpace(p.lines.Text())) {
	case "y", "yes":
		answer.Decision = protocol.Allow
	case "s", "session":
		answer.Decision, answer.Scope = protocol.Allow, approval.Session
	}
	return answer
}
