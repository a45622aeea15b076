package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Source names the step of the order of a decision. A call that cannot be decided on at
// all (its payload is not JSON, its session is not open) is refused before the first
// step, as SourceInvalid.
type Source string

const (
	SourceInvalid         Source = "invalid_call"
	SourceBlocked         Source = "blocked"
	SourceDenyRule        Source = "deny_rule"
	SourceUnknownTool     Source = "unknown_tool"
	SourceRememberedDeny  Source = "remembered_deny"
	SourceBatch           Source = "batch"
	SourceDeferred        Source = "deferred"
	SourceNotNeeded       Source = "not_needed"
	SourceMode            Source = "mode"
	SourceRememberedAllow Source = "remembered_allow"
	SourceAllowRule       Source = "allow_rule"
	SourceDenialCache     Source = "denial_cache"
	SourceAsk             Source = "ask"
)

// A question is one call with what every step needs to know about it.
type question struct {
	call        Call
	mode        Mode
	session     *session
	fingerprint Fingerprint // only if call.Request is not nil
	payload     string      // canonical JSON
	policy      Effect      // what the tool policy says
	cause       string      // why a person is asked although the tool does not ask
	// patterns are all that would cover an element of the call.
	patterns []candidate
	// denials are fingerprints under which a denial holds besides.
	denials []Fingerprint
}

// A candidate is a pattern that may have been remembered.
type candidate struct {
	pattern     Pattern
	fingerprint Fingerprint
}

// findPatterns counts out what could cover the call.
func (q *question) findPatterns() {
	seen := map[Pattern]bool{}
	for _, e := range q.call.Reach.Elements {
		for _, p := range e.covering() {
			if !seen[p] {
				seen[p] = true
				q.patterns = append(q.patterns, candidate{p, p.fingerprint(q.call.Connector, q.call.ToolName)})
				q.denials = append(q.denials, q.denialsOf(p)...)
			}
		}
	}
}

// denialsOf are the fingerprints of p under other connectors, and for other tools: a whole
// tool is that one alone.
func (q *question) denialsOf(p Pattern) (list []Fingerprint) {
	tools := []string{q.call.ToolName}
	if p.Kind != WholeTool {
		tools = append(tools, q.call.Reach.Tools...)
	}
	for i, connector := range append([]string{q.call.Connector}, q.call.DenialsOf...) {
		for j, tool := range tools {
			if i+j > 0 && (j == 0 || tool != q.call.ToolName) {
				list = append(list, p.fingerprint(connector, tool))
			}
		}
	}
	return list
}

// same is under what a denial of the very call is remembered, if other tools do the same.
func (q *question) same(connector, same string) (f Fingerprint, ok bool) {
	if same == "" {
		return Fingerprint{}, false
	}
	f, _, err := fingerprint(connector, "", map[string]any{"same": same, "tools": strings.Join(q.call.Reach.Tools, " ")})
	return f, err == nil
}

func (q *question) key(s Scope, e Effect, f Fingerprint) Key {
	k := Key{Scope: s, Effect: e, Fingerprint: f}
	switch s {
	case Session:
		k.Holder = q.call.SessionID
	case Agent:
		k.Holder = q.call.Agent
	}
	return k
}

// A verdict is the decision of one step. The zero verdict denies.
type verdict struct {
	effect   Effect
	action   Action
	source   Source
	scope    Scope
	reject   RejectMode
	rule     string
	reason   string
	approver string
	feedback string

	code  Code
	hint  string
	cause error

	// memories were remembered and are now used; deferred is the approval that is, and
	// approved what it was of.
	memories []Memory
	deferred *deferred
	approved *outcome
	// edited is set if the approver changed the call.
	edited    json.RawMessage
	pattern   *Pattern
	interrupt bool
	// requestID is set where a request was made, and ended before it waited.
	requestID string
}

// order is the order of a decision: the first step that has an opinion decides.
// When none has, a person is asked. doc.go has the same table in words.
//
// Permanent denials come before anything that allows. The denial cache comes last: it only
// spares people the same question twice.
var order = [...]struct {
	source Source
	decide func(*Controller, *question) *verdict
}{
	{SourceBlocked, (*Controller).blocked},
	{SourceDenyRule, (*Controller).denyRule},
	{SourceUnknownTool, (*Controller).unknownTool},
	{SourceRememberedDeny, (*Controller).rememberedDeny},
	{SourceBatch, (*Controller).batchRejected},
	{SourceDeferred, (*Controller).byDeferred},
	{SourceNotNeeded, (*Controller).notNeeded},
	{SourceMode, (*Controller).byMode},
	{SourceRememberedAllow, (*Controller).rememberedAllow},
	{SourceAllowRule, (*Controller).allowRule},
	{SourceDenialCache, (*Controller).denialCache},
}

