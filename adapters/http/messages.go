package httpgate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// The bridge for approvals as messages of a conversation: each request is an assistant's
// call of the function client.requestApproval, and is answered in words.

const (
	idPrefix     = "approval_"
	codeNoAnswer = protocol.Code("no_answer")
)

// A message is as OpenAI's chat protocol has them.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // function
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// requestArguments are those of client.requestApproval.
type requestArguments struct {
	OriginalToolCall struct {
		Name protocol.ToolName `json:"name"`
		Args json.RawMessage   `json:"args"`
	} `json:"originalToolCall"`
	Message string   `json:"message"`
	Options []string `json:"options"`
	about
	shows
}

// The options, which also name how a request ended.
const (
	optDeny    = "deny"
	optOnce    = "approve_once"
	optSession = "approve_session"
)

func messageOf(ctx context.Context, p *client.Approver, e client.Event) any {
	id := idPrefix + string(e.Approval.ID)
	switch e.Kind {
	case client.Requested:
		var args requestArguments
		args.OriginalToolCall.Name = e.Approval.Tool
		var shown protocol.Approval
		args.OriginalToolCall.Args, shown, _ = inputOf(ctx, p, e.Approval)
		args.about, args.shows = aboutOf(e.Approval), showsOf(shown)
		args.Message = fmt.Sprintf("%s (agent %s): %s", approval.EscapeName(string(e.Approval.Tool)), approval.EscapeName(e.Approval.Agent), approval.EscapeLine(e.Approval.Description))
		args.Options = []string{optDeny, optOnce, optSession}
		text, err := json.Marshal(args)
		if err != nil {
			return nil
		}
		return message{Role: "assistant", ToolCalls: []toolCall{{ID: id, Type: "function", Function: functionCall{"client.requestApproval", string(text)}}}}
	case client.Resolved:
		return message{Role: "tool", ToolCallID: id, Content: optionOf(e.Decision)}
	}
	return nil
}

// optionOf is a decision as one of the options.
func optionOf(d *approval.Decision) string {
	switch {
	case d == nil || !allowed(d):
		return optDeny
	case d.Scope == approval.Once || d.Scope == "":
		return optOnce
	}
	return optSession
}

