package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// labelWidth is the width of the column of our own words.
const labelWidth = 12

// detail is the request under the cursor, as lines of the screen's width.
func (m *model) detail() []string {
	it := m.cursor()
	if it == nil || it.shown == nil {
		return nil
	}
	return append(m.essence(), m.factLines(present.Facts(it.shown).Depth)...)
}

// essence is what a person has to see before they allow: who asks and what speaks
// against it, the content, what could happen at most, and what comes next. Only the
// title begins at the left edge, on its own line at the top, so nothing else that
// comes from outside can look like a line of ours.
func (m *model) essence() []string {
	it := m.cursor()
	if it == nil || it.shown == nil {
		return nil
	}
	s, sheet := styles(), present.Facts(it.shown)
	lines := m.titleLines(it.shown)
	if it.args != nil {
		lines = append(lines, hang("  edited", "by you: y allows this once in place of what the agent asked for, Esc brings that back", m.width, s.warn)...)
	}
	if it.problem != "" {
		lines = append(lines, hang("  problem", it.problem, m.width, s.warn)...)
	}
	lines = append(lines, m.factLines(sheet.First)...)
	lines = append(lines, m.contentLines(it)...)
	lines = append(lines, m.factLines(sheet.Deciding)...)
	for i, next := range it.shown.BatchRemaining {
		label := " "
		if i == 0 {
			label = "  then"
		}
		lines = append(lines, hang(label, approval.EscapeLine(next), m.width, s.plain)...)
	}
	if n := m.groupSize(it); n > 1 {
		lines = append(lines, hang("  group", fmt.Sprintf("%d requests of it wait: A allows all, D denies all", n), m.width, s.plain)...)
	}
	return lines
}

// titleLines is the title, which for a command is cut to one line: its content says
// the same in full.
func (m *model) titleLines(a *protocol.Approval) []string {
	title := present.Title(a)
	if p := a.Presentation; p != nil && p.Type == approval.Command {
		return []string{m.line(styles().bold, title)}
	}
	return hang("", title, m.width, styles().bold)
}

func (m *model) factLines(list []present.Fact) (lines []string) {
	for _, f := range list {
		style := styles().plain
		if f.Label == present.Careful {
			style = styles().warn
		}
		lines = append(lines, hang("  "+f.Label, f.Text, m.width, style)...)
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
	for i, part := range wrapWords(text, width-max(indent, 2)) {
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
func (m *model) contentLines(it *item) []string {
	text, kind := present.Content(it.shown)
	var lines []string
	var diff present.DiffReader
	source := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(source); i++ {
		if n, text := present.Gap(source[i:]); n > 0 {
			lines = append(lines, "  │ "+text)
			i += n - 1
			continue
		}
		style := styles().plain
		if kind == approval.Diff {
			style = styles().diff(diff.Line(source[i]))
		}
		lines = append(lines, m.margin(source[i], it.partsOf(i, source[i]), style)...)
	}
	return lines
}

// partsOf are the parts of line i of the content, if they are those of this line.
func (it *item) partsOf(i int, line string) []highlight.Part {
	if i >= len(it.parts) || present.Blanks(line) != line {
		return nil
	}
	var b strings.Builder
	for _, p := range it.parts[i] {
		b.WriteString(p.Text)
	}
	if b.String() != line {
		return nil
	}
	return it.parts[i]
}

// margin is one line of the content, wrapped behind its margin.
func (m *model) margin(line string, parts []highlight.Part, style lipgloss.Style) []string {
	var lines []string
	for i, piece := range wrap(present.Blanks(line), m.width-4) {
		lead := "  │ "
		if i > 0 {
			lead = "  ┆ "
		}
		if parts == nil {
			lines = append(lines, lead+style.Render(piece))
			continue
		}
		var b strings.Builder
		parts = take(&b, parts, len(piece))
		lines = append(lines, lead+b.String())
	}
	return lines
}

// take writes the first n bytes of parts in their styles, and returns the rest.
func take(b *strings.Builder, parts []highlight.Part, n int) []highlight.Part {
	parts = slices.Clone(parts)
	for n > 0 && len(parts) > 0 {
		text := parts[0].Text[:min(n, len(parts[0].Text))]
		b.WriteString(styles().part(parts[0].Kind).Render(text))
		n -= len(text)
		if parts[0].Text = parts[0].Text[len(text):]; parts[0].Text == "" {
			parts = parts[1:]
		}
	}
	return parts
}

// wrap breaks one line into parts of at most width cells, and loses nothing.
func wrap(line string, width int) []string {
	return strings.Split(ansi.Hardwrap(line, max(width, 1), true), "\n")
}

// wrapWords is wrap that breaks after a space where there is one in the second half
// of a line: for sentences.
func wrapWords(line string, width int) (parts []string) {
	width = max(width, 1)
	for ansi.StringWidth(line) > width {
		head := wrap(line, width)[0]
		if space := strings.LastIndexByte(head, ' '); space >= len(head)/2 {
			head = head[:space+1]
		}
		parts, line = append(parts, head), line[len(head):]
	}
	return append(parts, line)
}
