// Package board is everything that an operator looks at beside the requests: what the
// agents did and changed, sessions, rules, remembered answers, the quarantine and the state
// of the supervisor; and what they can do about it.
//
//	v := board.New(approver, board.Stores{Quarantine: quarantine, Changes: changes}).View(time.Now)
//	b, err := v.Load(ctx, board.Look{Name: board.Rules})
//	said, err := v.Do(ctx, board.Act{Shown: b.Sections[0].Items[0].Actions[0].Shown})
//
// The web page and the screen of `sandgate approve` draw the same boards, so that a thing
// has one name and one sentence. Every text in a board is escaped. What a person can do is
// done through a View, which holds each act to the row that stood in front of them: see view.go.
package board

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// The boards.
const (
	Activity   = "activity"
	Sessions   = "sessions"
	Rules      = "rules"
	Remembered = "remembered"
	Changes    = "changes"
	Quarantine = "quarantine"
	Status     = "status"
)

// Names are the boards in the order of their tabs.
func Names() []string {
	return []string{Activity, Sessions, Rules, Remembered, Changes, Quarantine, Status}
}

// A Board is one of them as it is now, or as it was when a person turned to it.
type Board struct {
	Name     string           `json:"name"`
	Title    string           `json:"title"`
	Version  int64            `json:"version"`        // another one for each list that differs
	News     present.Sentence `json:"news,omitempty"` // how the list differs by now
	Sections []Section        `json:"sections"`
}

// A Section is a list with a heading.
type Section struct {
	Heading present.Sentence `json:"heading"`
	Empty   present.Sentence `json:"empty,omitempty"` // what is said if there is nothing
	Items   []Item           `json:"items"`
	Actions []Action         `json:"actions,omitempty"`
}

// maxRows is how many items of a section a screen gets: agents and tools decide how many there are, and each is
// compared, sent and drawn every few seconds.
const maxRows = 1000

// bound leaves out what is too much, and says so.
func (s *Section) bound() {
	if n := len(s.Items) - maxRows; n > 0 {
		s.Items = append(s.Items[:maxRows:maxRows], Item{Text: present.Say("%d more are not listed here.", n), Careful: true})
	}
}

// An Item is one line, with fainter ones below it.
type Item struct {
	ID      string           `json:"id"` // of what it is about
	Text    present.Sentence `json:"text"`
	Under   present.Sentence `json:"under,omitempty"`
	Now     present.Sentence `json:"now,omitempty"` // what changes by itself, such as a time; no act is held to it
	Careful bool             `json:"careful,omitempty"`
	Actions []Action         `json:"actions,omitempty"`

	whole present.Sentence // Text with nothing left out, if that differs: the end of each question
}

// An Action is a button. What needs a text takes it in a line.
type Action struct {
	Do    string `json:"do"`    // its kind
	Shown string `json:"shown"` // this action of this row as it is shown: what an Act names
	Words string `json:"words"`
	Label string `json:"label,omitempty"` // of the line that takes a text; "" is none
	Hint  string `json:"hint,omitempty"`
	Text  string `json:"text,omitempty"` // in the line at first

	// An action either reads, or asks. One that does neither is refused.
	reads bool
	asks  func(text string) ([]present.Sentence, error) // questions, each answered with yes before it is done
	state any                                           // what else must be as it was when it was shown
	do    func(ctx context.Context, text string) (present.Sentence, error)
}

// sure asks one question, whatever the text.
func sure(questions ...present.Sentence) func(string) ([]present.Sentence, error) {
	return func(string) ([]present.Sentence, error) { return slices.Clone(questions), nil }
}

// done is an action that takes no text and has one thing to say.
func done(said present.Sentence, do func(context.Context) error) func(context.Context, string) (present.Sentence, error) {
	return func(ctx context.Context, _ string) (present.Sentence, error) { return said, do(ctx) }
}

