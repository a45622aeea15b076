package present

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// A Choice is an answer to one request, with the words and the key that it has on every
// screen. No word of a denial can be read as one of allowing.
type Choice struct {
	Key   string `json:"key"`
	Words string `json:"words"`
	Title string `json:"title"` // what it does, in a few more words
	// Writes: a text for the model is taken first.
	Writes    bool                `json:"writes,omitempty"`
	Decision  protocol.Verdict    `json:"decision"`
	Mode      approval.RejectMode `json:"mode,omitempty"`
	Interrupt bool                `json:"interrupt,omitempty"`
}

// Decide is the answer to a request, with a text for the model if there is one.
func (c Choice) Decide(id protocol.ApprovalID, text string) protocol.ApprovalsDecide {
	d := protocol.ApprovalsDecide{ID: id, Decision: c.Decision, Mode: c.Mode, Interrupt: c.Interrupt, Feedback: strings.TrimSpace(text)}
	if c.Decision == protocol.Allow {
		d.Scope = approval.Once
	}
	return d
}

// The two answers that stand on every screen, apart from each other. The third is to
// remember one: see Scopes.
var (
	Deny      = Choice{Key: "N", Words: "Deny", Title: "this call and the rest of its batch", Decision: protocol.Deny, Mode: approval.RejectHard}
	AllowOnce = Choice{Key: "y", Words: "Allow once", Title: "this call, this once", Decision: protocol.Allow}
)

// The keys that lead to more answers, with their words.
const (
	RememberKey   = "r"
	RememberWords = "Remember..."
	DenialsKey    = "o"
	DenialsWords  = "Other denials..."
)

// Denials are the other ways to deny.
func Denials() []Choice {
	return []Choice{
		{Key: "t", Words: "Deny with a reason", Title: "the model sees what you write", Writes: true, Decision: protocol.Deny, Mode: approval.RejectHard},
		{Key: "x", Words: "Deny and ask why", Title: "the model must explain, and may ask again", Writes: true, Decision: protocol.Deny, Mode: approval.RejectExplain},
		{Key: "n", Words: "Deny only this call", Title: "the rest of its batch continues", Decision: protocol.Deny, Mode: approval.RejectSoft},
		{Key: "i", Words: "Deny and stop", Title: "the agent must end its turn", Decision: protocol.Deny, Mode: approval.RejectHard, Interrupt: true},
		{Key: "d", Words: "Deny undecided", Title: "refuse the call now; not counted as a denial", Decision: protocol.Dismiss},
	}
}

// Choices are all answers that a single key can give.
func Choices() []Choice { return append([]Choice{Deny, AllowOnce}, Denials()...) }

// A ScopeChoice is how long and for whom an answer is remembered.
type ScopeChoice struct {
	Key   string         `json:"key"`
	Words string         `json:"words"`
	Scope approval.Scope `json:"scope"`
}

// Scopes are those in which an answer can be remembered, the narrowest first.
func Scopes() []ScopeChoice {
	return []ScopeChoice{
		{"s", "in this session", approval.Session},
		{"a", "always, for this agent", approval.Agent},
		{"g", "always, for every agent", approval.Global},
	}
}

// ScopeOf is the scope that a key names; "" is none.
func ScopeOf(key string) approval.Scope {
	i := slices.IndexFunc(Scopes(), func(s ScopeChoice) bool { return s.Key == key })
	if i < 0 {
		return ""
	}
	return Scopes()[i].Scope
}

// ThisCall is the offer to remember the very call of a request.
func ThisCall(a *protocol.Approval) approval.Offer {
	what := "exactly this call"
	if covers := a.Details["remembered"]; covers != "" {
		what = strings.TrimPrefix(covers, "a remembered answer covers ")
	}
	return approval.Offer{Text: what + ": " + subject(a), Whole: true}
}

// Offers are what can be remembered of a request, the very call first. Of some it is nothing. An offer without a
// kind is the very call.
func Offers(a *protocol.Approval) []approval.Offer {
	if isKeep(a) { // each draft is looked at by itself
		return nil
	}
	return append([]approval.Offer{ThisCall(a)}, a.Patterns...)
}

// subject is what a request is about, in as few words as name it.
func subject(a *protocol.Approval) string {
	if p := a.Presentation; p != nil && p.Type == approval.Command && !strings.Contains(strings.TrimSpace(p.Content), "\n") {
		return strings.TrimSpace(p.Content)
	}
	return string(Title(a))
}

// onceOnly reports whether an offer is the call itself, and allowing that is never remembered.
func onceOnly(a *protocol.Approval, o approval.Offer, denied bool) bool {
	return a.Once != "" && o.Kind == "" && !denied
}

// RememberWordsOf are those of the answer that an offer is remembered with.
func RememberWordsOf(a *protocol.Approval, o approval.Offer, denied bool) string {
	switch {
	case denied:
		return "Deny and remember"
	case onceOnly(a, o, denied):
		return AllowOnce.Words
	}
	return "Allow and remember"
}

// RememberedSentence says what holds from now on if an offer is remembered. What is remembered ends
// it, and a pattern is there whole: its end says how far it reaches.
func RememberedSentence(a *protocol.Approval, o approval.Offer, s approval.Scope, denied bool) Sentence {
	if onceOnly(a, o, denied) {
		return Say("Nothing is remembered: this exact call can only be allowed once. Reason: %s", WholeEnd(a.Once))
	}
	what := WholeEnd(o.Text)
	if o.Kind == "" { // that it is seen before an answer counts is asked for of the request
		what = End(o.Text)
	}
	return Say("From now on %s, %s: %s", effectWords(a.Tool, o.Kind, denied), whoever(a.Agent, s), what)
}

// AnswerSentence says what a remembered answer does.
func AnswerSentence(r protocol.RememberedAnswer) Sentence {
	what, kind := r.Text, approval.PatternKind("")
	if r.Pattern != nil {
		kind = r.Pattern.Kind
	}
	if what == "" {
		what = r.Description
	}
	return Say("%s, %s: %s", effectWords(r.Tool, kind, r.Decision != protocol.Allow), whoever(r.Holder, r.Scope), WholeEnd(what))
}

// effectWords say what an answer does to calls of a tool, and what it is not bound to.
func effectWords(tool protocol.ToolName, kind approval.PatternKind, denied bool) Sentence {
	switch {
	case denied:
		return Say("%s is refused without asking", tool)
	case kind == approval.ArgvPrefix:
		return Say("%s runs without asking, even if the files that it starts have changed", tool)
	}
	return Say("%s runs without asking", tool)
}

// whoever says for whom an answer counts, and until when.
func whoever(agent string, s approval.Scope) Sentence {
	switch s {
	case approval.Agent:
		return Say("whenever the agent %s asks, until you remove it", agent)
	case approval.Global:
		return "whichever agent asks, until you remove it"
	}
	return "until this session ends"
}
