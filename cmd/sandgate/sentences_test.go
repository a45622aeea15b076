package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/approvals"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/approve"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/auditcmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/rulescmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/serve"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/present"
	"github.com/sandgate/sandgate/ui/present/presenttest"
)

// foreign is a supervisor all of whose texts are one.
type foreign struct {
	board.Approver
	text string
}

func (f foreign) args() json.RawMessage {
	b, _ := json.Marshal(map[string]string{"command": f.text}) // a string always is JSON
	return b
}

func (f foreign) rule() protocol.Rule {
	return protocol.Rule{Tier: "user", RuleSpec: protocol.RuleSpec{ID: "r", Effect: protocol.CheckAllow, Shell: f.text, Agent: f.text, ReadOnly: true}}
}

func (f foreign) remembered() []protocol.RememberedAnswer {
	glob := approval.Pattern{Kind: approval.PathGlob, Value: "/ws/" + f.text + "/**/*.md"}
	return []protocol.RememberedAnswer{
		{ID: "1", Decision: protocol.Allow, Scope: approval.Agent, Holder: f.text, Tool: protocol.ToolName(f.text), Pattern: &glob, Text: glob.Text()},
		{ID: "2", Decision: protocol.Deny, Scope: approval.Session, Tool: "shell", Description: "Execute: " + f.text},
	}
}

func (f foreign) Rules(context.Context) (protocol.RulesList, error) {
	return protocol.RulesList{Rules: []protocol.Rule{f.rule()}}, nil
}

func (f foreign) SuggestRules(context.Context, protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return protocol.RulesSuggested{Suggestions: []protocol.Suggestion{{Rule: f.rule().RuleSpec, Also: []string{f.text, f.text}, Examples: []string{f.text}}}}, nil
}

func (f foreign) TryRule(context.Context, protocol.RulesTry) (protocol.RulesTried, error) {
	return protocol.RulesTried{Covered: []protocol.CoveredCall{{Agent: f.text, Tool: "shell", Subject: f.text, Action: approval.Approved}}}, nil
}

func (f foreign) TestRules(context.Context, protocol.RulesTest) (protocol.RulesTested, error) {
	return protocol.RulesTested{Decision: protocol.CheckAsk, Rule: "r", Reason: f.text, Considered: []protocol.ConsideredRule{{Rule: "r", Outcome: "matched", Subject: f.text, Why: "it is"}}}, nil
}

func (f foreign) Remembered(context.Context) ([]protocol.RememberedAnswer, error) {
	return f.remembered(), nil
}

func (f foreign) Calls(context.Context) ([]protocol.CallInfo, error) {
	return []protocol.CallInfo{{ID: "c", SessionID: "s", Agent: f.text, Tool: "shell", Args: f.args()}}, nil
}

func (f foreign) Sessions(context.Context) ([]protocol.SessionInfo, error) {
	return []protocol.SessionInfo{{ID: "s", Agent: f.text}}, nil
}

func (f foreign) entries() []protocol.AuditEntry {
	text, _ := json.Marshal(f.text)
	data := fmt.Sprintf(`{"args":%s,"decision":{"action":"denied","source":"asked","reason":%s}}`, f.args(), text)
	return []protocol.AuditEntry{
		{Kind: "decision", Session: "s", Call: "c", Agent: f.text, Tool: "shell", Data: json.RawMessage(data)},
		{Kind: "end", Session: "s", Call: "c", Agent: f.text, Tool: "shell", Data: json.RawMessage(fmt.Sprintf(`{"error":{"message":%s},"violations":[{"path":%[1]s,"right":"write_file"},{}]}`, text))},
		{Kind: "decision", Session: "s", Call: "d", Tool: protocol.ToolName(f.text), Data: json.RawMessage(fmt.Sprintf(`{"args":{"path":%s},"decision":{"action":"approved"}}`, text))},
	}
}

func (f foreign) Audit(context.Context, protocol.AuditQuery) (protocol.AuditEntries, error) {
	return protocol.AuditEntries{Entries: f.entries()}, nil
}

func (f foreign) Changed() ([]board.Changed, error) {
	return []board.Changed{{ID: "1", Workspace: "/ws", Session: "s", Agent: f.text, Tool: "shell", What: f.text, Files: []board.File{{Sign: "~", Path: f.text, Was: f.text}, {Sign: "+", Path: f.text}}}}, nil
}

func (foreign) Undo(string, []string) (present.Sentence, error) { return "", nil }

func (f foreign) List() ([]board.Kept, error) {
	return []board.Kept{{Item: "i", Path: "/ws/" + f.text, Why: f.text, Call: "c"}}, nil
}

func (foreign) Restore(string, int) error { return nil }

func (foreign) Drop(string) error { return nil }

