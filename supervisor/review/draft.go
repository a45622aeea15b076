package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/mcphost"
)

// A Draft is a supervisor that works on a draft. All of it is for one session or one call.
type Draft interface {
	// ID is its name for people.
	ID() string
	// Copied says, where calls work on a copy, of what, and where it lies; "" is an overlay.
	Copied() string
	// Of is the name of a draft's path in the workspace: a different one, if calls work on a
	// copy where it lies.
	Of(path string) string
	// Open opens the one session that there is. Whatever is decided in it, d decides.
	Open(ctx context.Context, p protocol.SessionOpen, d Decider) error
	Call(ctx context.Context, req protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error)
	Check(ctx context.Context, req protocol.ToolsCall) (protocol.CheckResult, error)
	Tools(ctx context.Context) (protocol.ToolsList, error)
	// End ends the supervisor and all of its calls, and says what the draft has in it.
	End() (Changes, error)
	// Keep puts what the draft has at or below these names into the workspace, and forgets
	// the draft. Nothing of it is done where something was changed since.
	Keep(names []string) error
	Drop() error
	// Close leaves a draft that is still there to people.
	Close()
}

// A Decider decides in the place of a draft's supervisor, which knows neither what people have
// answered nor which tools they have let through.
type Decider interface {
	approval.Outer
	mcphost.Definitions
}

// Changes are the effects of keeping a draft.
type Changes struct {
	Names   int
	Summary string // how many, and which, one in a line
	Diff    string
	Unshown string // what of it Diff does not show; "" is nothing
	Copied  string // that the draft is a copy, and why; "" is an overlay
	Digest  string // of all of it
	// Part are those at or below some names, each of which has to have some.
	Part func(names []string) (Changes, error)
}

// digestOf is the SHA-256 of a value's JSON, whose keys come out sorted.
func digestOf(v any) string {
	sum := sha256.Sum256(must.JSON(v))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Tool is under which name the question about a draft is asked.
const Tool = "review"

// Everything is the name that stands for all of a draft.
const Everything = "."

func NoDraft(err error) error {
	e := protocol.Errorf(protocol.CodeSandboxUnavailable, "review: no draft could be made: %v", err)
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		e.HintText = hinted.Hint()
	}
	return e
}

// An Asker is a session, as questions have it.
type Asker struct {
	SessionID, Agent, Peer, Name string
	Metadata                     json.RawMessage
	Mode                         approval.Mode
}

// Asks is a question as one of the session.
func (a Asker) Asks(q approval.Call) approval.Call {
	q.SessionID, q.Agent, q.Peer, q.SessionName, q.SessionMetadata = a.SessionID, a.Agent, a.Peer, a.Name, a.Metadata
	return q
}

// onceOnDraft: a yes to a change that is in no workspace before somebody keeps it must not
// apply to the same words where they change the workspace. The draft's supervisor knows better
// than we do what the call starts.
const onceOnDraft = "a call on a draft is answered by itself"

// A Deciding decides about the calls of one draft, in the session that they are made in:
// what was denied there, what was remembered, and what a batch has come to hold for them. An
// answer to one holds for that call. What was remembered before holds on drafts too: they do less.
type Deciding struct {
	mcphost.Definitions
	Approvals *approval.Controller
	// Of is the session.
	Of    Asker
	Draft Draft
}

func (d Deciding) Decide(ctx context.Context, q approval.Call) (approval.Decision, error) {
	grant, err := d.Approvals.Decide(ctx, d.ours(q))
	return grant.Decision(), err
}

func (d Deciding) Check(q approval.Call) (approval.Verdict, error) {
	return d.Approvals.Check(d.ours(q)), nil
}

func (d Deciding) Recorded(requestID string) error { return d.Approvals.Recorded(requestID) }

