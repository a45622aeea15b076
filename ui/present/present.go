package present

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// A Fact is one line about a request: a word of ours of at most 11 cells, and what is
// to be said.
type Fact struct{ Label, Text string }

// Careful is the label of facts that speak against a request.
const Careful = "careful"

// StripFacts are the consequences as lines. A mark stands before what speaks against it.
func StripFacts(strip []Consequence) (facts []Fact) {
	for _, c := range strip {
		text := c.Text
		if c.Careful {
			text = "! " + text
		}
		facts = append(facts, Fact{c.Label, text})
	}
	return facts
}

// RowText is a request on one line of a list, without the words that all of them have.
func RowText(a *protocol.Approval) string {
	text := line(a.Description)
	if a.Tool == "shell" {
		return strings.TrimPrefix(text, "Execute: ")
	}
	if isKeep(a) || a.Connector == "" && a.Details["path"] != "" { // a built-in tool says it in words of ours
		return text
	}
	return string(Say("%s: %s", a.Tool, WholeEnd(text)))
}

// Title is the tool and what it says it will do, on one line. A tool that only the agent's runtime has is
// called what that likes.
func Title(a *protocol.Approval) Sentence { return Say("%s: %s", a.Tool, WholeEnd(a.Description)) }

// A Sheet is what is known about a request besides its content. Everything in it is
// escaped.
type Sheet struct {
	// First is who asks, what speaks against it, and what not every request has.
	First []Fact
	// Strip is what it can do at most.
	Strip []Consequence
	// Deciding is the rule that asks, and what else is said about every call.
	Deciding []Fact
	// Depth is the rest of what the sandbox allows and does not, and what to look
	// things up by.
	Depth []Fact
}

// A detail has a name on the wire, and words of ours.
type detail struct {
	key, label string
	say        func(string) string
}

// inDepth are the sections of a profile's explanation, and what runs.
func inDepth() []detail {
	return []detail{
		{"program", "runs", nil},
		{"path", "path", approval.EscapeName},
		{"may write", "may write", func(v string) string { return orElse(v, "nothing") }},
		{"network", "network", sayNetwork},
		{"reads and runs", "reads, runs", nil},
		{"reads", "reads", nil},
		{"runs, unread", "runs only", nil},
		{"but never changes", "protected", nil},
		{"and never sees", "hidden", nil},
		{"has for itself", "its own", nil},
		{"reaches", "reaches", nil},
		{"is given", "secrets", nil},
		{"is told", "variables", nil},
		{"uses at most", "limits", nil},
		{"keeps", "keeps", nil},
		{"undo", "undo", nil},
	}
}

func orElse(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}

func sayNetwork(mode string) string {
	switch mode {
	case "none", "":
		return "none: it cannot connect to anything"
	case "proxied":
		return "to listed hosts only, through the proxy"
	case "host":
		return "all of this machine's, without limits"
	}
	return mode
}

// usual is what is said about every call. The page has it in a fold.
func usual() []detail {
	return []detail{{"ceiling", "ceiling", nil}, {"class", "class", nil}, {"directory", "directory", approval.EscapeName}, {"remembered", "remembered", nil}}
}

// Facts sorts what is known about a request. A detail that this package does not
// know is among the first ones, under its own name: no screen folds it away.
func Facts(a *protocol.Approval) Sheet {
	details := maps.Clone(a.Details)
	delete(details, "plan")    // it is the digest
	delete(details, "outside") // it is among what it reaches
	if details["class"] == details["ceiling"] {
		delete(details, "class") // the ceiling says it
	}
	var s Sheet
	session := Name(string(a.SessionID))
	if a.SessionName != "" {
		session = Name(a.SessionName) + ", " + session
	}
	s.First = []Fact{{"agent", string(Say("%s (session %s)", a.Agent, session))}}
	if a.Connector != "" {
		s.First = append(s.First, Fact{"from", line(a.Connector)})
	}
	if a.Deferred {
		s.First = append(s.First, Fact{"deferred", "the agent does not wait; it must call again after the answer"})
	}
	s.First = append(s.First, say([]detail{{"warnings", Careful, nil}, {"caution", Careful, nil}}, details)...)
	for _, remark := range append(RiskReasons(Risks(a)), remarks(a)...) {
		s.First = append(s.First, Fact{Careful, remark})
	}
	if text := unshown(a); text != "" {
		s.First = append(s.First, Fact{Careful, "not shown on any screen: " + text})
	}
	if text := note(a.Presentation, approval.Literal); text != "" {
		s.First = append(s.First, Fact{Careful, string(Say("%s is part of the text, not a mark by sandgate", text))})
	}
	s.First = append(s.First, notes(a.Presentation)...)
	if by := askedBy(a); by != "" {
		s.Deciding = append(s.Deciding, Fact{"asked by", line(by)})
	}
	delete(details, "rule")
	if dir, ok := details["directory"]; ok && details["program"] != "" {
		details["program"] += " in " + approval.EscapeName(dir)
		delete(details, "directory")
	}
	s.Strip = Strip(a)
	s.Depth = say(inDepth(), details)
	s.Deciding = append(s.Deciding, say(usual(), details)...)
	names := details["changes"]
	delete(details, "changes")
	for _, key := range slices.Sorted(maps.Keys(details)) {
		s.First = append(s.First, other(line(key), line(details[key])))
	}
	s.First = append(s.First, eachLine("changes", names)...)
	for _, m := range []struct {
		label string
		text  json.RawMessage
	}{{"its session", a.SessionMetadata}, {"its call", a.Metadata}} {
		if len(m.text) > 0 && string(m.text) != "null" {
			s.Depth = append(s.Depth, Fact{m.label, "said by the agent: " + line(string(m.text))})
		}
	}
	s.Depth = append(s.Depth, Fact{"plan", line(a.PlanDigest)}, Fact{"request", line(string(a.ID))})
	return s
}

