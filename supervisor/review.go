package supervisor

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
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/mcphost"
)

// What is reviewed runs on a draft: another supervisor, in a mount namespace where an overlay
// lies over all that calls may write, takes its calls on the whole path. It plans and carries
// out; what it decides about is decided here, as of any call of the session. Once it has ended a
// person says what of the draft is kept.

// A Draft is a supervisor that works on a draft. All of it is for one session or one call.
type Draft interface {
	// ID is what people call it.
	ID() string
	// Copied says, where calls work on a copy, of what, and where it lies; "" is an overlay.
	Copied() string
	// Of is what a path of the draft is called in the workspace: another name, if calls work on
	// a copy where it lies.
	Of(path string) string
	// Open opens the one session that there is. Whatever is decided in it, d decides.
	Open(ctx context.Context, p protocol.SessionOpen, d Decider) error
	Call(ctx context.Context, req protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error)
	Check(ctx context.Context, req protocol.ToolsCall) (protocol.CheckResult, error)
	Tools(ctx context.Context) (protocol.ToolsList, error)
	// End ends the supervisor and all of its calls, and says what the draft has in it.
	End() (DraftChanges, error)
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

// DraftChanges are what keeping a draft would do.
type DraftChanges struct {
	Names   int
	Summary string // how many, and which, one in a line
	Diff    string
	Unshown string // what of it Diff does not show; "" is nothing
	Copied  string // that the draft is a copy, and why; "" is an overlay
	Digest  string // of all of it
	// Part are those at or below some names, each of which has to have some.
	Part func(names []string) (DraftChanges, error)
}

// digestOf is the SHA-256 of a value's JSON, whose keys come out sorted.
func digestOf(v any) string {
	sum := sha256.Sum256(must.JSON(v))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// toolReview is under which name the question about a draft is asked.
const toolReview = "review"

// everything is the name that stands for all of a draft.
const everything = "."

// beginDraft starts a draft for a session of p.
func (s *Supervisor) beginDraft(ctx context.Context, x *session) (Draft, error) {
	if s.cfg.BeginDraft == nil {
		return nil, protocol.Errorf(protocol.CodeSandboxUnavailable, "it has to be reviewed, and this command makes no drafts by itself").
			WithHint("`sandgate run --review` runs a command on a draft; `sandgate serve` makes them for its agents")
	}
	if err := s.refuseUnconfined(); err != nil {
		return nil, failure.Wire(err)
	}
	d, err := s.cfg.BeginDraft(ctx)
	if err != nil {
		return nil, noDraft(err)
	}
	if err := d.Open(ctx, protocol.SessionOpen{Agent: x.agent, Mode: x.mode, Metadata: x.metadata}, draftDecider{s.cfg.MCP.Approved, s, x, d}); err != nil {
		defer d.Close()
		_, ended := d.End()
		return nil, noDraft(errors.Join(err, ended, d.Drop()))
	}
	return d, nil
}

func noDraft(err error) error {
	e := protocol.Errorf(protocol.CodeSandboxUnavailable, "review: no draft could be made: %v", err)
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		e.HintText = hinted.Hint()
	}
	return e
}

// onceOnDraft: a yes to what is in no workspace before somebody keeps it must not hold for the
// same words where they change the workspace, and the draft's supervisor knows better than we
// do what the call starts.
const onceOnDraft = "a call on a draft is answered by itself"

// A draftDecider decides about the calls of one draft, in the session that they are made in:
// what was denied there, what was remembered, and what a batch has come to hold for them. An
// answer to one holds for that call. What was remembered before holds on drafts too: they do less.
type draftDecider struct {
	mcphost.Definitions
	s     *Supervisor
	x     *session
	draft Draft
}

func (d draftDecider) Decide(ctx context.Context, q approval.Call) (approval.Decision, error) {
	grant, err := d.s.cfg.Approvals.Decide(ctx, d.ours(q))
	return grant.Decision(), err
}

func (d draftDecider) Check(q approval.Call) (approval.Verdict, error) {
	return d.s.cfg.Approvals.Check(d.ours(q)), nil
}

func (d draftDecider) Recorded(requestID string) error { return d.s.cfg.Approvals.Recorded(requestID) }

// ours is a call of the draft as one of the session.
func (d draftDecider) ours(q approval.Call) approval.Call {
	x := d.x
	q.SessionID, q.Agent, q.Peer, q.SessionName, q.SessionMetadata = string(x.id), x.agent, x.peer.String(), x.name, x.metadata
	q.Mode = stricter(x.mode, q.Mode)
	q.ByItself = onceOnDraft
	for _, e := range q.Reach.Elements { // a denial knows what they are of; an allow needs both
		if of := d.draft.Of(e.Name); of != e.Name {
			e.Name = of
			q.Reach.Elements = append(slices.Clip(q.Reach.Elements), e)
		}
	}
	of := func(form string) string {
		if same, dir, ok := strings.Cut(form, "\x00"); ok {
			return same + "\x00" + d.draft.Of(dir)
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
			all["draft"] = "works on draft " + d.draft.ID() + ": nothing of what it writes is in the workspace before it is kept; what it sends is sent"
			if copied := d.draft.Copied(); copied != "" {
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

// inDraft has a call of a session that is reviewed carried out by its draft's supervisor, which
// records it.
func (s *Supervisor) inDraft(ctx context.Context, c *call, d Draft) (protocol.CallResult, error) {
	if err := c.awaitTurn(ctx); err != nil {
		return protocol.CallResult{}, s.end(c, err)
	}
	r, err := d.Call(ctx, c.req, c.notify)
	if copied := d.Copied(); copied != "" {
		r.Warnings = append(r.Warnings, copied)
	}
	c.session.count(err)
	return r, err
}

// rejected is what an error of a draft's call means for the rest of its batch.
func rejected(err error) (approval.Decision, error) {
	var e *protocol.Error
	if !errors.As(err, &e) || e.Decision == nil {
		return approval.Decision{}, err
	}
	d := approval.Decision{Reject: e.Decision.Mode, Interrupt: e.Decision.Interrupt, Approver: e.Decision.Approver}
	return d, &approval.DeniedError{Decision: d}
}

// errReview says of a call that a draft's supervisor is to decide about it and carry it out.
var errReview = errors.New("supervisor: bug: a call that is reviewed was carried out without a draft")

func notOnDraft(what string) error {
	return protocol.Errorf(protocol.CodeDenied, "it has to be reviewed, and %s runs on no draft", what).
		WithHint("call it in a session that was opened with review")
}

// reviewed takes one call on a draft of its own, and has a person look at what it changed
// before the call is answered.
func (s *Supervisor) reviewed(ctx context.Context, c *call) (protocol.CallResult, error) {
	d, err := s.beginDraft(ctx, c.session)
	if err != nil {
		return protocol.CallResult{}, s.end(c, s.record(c, err))
	}
	r, err := s.inDraft(ctx, c, d)
	said := s.review(ctx, c.session, d)
	if err != nil {
		return r, err
	}
	r.Warnings = append(r.Warnings, said)
	return r, nil
}

// review ends a draft and asks what of it is kept. It says what became of it.
func (s *Supervisor) review(ctx context.Context, x *session, d Draft) string {
	defer d.Close()
	found, err := d.End()
	if err != nil {
		return approval.EscapeLine(fmt.Sprintf("draft %s is not in the workspace; `sandgate review` has it: %v", d.ID(), err))
	}
	if found.Names == 0 {
		if err := d.Drop(); err != nil {
			return approval.EscapeLine(err.Error())
		}
		return "nothing was changed, and nothing is to be kept"
	}
	said, err := s.settle(ctx, x, d, found)
	if err != nil {
		s.reviewFailed(x, d, err)
		said = fmt.Sprintf("draft %s is not in the workspace; `sandgate review` has it: %v", d.ID(), err)
	}
	return approval.EscapeLine(said)
}

// reviewFailed has the log say why a draft is left: whoever allowed the keep would take it for
// done, and the agent may be gone. The keeps that failed last are said in status, too.
func (s *Supervisor) reviewFailed(x *session, d Draft, err error) {
	var denied *approval.DeniedError
	if errors.As(err, &denied) { // nobody has allowed it
		return
	}
	text := fmt.Sprintf("what draft %s changed is not in the workspace: %v", d.ID(), err)
	_ = s.append(context.WithoutCancel(s.ctx), audit.Record{ // the answer is in the log already
		Kind: audit.KindRefused, Session: string(x.id), Agent: x.agent, Tool: toolReview,
		Data: history.EndEntry{Error: protocol.Errorf(protocol.CodeDenied, "%s", text).WithHint("`sandgate review` has it")},
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unkept = append(s.unkept, text+"; `sandgate review` has it")
	s.unkept = s.unkept[max(len(s.unkept)-maxUnkept, 0):]
}

func (s *Supervisor) failedKeeps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unkept)
}

// maxUnkept is how many keeps that failed status speaks of.
const maxUnkept = 4

// settle asks about a draft and does what the answer says. Where nobody has answered, the draft
// stays.
func (s *Supervisor) settle(ctx context.Context, x *session, d Draft, found DraftChanges) (string, error) {
	id := "review-" + d.ID() // the session that it comes from may be over
	if err := s.cfg.Approvals.OpenSession(id); err != nil {
		return "", err
	}
	defer s.cfg.Approvals.CloseSession(id)
	found.Copied = d.Copied()
	q, err := keepQuestion(d.ID(), found, []string{everything})
	if err != nil {
		return "", err
	}
	q.SessionID, q.Agent, q.Peer, q.SessionName, q.SessionMetadata = id, x.agent, x.peer.String(), x.name, x.metadata
	q.Mode = stricter(x.mode, approval.Interactive) // nobody has looked at it yet
	grant, err := s.cfg.Approvals.Decide(ctx, q)
	decision := decisionOf(grant, err)
	if logErr := s.logAnswer(q.Request.Description, nil, decision); err == nil {
		err = logErr
	}
	if err != nil {
		if decision.Action == approval.Denied && decision.Source == approval.SourceAsk && decision.Approver != "" {
			return fmt.Sprintf("a person dropped what was changed (%s): the workspace is as it was. %s", counted(found.Names), decision.Feedback), d.Drop()
		}
		return "", err
	}
	names, ok := grant.Subject().([]string)
	if !ok {
		return "", errors.New("supervisor: bug: an answer about a draft that names nothing")
	}
	if err := d.Keep(names); err != nil {
		return "", err
	}
	if !slices.Contains(names, everything) {
		return fmt.Sprintf("a person kept some of what was changed, and dropped the rest: %v", names), nil
	}
	return fmt.Sprintf("a person kept what was changed (%s): it is in the workspace now", counted(found.Names)), nil
}

func counted(n int) string {
	if n == 1 {
		return "1 name"
	}
	return fmt.Sprintf("%d names", n)
}

// keepQuestion asks whether names of a draft are kept. An approver who wants less of it edits
// the names.
func keepQuestion(draft string, found DraftChanges, names []string) (approval.Call, error) {
	args, err := json.Marshal(map[string]any{"keep": names})
	if err != nil {
		return approval.Call{}, err
	}
	payload := map[string]any{"draft": draft, "changes": found.Digest, "keep": names}
	return approval.Call{
		ToolName: toolReview,
		Request: &approval.Request{
			ToolName: toolReview, Description: "Keep what draft " + draft + " changed: " + counted(found.Names), Payload: payload,
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
			q, err := keepQuestion(draft, part, edited.Keep)
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

// withinDraft refuses a profile that would let a call of a draft write past it: that would be
// in the workspace, or somewhere else, before anybody has looked at it.
func (s *Supervisor) withinDraft(p sandboxprofile.Profile) error {
	if s.cfg.DraftOver == nil {
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		if p.Paths[path]&sandboxprofile.Write == 0 || slices.Contains(p.Scratch, path) {
			continue
		}
		if !slices.ContainsFunc(s.cfg.DraftOver, func(root string) bool { return sandboxprofile.Contains(root, path) }) {
			return protocol.Errorf(protocol.CodeDenied, "the draft does not lie over %s, which this call may write", path).
				WithHint("work in the workspace, or without review")
		}
	}
	return nil
}

// draftOf is the draft of a session, or nil.
func (s *Supervisor) draftOf(id protocol.SessionID) Draft {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[id]; x != nil {
		return x.draft
	}
	return nil
}

// reviewSession ends the draft of a session that is over, and has a person asked about it: not
// the agent waits for that, and not whoever closes the session.
func (s *Supervisor) reviewSession(x *session) {
	s.reviews.Go(func() { _ = s.review(s.ctx, x, x.draft) })
}
