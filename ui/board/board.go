// Package board is everything that an operator looks at beside the requests: what the
// agents did and changed, sessions, rules, remembered answers, the quarantine and the state
// of the supervisor; and what they can do about it.
//
//	s := board.New(approver, board.Stores{Quarantine: quarantine, Changes: changes})
//	b, err := s.Load(ctx, board.Rules)
//	said, err := s.Do(ctx, board.Act{Do: "rule.remove", Target: "deny-push"})
//
// The web page and the screen of `sandgate approve` draw the same boards, so that a thing
// has one name and one sentence. Every text in a board is escaped; what is sent back in an
// Act is as it was.
package board

import (
	"context"
	"fmt"
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

// A Board is one of them as it is now.
type Board struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Sections []Section `json:"sections"`
}

// A Section is a list with a heading.
type Section struct {
	Heading present.Sentence `json:"heading"`
	Empty   present.Sentence `json:"empty,omitempty"` // what is said if there is nothing
	Items   []Item           `json:"items"`
	Actions []Action         `json:"actions,omitempty"`
}

// An Item is one line, with a fainter one below it.
type Item struct {
	Text    present.Sentence `json:"text"`
	Under   present.Sentence `json:"under,omitempty"`
	Careful bool             `json:"careful,omitempty"`
	Actions []Action         `json:"actions,omitempty"`
}

// An Action is a button. What ends or loosens something is asked about in a sentence
// first, and in a second one if the first leaves out a part of what it names; what needs a text
// takes it in a line.
type Action struct {
	Act
	Words string           `json:"words"`
	Sure  present.Sentence `json:"sure,omitempty"`
	Again present.Sentence `json:"again,omitempty"`
	Label string           `json:"label,omitempty"` // of the line that takes Text; "" is none
	Hint  string           `json:"hint,omitempty"`
}

// Asked is what is asked about next once a person has said yes, or nil: it is done.
func (a Action) Asked() *Action {
	if a.Again == "" {
		return nil
	}
	a.Sure, a.Again = a.Again, ""
	return &a
}

// An Act is what a person does on a board.
type Act struct {
	Do     string `json:"do"`
	Target string `json:"target,omitempty"`
	Text   string `json:"text,omitempty"`
	// Yes is the sentence of the Question that the person has answered with yes.
	Yes present.Sentence `json:"yes,omitempty"`
}

// A Question is what Do answers in place of doing an act that lasts and begins as a line of
// text: its action is the act, with the sentence that has to stand in front of the person
// first. Enter ends a line, and may be the end of a text that was meant for something else.
type Question struct{ Action }

func (q Question) Error() string { return "confirm first: " + string(q.Sure) }

// sure is a Question unless its very sentence has been answered.
func (a Act) sure(words string, sentence present.Sentence) error {
	if a.Yes == sentence {
		return nil
	}
	a.Yes = sentence
	return Question{Action{Act: a, Words: words, Sure: sentence}}
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

// Load makes a board.
func (s *Source) Load(ctx context.Context, name string) (Board, error) {
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
		sections[i].Items = append([]Item{}, sections[i].Items...) // a list on the wire, never null
	}
	return Board{name, one.title, sections}, err
}

// Do carries an act out, and says what came of it. The error may be a Question.
func (s *Source) Do(ctx context.Context, a Act) (present.Sentence, error) {
	acts := map[string]func(context.Context, Act) (present.Sentence, error){
		"call.kill":     s.kill,
		"session.end":   s.end,
		"rule.add":      s.addRule,
		"rule.edit":     s.editRule,
		"rule.remove":   s.removeRule,
		"rule.test":     s.testRules,
		"rule.try":      s.tryRule,
		"rules.reload":  s.reload,
		"answer.forget": s.forget,
		"changes.undo":  s.undo,
		"kept.restore":  s.restore,
		"kept.drop":     s.drop,
	}
	do, ok := acts[a.Do]
	if !ok {
		return "", fmt.Errorf("there is no action named %q", a.Do)
	}
	return do(ctx, a)
}