// maxLabel is how wide a label may be, in cells.
const maxLabel = 11

// other is a detail under its own name, if that can be a label.
func other(key, value string) Fact {
	if Width(key) > maxLabel {
		return Fact{"also", key + ": " + value}
	}
	return Fact{key, value}
}

// eachLine is a list of ours, with a fact for each of its lines: a name in it has no break,
// and where a screen breaks one, what follows has no label.
func eachLine(label, list string) (facts []Fact) {
	for one := range strings.Lines(list) {
		facts = append(facts, Fact{label, line(strings.TrimSuffix(one, "\n"))})
	}
	return facts
}

// say takes the details of a table out of values.
func say(table []detail, values map[string]string) (facts []Fact) {
	for _, k := range table {
		v, ok := values[k.key]
		delete(values, k.key)
		if !ok || v == "" && k.say == nil {
			continue
		}
		if k.say != nil {
			v = k.say(v)
		}
		facts = append(facts, Fact{k.label, line(v)})
	}
	return facts
}

// notes are what a tool says about its presentation: that the call will fail, or
// what a write replaces.
func notes(p *approval.Presentation) (facts []Fact) {
	for _, n := range []struct{ key, label string }{{"error", "problem"}, {"note", "note"}, {"replaces", "replaces"}} {
		if text := note(p, n.key); text != "" {
			facts = append(facts, Fact{n.label, line(text)})
		}
	}
	return facts
}

func note(p *approval.Presentation, key string) string {
	if p == nil {
		return ""
	}
	text, _ := p.Metadata[key].(string)
	return text
}

// askedBy is the rule that asks, with why it could not decide alone.
func askedBy(a *protocol.Approval) string {
	var by []string
	if rule := orElse(a.Details["rule"], a.Rule); rule != "" {
		by = append(by, "rule "+rule)
	}
	if a.Cause != "" {
		by = append(by, "cause "+a.Cause)
	}
	if reason := note(a.Presentation, "reason"); reason != "" {
		by = append(by, reason)
	}
	return strings.Join(by, ": ")
}

// Payload is what "the same again" means for a request, on one line.
func Payload(p map[string]any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return "with content that cannot be shown"
	}
	return approval.EscapeLine(strings.TrimSuffix(b.String(), "\n"))
}

// Content is the presentation as it is cut for display, or the payload if there is
// none, escaped. Its runs of blanks are whole: see Blanks.
func Content(a *protocol.Approval) (text string, kind approval.PresentationType) {
	if p := a.Presentation; p != nil {
		return escape(p, p.Content), p.Type
	}
	return Payload(a.Payload), approval.Structured
}

// FullContent is Content before it was cut.
func FullContent(a *protocol.Approval) string {
	if full, cut := fullContent(a); cut {
		return escape(a.Presentation, full)
	}
	text, _ := Content(a)
	return text
}

// IsCut reports whether Content is less than FullContent.
func IsCut(a *protocol.Approval) bool {
	_, cut := fullContent(a)
	return cut
}

// Unshown is what no screen shows of a request, escaped; "" is nothing. However much was read,
// to allow it takes an answer of its own. The question is short, so that there is room for it on
// any screen of 60 columns and 20 lines: what is said about the request has all of it.
func Unshown(a *protocol.Approval) string { return Brief(unshown(a)) }

func unshown(a *protocol.Approval) string {
	if text := note(a.Presentation, approval.Unshown); text != "" {
		return line(text)
	}
	if a.Omitted { // of one that is shown by itself
		return "the rest, which is too long for a message"
	}
	return ""
}

// Language is that of a content, for a colour; "" has none. That of a command is for the very text
// that runs: where lines of ours or of files stand beside it, or characters are shown as others, it
// would be read as another.
func Language(a *protocol.Approval, content string) string {
	if a.Presentation == nil || a.Presentation.Type == approval.Diff {
		return ""
	}
	if command, _ := a.Payload["command"].(string); a.Presentation.Type == approval.Command && content != command {
		return ""
	}
	return a.Presentation.Language
}

