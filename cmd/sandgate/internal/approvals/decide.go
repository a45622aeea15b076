package approvals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// decideFlags are how requests are answered.
type decideFlags struct {
	scope, feedback, args, pattern    string
	soft, explain, interrupt, unshown bool
}

func newApprovalsAllowCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	var d decideFlags
	c := &cobra.Command{
		Use: "allow ID...", Short: "Allow requests", Args: cobra.MinimumNArgs(1),
		Long: `allow approves requests. With --args, sandgate plans and checks the call again with your
arguments, and refuses it if they are not allowed. With --pattern, the answer is
remembered for more than this exact call; ` + "`sandgate approvals show ID`" + ` lists the patterns on offer.
--unshown is required for a request with content that no screen can show, such as a
compiled program that the call starts.`,
		Example: `  sandgate approvals allow ID --scope session
  sandgate approvals allow ID --args '{"command": "ls"}'
  sandgate approvals allow ID --scope session --pattern 'argv_prefix=go test'`,
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, ids []string) error {
			return decide(ctx, a, p, f, d, ids, protocol.Allow)
		}),
	}
	rememberFlags(c, &d)
	c.Flags().StringVar(&d.args, "args", "", "replace the agent's arguments with this `JSON` object (one ID only)")
	c.Flags().BoolVar(&d.unshown, "unshown", false, "allow a request even if no screen can show all of it")
	return c
}

func newApprovalsDenyCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	var d decideFlags
	c := &cobra.Command{
		Use: "deny ID...", Short: "Deny requests", Args: cobra.MinimumNArgs(1),
		Long: `deny refuses requests. It also refuses the rest of each request's batch, unless you
give --soft or --explain.`,
		Example: `  sandgate approvals deny ID --soft --feedback 'use the trash tool'
  sandgate approvals deny ID --explain
  sandgate approvals deny ID --interrupt`,
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, ids []string) error {
			return decide(ctx, a, p, f, d, ids, protocol.Deny)
		}),
	}
	rememberFlags(c, &d)
	c.Flags().BoolVar(&d.soft, "soft", false, "deny this call only, not the rest of its batch")
	c.Flags().BoolVar(&d.explain, "explain", false, "deny this call and ask the model to explain it")
	c.Flags().BoolVar(&d.interrupt, "interrupt", false, "tell the agent to end its turn")
	c.MarkFlagsMutuallyExclusive("soft", "explain")
	return c
}

func newApprovalsDismissCmd(a *cli.App, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "dismiss ID...", Short: "End requests without a decision", Args: cobra.MinimumNArgs(1),
		Long: `dismiss ends requests without a decision: the calls do not run, nothing is remembered,
other calls of the batch go on, and an identical call asks again.`,
		Example: "  sandgate approvals dismiss ID",
		RunE: asApprover(a, f, func(ctx context.Context, p *client.Approver, ids []string) error {
			return decide(ctx, a, p, f, decideFlags{}, ids, protocol.Dismiss)
		}),
	}
}

func rememberFlags(c *cobra.Command, d *decideFlags) {
	c.Flags().StringVar(&d.scope, "scope", string(approval.Once), "how long and for whom the answer applies: once, session, agent, global")
	c.Flags().StringVar(&d.feedback, "feedback", "", "`text` for the model")
	c.Flags().StringVar(&d.pattern, "pattern", "", "remember the pattern `KIND=VALUE` instead of this exact call (one ID only)")
}

// wire is the answer as it is sent.
func (d decideFlags) wire(ids []string, v protocol.Verdict) (protocol.ApprovalsDecide, error) {
	w := protocol.ApprovalsDecide{Decision: v, Scope: approval.Scope(d.scope), Feedback: d.feedback, Interrupt: d.interrupt}
	switch {
	case d.soft:
		w.Mode = approval.RejectSoft
	case d.explain:
		w.Mode = approval.RejectExplain
	}
	if d.args == "" && d.pattern == "" {
		for _, id := range ids {
			w.IDs = append(w.IDs, protocol.ApprovalID(id))
		}
		return w, nil
	}
	if len(ids) != 1 {
		return w, cli.UsageError(errors.New("--args and --pattern take exactly one ID"))
	}
	w.ID = protocol.ApprovalID(ids[0])
	if d.args != "" {
		if !json.Valid([]byte(d.args)) {
			return w, cli.UsageError(fmt.Errorf("--args %q is not JSON", d.args))
		}
		w.Args = json.RawMessage(d.args)
	}
	pattern, err := patternOf(d.pattern)
	w.Pattern = pattern
	return w, err
}

// patternOf reads KIND=VALUE; "" means no pattern.
func patternOf(text string) (*approval.Pattern, error) {
	if text == "" {
		return nil, nil
	}
	kind, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil, cli.WithHint(cli.UsageError(fmt.Errorf("pattern %q is not KIND=VALUE", text)),
			"such as 'argv_prefix=go test', 'path_glob=/home/me/src/**', 'host=*.example.org:443'")
	}
	return &approval.Pattern{Kind: approval.PatternKind(kind), Value: value}, nil
}

// decide answers all the requests it can, and fails if there was one it could not.
func decide(ctx context.Context, a *cli.App, p *client.Approver, f *approvalsFlags, d decideFlags, ids []string, v protocol.Verdict) error {
	w, err := d.wire(ids, v)
	if err != nil {
		return err
	}
	if v == protocol.Allow && !d.unshown {
		if err := allShown(ctx, p, w); err != nil {
			return err
		}
	}
	results, err := p.Decide(ctx, w)
	if err != nil {
		return cli.WireStatus(err)
	}
	if f.json {
		err = cli.PrintJSON(a.Out, results)
	} else {
		err = printDecided(a, results)
	}
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Error != nil {
			return cli.WithStatus(cli.ExitInternal, nil) // printed with the others
		}
	}
	return nil
}

// allShown is an error if an answer allows what no screen shows. Nothing is answered then.
func allShown(ctx context.Context, p *client.Approver, w protocol.ApprovalsDecide) error {
	for _, id := range append(w.IDs, w.ID) {
		var one protocol.Approval
		var err error
		switch {
		case id == "":
			continue
		case len(w.Args) > 0:
			var edited protocol.ApprovalsPreviewed
			edited, err = p.Preview(ctx, protocol.ApprovalsPreview{ID: id, Args: w.Args})
			one = edited.Approval
		default:
			one, err = p.Show(ctx, id)
		}
		var wire *protocol.Error
		if errors.As(err, &wire) && (wire.Code == protocol.CodeUnknownApproval || wire.Code == protocol.CodeAlreadyDecided) {
			continue // the answer says it
		}
		if err != nil {
			return cli.WireStatus(err)
		}
		if why := present.Unshown(&one); why != "" {
			return cli.WithHint(cli.UsageError(fmt.Errorf("%s: not allowed, because no screen can show %s", id, why)), "read the rest with `sandgate approvals show --full ID`, or add --unshown to allow it anyway")
		}
	}
	return nil
}

func printDecided(a *cli.App, results []protocol.Decided) error {
	for _, r := range results {
		if r.Error != nil {
			a.Complain(fmt.Errorf("%s: %w", r.ID, r.Error))
			continue
		}
		line := fmt.Sprintf("%s %s %s", r.ID, r.Decision.Action, approval.EscapeLine(r.Decision.ToolName))
		if r.Decision.Scope != "" {
			line += fmt.Sprintf(" (%s)", r.Decision.Scope)
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	return nil
}
