package sbpl

import (
	"fmt"
	"strings"
)

// A writer builds the text of a profile.
type writer struct {
	b     strings.Builder
	title string // of the section that the next line begins
}

func (w *writer) String() string { return w.b.String() }

func (w *writer) line(format string, args ...any) {
	if w.title != "" {
		fmt.Fprintf(&w.b, "\n;;; %s\n", w.title)
		w.title = ""
	}
	fmt.Fprintf(&w.b, format, args...)
	w.b.WriteByte('\n')
}

// section begins a section, which has a heading if anything follows.
func (w *writer) section(title string) { w.title = title }

// comment writes a reason. A path in it has no control character, so it cannot
// end the line and go on as a rule.
func (w *writer) comment(text string) { w.line(";; %s", strings.ReplaceAll(text, "\n", " ")) }

// rule writes one rule, on one line if it has at most one filter.
func (w *writer) rule(verb, ops string, filters []string, modifier string) {
	sep := " "
	if len(filters) > 1 {
		sep = "\n  "
	}
	parts := []string{verb + " " + ops}
	parts = append(parts, filters...)
	if modifier != "" {
		parts = append(parts, modifier)
	}
	w.line("(%s)", strings.Join(parts, sep))
}
