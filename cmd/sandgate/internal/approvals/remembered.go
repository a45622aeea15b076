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

func newApprovalsRememberedCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "remembered", Short: "List remembered answers, oldest first", Args: cobra.NoArgs,
		Example: "  sandgate approvals remembered --json",
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, _ []string) error {
			list, err := p.Remembered(ctx)
			if err != nil {
				return cli.WireStatus(err)
			}
			if f.json {
				return cli.PrintJSON(a.Out, append([]protocol.RememberedAnswer{}, list...))
			}
			return PrintRemembered(a.Out, list, time.Now())
		}),
	}
}

func newApprovalsForgetCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "forget ID...", Short: "Forget remembered answers, so that the next such call asks again", Args: cobra.MinimumNArgs(1),
		Example: "  sandgate approvals forget ID",
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, ids []string) error {
			for _, id := range ids {
				if err := p.Forget(ctx, id); err != nil {
					return cli.WireStatus(err)
				}
				if f.json {
					continue
				}
				if _, err := fmt.Fprintf(a.Out, "%s forgotten\n", id); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func PrintRemembered(w io.Writer, list []protocol.RememberedAnswer, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no remembered answers")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tDECISION\tSCOPE\tTOOL\tHITS\tENDS\tBY\tWHAT")
	for _, r := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.ID, r.Decision, scopeWords(r), inColumn(string(r.Tool)), r.Hits,
			endWords(r, now), present.Approver(r.Approver), approval.EscapeLine(whatWords(r)))
	}
	return t.Flush()
}

func scopeWords(r protocol.RememberedAnswer) string {
	if r.Holder == "" {
		return string(r.Scope)
	}
	return string(r.Scope) + " " + inColumn(r.Holder)
}

// endWords say when an answer ends by itself.
func endWords(r protocol.RememberedAnswer, now time.Time) string {
	var ends []string
	if r.Expires != nil {
		ends = append(ends, "in "+present.Span(r.Expires.Sub(now)))
	}
	if r.UsesLeft != nil {
		ends = append(ends, fmt.Sprintf("after %d more", *r.UsesLeft))
	}
	switch {
	case len(ends) > 0:
		return strings.Join(ends, ", ")
	case r.Scope == approval.Session:
		return "with its session"
	}
	return "never"
}

// whatWords is the pattern in words, or the very call.
func whatWords(r protocol.RememberedAnswer) string {
	if r.Text != "" {
		return r.Text
	}
	return r.Description
}
