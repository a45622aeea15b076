package serve

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
)

// TestDecisionLines: one line for each kind of decision, in one format, with nothing in it
// that a terminal would obey.
func TestDecisionLines(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	for want, d := range map[string]approval.Decision{
		"✓ bash approved (session): \"npm install\" [coder]":            {Action: approval.Approved, Source: approval.SourceAsk, Scope: approval.Session, Approver: "uid 1"},
		"✓ bash approved (once): \"npm install\" [coder]":               {Action: approval.Approved, Source: approval.SourceAsk, Approver: "uid 1"},
		"⏭ bash (session-approved): \"npm install\" [coder]":            {Action: approval.SessionApproved, Source: approval.SourceRememberedAllow, Scope: approval.Session},
		"⏭ bash (rules.x): \"npm install\" [coder]":                     {Action: approval.Approved, Source: approval.SourceAllowRule, Rule: "rules.x"},
		"⏭ bash (not needed): \"npm install\" [coder]":                  {Action: approval.NotNeeded, Source: approval.SourceNotNeeded},
		"⏭ bash (without asking anyone): \"npm install\" [coder]":       {Action: approval.Approved, Source: approval.SourceMode},
		"✗ bash rejected: \"Use yarn\": \"npm install\" [coder]":        {Action: approval.Denied, Source: approval.SourceAsk, Approver: "uid 1", Feedback: "Use yarn"},
		"✗ bash rejected: \"npm install\" [coder]":                      {Action: approval.Denied, Source: approval.SourceAsk, Approver: "uid 1"},
		"✗ bash denied: \"rm is not allowed\": \"npm install\" [coder]": {Action: approval.BlockedAction, Source: approval.SourceBlocked, Reason: "rm is not allowed"},
		"✗ bash (no answer in time): \"npm install\" [coder]":           {Action: approval.TimedOut, Source: approval.SourceAsk},
	} {
		d.ToolName, d.Agent, d.Time = "bash", "coder", at
		if got := (&DecisionLog{}).Line(d, "npm install"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		plain := (&DecisionLog{clock: true}).Line(d, "npm install")
		coloured := (&DecisionLog{colour: true}).Line(d, "npm install")
		if !strings.HasPrefix(plain, "15:04:05 ") || !strings.HasPrefix(coloured, "\x1b[") || strings.Contains(plain, "\x1b") {
			t.Errorf("%q, %q", plain, coloured)
		}
	}
	d := approval.Decision{Action: approval.Denied, Source: approval.SourceAsk, Approver: "x", ToolName: "a\x1b[2J", Agent: "b\nc", Feedback: "\u202e", Time: at}
	if got := (&DecisionLog{}).Line(d, "x\r\ny"); strings.ContainsAny(got, "\x1b\n\r\u202e") {
		t.Errorf("%q", got)
	}
}

// TestDecisionsGoToTheJournal: a service's standard error is a socket, which JOURNAL_STREAM
// names by device and inode. There the lines are printed unasked, without a time of their
// own and without colours; a stream that is another, as after a redirection, gets none.
func TestDecisionsGoToTheJournal(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	service, journal := os.NewFile(uintptr(fds[0]), "stderr"), os.NewFile(uintptr(fds[1]), "journal")
	defer service.Close()
	defer journal.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fds[0], &st); err != nil {
		t.Fatal(err)
	}
	d := approval.Decision{Action: approval.Approved, Source: approval.SourceAsk, Approver: "uid 1", ToolName: "bash", Agent: "coder", Time: time.Now()}
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	l := newDecisionLog(service, logAuto)
	if l == nil {
		t.Fatal("nothing is printed into the journal")
	}
	l.decided(d, "npm install")
	l.close()
	service.Close()
	if text, err := io.ReadAll(journal); err != nil || string(text) != "✓ bash approved (once): \"npm install\" [coder]\n" {
		t.Errorf("%q, %v", text, err)
	}
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if newDecisionLog(file, logAuto) != nil {
		t.Error("lines are printed into a file that is not the journal")
	}
	if l := newDecisionLog(file, logDecisions); l == nil || !l.clock {
		t.Error("lines that somebody asked for have no time")
	} else {
		l.close()
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
