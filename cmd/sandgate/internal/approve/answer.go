package approve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// What a line of the plain mode means.

// PlainHelp has the words and keys of the screens.
func PlainHelp() string {
	var b strings.Builder
	line := func(key, what string) { fmt.Fprintf(&b, "  %-12s %s\n", key, what) }
	for _, c := range present.Choices() {
		key := c.Key
		if c.Decision == protocol.Deny {
			key += " [TEXT]"
		}
		line(key, c.Words+": "+c.Title)
	}
	b.WriteString("               TEXT goes to the model\n")
	line(present.RememberKey, present.RememberWords+" what can be, as a numbered list")
	for _, s := range present.Scopes() {
		line(present.RememberKey+" 1 "+s.Key, "the first of them, "+s.Words)
	}
	b.WriteString(`               the resulting rule is shown first
  r 1 s VALUE  a different value for it
  s, a, g      short for r 1 s, r 1 a, r 1 g: exactly this call
  v            show everything about it: the whole text and the sandbox
  e JSON       edit the arguments; what they would do is shown first
Any other input, including an empty line, means N.
`)
	return b.String()
}

// answer takes a line about the request on the screen: an answer, or a wish to see
// or change something first.
func (p *prompt) answer(ctx context.Context, text string) error {
	text = strings.TrimSpace(text)
	verb, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case p.pattern != nil:
		return p.confirmPattern(ctx, text)
	case text == "?", text == present.DenialsKey:
		return p.again(PlainHelp())
	case text == "v":
		p.unread.Known = true
		return p.again(present.Text(&p.shown, time.Now(), true))
	case verb == "e":
		return p.edit(ctx, rest)
	case verb == present.RememberKey:
		return p.choose(ctx, rest)
	case p.input.interactive && present.ScopeOf(answerScope(text)) != "":
		return p.choose(ctx, "1 "+answerScope(text))
	}
	d := AnswerTo(p.shown.ID, text)
	if d.Decision == protocol.Allow && p.input.interactive {
		if why := p.unread.Holds(&p.shown); why != "" {
			return p.again(why)
		}
	}
	if d.Decision == protocol.Allow && p.args != nil {
		if d.Scope != "" {
			return p.again(present.Words.OnceEdited + "\n")
		}
		d.Args, d.PlanDigest = p.args, p.shown.PlanDigest
	}
	return p.decide(ctx, d)
}

// again writes something, and asks once more.
func (p *prompt) again(text string) error {
	fmt.Fprint(p.Out, text)
	return p.question()
}

// decide sends an answer, and shows the next request.
func (p *prompt) decide(ctx context.Context, d protocol.ApprovalsDecide) error {
	p.waiting = p.waiting[1:]
	results, err := p.approver.Decide(ctx, d)
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
		p.App.Complain(err)
	case err != nil:
		return cli.WithStatus(cli.ExitInternal, err)
	case len(results) == 1 && results[0].Decision != nil:
		fmt.Fprintf(p.Out, "%s: %s (%s)\n", d.ID, results[0].Decision.Action, results[0].Decision.Scope)
	}
	return p.show(ctx)
}

// edit shows what other arguments make of the request; y allows that then.
func (p *prompt) edit(ctx context.Context, text string) error {
	if len(p.shown.Args) == 0 {
		return p.again(present.Words.NotEditable + "\n")
	}
	if text == "" {
		return p.again("its arguments: " + approval.EscapeLine(string(p.shown.Args)) + "\n")
	}
	var args bytes.Buffer
	if err := json.Compact(&args, []byte(text)); err != nil {
		return p.again(approval.EscapeLine(fmt.Sprintf("not JSON: %v", err)) + "\n")
	}
	previewed, err := p.approver.Preview(ctx, protocol.ApprovalsPreview{ID: p.shown.ID, Args: args.Bytes()})
	if err != nil {
		return p.refused(err)
	}
	p.shown, p.args = previewed.Approval, args.Bytes()
	shown := "\nwith your arguments, the request is\n" + present.Essence(&p.shown)
	p.unread = terminal.Unread{Scrolled: terminal.Scrolled(p.Out, shown)}
	return p.again(shown)
}

// refused is the supervisor's objection to a preview.
func (p *prompt) refused(err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return p.again(approval.EscapeLine(e.Error()) + "\n")
}

// answerScope is the key of the scope that a line names alone: s, a, g or its word.
func answerScope(text string) string {
	word := strings.ToLower(text)
	if long := map[string]string{"session": "s", "agent": "a", "global": "g"}[word]; long != "" {
		return long
	}
	return word
}