// evaluate walks the order. It returns nil when a person must be asked.
func (c *Controller) evaluate(q *question) *verdict {
	for _, step := range order {
		if v := step.decide(c, q); v != nil {
			v.source = step.source
			return v
		}
	}
	return nil
}

func (c *Controller) blocked(q *question) *verdict {
	if q.call.Err == nil {
		return nil
	}
	v := &verdict{action: BlockedAction, code: CodeBlocked, cause: q.call.Err}
	var b *Blocked
	switch {
	case !errors.As(q.call.Err, &b):
		v.reason = "the tool's check failed: " + q.call.Err.Error()
	case b == nil: // a typed nil: the tool said no and not why
		v.reason, v.cause = "the tool gave no reason", nil
	default:
		v.reason, v.rule, v.hint = b.Reason, b.Rule, b.Hint
	}
	return v
}

func (c *Controller) denyRule(q *question) *verdict {
	r, ok := c.rules().Match(Deny, q.call)
	if !ok {
		return nil
	}
	return &verdict{
		action: Denied, code: CodeDenied, rule: r.String(), reason: because("denied by rule "+r.String(), r.Reason),
		hint: "A standing rule forbids this tool; do not try it again.",
	}
}

func (c *Controller) allowRule(q *question) *verdict {
	if q.call.Changed || q.call.Reach.Exact != "" {
		return nil
	}
	call := q.call
	call.ByFullName = call.Reach.Single != "" || c.opts.Tools.dangerous(call.ToolName)
	r, ok := c.rules().Match(Allow, call)
	if !ok {
		return nil
	}
	return &verdict{effect: Allow, action: Approved, rule: r.String(), reason: because("allowed by rule "+r.String(), r.Reason)}
}