// maxThen is how many of the calls that come after a request are shown.
const maxThen = 20

// Then is what comes after a request, escaped, one in a line: the first, each in brief. No answer is about them, each
// asks for itself, and a terminal that broke megabytes of them into lines took no key for a minute.
func Then(a *protocol.Approval) (list []string) {
	for i, next := range a.BatchRemaining {
		if i == maxThen {
			return append(list, fmt.Sprintf("<%d more calls>", len(a.BatchRemaining)-maxThen))
		}
		list = append(list, approval.Brief(next, maxBrief, line))
	}
	return list
}

// Ours reports whether a line of Content is one that sandgate has written between those of texts
// from outside, which stand behind a margin or a bar then.
func Ours(a *protocol.Approval, line string) bool {
	margin := note(a.Presentation, approval.Margin)
	return margin != "" && line != "" && !strings.HasPrefix(line, margin) && !strings.HasPrefix(line, "│")
}

func fullContent(a *protocol.Approval) (string, bool) {
	if a.Presentation == nil {
		return "", false
	}
	full, ok := a.Presentation.Metadata["full_content"].(string)
	return full, ok
}

// escape is for what has been escaped by the supervisor already, if the supervisor
// is ours: it changes nothing then.
func escape(p *approval.Presentation, text string) string {
	return p.Escaped(text)
}

// Essence is what a person has to see before they allow, as plain lines: what could
// happen at most, what is asked for, who asks and what speaks against it, the content as
// it was cut for display, and what comes next. The content stands behind a margin.
func Essence(a *protocol.Approval) string {
	content, _ := Content(a)
	return essence(a, Facts(a), content)
}

// Text is Essence with all the rest that is known. If full is set the content is
// whole.
func Text(a *protocol.Approval, now time.Time, full bool) string {
	content, _ := Content(a)
	if full {
		content = FullContent(a)
	}
	var b strings.Builder
	sheet := Facts(a)
	b.WriteString(essence(a, sheet, content))
	writeFacts(&b, sheet.Depth)
	for _, o := range a.Patterns {
		writeFacts(&b, []Fact{{"pattern", line(fmt.Sprintf("%s: %s=%s", o.Text, o.Kind, o.Value))}})
	}
	writeFacts(&b, []Fact{{"asked", fmt.Sprintf("%s ago; %s left to answer", Span(now.Sub(a.Created)), Span(a.Expires.Sub(now)))}})
	return b.String()
}

func essence(a *protocol.Approval, sheet Sheet, content string) string {
	var b strings.Builder
	writeFacts(&b, StripFacts(sheet.Strip))
	fmt.Fprintln(&b, Title(a))
	writeFacts(&b, sheet.First)
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		text := Blanks(lines[i])
		if n, gap := Gap(lines[i:]); n > 0 {
			text = gap
			i += n - 1
		}
		b.WriteString("  | " + text + "\n")
	}
	writeFacts(&b, sheet.Deciding)
	for i, next := range Then(a) {
		label := ""
		if i == 0 {
			label = "then"
		}
		writeFacts(&b, []Fact{{label, next}})
	}
	return b.String()
}

// Margin begins what continues a line.
const Margin = "  ┆ "

// Fit breaks lines that are wider than width cells. What continues one has a margin:
// left to a terminal or a pager, it would begin where lines of ours do.
func Fit(text string, width int) (lines []string) {
	width = max(width, 2*Width(Margin))
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		n := Fill(line, width)
		lines = append(lines, line[:n])
		if n == len(line) {
			continue
		}
		for _, part := range Wrap(line[n:], width-Width(Margin)) {
			lines = append(lines, Margin+part)
		}
	}
	return lines
}

func writeFacts(b *strings.Builder, facts []Fact) {
	for _, f := range facts {
		fmt.Fprintf(b, "  %-11s %s\n", f.Label, f.Text)
	}
}

// Span is a time as a person counts it: 4:05, or 1h02m. What is over is 0:00.
func Span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}

// Runs of spaces that are longer are counted instead of shown: they push what
// follows them out of sight. Code is indented more than it is spaced.
const (
	maxSpaces = 20
	maxIndent = 60
)

// Blanks shows long runs of spaces in one line as <270 spaces>.
func Blanks(line string) string {
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

// maxBlankLines is how many empty lines in a row are shown.
const maxBlankLines = 3

// Gap reports how many of the first lines are empty and stands for them in words, if
// they are more than are shown: they push what follows out of sight.
func Gap(lines []string) (n int, text string) {
	for n < len(lines) && strings.Trim(lines[n], " ") == "" {
		n++
	}
	if n <= maxBlankLines {
		return 0, ""
	}
	return n, fmt.Sprintf("<%d empty lines>", n)
}
