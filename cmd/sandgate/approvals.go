package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

type approvalsFlags struct {
	socket, scope, feedback string
	soft, json              bool
}

func newApprovalsCmd(a *app) *cobra.Command {
	var f approvalsFlags
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Look at the requests that wait for an answer, and answer them",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args:  cobra.NoArgs,
		Example: `  sandgate approvals list
  sandgate approvals allow ID --scope session
  sandgate approvals deny ID --soft --feedback 'use the trash tool'`,
	}
	c.PersistentFlags().StringVar(&f.socket, "operator-socket", "", "operator socket `path` (default: operator.sock in the runtime directory)")
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(newApprovalsListCmd(a, &f), newApprovalsShowCmd(a, &f), newApprovalsAllowCmd(a, &f), newApprovalsDenyCmd(a, &f))
	return c
}

func newApprovalsListCmd(a *app, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the requests that wait, oldest first", Args: cobra.NoArgs,
		Example: "  sandgate approvals list --json",
		RunE: a.asApprover(f, func(ctx context.Context, p *client.Approver, _ []string) error {
			list, err := p.List(ctx)
			if err != nil {
				return wireStatus(err)
			}
			if f.json {
				return printJSON(a.out, append([]protocol.Approval{}, list...))
			}
			return printApprovals(a.out, list, time.Now())
		}),
	}
}

func newApprovalsShowCmd(a *app, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show ID...", Short: "Show requests with everything that is known about them", Args: cobra.MinimumNArgs(1),
		Example: "  sandgate approvals show ID",
		RunE: a.asApprover(f, func(ctx context.Context, p *client.Approver, ids []string) error {
			for _, id := range ids {
				one, err := p.Show(ctx, protocol.ApprovalID(id))
				if err != nil {
					return wireStatus(err)
				}
				if f.json {
					err = printJSON(a.out, one)
				} else {
					err = printApproval(a.out, one)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func newApprovalsAllowCmd(a *app, f *approvalsFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "allow ID...", Short: "Allow requests", Args: cobra.MinimumNArgs(1),
		Example: "  sandgate approvals allow ID --scope session",
		RunE: a.asApprover(f, func(ctx context.Context, p *client.Approver, ids []string) error {
			return a.decide(ctx, p, f, ids, protocol.Allow)
		}),
	}
	decideFlags(c, f)
	return c
}

func newApprovalsDenyCmd(a *app, f *approvalsFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "deny ID...", Short: "Deny requests", Args: cobra.MinimumNArgs(1),
		Example: "  sandgate approvals deny ID --soft --feedback 'use the trash tool'",
		RunE: a.asApprover(f, func(ctx context.Context, p *client.Approver, ids []string) error {
			return a.decide(ctx, p, f, ids, protocol.Deny)
		}),
	}
	decideFlags(c, f)
	c.Flags().BoolVar(&f.soft, "soft", false, "deny this call only, not the rest of its batch")
	return c
}

func decideFlags(c *cobra.Command, f *approvalsFlags) {
	c.Flags().StringVar(&f.scope, "scope", string(approval.Once), "how far the answer reaches: once, session, agent, global")
	c.Flags().StringVar(&f.feedback, "feedback", "", "`text` for the model")
}

// asApprover connects a command to the operator socket.
func (a *app) asApprover(f *approvalsFlags, do func(context.Context, *client.Approver, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p, err := client.DialApprover(cmd.Context(), f.socket, client.WithProgram(cmd.CommandPath(), version))
		if err != nil {
			return wireStatus(err)
		}
		defer p.Close()
		return do(cmd.Context(), p, args)
	}
}

// decide answers all the requests it can, and fails if there was one it could not.
func (a *app) decide(ctx context.Context, p *client.Approver, f *approvalsFlags, ids []string, v protocol.Verdict) error {
	d := protocol.ApprovalsDecide{Decision: v, Scope: approval.Scope(f.scope), Feedback: f.feedback}
	if f.soft {
		d.Mode = approval.RejectSoft
	}
	for _, id := range ids {
		d.IDs = append(d.IDs, protocol.ApprovalID(id))
	}
	results, err := p.Decide(ctx, d)
	if err != nil {
		return wireStatus(err)
	}
	if f.json {
		err = printJSON(a.out, results)
	} else {
		err = a.printDecided(results)
	}
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Error != nil {
			return withStatus(exitInternal, nil) // printed with the others
		}
	}
	return nil
}

func (a *app) printDecided(results []protocol.Decided) error {
	for _, r := range results {
		if r.Error != nil {
			a.complain(fmt.Errorf("%s: %w", r.ID, r.Error))
			continue
		}
		if _, err := fmt.Fprintf(a.out, "%s %s %s (%s)\n", r.ID, r.Decision.Action, approval.EscapeLine(r.Decision.ToolName), r.Decision.Scope); err != nil {
			return err
		}
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func printApprovals(w io.Writer, list []protocol.Approval, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing waits for an answer")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tAGENT\tTOOL\tLEFT\tDESCRIPTION")
	for _, p := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", p.ID, approval.EscapeLine(p.Agent), approval.EscapeLine(string(p.Tool)),
			p.Expires.Sub(now).Round(time.Second), approval.EscapeLine(p.Description))
	}
	return t.Flush()
}

// printApproval shows a request. Nothing in it is trusted: each text is escaped,
// and every line of the presentation is indented, so that none can look like
// one of the lines that we wrote.
func printApproval(w io.Writer, p protocol.Approval) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", approval.EscapeLine(string(p.Tool)), approval.EscapeLine(p.Description))
	fmt.Fprintf(&b, "  request    %s\n  agent      %s (session %s)\n", p.ID, approval.EscapeLine(p.Agent), p.SessionID)
	for _, name := range slices.Sorted(maps.Keys(p.Details)) {
		fmt.Fprintf(&b, "  %-10s %s\n", approval.EscapeLine(name), approval.EscapeLine(p.Details[name]))
	}
	if s := p.Presentation; s != nil {
		b.WriteString(quote(s.Content))
	}
	for i, next := range p.BatchRemaining {
		if i == 0 {
			b.WriteString("  then\n")
		}
		fmt.Fprintf(&b, "    %s\n", approval.EscapeLine(next))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func quote(content string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(approval.Escape(content), "\n")) {
		b.WriteString("  | " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}
