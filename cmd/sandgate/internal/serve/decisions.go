package serve

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// What `serve` prints of decisions.
const (
	logAuto      = "auto" // on a terminal, and in the journal
	logDecisions = "decisions"
	logNone      = "none"
)

// A DecisionLog prints a line for each decision. A call never waits for a reader: a
// terminal that is stopped (Ctrl-S) must not stop the tools. What it cannot keep up
// with it counts; the audit log has every one.
type DecisionLog struct {
	out     io.Writer
	colour  bool
	clock   bool // the journal has its own
	lines   chan string
	dropped atomic.Int64
	done    sync.WaitGroup
}

// newDecisionLog is nil if nothing is to be printed.
func newDecisionLog(out io.Writer, mode string) *DecisionLog {
	terminal, journal := cli.IsTerminal(out), isJournal(out)
	if mode == logNone || mode == logAuto && !terminal && !journal {
		return nil
	}
	l := &DecisionLog{out: out, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", clock: !journal, lines: make(chan string, 256)}
	l.done.Go(l.print)
	return l
}

// isJournal reports whether out is a stream of systemd's journal, as systemd.exec(5)
// says in JOURNAL_STREAM.
func isJournal(out io.Writer) bool {
	f, ok := out.(*os.File)
	var st unix.Stat_t
	if !ok || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func (l *DecisionLog) print() {
	for line := range l.lines {
		l.tellDropped()
		fmt.Fprintln(l.out, line)
	}
	l.tellDropped()
}

func (l *DecisionLog) tellDropped() {
	if n := l.dropped.Swap(0); n > 0 {
		fmt.Fprintf(l.out, "%s not printed; see them with `sandgate audit tail`\n", cli.CountOf(int(n), "decision"))
	}
}

// decided is supervisor.Config.Decided.
func (l *DecisionLog) decided(d approval.Decision, subject string) {
	select {
	case l.lines <- l.Line(d, subject):
	default:
		l.dropped.Add(1)
	}
}

// close prints what is left. Nothing may be decided any more.
func (l *DecisionLog) close() {
	close(l.lines)
	l.done.Wait()
}

// Line is the one format: when, a sign, the tool and what became of it, what it was
// about, and whose it is. Texts that are not ours are quoted where they say more than a name.
func (l *DecisionLog) Line(d approval.Decision, subject string) string {
	sign, text, colour := decisionWords(d)
	text = approval.EscapeLine(text)
	if l.colour {
		text = colour + sign + " " + text + cli.Plain
	} else {
		text = sign + " " + text
	}
	if l.clock {
		text = d.Time.Local().Format(time.TimeOnly) + " " + text
	}
	if subject != "" {
		text += ": " + shortened(subject)
	}
	return text + " [" + approval.EscapeName(d.Agent) + "]"
}

// decisionWords says what became of a call: a person's yes, an answer that needed none,
// or a refusal with its reason.
func decisionWords(d approval.Decision) (sign, text, colour string) {
	tool := approval.EscapeName(d.ToolName)
	switch d.Action {
	case approval.Approved:
		if d.Source == approval.SourceMode {
			return "⏭", tool + " (without asking anyone)", cli.Dim
		}
		if d.Source != approval.SourceAsk && d.Source != approval.SourceDeferred {
			return "⏭", fmt.Sprintf("%s (%s)", tool, by(d)), cli.Dim
		}
		return "✓", fmt.Sprintf("%s approved (%s)", tool, orOnce(d.Scope)), cli.Green
	case approval.SessionApproved:
		return "⏭", fmt.Sprintf("%s (%s-approved)", tool, orOnce(d.Scope)), cli.Dim
	case approval.NotNeeded:
		return "⏭", fmt.Sprintf("%s (%s)", tool, by(d)), cli.Dim
	case approval.TimedOut:
		return "✗", tool + " (no answer in time)", cli.Red
	case approval.Dismissed:
		return "✗", tool + " dismissed", cli.Red
	case approval.LeftToCaller:
		return "⏭", tool + " (the agent asks its own user)", cli.Dim
	}
	if d.Source == approval.SourceAsk && d.Approver != "" {
		return "✗", cli.Join(": ", tool+" rejected", cli.EscapeName(d.Feedback)), cli.Red
	}
	return "✗", cli.Join(": ", tool+" denied", cli.EscapeName(d.Reason)), cli.Red
}

func orOnce(s approval.Scope) approval.Scope {
	if s == "" {
		return approval.Once
	}
	return s
}

func by(d approval.Decision) string {
	if d.Rule != "" {
		return d.Rule
	}
	return strings.ReplaceAll(string(d.Source), "_", " ")
}

// shortened keeps a line a line.
func shortened(s string) string { return approval.Brief(s, 120, approval.EscapeName) }
