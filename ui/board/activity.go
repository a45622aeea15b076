package board

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// logEntries is how much of the log the activity is made from.
const logEntries = 300

func (s *Source) activity(ctx context.Context) ([]Section, error) {
	calls, err := s.approver.Calls(ctx)
	if err != nil {
		return nil, err
	}
	log, err := s.approver.Audit(ctx, protocol.AuditQuery{Limit: logEntries})
	if err != nil {
		return nil, err
	}
	return []Section{
		{Heading: "Under way", Empty: "No call is running.", Items: s.underWay(calls)},
		{Heading: "Recent, latest first", Empty: "The log has no calls yet.", Items: Sentences(log.Entries)},
	}, nil
}

func (s *Source) underWay(calls []protocol.CallInfo) (items []Item) {
	for _, c := range calls {
		now := present.Say("requested %s ago", present.Span(s.now().Sub(c.Started)))
		if c.Waiting { // nothing of it need be running: a person would take it for allowed
			now = "waits for an answer, " + now
		}
		where := present.Sentence("")
		if c.Background {
			where = "in the background, "
		}
		items = append(items, Item{
			ID:    c.ID,
			Text:  present.Say("%s: %s", named(c.Agent), subject(c.Tool, c.Args, "")),
			Under: present.Say("%scall %s", where, c.CallID),
			Now:   now,
			Actions: []Action{{Do: "call.kill", Words: "Kill", asks: sure("End this call and everything that it started?"),
				do: done("The call has ended.", func(ctx context.Context) error { return s.approver.Kill(ctx, c.ID) })}},
		})
	}
	return items
}

// named is an agent.
func named(agent string) present.Sentence {
	if agent == "" {
		return "an agent without a name"
	}
	return present.Name(agent)
}

// subject is what a call was about: its command or its path, else its arguments.
func subject(tool protocol.ToolName, args json.RawMessage, description string) present.Sentence {
	var a map[string]any
	_ = json.Unmarshal(args, &a) // what does not fit stays empty
	for _, key := range []string{"command", "path", "url", "pattern", "query"} {
		if text, ok := a[key].(string); ok && text != "" {
			if tool == "shell" {
				return present.Name(text)
			}
			return present.Say("%s %s", tool, text)
		}
	}
	if description == "" {
		return present.Name(string(tool))
	}
	return present.Say("%s %s", tool, strings.TrimPrefix(description, "Execute: "))
}

// An entryData is what sentences are made from of an entry's data; what is missing or of
// another type stays empty.
type entryData struct {
	Description string          `json:"description"`
	Args        json.RawMessage `json:"args"`
	Decision    approval.Decision
	Error       *struct {
		Message string `json:"message"`
	} `json:"error"`
	ExitCode   *int                 `json:"exit_code"`
	Signal     string               `json:"signal"`
	Cause      string               `json:"cause"`
	DurationMS int64                `json:"duration_ms"`
	Violations []protocol.Violation `json:"violations"`
	Event      string               `json:"event"`
	Reason     string               `json:"reason"`
	Fault      string               `json:"fault"`
	Detail     string               `json:"detail"`
	Rule       json.RawMessage      `json:"rule"`
}

// Sentences are the entries of a log, the latest first: one for each call, with how it was
// decided, how it ended and what its sandbox refused, and one for each of what else
// happened.
func Sentences(entries []protocol.AuditEntry) []Item {
	type told struct {
		at   int
		item Item
	}
	var list []*told
	byCall := map[string]*told{}
	for i, e := range entries {
		var d entryData
		_ = json.Unmarshal(e.Data, &d)
		when := present.Name(e.Time.Local().Format(time.TimeOnly))
		key := string(e.Session) + "\x00" + string(e.Call)
		id := strconv.FormatUint(e.Seq, 10)
		switch e.Kind {
		case "decision":
			t := &told{i, Item{ID: id, Text: present.Say("%s: %s", named(e.Agent), subject(e.Tool, d.Args, d.Description)), Under: when + "  " + decided(d.Decision)}}
			t.item.Careful = d.Decision.Action.State() != approval.StateApproved
			byCall[key] = t
			list = append(list, t)
		case "end", "refused":
			t := byCall[key]
			if t == nil {
				t = &told{i, Item{ID: id, Text: present.Say("%s: %s", named(e.Agent), subject(e.Tool, d.Args, d.Description)), Under: when}}
				list = append(list, t)
			}
			delete(byCall, key)
			t.at = i
			t.item.Under += ", " + d.ending()
			if n := len(d.Violations); n > 0 {
				t.item.Careful = true
				t.item.Under += ", " + d.violations()
			}
		case "answer", "connection": // the decision says it, and connections are noise
		default:
			list = append(list, &told{i, Item{ID: id, Text: d.other(e), Under: when, Careful: e.Kind == "recovered" || e.Kind == "interrupted"}})
		}
	}
	slices.SortStableFunc(list, func(a, b *told) int { return b.at - a.at })
	items := make([]Item, len(list))
	for i, t := range list {
		items[i] = t.item
	}
	return items
}

