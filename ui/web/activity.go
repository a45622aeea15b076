package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// What goes on: sessions, calls under way, and the end of the log. Every text is escaped.

type sessionRow struct {
	ID     protocol.SessionID `json:"id"`
	Text   string             `json:"text"`
	Opened int64              `json:"opened"`
}

type callRow struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Agent   string `json:"agent"`
	Started int64  `json:"started"`
}

type logRow struct {
	Seq  uint64 `json:"seq"`
	Time int64  `json:"time"`
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// logRows is how much of the log the page shows.
const logRows = 50

// activity answers with all three, so that they fit each other.
func (l *live) activity(ctx context.Context, a *client.Approver, _ struct{}) (any, error) {
	sessions, err := a.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	calls, err := a.Calls(ctx)
	if err != nil {
		return nil, err
	}
	log, err := a.Audit(ctx, protocol.AuditQuery{Limit: logRows})
	if err != nil {
		return nil, err
	}
	view := struct {
		Sessions []sessionRow `json:"sessions"`
		Calls    []callRow    `json:"calls"`
		Log      []logRow     `json:"log"`
	}{[]sessionRow{}, []callRow{}, []logRow{}}
	for _, s := range sessions {
		view.Sessions = append(view.Sessions, sessionRow{s.ID, approval.EscapeLine(fmt.Sprintf("%s: %d calls, %d under way, mode %s, pid %d",
			s.Agent, s.Calls, s.CallsRunning, s.Mode, s.Peer.PID)), s.Opened.UnixMilli()})
	}
	for _, c := range calls {
		text := string(c.Tool) + " " + string(c.Args)
		if c.Background {
			text = "in the background: " + text
		}
		view.Calls = append(view.Calls, callRow{c.ID, present.Brief(present.Blanks(approval.EscapeLine(text))), approval.EscapeLine(c.Agent), c.Started.UnixMilli()})
	}
	for _, e := range log.Entries {
		text := strings.TrimSpace(string(e.Tool) + " " + l.entry(e))
		view.Log = append(view.Log, logRow{e.Seq, e.Time.UnixMilli(), approval.EscapeLine(e.Kind), present.Brief(approval.EscapeLine(text))})
	}
	return view, nil
}

func kill(ctx context.Context, a *client.Approver, p protocol.CallsKill) (any, error) {
	return struct{}{}, a.Kill(ctx, p.ID)
}

func closeSession(ctx context.Context, a *client.Approver, p protocol.SessionsClose) (any, error) {
	counts, err := a.CloseSession(ctx, p.SessionID)
	return counts, err
}
