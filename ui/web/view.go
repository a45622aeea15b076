package web

import (
	"context"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// A row is a request in the list. Every text is escaped; ids are as they are, and
// have no characters that could be escaped.
type row struct {
	ID      protocol.ApprovalID `json:"id"`
	Session protocol.SessionID  `json:"session"`
	Group   string              `json:"group,omitempty"`
	Tool    string              `json:"tool"`
	Agent   string              `json:"agent"`
	Title   string              `json:"title"`
	Created int64               `json:"created"` // Unix time in ms, as all times
	Expires int64               `json:"expires"`
}

func rowOf(a *protocol.Approval) row {
	return row{
		ID: a.ID, Session: a.SessionID, Group: a.GroupID,
		Tool: approval.EscapeLine(string(a.Tool)), Agent: approval.EscapeLine(a.Agent), Title: present.Title(a),
		Created: a.Created.UnixMilli(), Expires: a.Expires.UnixMilli(),
	}
}

// A sheet is all that is shown of one request.
type sheet struct {
	row
	First    []fact            `json:"first"`
	Deciding []fact            `json:"deciding"`
	Depth    []fact            `json:"depth"`
	Kind     string            `json:"kind"`  // of the content: diff, command, ...
	Lines    []line            `json:"lines"` // of the content, as it is cut for display
	Cut      bool              `json:"cut"`   // there is more than Lines
	Then     []string          `json:"then,omitempty"`
	Args     string            `json:"args,omitempty"` // to start an edit from; "" where none is possible
	Lasting  map[string]string `json:"lasting"`        // by scope: what allowing for good would cover
	Patterns []offer           `json:"patterns,omitempty"`
}

type fact struct {
	Label   string `json:"label"`
	Text    string `json:"text"`
	Careful bool   `json:"careful,omitempty"`
}

// A line is one line of a content, in parts that are coloured. How says what the
// whole line is: of a diff, or words of ours in place of lines.
type line struct {
	How   string `json:"how,omitempty"` // added, removed, head, gap
	Parts []part `json:"parts"`
}

type part struct {
	Text string `json:"t"`
	Kind string `json:"k,omitempty"` // comment, string, keyword, operator
}

// An offer is a pattern that could be remembered, with what it would cover.
type offer struct {
	Kind  approval.PatternKind `json:"kind"`
	Value string               `json:"value"` // as it is sent back
	Text  string               `json:"text"`
	// By decision and scope: what would hold from then on.
	Allow map[string]string `json:"allow"`
	Deny  map[string]string `json:"deny"`
	// Notes are said of allowing it, DenyNotes of denying it.
	Notes     []string `json:"notes"`
	DenyNotes []string `json:"deny_notes"`
}

// scopes are those that an answer can be remembered in.
func scopes() []approval.Scope {
	return []approval.Scope{approval.Session, approval.Agent, approval.Global}
}

func sheetOf(ctx context.Context, a *protocol.Approval) sheet {
	text, kind := present.Content(a)
	known := present.Facts(a)
	s := sheet{
		row: rowOf(a), First: factsOf(known.First), Deciding: factsOf(known.Deciding), Depth: factsOf(known.Depth),
		Kind: string(kind), Lines: linesOf(text, kind, coloured(ctx, a, text)), Cut: present.IsCut(a), Lasting: map[string]string{},
	}
	for _, next := range a.BatchRemaining {
		s.Then = append(s.Then, approval.EscapeLine(next))
	}
	if len(a.Args) > 0 {
		s.Args = present.Editable(a.Args, true)
	}
	for _, scope := range scopes() {
		s.Lasting[string(scope)] = strings.Join(present.Lasting(a, scope), "; ")
	}
	for _, o := range a.Patterns {
		s.Patterns = append(s.Patterns, offerOf(a, o))
	}
	return s
}

func factsOf(list []present.Fact) []fact {
	out := make([]fact, len(list))
	for i, f := range list {
		out[i] = fact{f.Label, f.Text, f.Label == present.Careful}
	}
	return out
}

func offerOf(a *protocol.Approval, o approval.Offer) offer {
	view := offer{
		Kind: o.Kind, Value: o.Value, Text: approval.EscapeLine(o.Text),
		Allow: map[string]string{}, Deny: map[string]string{},
		Notes: present.OfferNotes(o, false), DenyNotes: present.OfferNotes(o, true),
	}
	for _, s := range scopes() {
		view.Allow[string(s)] = present.LastingPattern(a, o, s, false)
		view.Deny[string(s)] = present.LastingPattern(a, o, s, true)
	}
	return view
}

func coloured(ctx context.Context, a *protocol.Approval, text string) [][]highlight.Part {
	if a.Presentation == nil || a.Presentation.Type == approval.Diff {
		return nil
	}
	return highlight.Lines(ctx, a.Presentation.Language, text)
}

// linesOf splits an escaped content. Long runs of blanks are counted; a line that has
// one is not coloured, since its parts are of other text.
func linesOf(text string, kind approval.PresentationType, colours [][]highlight.Part) []line {
	source := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var lines []line
	var diff present.DiffReader
	for i := 0; i < len(source); i++ {
		if n, text := present.Gap(source[i:]); n > 0 {
			lines = append(lines, line{How: "gap", Parts: []part{{Text: text}}})
			i += n - 1
			continue
		}
		shown := present.Blanks(source[i])
		l := line{Parts: []part{{Text: shown}}}
		if kind == approval.Diff {
			l.How = diffClasses[diff.Line(shown)]
		} else if i < len(colours) {
			if parts := partsOf(colours[i]); textOf(parts) == shown {
				l.Parts = parts
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// diffClasses are the names that page.css has for them.
var diffClasses = map[present.DiffPart]string{
	present.DiffFile: "head", present.DiffPlace: "head", present.DiffAdded: "added", present.DiffRemoved: "removed",
}

func partsOf(list []highlight.Part) []part {
	names := map[highlight.Kind]string{
		highlight.Comment: "comment", highlight.String: "string", highlight.Keyword: "keyword", highlight.Operator: "operator",
	}
	out := make([]part, len(list))
	for i, p := range list {
		out[i] = part{p.Text, names[p.Kind]}
	}
	return out
}

func textOf(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