// choose lists what can be remembered, or says what would hold if one of it were, and asks
// for a yes.
func (p *prompt) choose(ctx context.Context, text string) error {
	if p.args != nil {
		return p.again(present.Words.OnceEdited + "\n")
	}
	offers := present.Offers(&p.shown)
	if len(offers) == 0 {
		return p.again(present.Words.OnceEach + "\n")
	}
	words := strings.SplitN(text, " ", 3)
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 1 || n > len(offers) || len(words) < 2 {
		return p.again(OffersText(&p.shown, offers) + "choose one with r NUMBER s, a or g\n")
	}
	scope := present.ScopeOf(words[1])
	if scope == "" {
		return p.again("say for whom: s, a or g\n")
	}
	offer := offers[n-1]
	if len(words) == 3 && offer.Kind != "" {
		previewed, err := p.approver.Preview(ctx, protocol.ApprovalsPreview{ID: p.shown.ID,
			Pattern: &approval.Pattern{Kind: offer.Kind, Value: words[2]}})
		if err != nil {
			return p.refused(err)
		}
		offer = *previewed.Pattern
	}
	p.pattern = &protocol.ApprovalsDecide{ID: p.shown.ID, Decision: protocol.Allow, Scope: scope}
	if offer.Kind != "" {
		pattern := offer.Pattern()
		p.pattern.Pattern = &pattern
	}
	said := string(present.RememberedSentence(&p.shown, offer, scope, false)) + "\n"
	for _, note := range present.OfferNotes(&p.shown, offer, false) {
		said += string(note.Words()) + "\n"
	}
	if terminal.Scrolled(p.Out, said) > 0 {
		p.pattern = nil
		return p.again("this screen has no room for the sentence to remember, so nothing can be remembered here\n")
	}
	p.unread.Told = true // it is the first of the notes
	fmt.Fprint(p.Out, said)
	return p.askToRemember()
}

func (p *prompt) askToRemember() error {
	what := "allows and remembers that"
	if p.shown.Once != "" && p.pattern.Pattern == nil {
		what = "allows that this once"
	}
	return p.ask(fmt.Sprintf("y %s, N denies it from now on;\nanything else goes back: ", what))
}

// OffersText lists what can be remembered, with what it covers and would have matched.
func OffersText(a *protocol.Approval, offers []approval.Offer) string {
	var b strings.Builder
	for i, o := range offers {
		fmt.Fprintf(&b, "  %d  %s\n", i+1, present.WholeEnd(o.Text))
		for _, note := range present.OfferNotes(a, o, false) {
			fmt.Fprintf(&b, "     %s\n", note.Words())
		}
	}
	return b.String()
}

// confirmPattern takes the answer to the question about what to remember. What is neither
// word goes back to the request.
func (p *prompt) confirmPattern(ctx context.Context, text string) error {
	d := *p.pattern
	p.pattern = nil
	switch {
	case text == "N":
		d.Decision = protocol.Deny
	case strings.ToLower(text) == "y" || strings.ToLower(text) == "yes":
		if p.input.interactive {
			if why := p.unread.Holds(&p.shown); why != "" {
				p.pattern = &d
				fmt.Fprint(p.Out, why)
				return p.askToRemember()
			}
		}
	default:
		return p.again("not answered\n")
	}
	return p.decide(ctx, d)
}

// AnswerTo reads a line as an answer. Any other word denies, and hard.
func AnswerTo(id protocol.ApprovalID, text string) protocol.ApprovalsDecide {
	d := protocol.ApprovalsDecide{ID: id, Decision: protocol.Deny}
	text = strings.TrimSpace(text)
	switch verb, rest, _ := strings.Cut(text, " "); verb { // N is the hard one, as on the screen
	case "n":
		d.Mode, d.Feedback = approval.RejectSoft, strings.TrimSpace(rest)
	case "N", "t":
		d.Feedback = strings.TrimSpace(rest)
	case "x":
		d.Mode, d.Feedback = approval.RejectExplain, strings.TrimSpace(rest)
	case "i":
		d.Interrupt, d.Feedback = true, strings.TrimSpace(rest)
	}
	switch strings.ToLower(text) {
	case "d", "dismiss":
		d.Decision = protocol.Dismiss
	case "y", "yes":
		d.Decision = protocol.Allow
	case "s", "session":
		d.Decision, d.Scope = protocol.Allow, approval.Session
	case "a", "agent":
		d.Decision, d.Scope = protocol.Allow, approval.Agent
	case "g", "global":
		d.Decision, d.Scope = protocol.Allow, approval.Global
	case "explain":
		d.Mode = approval.RejectExplain
	}
	return d
}