// ours is a call of the draft as one of the session.
func (d Deciding) ours(q approval.Call) approval.Call {
	q = d.Of.Asks(q)
	q.Mode = bounds.Stricter(d.Of.Mode, q.Mode)
	q.ByItself = onceOnDraft
	for _, e := range q.Reach.Elements { // a denial knows what they are of; an allow needs both
		if of := d.Draft.Of(e.Name); of != e.Name {
			e.Name = of
			q.Reach.Elements = append(slices.Clip(q.Reach.Elements), e)
		}
	}
	of := func(form string) string {
		if same, dir, ok := strings.Cut(form, "\x00"); ok {
			return same + "\x00" + d.Draft.Of(dir)
		}
		return form
	}
	q.Reach.Same, q.Reach.Inside = of(q.Reach.Same), slices.Clone(q.Reach.Inside)
	for i, form := range q.Reach.Inside {
		q.Reach.Inside[i] = of(form)
	}
	if details := q.Details; details != nil {
		q.Details = func() map[string]string {
			all := maps.Clone(details())
			if all == nil {
				all = map[string]string{}
			}
			all["draft"] = "works on draft " + d.Draft.ID() + ": what it writes reaches the workspace only when it is kept; what it sends cannot be taken back"
			if copied := d.Draft.Copied(); copied != "" {
				all["draft"] += "; " + copied
			}
			return all
		}
	}
	if revise := q.Revise; revise != nil {
		q.Revise = func(args json.RawMessage) (approval.Call, error) {
			revised, err := revise(args)
			return d.ours(revised), err
		}
	}
	return q
}

// Rejected says what an error of a draft's call means for the rest of its batch.
func Rejected(err error) (approval.Decision, error) {
	var e *protocol.Error
	if !errors.As(err, &e) || e.Decision == nil {
		return approval.Decision{}, err
	}
	d := approval.Decision{Reject: e.Decision.Mode, Interrupt: e.Decision.Interrupt, Approver: e.Decision.Approver}
	return d, &approval.DeniedError{Decision: d}
}

func Counted(n int) string {
	if n == 1 {
		return "1 name"
	}
	return fmt.Sprintf("%d names", n)
}

// Question asks whether names of a draft are kept. An approver who wants less of it edits
// the names.
func Question(draft string, found Changes, names []string) (approval.Call, error) {
	args, err := json.Marshal(map[string]any{"keep": names})
	if err != nil {
		return approval.Call{}, err
	}
	payload := map[string]any{"draft": draft, "changes": found.Digest, "keep": names}
	return approval.Call{
		ToolName: Tool,
		Request: &approval.Request{
			ToolName: Tool, Description: "Keep what draft " + draft + " changed: " + Counted(found.Names), Payload: payload,
			Once: "each draft is looked at by itself",
		},
		Reach:  approval.Reach{Single: "each draft is looked at by itself"}, // so no wildcard of a rule covers it
		Digest: digestOf(payload), Subject: names, Args: args,
		Revise: func(args json.RawMessage) (approval.Call, error) {
			var edited struct {
				Keep []string `json:"keep"`
			}
			if err := json.Unmarshal(args, &edited); err != nil || len(edited.Keep) == 0 {
				return approval.Call{}, errors.New(`write {"keep": ["NAME", ...]}; "." is all of it`)
			}
			part, err := found.Part(edited.Keep)
			if err != nil {
				return approval.Call{}, err
			}
			part.Part, part.Copied = found.Part, found.Copied
			q, err := Question(draft, part, edited.Keep)
			if err == nil && part.Names < found.Names {
				q.Request.Description += ", and drop the other " + strconv.Itoa(found.Names-part.Names)
			}
			return q, err
		},
		Present: func(context.Context) (*approval.Presentation, error) {
			p := &approval.Presentation{Type: approval.Diff, Content: found.Diff}
			if found.Unshown != "" {
				p.Metadata = map[string]any{approval.Unshown: found.Unshown}
			}
			return p, nil
		},
		Details: func() map[string]string {
			details := map[string]string{"changes": found.Summary, "draft": "allow keeps it, deny drops it; what was sent to others is sent"}
			if found.Copied != "" {
				details["copy"] = found.Copied
			}
			return details
		},
	}, nil
}

// Within refuses a profile that would let a call of a draft write past it: that would be
// in the workspace, or somewhere else, before anybody has looked at it.
func Within(over []string, p sandboxprofile.Profile) error {
	if over == nil {
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		if p.Paths[path]&sandboxprofile.Write == 0 || slices.Contains(p.Scratch, path) {
			continue
		}
		if !slices.ContainsFunc(over, func(root string) bool { return sandboxprofile.Contains(root, path) }) {
			return protocol.Errorf(protocol.CodeDenied, "the draft does not cover %s, which this call may write", path).
				WithHint("work in the workspace, or without review")
		}
	}
	return nil
}