// decided says how a call was decided.
func decided(d approval.Decision) present.Sentence {
	verb := map[approval.State]present.Sentence{approval.StateApproved: "allowed", approval.StateDenied: "denied", approval.StateDismissed: "dismissed"}[d.Action.State()]
	switch {
	case d.Approver != "" && d.Scope != "" && d.Scope != approval.Once:
		verb += present.Say(" by %s, remembered (%s)", present.Approver(d.Approver), d.Scope)
	case d.Approver != "":
		verb += present.Say(" by %s", present.Approver(d.Approver))
	case d.Rule != "":
		verb += present.Say(" by the rule %s", d.Rule)
	case d.Action == approval.NotNeeded: // the reason is a sentence of ours
		verb += ": the tool needs no approval"
	case d.Reason != "":
		verb += present.Say(": %s", d.Reason)
	}
	return verb
}

func (d *entryData) ending() present.Sentence {
	took := (time.Duration(d.DurationMS) * time.Millisecond).String()
	switch {
	case d.Error != nil:
		return present.Name(d.Error.Message)
	case d.Signal != "":
		return present.Say("ended by %s after %s", d.Signal, took)
	case d.ExitCode != nil && *d.ExitCode != 0:
		return present.Say("failed with %d after %s", *d.ExitCode, took)
	}
	return present.Say("done in %s", took)
}

func (d *entryData) violations() present.Sentence {
	v := d.Violations[0]
	text := present.Sentence("the sandbox refused")
	for _, part := range some(cmp.Or(string(v.Right), string(v.Kind)), v.Path, v.Host, v.SystemCall, v.Limit) {
		text += present.Say(" %s", part)
	}
	if n := len(d.Violations) - 1; n > 0 {
		text += present.Say(" and %d more", n)
	}
	return text
}

// other is an entry that is about no call.
func (d *entryData) other(e protocol.AuditEntry) present.Sentence {
	switch e.Kind {
	case "session":
		done := map[string]string{"open": "opened", "close": "closed"}[d.Event]
		return present.Say("%s: session %s", named(e.Agent), cmp.Or(done, d.Event))
	case "start":
		return "sandgate started"
	case "stop":
		return "sandgate ended"
	case "rules":
		var r protocol.Rule
		if json.Unmarshal(d.Rule, &r) == nil && r.Effect != "" {
			return present.Say("rule %s: %s", d.Event, ruleSentence(r, present.Name))
		}
		return present.Say("rules %s", d.Event)
	}
	return present.Say("%s %s", e.Kind, present.End(cmp.Or(d.Reason, strings.TrimSpace(d.Fault+" "+d.Detail))))
}

func (s *Source) sessions(ctx context.Context) ([]Section, error) {
	list, err := s.approver.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	calls, err := s.approver.Calls(ctx)
	if err != nil {
		return nil, err
	}
	open := Section{Heading: "Open sessions", Empty: "No agent has a session."}
	var sections []Section
	of := map[protocol.SessionID][]protocol.CallInfo{}
	for _, c := range calls {
		of[c.SessionID] = append(of[c.SessionID], c)
	}
	list, more := fair(list)
	for _, x := range list {
		name := named(x.Agent)
		open.Items = append(open.Items, Item{
			ID:    string(x.ID),
			Text:  present.Say("%s, session %s", name, x.ID),
			Under: present.Say("mode %s, process %d of user %d", x.Mode, x.Peer.PID, x.Peer.UID),
			Now:   present.Say("%s, %d under way, open for %s", countCalls(x.Calls), x.CallsRunning, present.Span(s.now().Sub(x.Opened))),
			Actions: []Action{{Do: "session.end", Words: "End", asks: sure("End this session and kill every call that it runs by then?"),
				do: done("The session has ended.", func(ctx context.Context) error {
					_, err := s.approver.CloseSession(ctx, x.ID)
					return err
				})}},
		})
		if items := s.underWay(of[x.ID]); len(items) > 0 {
			sections = append(sections, Section{Heading: present.Say("Calls of %s (%s)", name, x.ID), Items: items})
		}
	}
	open.Items = append(open.Items, more...)
	return append([]Section{open}, sections...), nil
}

// maxOfProcess is how many sessions of one process are listed.
const maxOfProcess = 100

// fair has the sessions of each process found, however many thousands another one opens: those of which it has few stand
// first, and of which it has too many are counted.
func fair(list []protocol.SessionInfo) (listed []protocol.SessionInfo, more []Item) {
	const few = 10
	had := map[protocol.Peer]int{}
	var some [maxOfProcess / few][]protocol.SessionInfo
	for _, x := range list {
		if n := had[x.Peer]; n < maxOfProcess {
			some[n/few] = append(some[n/few], x)
		}
		had[x.Peer]++
	}
	for p, n := range had {
		if n > maxOfProcess {
			more = append(more, Item{ID: fmt.Sprint("process ", p.PID), Text: present.Say("More sessions of process %d of user %d", p.PID, p.UID), Now: present.Say("%d of them", n-maxOfProcess), Careful: true})
		}
	}
	slices.SortFunc(more, func(a, b Item) int { return strings.Compare(a.ID, b.ID) })
	return slices.Concat(some[:]...), more
}

func countCalls(n int) present.Sentence {
	if n == 1 {
		return "1 call"
	}
	return present.Say("%d calls", n)
}
