package rulebook

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// A Suggestion is a rule that the history speaks for.
type Suggestion struct {
	Rule  shell.Rule
	Saved int // questions that a person answered with yes, and that would not have been asked
	// Examples are commands of those, Also commands that the rule would allow too
	// and that nobody was asked about or allowed.
	Examples, Also []string
	Last           time.Time
}

// A Survey has the suggestions from a history.
type Survey struct {
	Suggestions []Suggestion
	Decisions   int // that were looked at
	Skipped     int // that the log does not have whole, or that were too many
}

// What bounds a survey: different commands that are kept, and examples of each
// suggestion.
const (
	maxCommands = 20_000
	maxExamples = 5
)

// Suggest proposes narrow rules from what people were asked about commands. A
// rule is proposed if at least least of its questions were all answered with yes,
// and not a single command that the rule would allow was ever answered with no.
func (b *Book) Suggest(decisions iter.Seq2[history.Decision, error], least int) (Survey, error) {
	w := survey{policy: b.Policy(), seen: map[ranIn]*asked{}}
	for d, err := range decisions {
		if err != nil {
			return Survey{}, err
		}
		w.add(d)
	}
	out := Survey{Decisions: w.decisions, Skipped: w.skipped}
	for _, r := range w.candidates() {
		if w.deaf {
			break
		}
		if s, ok := w.try(r, least); ok {
			out.Suggestions = append(out.Suggestions, s)
		}
	}
	slices.SortFunc(out.Suggestions, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Saved, a.Saved), cmp.Compare(a.Rule.Pattern, b.Rule.Pattern))
	})
	return out, nil
}

// A ranIn is a command and where it ran.
type ranIn struct{ command, dir string }

// asked is how often people answered about one command.
type asked struct {
	yes, no int
	last    time.Time
	asks    bool // the rules of now would ask again
}

type survey struct {
	policy             *shell.Policy
	seen               map[ranIn]*asked
	decisions, skipped int
	deaf               bool // a denial was one too many to keep: then nothing is proposed
}

func (w *survey) add(d history.Decision) {
	if d.Entry.Tool != "shell" {
		return
	}
	w.decisions++
	call := tools.Call{Args: d.Args}
	at := ranIn{call.String("command"), call.String("dir")}
	answered, allowed := d.Asked()
	allowed = answered && allowed
	denied := !allowed && d.Answered() && d.Record.Action.State() != "approved"
	known := w.seen[at]
	switch {
	case d.Unfit != "" || at.command == "":
		w.skipped++
		return
	case at.dir != "" && !denied:
		w.skipped++ // in another directory a command may mean other paths
		return
	case known == nil && len(w.seen) >= maxCommands && (!denied || len(w.seen) >= 2*maxCommands):
		w.skipped++
		w.deaf = w.deaf || denied // no number of other commands hides a denial
		return
	case known == nil:
		known = &asked{asks: w.policy.Decide(at.command, "bash").Effect == tools.Ask}
		w.seen[at] = known
	}
	switch {
	case allowed:
		known.yes, known.last = known.yes+1, d.Entry.Time
	case denied:
		known.no++
	}
}

// candidates are the rules that are offered for a command that was allowed.
func (w *survey) candidates() []shell.Rule {
	var list []shell.Rule
	found := map[string]bool{} // an exact rule is another one
	for at, a := range w.seen {
		if a.yes == 0 || a.no > 0 {
			continue
		}
		for _, r := range w.policy.Offer(at.command) {
			if key := fmt.Sprint(r.Exact, r.Pattern); !found[key] {
				found[key] = true
				list = append(list, r)
			}
		}
	}
	return list
}

// try holds one rule against everything that was seen.
func (w *survey) try(r shell.Rule, least int) (Suggestion, bool) {
	with, err := w.policy.With(r)
	if err != nil {
		return Suggestion{}, false
	}
	s := Suggestion{Rule: r, Examples: []string{}, Also: []string{}}
	first, _, _ := strings.Cut(r.Pattern, " ")
	for at, a := range w.seen {
		if !a.asks || !mayName(at.command, first) || with.Decide(at.command, "bash").Effect != tools.Allow {
			continue
		}
		switch {
		case a.no > 0:
			return s, false
		case a.yes > 0:
			s.Saved += a.yes
			s.Examples = append(s.Examples, at.command)
			s.Last = later(s.Last, a.last)
		default:
			s.Also = append(s.Also, at.command)
		}
	}
	s.Examples, s.Also = some(s.Examples), some(s.Also)
	return s, s.Saved >= least
}

// unquoted removes what can stand in the middle of a word and is no part of it.
var unquoted = strings.NewReplacer("\\\n", "", "\\", "", "'", "", `"`, "", "$", "")

// mayName reports whether a command may have a plain word: quoted or not, g\it is git. It is cheaper than a decision.
func mayName(command, word string) bool {
	return strings.Contains(command, "$'") || strings.Contains(unquoted.Replace(command), word)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func some(list []string) []string {
	slices.Sort(list)
	return list[:min(len(list), maxExamples)]
}
