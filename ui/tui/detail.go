package tui

import (
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// labelWidth is the width of the column of our own words.
const labelWidth = 12

// detail is the request that is shown, as lines of the screen's width.
func (m *model) detail() []string {
	it := m.item()
	if it == nil || it.shown == nil {
		return nil
	}
	lines := m.essence()
	if m.deep {
		lines = append(lines, m.factLines(present.Facts(it.shown).Depth)...)
	}
	return lines
}

// A drawing is all that decides how the essence of an item looks.
type drawing struct {
	shown         *protocol.Approval
	parts         *[]highlight.Part
	like, problem string
	edited, light bool
	width, group  int
}

// essence is its lines, drawn once: each key and each second needs them several times, and an agent decides how long
// they take.
func (m *model) essence() []string {
	it := m.item()
	if it == nil || it.shown == nil {
		return nil
	}
	now := drawing{shown: it.shown, like: it.like, problem: it.problem, edited: it.args != nil, light: m.light, width: m.width, group: m.groupSize(it)}
	if len(it.parts) > 0 {
		now.parts = &it.parts[0]
	}
	if now != it.drawn {
		it.drawn, it.lines = now, slices.Clip(m.draw(it))
	}
	return it.lines
}

// draw is what a person has to see before they allow: what could happen at most, who
// wants what, what speaks against it, the content, and what comes next. Only the strip and
// the headline begin at the left edge, above the margin of the content, so nothing that
// comes from outside can look like a line of ours.
func (m *model) draw(it *item) []string {
	s, sheet := m.styles(), present.Facts(it.shown)
	lines := append(m.stripLines(sheet.Strip), m.headline(it.shown)...)
	if it.like != "" {
		lines = append(lines, hang("  "+strings.ToLower(present.Words.LookTwice), present.With(present.Words.ThisIs, it.like), m.width, s.warn.Bold(true))...)
	}
	if it.args != nil {
		lines = append(lines, hang("  !", present.Words.Edited, m.width, s.warn)...)
	}
	if it.problem != "" {
		lines = append(lines, hang("  problem", it.problem, m.width, s.warn)...)
	}
	for _, f := range sheet.First {
		if f.Label == present.Careful {
			lines = append(lines, hang("  !", f.Text, m.width, s.warn.Bold(true))...)
		}
	}
	lines = append(lines, m.contentLines(it)...)
	for _, f := range sheet.First {
		if f.Label != present.Careful && f.Label != "agent" {
			lines = append(lines, m.factLines([]present.Fact{f})...)
		}
	}
	lines = append(lines, m.factLines(sheet.Deciding)...)
	for i, next := range present.Then(it.shown) {
		label := " "
		if i == 0 {
			label = "  then"
		}
		lines = append(lines, hang(label, next, m.width, s.plain)...)
	}
	if n := m.groupSize(it); n > 1 {
		lines = append(lines, hang("  group", present.With(present.Words.Group, strconv.Itoa(n)), m.width, s.plain)...)
	}
	return lines
}

// headline is who wants what, and where. What it wants may be the agent's own words, which end it.
func (m *model) headline(a *protocol.Approval) []string {
	agent, wants := present.Headline(a)
	text := agent + " " + wants
	if dir := a.Details["directory"]; dir != "" {
		dir = approval.EscapeName(dir)
		text = agent + ", in " + dir + ", " + wants
		if p := a.Presentation; p != nil && p.Type == approval.Command {
			text = agent + " " + wants + " in " + dir
		}
	}
	return hang("", text, m.width, m.styles().bold)
}

// stripLines are the consequences, on one line where they fit. What speaks against the
// request has a sign before it: not everybody sees colours.
func (m *model) stripLines(strip []present.Consequence) (lines []string) {
	s := m.styles()
	var one strings.Builder
	width := 0
	for i, f := range present.StripFacts(strip) {
		style := s.plain
		if strip[i].Careful {
			style = s.warn.Bold(true)
		}
		width += len(f.Label) + present.Width(f.Text) + 4
		one.WriteString("  " + s.faint.Render(f.Label) + " " + style.Render(f.Text) + " ")
		lines = append(lines, hang("  "+f.Label, f.Text, m.width, style)...)
	}
	if width <= m.width {
		return []string{one.String()}
	}
	return lines
}

func (m *model) factLines(list []present.Fact) (lines []string) {
	for _, f := range list {
		style := m.styles().plain
		if f.Label == present.Careful {
			style = m.styles().warn
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

// hang wraps text behind a label, and hangs what follows below its beginning. An empty
// label leaves no column.
func hang(label, text string, width int, style lipgloss.Style) []string {
	indent := labelWidth + 2
	switch label {
	case "":
		indent = 0
	case "  !":
		indent = 4
	}
	return hangAt(indent, label, text, width, style)
}

// hangAt is hang with the column that the text begins in. Where lines of ours begin about
// there, what follows stands behind a margin, as what continues a line of the content does:
// a text from outside must not break where it would look like a line of ours.
func hangAt(indent int, label, text string, width int, style lipgloss.Style) []string {
	next := "  ┆ "
	if indent > present.Width(next) {
		next = strings.Repeat(" ", indent)
	}
	var lines []string
	for i, part := range wrapWords(text, width-max(indent, present.Width(next))) {
		lead := next
		if i == 0 {
			lead = label + strings.Repeat(" ", max(indent-present.Width(label), 0))
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
		style := m.styles().plain
		parts := it.partsOf(i, source[i])
		switch {
		case kind == approval.Diff:
			style = m.styles().diff(diff.Line(source[i]))
		case present.Ours(it.shown, source[i]):
			style, parts = m.styles().diff(present.DiffOurs), nil
		}
		lines = append(lines, m.margin(source[i], parts, style)...)
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
	for i, piece := range present.Wrap(present.Blanks(line), m.width-4) {
		lead := "  │ "
		if i > 0 {
			lead = "  ┆ "
		}
		if parts == nil {
			lines = append(lines, lead+style.Render(piece))
			continue
		}
		var b strings.Builder
		parts = m.take(&b, parts, len(piece))
		lines = append(lines, lead+b.String())
	}
	return lines
}

// take writes the first n bytes of parts in their styles, and returns the rest.
func (m *model) take(b *strings.Builder, parts []highlight.Part, n int) []highlight.Part {
	parts = slices.Clone(parts)
	for n > 0 && len(parts) > 0 {
		text := parts[0].Text[:min(n, len(parts[0].Text))]
		b.WriteString(m.styles().part(parts[0].Kind).Render(text))
		n -= len(text)
		if parts[0].Text = parts[0].Text[len(text):]; parts[0].Text == "" {
			parts = parts[1:]
		}
	}
	return parts
}

// wrapWords is present.Wrap that breaks after a space where there is one in the second half
// of a line: for sentences.
func wrapWords(line string, width int) (parts []string) {
	for {
		head := line[:present.Fill(line, width)]
		if head == line {
			return append(parts, line)
		}
		if space := strings.LastIndexByte(head, ' '); space >= len(head)/2 {
			head = head[:space+1]
		}
		parts, line = append(parts, head), line[len(head):]
	}
}
