package approvals

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

func NewStatusCommand(a *cli.App) *cobra.Command {
	var f approvalsFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show whether the supervisor runs, what is pending, enforced and stale",
		Long: `status asks the running supervisor about itself. It also lists files that changed after the
start and are therefore stale; that is not an error.

Exit status: 0 if it works, 1 if it runs but something is wrong (no sandbox, or an audit
log that takes no entries), 125 if none runs.`,
		Example: "  sandgate status\n  sandgate status --json",
		Args:    cobra.NoArgs,
		RunE: asApprover(a, &f, func(ctx context.Context, p *client.Approver, _ []string) error {
			st, err := p.Status(ctx)
			if err != nil {
				return cli.WireStatus(err)
			}
			if f.json {
				err = cli.PrintJSON(a.Out, st)
			} else {
				err = printStatus(a.Out, st, time.Now())
			}
			if err == nil && (!st.Sandbox.Ready || st.Audit.Error != "") {
				return cli.WithStatus(cli.ExitFound, nil)
			}
			return err
		}),
	}
	c.Flags().StringVar(&f.socket, "operator-socket", "", "operator socket `path` (default: runtime directory/operator.sock)")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return c
}

// printStatus is a line for each thing that a person asks about.
func printStatus(out io.Writer, st protocol.Status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, approval.EscapeLine(text))
		}
	}
	line("running", fmt.Sprintf("sandgate %s, pid %d, for %s", st.Version, st.PID, present.Span(now.Sub(st.Started))))
	line("waiting", waitingText(st))
	line("calls", fmt.Sprintf("%s under way, %d in all, in %s", cli.CountOf(st.CallsRunning, "call"), st.CallsTotal, cli.CountOf(st.Sessions, "open session")))
	line("mode", modeText(st.Mode))
	line("configuration", configText(st))
	if st.Sandbox.Ready {
		line("sandbox", st.Sandbox.EnforcedBy.Backend)
		line("  files", st.Sandbox.EnforcedBy.Files)
		line("  network", st.Sandbox.EnforcedBy.Network)
		line("  system calls", st.Sandbox.EnforcedBy.SystemCalls)
		line("  processes", st.Sandbox.EnforcedBy.Processes)
		line("  limits", st.Sandbox.EnforcedBy.Limits)
	} else {
		line("sandbox", cli.Join("; ", "none, so every tool is refused: "+st.Sandbox.Reason, st.Sandbox.Hint))
	}
	line("log", cli.Join(": ", fmt.Sprintf("%s, %s", st.Audit.Path, cli.CountOf(int(st.Audit.Entries), "entry")), st.Audit.Error))
	if st.HTTP != nil {
		line("web page", "http://"+st.HTTP.Address+"/ (get a link with `sandgate approve --web`)")
	}
	for _, s := range st.Stale {
		line("stale", s)
	}
	for _, s := range st.Warnings {
		line("warning", s)
	}
	return w.Flush()
}

func waitingText(st protocol.Status) string {
	if st.Pending == 0 {
		return "nothing; " + cli.CountOf(st.Approvers, "approver")
	}
	return fmt.Sprintf("%s; %s; answer with `sandgate approve`", cli.CountOf(st.Pending, "request"), cli.CountOf(st.Approvers, "approver"))
}

func modeText(m approval.Mode) string {
	switch m {
	case approval.ApproveAll:
		return string(m) + ": no one is asked"
	case approval.Strict:
		return string(m) + ": calls that would ask are denied"
	}
	return string(m)
}

func configText(st protocol.Status) string {
	var files []string
	for _, s := range st.Sources {
		text := fmt.Sprintf("%s (%s)", s.File, s.Tier)
		if !s.Trusted {
			text = fmt.Sprintf("%s (%s, not trusted: can only narrow permissions)", s.File, s.Tier)
		}
		files = append(files, text)
	}
	return cmp.Or(strings.Join(files, ", "), st.Config, "the built-in default")
}
