package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
)

// TestDecisionLines: one line for each kind of decision, in one format, with nothing in it
// that a terminal would obey.
func TestDecisionLines(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	for want, d := range map[string]approval.Decision{
		"✓ bash approved (session): npm install [coder]":        {Action: approval.Approved, Source: approval.SourceAsk, Scope: approval.Session, Approver: "uid 1"},
		"✓ bash approved (once): npm install [coder]":           {Action: approval.Approved, Source: approval.SourceAsk, Approver: "uid 1"},
		"⏭ bash (session-approved): npm install [coder]":        {Action: approval.SessionApproved, Source: approval.SourceRememberedAllow, Scope: approval.Session},
		"⏭ bash (rules.x): npm install [coder]":                 {Action: approval.Approved, Source: approval.SourceAllowRule, Rule: "rules.x"},
		"⏭ bash (not needed): npm install [coder]":              {Action: approval.NotNeeded, Source: approval.SourceNotNeeded},
		"⏭ bash (nobody is asked): npm install [coder]":         {Action: approval.Approved, Source: approval.SourceMode},
		"✗ bash rejected: Use yarn: npm install [coder]":        {Action: approval.Denied, Source: approval.SourceAsk, Approver: "uid 1", Feedback: "Use yarn"},
		"✗ bash rejected: npm install [coder]":                  {Action: approval.Denied, Source: approval.SourceAsk, Approver: "uid 1"},
		"✗ bash denied: rm is not allowed: npm install [coder]": {Action: approval.BlockedAction, Source: approval.SourceBlocked, Reason: "rm is not allowed"},
		"✗ bash - no answer in time: npm install [coder]":       {Action: approval.TimedOut, Source: approval.SourceAsk},
	} {
		d.ToolName, d.Agent, d.Time = "bash", "coder", at
		if got := (&decisionLog{}).line(d, "npm install"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		plain := (&decisionLog{clock: true}).line(d, "npm install")
		coloured := (&decisionLog{colour: true}).line(d, "npm install")
		if !strings.HasPrefix(plain, "15:04:05 ") || !strings.HasPrefix(coloured, "\x1b[") || strings.Contains(plain, "\x1b") {
			t.Errorf("%q, %q", plain, coloured)
		}
	}
	d := approval.Decision{Action: approval.Denied, Source: approval.SourceAsk, Approver: "x", ToolName: "a\x1b[2J", Agent: "b\nc", Feedback: "\u202e", Time: at}
	if got := (&decisionLog{}).line(d, "x\r\ny"); strings.ContainsAny(got, "\x1b\n\r\u202e") {
		t.Errorf("%q", got)
	}
}

// TestDecisionLogHoldsNobody: a reader that does not read costs lines, and no call.
func TestDecisionLogHoldsNobody(t *testing.T) {
	r, w := io.Pipe()
	l := newDecisionLog(w, logDecisions)
	for range 1000 {
		l.decided(approval.Decision{Action: approval.NotNeeded, ToolName: "x"}, "")
	}
	var got bytes.Buffer
	read := make(chan struct{})
	go func() { _, _ = io.Copy(&got, r); close(read) }()
	l.close()
	w.Close()
	<-read
	if n := strings.Count(got.String(), "⏭ x"); n == 0 || n == 1000 || !strings.Contains(got.String(), "not printed") {
		t.Errorf("%d lines, and %q", n, got.String()[:min(got.Len(), 300)])
	}
	if newDecisionLog(w, logAuto) != nil || newDecisionLog(w, logNone) != nil {
		t.Error("lines are printed into a pipe that nobody asked for")
	}
}
