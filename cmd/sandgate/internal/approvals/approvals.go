package approvals

import (
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

// approvalsFlags are those that all its commands have.
type approvalsFlags struct {
	socket         string
	json           bool
	full, markdown bool // of show
}

func NewCommand(a *cli.App) *cobra.Command {
	var f approvalsFlags
	c := &cobra.Command{
		Use:   "approvals",
		Short: "List and answer pending requests; list and forget remembered answers",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args:  cobra.NoArgs,
		Example: `  sandgate approvals list
  sandgate approvals allow ID --scope session
  sandgate approvals deny ID --soft --feedback 'use the trash tool'
  sandgate approvals remembered`,
	}
	c.PersistentFlags().StringVar(&f.socket, "operator-socket", "", "operator socket `path` (default: runtime directory/operator.sock)")
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(newApprovalsListCmd(a, &f), newApprovalsShowCmd(a, &f), newApprovalsAllowCmd(a, &f), newApprovalsDenyCmd(a, &f), newApprovalsDismissCmd(a, &f),
		newApprovalsRememberedCmd(a, &f), newApprovalsForgetCmd(a, &f), newApprovalsFilterCmd(a))
	return c
}

func newApprovalsListCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List pending requests, each session in turn", Args: cobra.NoArgs,
		Example: "  sandgate approvals list --json",
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, _ []string) error {
			list, err := p.List(ctx)
			if err != nil {
				return cli.WireStatus(err)
			}
			if f.json {
				return cli.PrintJSON(a.Out, append([]protocol.Approval{}, list...))
			}
			return PrintApprovals(a.Out, list, time.Now())
		}),
	}
}

func newApprovalsShowCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "show ID...", Short: "Show requests in full detail", Args: cobra.MinimumNArgs(1),
		Example: "  sandgate approvals show ID\n  sandgate approvals show ID --full | less",
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, ids []string) error {
			for _, id := range ids {
				one, err := p.Show(ctx, protocol.ApprovalID(id))
				if err != nil {
					return cli.WireStatus(err)
				}
				if err := printApproval(a, f, one); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&f.full, "full", false, "print the whole text instead of cutting it for display")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "print one Markdown code block for a chat, which its content cannot close")
	return c
}

// asApprover connects a command to the operator socket.
func asApprover(a *cli.App, f *approvalsFlags, do func(context.Context, *client.Approver, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p, err := client.DialApprover(cmd.Context(), f.socket, client.WithProgram(cmd.CommandPath(), a.Version))
		if err != nil {
			return cli.WireStatus(err)
		}
		defer p.Close()
		return do(cmd.Context(), p, args)
	}
}

func PrintApprovals(w io.Writer, list []protocol.Approval, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no pending requests")
		return err
	}
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSESSION\tAGENT\tTOOL\tAGE\tLEFT\tDESCRIPTION")
	for _, p := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.ID, p.SessionID, inColumn(p.Agent), inColumn(string(p.Tool)),
			present.Span(now.Sub(p.Created)), present.Span(p.Expires.Sub(now)), approval.EscapeLine(p.Description))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, table.String())
	return err
}

// inColumn shortens a name from outside in a table, so that a long one does not widen the rows of all others.
func inColumn(name string) string {
	const most = 20
	head, hidden, tail := approval.Ends(name, most)
	if hidden == "" {
		return approval.EscapeName(name)
	}
	return approval.EscapeName(head) + "..." + approval.EscapeName(tail)
}

func printApproval(a *cli.App, f *approvalsFlags, p protocol.Approval) error {
	if f.json {
		return cli.PrintJSON(a.Out, p)
	}
	text := present.Text
	if f.markdown {
		text = present.Markdown
	}
	_, err := io.WriteString(a.Out, text(&p, time.Now(), f.full))
	return err
}
