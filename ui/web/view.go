package web

import (
	"context"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// A row is a request in the list. Every text is escaped; ids are as they are, and
// have no characters that could be escaped.
type row struct {
	ID      protocol.ApprovalID `json:"id"`
	Session protocol.SessionID  `json:"session"`
	Group   string              `json:"group,omitempty"`
	Agent   string              `json:"agent"`
	Title   string              `json:"title"`
	Kind    string              `json:"kind"`              // run, change, use
	Changes bool                `json:"changes,omitempty"` // it can do more than read
	Created int64               `json:"created"`           // Unix time in ms, as all times
	Expires int64               `json:"expires"`
	Turn    uint64              `json:"turn"` // its place in the list
}

func rowOf(a *protocol.Approval) row {
	return row{
		ID: a.ID, Session: a.SessionID, Group: a.GroupID, Agent: string(present.Name(a.Agent)), Title: present.Brief(present.RowText(a)),
		Kind: present.Kind(a), Changes: present.Changes(a), Created: a.Created.UnixMilli(), Expires: a.Expires.UnixMilli(), Turn: a.Turn,
	}
}

// A sheet is all that is shown of one request.
type sheet struct {
	row
	Wants   string                `json:"wants"`           // after the agent's name
	Place   string                `json:"place,omitempty"` // where it would run
	Like    string                `json:"like,omitempty"`  // which request that was withdrawn it looks like
	Careful []string              `json:"careful"`         // what speaks against it
	First   []fact                `json:"first"`
	Strip   []present.Consequence `json:"strip"`
	Why     []fact                `json:"why"`
	Depth   []fact                `json:"depth"`
	Type    string                `json:"type"`              // of the content: diff, command, ...
	Lines   []line                `json:"lines"`             // of the content, as it is cut for display
	Cut     bool                  `json:"cut"`               // there is more than Lines
	Unshown string                `json:"unshown,omitempty"` // what no screen shows
	Then    []string              `json:"then"`
	Args    string                `json:"args,omitempty"` // to start an edit from; "" where none is possible
	Digest  string                `json:"digest"`         // of the plan: an answer to an edit is for that one
	Offers  []offer               `json:"offers"`         // what could be remembered, the very call first
	Rule    string                `json:"rule"`           // to start a rule from, as it is sent back
}

func placeOf(a *protocol.Approval) string {
	if dir := a.Details["directory"]; dir != "" {
		return approval.EscapeName(dir)
	}
	return ""
}

type fact struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// A line is one line of a content, in parts that are coloured. How says what the
// whole line is: of a diff, or words of ours in place of lines.
type line struct {
	How   string `json:"how,omitempty"` // added, removed, head, name, gap
	Parts []part `json:"parts"`
}

type part struct {
	Text string `json:"t"`
	Kind string `json:"k,omitempty"` // comment, string, keyword, operator
	Risk bool   `json:"r,omitempty"`
}

// An offer is something that could be remembered, with what it would cover.
type offer struct {
	Kind  approval.PatternKind `json:"kind"`  // "" is the very call
	Value string               `json:"value"` // as it is sent back
	Text  present.Sentence     `json:"text"`
	// By scope: what would hold from then on.
	Allow map[approval.Scope]present.Sentence `json:"allow"`
	Deny  map[approval.Scope]present.Sentence `json:"deny"`
	// What the answers are called.
	AllowWords string `json:"allow_words"`
	DenyWords  string `json:"deny_words"`
	// Notes are said of allowing it, DenyNotes of denying it.
	Notes     []present.Note `json:"notes"`
	DenyNotes []present.Note `json:"deny_notes"`
}

func sheetOf(ctx context.Context, a *protocol.Approval) sheet {
	text, kind := present.Content(a)
	known := present.Facts(a)
	s := sheet{
		row: rowOf(a), Strip: known.Strip, Why: factsOf(known.Deciding), Depth: factsOf(known.Depth), First: []fact{}, Careful: []string{},
		Place: placeOf(a), Type: string(kind), Cut: present.IsCut(a), Unshown: present.Unshown(a), Then: []string{}, Offers: []offer{},
		Lines: linesOf(a, text, coloured(ctx, a, text), present.Risks(a)),
	}
	s.Rule, s.Digest = approval.EscapeLine(board.RuleFor(a)), a.PlanDigest
	s.Agent, s.Wants = present.Headline(a)
	for _, f := range known.First {
		if f.Label == present.Careful {
			s.Careful = append(s.Careful, f.Text)
		} else if f.Label != "agent" {
			s.First = append(s.First, fact(f))
		}
	}
	s.Then = append(s.Then, present.Then(a)...)
	if len(a.Args) > 0 {
		s.Args = present.Editable(a.Args, true)
	}
	for _, o := range present.Offers(a) {
		s.Offers = append(s.Offers, offerOf(a, o))
	}
	return s
}

func factsOf(list []present.Fact) []fact {
	out := make([]fact, len(list))
	for i, f := range list {
		out[i] = fact(f)
	}
	return out
}

func offerOf(a *protocol.Approval, o approval.Offer) offer {
	view := offer{
		Kind: o.Kind, Value: o.Value, Text: present.End(o.Text),
		Allow: map[approval.Scope]present.Sentence{}, Deny: map[approval.Scope]present.Sentence{},
		AllowWords: present.RememberWordsOf(a, o, false), DenyWords: present.RememberWordsOf(a, o, true),
		Notes: present.OfferNotes(a, o, false), DenyNotes: present.OfferNotes(a, o, true),
	}
	for _, s := range present.Scopes() {
		view.Allow[s.Scope] = present.RememberedSentence(a, o, s.Scope, false)
		view.Deny[s.Scope] = present.RememberedSentence(a, o, s.Scope, true)
	}
	return view
}

func coloured(ctx context.Context, a *protocol.Approval, text string) [][]highlight.Part {
	return highlight.Lines(ctx, present.Language(a, text), text)
}

// maxLine is how many characters of a line are in one piece. What is longer is shown as
// lines that continue it: a browser takes seconds to lay out one of megabytes.
const maxLine = 1000

// linesOf splits an escaped content of a request. Long runs of blanks are counted; a line that has
// one is not coloured or marked, since its parts are of other text.
func linesOf(a *protocol.Approval, text string, colours [][]highlight.Part, risks []present.Risk) []line {
	source := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines := []line{}
	var diff present.DiffReader
	offset := 0
	for i := 0; i < len(source); i++ {
		if n, text := present.Gap(source[i:]); n > 0 {
			lines = append(lines, line{How: "gap", Parts: []part{{Text: text}}})
			for _, blank := range source[i : i+n] {
				offset += len(blank) + 1
			}
			i += n - 1
			continue
		}
		shown := present.Blanks(source[i])
		l := line{Parts: []part{{Text: shown}}}
		switch {
		case a.Presentation != nil && a.Presentation.Type == approval.Diff:
			l.How = diffClasses[diff.Line(shown)]
		case present.Ours(a, source[i]):
			l.How = diffClasses[present.DiffOurs]
		case shown != source[i]:
		default:
			if i < len(colours) {
				if parts := partsOf(colours[i]); textOf(parts) == shown {
					l.Parts = parts
				}
			}
			l.Parts = marked(l.Parts, offset, risks)
		}
		if len(shown) <= maxLine {
			lines = append(lines, l)
		} else {
			lines = append(lines, pieces(l.How, shown)...)
		}
		offset += len(source[i]) + 1
	}
	return lines
}

// pieces are the lines that a long one is shown as.
func pieces(how string, text string) (lines []line) {
	for r := []rune(text); len(r) > 0; r = r[min(maxLine, len(r)):] {
		l := line{How: how, Parts: []part{{Text: string(r[:min(maxLine, len(r))])}}}
		if len(lines) > 0 {
			l.How = strings.TrimSpace(how + " more")
		}
		lines = append(lines, l)
	}
	return lines
}

// marked splits parts, which begin at an offset of the content, where a risk begins or
// ends.
func marked(parts []part, offset int, risks []present.Risk) []part {
	out := []part{} // a list on the wire, never null
	for _, p := range parts {
		cuts := []int{0, len(p.Text)}
		for _, r := range risks {
			for _, at := range []int{r.Start - offset, r.End - offset} {
				if r.End > 0 && at > 0 && at < len(p.Text) {
					cuts = append(cuts, at)
				}
			}
		}
		slices.Sort(cuts)
		for i := 1; i < len(cuts); i++ {
			piece := part{p.Text[cuts[i-1]:cuts[i]], p.Kind, false}
			for _, r := range risks {
				piece.Risk = piece.Risk || r.Start <= offset+cuts[i-1] && offset+cuts[i] <= r.End
			}
			if piece.Text != "" || len(p.Text) == 0 {
				out = append(out, piece)
			}
		}
		offset += len(p.Text)
	}
	return out
}

// diffClasses are the names that page.css has for them.
var diffClasses = map[present.DiffPart]string{
	present.DiffOurs: "name", present.DiffFile: "head", present.DiffPlace: "head", present.DiffAdded: "added", present.DiffRemoved: "removed",
}

func partsOf(list []highlight.Part) []part {
	names := map[highlight.Kind]string{
		highlight.Comment: "comment", highlight.String: "string", highlight.Keyword: "keyword", highlight.Operator: "operator",
	}
	out := make([]part, len(list))
	for i, p := range list {
		out[i] = part{Text: p.Text, Kind: names[p.Kind]}
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
