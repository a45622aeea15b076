package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// A fact is one line about a request: a word of ours, and what is to be said.
type fact struct{ label, text string }

// A detail has a name on the wire, and words of ours.
type detail struct {
	key, label string
	say        func(string) string
}

// known are the details that a person decides by, in the order in which they
// matter. What is not here follows them, under its own name.
func known() []detail {
	return []detail{
		{"rule", "asked by", func(v string) string { return "rule " + v }},
		{"warnings", "careful", nil},
		{"may write", "may write", func(v string) string { return cmpOr(v, "nothing") }},
		{"network", "network", sayNetwork},
		{"directory", "directory", nil},
		{"program", "program", nil},
		{"path", "path", nil},
	}
}

func cmpOr(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}

func sayNetwork(mode string) string {
	switch mode {
	case "none", "":
		return "none: it can connect to nothing"
	case "host":
		return "all of this machine's, without limits"
	}
	return mode
}

// facts are the details in plain words: those to decide by, and those to look
// things up by. Everything in them is escaped.
func facts(a *protocol.Approval) (first, last []fact) {
	first = []fact{{"agent", approval.EscapeLine(a.Agent) + " (session " + approval.EscapeLine(string(a.SessionID)) + ")"}}
	rest := maps.Clone(a.Details)
	for _, k := range known() {
		v, ok := rest[k.key]
		delete(rest, k.key)
		if !ok || v == "" && k.say == nil {
			continue
		}
		if k.say != nil {
			v = k.say(v)
		}
		first = append(first, fact{k.label, approval.EscapeLine(v)})
	}
	delete(rest, "plan")
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		first = append(first, fact{approval.EscapeLine(key), approval.EscapeLine(rest[key])})
	}
	return first, []fact{{"plan", approval.EscapeLine(a.PlanDigest)}, {"request", approval.EscapeLine(string(a.ID))}}
}

// payload is what "the same again" means for a request, on one line.
func payload(p map[string]any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return "with a payload that cannot be shown"
	}
	return approval.EscapeLine(strings.TrimSuffix(b.String(), "\n"))
}

// content is what is shown of a request itself, escaped.
func content(a *protocol.Approval) (text string, kind approval.PresentationType) {
	if p := a.Presentation; p != nil {
		return approval.Escape(p.Content), p.Type
	}
	return payload(a.Payload), approval.Structured
}

// fullText is everything about a request, unwrapped and uncut, for the pager.
func fullText(a *protocol.Approval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", title(a))
	first, last := facts(a)
	for _, f := range slices.Concat(first, last) {
		fmt.Fprintf(&b, "%-10s %s\n", f.label, f.text)
	}
	text, _ := content(a)
	if p := a.Presentation; p != nil {
		if full, ok := p.Metadata["full_content"].(string); ok {
			text = approval.Escape(full)
		}
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString("| " + line + "\n")
	}
	return b.String()
}

func title(a *protocol.Approval) string {
	return blanks(approval.EscapeLine(string(a.Tool)) + ": " + approval.EscapeLine(a.Description))
}

// Runs of spaces that are longer are counted instead of shown: they push what
// follows them out of sight. Code is indented more than it is spaced.
const (
	maxSpaces = 20
	maxIndent = 60
)

// blanks shows long runs of spaces in one line as <270 spaces>.
func blanks(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		n := len(line[i:]) - len(strings.TrimLeft(line[i:], " "))
		if n > maxSpaces && i > 0 || n > maxIndent {
			fmt.Fprintf(&b, " <%d spaces> ", n)
			i += n
			continue
		}
		next := strings.IndexByte(line[i+n:], ' ')
		if next < 0 {
			next = len(line) - i - n
		}
		b.WriteString(line[i : i+n+next])
		i += n + next
	}
	return b.String()
}

// labelWidth is the width of the column of our own words.
const labelWidth = 11

// detail is the request under the cursor, as lines of the screen's width.
func (m *model) detail() []string {
	it := m.cursor()
	if it == nil || it.shown == nil {
		return nil
	}
	_, last := facts(it.shown)
	return append(m.essence(), m.factLines(last)...)
}

// essence is what a person has to see before they allow. Only the title begins at
// the left edge, on its own line at the top, so nothing else that comes from
// outside can look like a line of ours.
func (m *model) essence() []string {
	it := m.cursor()
	if it == nil || it.shown == nil {
		return nil
	}
	a, s := it.shown, styles()
	lines := hang("", title(a), m.width, s.bold)
	if it.problem != "" {
		lines = append(lines, hang("  problem", it.problem, m.width, s.warn)...)
	}
	first, _ := facts(a)
	lines = append(lines, m.factLines(first)...)
	lines = append(lines, m.contentLines(a)...)
	for i, next := range a.BatchRemaining {
		label := ""
		if i == 0 {
			label = "  then"
		}
		lines = append(lines, hang(cmpOr(label, " "), approval.EscapeLine(next), m.width, s.plain)...)
	}
	if n := m.groupSize(it); n > 1 {
		lines = append(lines, hang("  group", fmt.Sprintf("%d requests of it wait: A allows all, D denies all", n), m.width, s.plain)...)
	}
	return lines
}

func (m *model) factLines(list []fact) (lines []string) {
	for _, f := range list {
		style := styles().plain
		if f.label == "careful" {
			style = styles().warn
		}
		lines = append(lines, hang("  "+f.label, f.text, m.width, style)...)
	}
	return lines
}

func (m *model) groupSize(it *item) (n int) {
	for _, other := range m.queue {
		if it.inGroup(other) {
			n++
		}
	}
	return n
}

// hang wraps text behind a label, and hangs what follows below its beginning. An
// empty label leaves no column.
func hang(label, text string, width int, style lipgloss.Style) []string {
	indent := labelWidth + 2
	if label == "" {
		indent = 0
	}
	var lines []string
	for i, part := range wrap(text, width-max(indent, 2)) {
		lead := strings.Repeat(" ", max(indent, 2))
		if i == 0 {
			lead = label + strings.Repeat(" ", max(indent-ansi.StringWidth(label), 0))
		}
		lines = append(lines, lead+style.Render(part))
	}
	return lines
}

// contentLines are the presentation in its margin: │ before each line, and ┆
// before what continues one that was too long.
func (m *model) contentLines(a *protocol.Approval) []string {
	text, kind := content(a)
	s := styles()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		style := s.plain
		if kind == approval.Diff {
			style = s.diff(line)
		}
		for i, part := range wrap(blanks(line), m.width-4) {
			margin := "  │ "
			if i > 0 {
				margin = "  ┆ "
			}
			lines = append(lines, margin+style.Render(part))
		}
	}
	return lines
}

// wrap breaks one line into parts of at most width cells, and loses nothing.
func wrap(line string, width int) []string {
	return strings.Split(ansi.Hardwrap(line, max(width, 1), true), "\n")
}