// TestEveryScreenTellsForeignTexts: whatever a command, a name, a path or an agent is called, no
// line of a command, a list, a log or a board has it read as words of ours, or as other letters.
func TestEveryScreenTellsForeignTexts(t *testing.T) {
	t.Parallel()
	for i, text := range presenttest.Texts() {
		f := foreign{text: text}
		a := protocol.Approval{ID: "r", SessionID: "s", Agent: text, SessionName: text, Tool: "shell", Description: "Execute: " + text, Created: time.Now(), Expires: time.Now(),
			Payload: map[string]any{"command": text, "files": map[string]any{"/ws/" + text: "sha256:1"}}, BatchRemaining: []string{"shell " + text},
			Details:      map[string]string{"network": "none", "may write": "/ws", "directory": "/ws/" + text, "program": "/bin/sh", "odd": text},
			Presentation: &approval.Presentation{Type: approval.Command, Content: text}}
		for _, p := range []approval.Pattern{{Kind: approval.ArgvPrefix, Value: text}, {Kind: approval.PathGlob, Value: "/ws/" + text + "/**"}, {Kind: approval.PathGlob, Value: "/ws/" + text + "/*"},
			{Kind: approval.PathGlob, Value: "/ws/" + text}, {Kind: approval.Host, Value: "*." + text}, {Kind: approval.WholeTool, Value: text}} {
			a.Patterns = append(a.Patterns, approval.Offer{Kind: p.Kind, Value: p.Value, Text: p.Text(), Matched: []string{text, text}})
		}
		screens := map[string]string{"plain": present.Text(&a, time.Now(), true), "offers": approve.OffersText(&a, present.Offers(&a))}
		for _, o := range present.Offers(&a) {
			for _, denied := range []bool{false, true} {
				for _, s := range present.Scopes() {
					screens["remembered"] += string(present.RememberedSentence(&a, o, s.Scope, denied)) + "\n"
				}
			}
		}
		for _, d := range []approval.Decision{{Action: approval.Denied, Approver: "uid 7"}, {Action: approval.Dismissed, Reason: text}} {
			screens["ended"] += string(present.Outcome(&a, &d)) + "\n"
		}

		written := func(name string, write func(*bytes.Buffer, *cli.App)) {
			var b bytes.Buffer
			write(&b, &cli.App{Out: &b, Err: &b})
			screens[name] = b.String()
		}
		written("approvals list", func(b *bytes.Buffer, _ *cli.App) { _ = approvals.PrintApprovals(b, []protocol.Approval{a}, time.Now()) })
		written("approvals remembered", func(b *bytes.Buffer, _ *cli.App) { _ = approvals.PrintRemembered(b, f.remembered(), time.Now()) })
		written("rules list", func(b *bytes.Buffer, _ *cli.App) { _ = rulescmd.PrintRules(b, []rulescmd.ListedRule{{Rule: f.rule()}}) })
		written("rules try", func(_ *bytes.Buffer, x *cli.App) {
			tried, _ := f.TryRule(t.Context(), protocol.RulesTry{})
			_ = rulescmd.PrintTried(x, tried)
		})
		written("why", func(b *bytes.Buffer, _ *cli.App) {
			tested, _ := f.TestRules(t.Context(), protocol.RulesTest{})
			_ = rulescmd.PrintWhy(b, tested, true)
		})
		for _, e := range f.entries() {
			screens["audit"] += auditcmd.Line(audit.Entry{Kind: audit.Kind(e.Kind), Agent: e.Agent, Tool: string(e.Tool), Call: string(e.Call), Data: e.Data}) + "\n"
		}
		for _, d := range []approval.Decision{{Action: approval.Denied, Reason: text}, {Action: approval.Denied, Source: approval.SourceAsk, Approver: "x", Feedback: text}, {Action: approval.Approved}} {
			d.ToolName, d.Agent = text, text
			screens["decisions"] += strings.TrimLeft((&serve.DecisionLog{}).Line(d, text), "⏭✗✓") + "\n"
		}

		boards := board.New(f, board.Stores{Quarantine: f, Changes: f}).View(time.Now)
		for _, name := range board.Names() {
			if name == board.Status { // it has no text of an agent
				continue
			}
			b, err := boards.Load(t.Context(), board.Look{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			ask := func(actions []board.Action) {
				for _, x := range actions {
					if x.Do == "rules.reload" || x.Do == board.AddRule && x.Text == "" { // of a person's own text, or of none
						continue
					}
					act := board.Act{Shown: x.Shown, Text: map[string]string{"rule.test": "shell x"}[x.Do]}
					if x.Label != "" && act.Text == "" {
						act.Text = "allow shell x"
					}
					said, err := boards.Do(t.Context(), act)
					if q := (board.Question{}); errors.As(err, &q) {
						said = q.Sure
					} else if err != nil {
						t.Fatal(x.Do, err)
					}
					screens["asked "+x.Do] += string(said) + "\n"
				}
			}
			for _, s := range b.Sections {
				ask(s.Actions)
				screens["board "+name] += string(s.Heading) + "\n"
				for _, it := range s.Items {
					screens["board "+name] += string(it.Text) + "\n" + string(it.Under) + "\n" + string(it.Now) + "\n"
					ask(it.Actions)
				}
			}
		}
		for name, shown := range screens {
			presenttest.Check(t, fmt.Sprintf("%s, text %d", name, i), strings.ReplaceAll(shown, "\n  | ", "\n"))
		}
	}
}