// said takes an answer in words. It is for one request that is pending now, named by
// its id. The words may come from anyone who has the token, but never from an agent:
// agents' messages do not come here.
func (s *Server) said(w http.ResponseWriter, r *http.Request) {
	var m message
	if !readJSON(w, r, &m) {
		return
	}
	if len(m.ToolCalls) > 0 || m.Role != "user" && m.Role != "tool" {
		writeProblem(w, noAnswer("an answer must have the role user or tool"))
		return
	}
	id, err := idOf(m)
	var unsure error // whether words without an id are for this request, or for one before it
	if err == nil && id == "" {
		id, unsure, err = s.onlyOne(r.Context(), m.Content)
	}
	if err != nil {
		writeProblem(w, err)
		return
	}
	var option string
	err = s.answer(r.Context(), protocol.ApprovalID(id), func(a protocol.Approval) (d protocol.ApprovalsDecide, err error) {
		option, err = inWords(m.Content, nameOf(a), a.Agent, idPrefix+id)
		if err == nil && option != optDeny && unsure != nil {
			err = unsure
		}
		switch option {
		case optDeny:
			d = protocol.ApprovalsDecide{Decision: protocol.Deny, Mode: approval.RejectSoft}
		case optOnce:
			d = protocol.ApprovalsDecide{Decision: protocol.Allow, Scope: approval.Once}
		case optSession:
			d = protocol.ApprovalsDecide{Decision: protocol.Allow, Scope: approval.Session}
		}
		return d, err
	})
	if err != nil {
		writeProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ok": true, "decision": option})
}

// stood is how long a request must have waited before words without its id can be meant
// for it: a person cannot read it and write an answer faster.
const stood = time.Second

// recently is for how many times stood words that allow may still be about a request that
// has ended.
const recently = 60

// onlyOne is the request that words without an id are for: they name its tool, and it is
// the only one of that tool, and of the agent if they name one, that waits. It is unsure
// where another such request has ended lately: the words may have been written for that.
// Then they can deny, and not allow.
func (s *Server) onlyOne(ctx context.Context, text string) (id string, unsure, err error) {
	p, err := s.cfg.Approver(ctx)
	if err != nil {
		return "", nil, err
	}
	defer p.Close()
	waiting, err := p.List(ctx)
	if err != nil {
		return "", nil, err
	}
	said, agent := namesIn(text)
	var meant []protocol.Approval
	for _, a := range waiting {
		if said[nameOf(a)] && (agent == "" || agent == a.Agent) {
			meant = append(meant, a)
		}
	}
	switch {
	case len(meant) == 0:
		return "", nil, noAnswer("name the tool of a pending request, or give the request's id as tool_call_id")
	case len(meant) > 1:
		return "", nil, noAnswer(fmt.Sprintf("%d requests of %q are pending: give the id of one as tool_call_id", len(meant), meant[0].Tool))
	case time.Since(meant[0].Created) < s.stood:
		return "", nil, noAnswer("that request arrived only just now: look at it first, or give its id as tool_call_id")
	}
	log, err := p.Audit(ctx, protocol.AuditQuery{Tool: meant[0].Tool, Agent: agent, Kinds: []string{"decision", "answer"}, Since: time.Now().Add(-recently * s.stood), Limit: 1000})
	if err != nil {
		return "", nil, err
	}
	for _, e := range log.Entries {
		var d struct{ Decision approval.Decision }
		if json.Unmarshal(e.Data, &d) != nil || d.Decision.Approver != "" || d.Decision.Action == approval.Dismissed || d.Decision.Action == approval.TimedOut {
			unsure = noAnswer(fmt.Sprintf("another request of %q ended just now: to allow this one, give its id as tool_call_id", meant[0].Tool))
		}
	}
	if log.More && unsure == nil {
		unsure = noAnswer("too many calls ended just now: to allow this one, give its id as tool_call_id")
	}
	return string(meant[0].ID), unsure, nil
}

// nameOf is the word for a request's tool; "" is none. The tools of an agent's runtime and of MCP servers have the
// names that those choose: a tool called "never" would take that word out of a person's answer. So only what is not a
// word of a language is one of theirs.
func nameOf(a protocol.Approval) string {
	if a.Connector != "" && !regexp.MustCompile(`[A-Za-z0-9][_:./0-9]+[A-Za-z0-9]`).MatchString(string(a.Tool)) {
		return ""
	}
	return string(a.Tool)
}

// namesIn are the words of an answer that can be names of tools, and the agent that it begins with.
func namesIn(text string) (said map[string]bool, agent string) {
	said = map[string]bool{}
	for i, word := range strings.Fields(text) {
		if i == 0 && strings.HasPrefix(word, "@") {
			agent = strings.TrimRight(word[1:], ",:")
			continue
		}
		if word = strings.TrimRight(word, ",.!"); word != "" && !ofAnswers(word) { // an agent may call its tool "this"
			said[word] = true
		}
	}
	return said, agent
}

// idOf is the request that a message names: as tool_call_id, in its text, or in both. It
// is "" if it names none.
func idOf(m message) (string, error) {
	named := map[string]bool{}
	if m.ToolCallID != "" {
		named[m.ToolCallID] = true
	}
	for _, word := range strings.Fields(m.Content) {
		if word = strings.TrimRight(word, ",.!"); strings.HasPrefix(word, idPrefix) {
			named[word] = true
		}
	}
	if len(named) == 0 && m.Role == "user" {
		return "", nil
	}
	if len(named) != 1 {
		return "", noAnswer("give the id of one request as tool_call_id")
	}
	for id := range named {
		if rest, ok := strings.CutPrefix(id, idPrefix); ok {
			return rest, nil
		}
	}
	return "", noAnswer("an id begins with " + idPrefix)
}

func noAnswer(why string) *protocol.Error {
	return protocol.Errorf(codeNoAnswer, "no answer: %s", why).WithHint("send only deny, approve_once or approve_session")
}

// Words of an answer. A word that is not in this list has no meaning, and a text that
// contains one is not an answer: ignoring the word could reverse the meaning.
var (
	denying  = map[string]bool{"deny": true, "reject": true, "cancel": true}
	allowing = map[string]bool{"approve": true, "allow": true}
	scoping  = map[string]string{"once": optOnce, "session": optSession}
	both     = map[string]string{optOnce: optOnce, optSession: optSession}
	filling  = map[string]bool{"i": true, "please": true, "the": true, "this": true, "tool": true, "execution": true, "call": true, "of": true, "for": true, "to": true, "run": true}
	// buttons are whole texts.
	buttons = map[string]string{"cancel": optDeny, "once": optOnce, "always": optSession}
)

// ofAnswers reports whether a word has a meaning of its own in an answer: it names no tool.
func ofAnswers(word string) bool {
	word = strings.ToLower(word)
	return denying[word] || allowing[word] || filling[word] || scoping[word] != "" || both[word] != "" || buttons[word] != ""
}

// maxWords bounds an answer in bytes.
const maxWords = 500

// inWords is the option that a text says, or why it says none. The tool, the agent and the
// id are those of the request; a text that names others is about something else.
func inWords(text, tool, agent, id string) (string, error) {
	if len(text) > maxWords || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", noAnswer("write one short line of plain characters")
	}
	words := strings.Fields(text)
	if len(words) == 1 {
		if option, ok := buttons[strings.ToLower(words[0])]; ok {
			return option, nil
		}
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		if strings.TrimRight(words[0], ",:") != "@"+agent {
			return "", noAnswer("the answer names another agent")
		}
		words = words[1:]
	}
	var options []string // that a verb and a scope come to
	var verbs, deny, allow int
	for _, word := range words {
		word = strings.TrimRight(word, ",.!")
		lower := strings.ToLower(word)
		switch {
		case denying[lower]:
			verbs, deny = verbs+1, deny+1
		case allowing[lower]:
			verbs, allow = verbs+1, allow+1
		case both[lower] != "":
			verbs, allow, options = verbs+1, allow+1, append(options, both[lower])
		case scoping[lower] != "":
			options = append(options, scoping[lower])
		case filling[lower], word != "" && word == tool, word == id:
		default:
			return "", noAnswer(fmt.Sprintf("%q is not understood", word))
		}
	}
	switch {
	case verbs != 1:
		return "", noAnswer("give exactly one answer")
	case deny == 1 && len(options) == 0:
		return optDeny, nil
	case allow == 1 && len(options) == 1:
		return options[0], nil
	case allow == 1:
		return "", noAnswer("add once or session")
	}
	return "", noAnswer("a denial has no scope")
}