// verdictLeft refuses what its caller will ask a person about.
func verdictLeft(q *question) *verdict {
	return &verdict{
		action: LeftToCaller, source: SourceAsk, code: CodeDeferred, reject: RejectSoft,
		reason: "a person must approve this: " + q.call.Request.Description, hint: "Ask the user of the program that makes the call.",
	}
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// remembered lists the live answers of an effect that may speak about the call:
// of its payload first, the narrower scope before the wider.
func (c *Controller) remembered(q *question, e Effect) ([]Memory, error) {
	if q.call.Request == nil && len(q.patterns)+len(q.denials) == 0 {
		return nil, nil
	}
	list, err := q.session.memory.Lookup(q.keys(e, Session)...)
	if err != nil {
		return nil, err
	}
	scopes := []Scope{Agent, Global}
	if q.call.Agent == "" {
		scopes = scopes[1:]
	}
	stored, err := c.opts.Store.Lookup(q.keys(e, scopes...)...)
	if err != nil {
		return nil, err
	}
	if list = append(list, stored...); len(list) == 0 {
		return nil, nil
	}
	now := c.opts.Now()
	return slices.DeleteFunc(list, func(m Memory) bool { return !m.live(now) }), nil
}

// keys are all under which an answer to the call may be remembered.
func (q *question) keys(e Effect, scopes ...Scope) []Key {
	keys := make([]Key, 0, len(scopes)*(1+len(q.patterns)))
	for _, s := range scopes {
		if q.call.Request != nil {
			keys = append(keys, q.key(s, e, q.fingerprint))
		}
		for _, p := range q.patterns {
			keys = append(keys, q.key(s, e, p.fingerprint))
		}
		if e != Deny {
			continue
		}
		for _, f := range q.denials {
			keys = append(keys, q.key(s, e, f))
		}
	}
	return keys
}

func (c *Controller) storeOf(q *question, s Scope) Store {
	if s == Session {
		return q.session.memory
	}
	return c.opts.Store
}

// rememberedDeny needs no more than one: also a pattern that covers one element
// of the call denies all of it.
func (c *Controller) rememberedDeny(q *question) *verdict {
	found, err := c.remembered(q, Deny)
	if err != nil {
		return verdictStore(err)
	}
	if len(found) == 0 {
		return nil
	}
	m := found[0]
	return &verdict{
		action: Denied, code: CodeDenied, scope: m.Key.Scope, reject: RejectSoft, rule: m.ID,
		approver: m.Approver, feedback: m.Feedback, memories: found[:1], pattern: m.Pattern,
		reason: because(fmt.Sprintf("denied for this %s by %s", scopeWord(m.Key.Scope), m.Approver), patternWord(m)),
		hint:   withFeedback("The user has denied this permanently; do not try it again.", m.Feedback),
	}
}

func patternWord(m Memory) string {
	if m.Pattern == nil {
		return ""
	}
	return m.Pattern.Text()
}

// rememberedAllow takes the narrowest answer to this very call, or else as many
// patterns, of the narrowest scopes, as leave nothing to be asked about.
func (c *Controller) rememberedAllow(q *question) *verdict {
	found, err := c.remembered(q, Allow)
	if err != nil {
		return verdictStore(err)
	}
	found = slices.DeleteFunc(found, func(m Memory) bool { return !m.holds(q.call) })
	var covering []Memory
	var patterns []Pattern
	for i, m := range found {
		if m.Pattern == nil {
			return verdictRemembered(found[i : i+1])
		}
		covering, patterns = append(covering, m), append(patterns, *m.Pattern)
		last := i == len(found)-1 || found[i+1].Key.Scope != m.Key.Scope
		if last && q.call.Reach.left(patterns) == 0 {
			return verdictRemembered(q.call.Reach.needed(covering))
		}
	}
	return nil
}

// needed leaves out memories that the others do without, so that a use is counted
// where there was one.
func (r Reach) needed(covering []Memory) []Memory {
	for i := len(covering) - 1; i >= 0 && len(covering) > 1; i-- {
		rest := slices.Delete(slices.Clone(covering), i, i+1)
		var patterns []Pattern
		for _, m := range rest {
			patterns = append(patterns, *m.Pattern)
		}
		if r.left(patterns) == 0 {
			covering = rest
		}
	}
	return covering
}

// verdictRemembered allows by answers; the last of them has the widest scope.
func verdictRemembered(used []Memory) *verdict {
	m := used[len(used)-1]
	v := &verdict{
		effect: Allow, action: Approved, scope: m.Key.Scope, rule: m.ID,
		approver: m.Approver, feedback: m.Feedback, memories: used, pattern: m.Pattern,
		reason: because(fmt.Sprintf("allowed for this %s by %s", scopeWord(m.Key.Scope), m.Approver), patternWord(m)),
	}
	if m.Key.Scope == Session {
		v.action = SessionApproved
	}
	for _, other := range used[:len(used)-1] {
		v.rule += " " + other.ID
	}
	return v
}

func scopeWord(s Scope) string {
	if s == Global {
		return "whole installation"
	}
	return string(s)
}

func (c *Controller) batchRejected(q *question) *verdict {
	if q.call.BatchID == "" {
		return nil
	}
	c.mu.Lock()
	d, ok := q.session.rejected[q.call.BatchID]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return &verdict{
		action: Denied, code: CodeDenied, reject: RejectHard, approver: d.Approver, feedback: d.Feedback,
		reason:    fmt.Sprintf("the rest of the batch was rejected by %s", d.Approver),
		hint:      withFeedback(rejectHint(RejectHard, d.Interrupt), d.Feedback),
		interrupt: d.Interrupt,
	}
}

func (c *Controller) notNeeded(q *question) *verdict {
	if q.call.Request != nil {
		return nil
	}
	return &verdict{effect: Allow, action: NotNeeded, reason: "the tool needs no approval"}
}

func (c *Controller) byMode(q *question) *verdict {
	switch q.mode {
	case ApproveAll:
		return &verdict{effect: Allow, action: Approved, reason: "mode approve_all"}
	case Interactive:
		return nil
	}
	return &verdict{
		action: Denied, code: CodeDenied, reason: "mode strict: calls that need approval are denied",
		hint: "Only calls that need no approval run here.",
	}
}

func (c *Controller) denialCache(q *question) *verdict {
	c.mu.Lock()
	cached, ok := q.session.denied[q.fingerprint]
	c.mu.Unlock()
	if !ok || !c.opts.Now().Before(cached.until) {
		return nil
	}
	d := cached.decision
	return &verdict{
		action: Denied, code: CodeDenied, reject: RejectSoft, approver: d.Approver, feedback: d.Feedback,
		reason: fmt.Sprintf("denied by %s at %s; not asking again for %s", d.Approver, d.Time.Format(time.TimeOnly), c.opts.DenyCache),
		hint:   withFeedback("The user has just denied this; do not try it again.", d.Feedback),
	}
}

func rejectHint(m RejectMode, interrupt bool) string {
	switch {
	case interrupt:
		return "The user stopped you. End your turn now, and wait for the user."
	case m == RejectSoft:
		return "The user rejected this call. Go on without it."
	case m == RejectExplain:
		return "Not run. Explain to the user why this call is needed, then make it again."
	}
	return "The user rejected this call and the rest of its batch. Stop, and wait for the user."
}

func withFeedback(hint, feedback string) string {
	if strings.TrimSpace(feedback) == "" {
		return hint
	}
	return hint + " Feedback: " + feedback
}

func verdictInvalid(err error) *verdict {
	v := &verdict{action: Denied, source: SourceInvalid, code: CodeDenied, reason: err.Error(), cause: err}
	if errors.Is(err, errSessionClosed) {
		v.action, v.code = Dismissed, CodeCancelled
	}
	return v
}

func verdictStore(err error) *verdict {
	return &verdict{
		action: Denied, code: CodeDenied, cause: err,
		reason: fmt.Sprintf("the remembered answers cannot be read: %v", err),
		hint:   "This is a problem with the installation, not with the call; tell the user.",
	}
}

func verdictSessionClosed(id string) *verdict {
	return &verdict{
		action: Dismissed, source: SourceAsk, code: CodeCancelled, cause: errSessionClosed,
		reason: fmt.Sprintf("session %q was closed", id),
	}
}

func verdictCancelled(cause error) *verdict {
	return &verdict{
		action: Dismissed, source: SourceAsk, code: CodeCancelled, cause: cause,
		reason: "the call was cancelled before anyone answered",
	}
}

func verdictTimeout(d time.Duration, problem error) *verdict {
	v := &verdict{
		action: TimedOut, source: SourceAsk, code: CodeTimeout, reason: fmt.Sprintf("no answer within %s", d),
		hint: "No one answered. Continue without this call, or ask the user when they are back.",
	}
	if problem != nil {
		v.reason += fmt.Sprintf(" (prompter: %v)", problem)
	}
	return v
}

func verdictNoApprover(problem error) *verdict {
	v := &verdict{
		action: Denied, source: SourceAsk, code: CodeNoApprover, reason: "no approver is connected",
		hint: "No one can approve calls now; only calls that need no approval can run.",
	}
	if problem != nil {
		v.reason += fmt.Sprintf(" (prompter: %v)", problem)
	}
	return v
}

func verdictRateLimit(r PromptRate) *verdict {
	return &verdict{
		action: Denied, source: SourceAsk, code: CodeLimit,
		reason: fmt.Sprintf("too many approval requests: this session may make %d at once and then one every %s", r.Burst, r.Every),
		hint:   "Slow down, and make fewer calls that need approval.",
	}
}

func verdictDismissed(approver string) *verdict {
	return &verdict{
		action: Dismissed, source: SourceAsk, code: CodeDenied, approver: approver,
		reason: "dismissed without a decision by " + approver,
		hint:   "The user closed the request without deciding. Ask the user before you try it again.",
	}
}

// covering says what an answer covers beyond the call that it was given for.
func covering(a Answer, covers string) string {
	if a.Pattern != nil {
		covers = a.Pattern.Text()
	}
	if a.Scope == Once || covers == "" {
		return ""
	}
	return because(" for this "+scopeWord(a.Scope), covers)
}

func verdictAnswer(a Answer, covers string) *verdict {
	v := &verdict{source: SourceAsk, scope: a.Scope, approver: a.Approver, feedback: a.Feedback, pattern: a.Pattern, edited: a.Args}
	if a.Allow {
		v.effect, v.action, v.reason = Allow, Approved, "approved by "+a.Approver+covering(a, covers)
		if a.Args != nil {
			v.reason += ", who edited the arguments"
		}
		return v
	}
	v.action, v.reject, v.code, v.interrupt = Denied, a.Reject, CodeDenied, a.Interrupt
	v.reason = because("rejected by "+a.Approver, a.Feedback)
	v.hint = withFeedback(rejectHint(a.Reject, a.Interrupt), a.Feedback)
	return v
}

func verdictJournal(err error) *verdict {
	return &verdict{
		action: Denied, source: SourceAsk, code: CodeDenied, cause: err,
		reason: fmt.Sprintf("the request cannot be saved, so no one is asked: %v", err),
		hint:   "This is a problem with the installation, not with the call; tell the user.",
	}
}