// An Approver is what the boards are made from; *client.Approver is one.
type Approver interface {
	Audit(context.Context, protocol.AuditQuery) (protocol.AuditEntries, error)
	Calls(context.Context) ([]protocol.CallInfo, error)
	Kill(ctx context.Context, id string) error
	Sessions(context.Context) ([]protocol.SessionInfo, error)
	CloseSession(context.Context, protocol.SessionID) (protocol.SessionClosed, error)
	Rules(context.Context) (protocol.RulesList, error)
	AddRule(context.Context, protocol.RuleSpec) (protocol.Rule, error)
	ReplaceRule(ctx context.Context, id string, r protocol.RuleSpec, seen *protocol.RuleSpec) (protocol.Rule, error)
	RemoveRule(ctx context.Context, id string, seen *protocol.RuleSpec) (protocol.Rule, error)
	TryRule(context.Context, protocol.RulesTry) (protocol.RulesTried, error)
	TestRules(context.Context, protocol.RulesTest) (protocol.RulesTested, error)
	SuggestRules(context.Context, protocol.RulesSuggest) (protocol.RulesSuggested, error)
	Remembered(context.Context) ([]protocol.RememberedAnswer, error)
	Forget(ctx context.Context, id string) error
	Status(context.Context) (protocol.Status, error)
	Reload(context.Context) (protocol.Reloaded, error)
}

// A Kept is one thing in the quarantine.
type Kept struct {
	Item  string // the item's id
	Entry int    // of the item
	Path  string // where it was
	Why   string
	Call  string
	Taken time.Time
}

// A Store is the quarantine.
type Store interface {
	List() ([]Kept, error)
	Restore(item string, entry int) error
	Drop(item string) error
}

// A Changed is a call that changed files.
type Changed struct {
	ID        string // of its record
	Workspace string
	Session   string
	Agent     string
	Tool      string
	What      string // in words
	Ended     time.Time
	Files     []File
	With      int  // calls at the same time
	Undo      bool // it is an undo itself
	Undone    bool
}

// A File is what became of a name.
type File struct {
	Sign string // + made, ~ changed, - removed
	Path string
	Was  string // its name before, if it had another
}

func (f File) text() present.Sentence {
	if f.Was != "" {
		return present.Say("%s %s (was %s)", f.Sign, f.Path, f.Was)
	}
	return present.Say("%s %s", f.Sign, f.Path)
}

// Undoer has what calls changed, and puts it back.
type Undoer interface {
	// Changed lists calls, the latest first.
	Changed() ([]Changed, error)
	// Undo puts back what these calls of one workspace changed, or nothing of it.
	Undo(workspace string, ids []string) (said present.Sentence, err error)
}

// Stores are directories of this user, and no part of the operator socket. nil is one that
// is not to be had.
type Stores struct {
	Quarantine Store
	Changes    Undoer
}

// A Source makes boards.
type Source struct {
	approver   Approver
	quarantine Store
	changes    Undoer
	now        func() time.Time
}

// New makes a source.
func New(a Approver, s Stores) *Source { return &Source{a, s.Quarantine, s.Changes, time.Now} }

// load makes a board.
func (s *Source) load(ctx context.Context, name string) (Board, error) {
	load := map[string]struct {
		title    string
		sections func(context.Context) ([]Section, error)
	}{
		Activity:   {"Activity", s.activity},
		Sessions:   {"Sessions", s.sessions},
		Rules:      {"Rules", s.rules},
		Remembered: {"Remembered answers", s.remembered},
		Changes:    {"Changes", s.changed},
		Quarantine: {"Quarantine", s.kept},
		Status:     {"Status", s.status},
	}
	one, ok := load[name]
	if !ok {
		return Board{}, fmt.Errorf("no board has the name %q", name)
	}
	sections, err := one.sections(ctx)
	for i := range sections {
		sections[i].bound()
	}
	b := Board{Name: name, Title: one.title, Sections: sections}
	b.bind()
	return b, err
}
