package approve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/boards"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/serve"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/tui"
)

type approveFlags struct {
	socket string
	plain  bool
	web    bool
	notify []string
}

func NewCommand(a *cli.App) *cobra.Command {
	var f approveFlags
	c := &cobra.Command{
		Use:   "approve",
		Short: "Answer approval requests as they arrive",
		Long: `approve shows each pending request with what the call would do and what its sandbox would
allow. You answer with one key; ? lists the keys. A key counts only after the request has
been on screen for half a second, or for a second and a half if it replaced another
request. 1 to 8 open the requests, agent activity, sessions, rules, remembered answers,
changes by calls, the quarantine and the status.

A new request rings the terminal bell and, where the terminal supports it, shows a
notification (--notify; desktop uses notify-send).

e edits the arguments in $VISUAL, $EDITOR or a line on the screen; v shows long text in
$PAGER or on the screen. Both show escaped text only.

With --plain, or on a terminal that cannot move its cursor, approve prints one request at
a time and reads one line as the answer; ? explains the answers. An empty line, or
anything unknown, denies the call and the rest of its batch. approve ends at the end of
input; unanswered requests stay pending.

With --web, approve prints a link to the supervisor's web page and exits. The link works
once, within five minutes, in a browser on this machine.`,
		Example: "  sandgate approve\n  sandgate approve --web\n  sandgate approve --plain --operator-socket /run/user/1000/sandgate/operator.sock",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := notifyOf(f.notify)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if f.web {
				return serve.PrintLink(ctx, a, f.socket)
			}
			return approve(ctx, a, f, n)
		},
	}
	c.Flags().StringVar(&f.socket, "operator-socket", "", "operator socket `path` (default: runtime directory/operator.sock)")
	c.Flags().StringSliceVar(&f.notify, "notify", []string{"bell", "terminal"}, "how to announce a new request: bell, terminal, desktop, none")
	c.Flags().BoolVar(&f.web, "web", false, "print a link to the web page instead")
	c.Flags().BoolVar(&f.plain, "plain", false, "use lines instead of a full screen, for screen readers and scripts")
	c.MarkFlagsMutuallyExclusive("web", "plain")
	return c
}

func approve(ctx context.Context, a *cli.App, f approveFlags, n tui.Notify) error {
	p, err := client.DialApprover(ctx, f.socket, client.WithProgram("sandgate approve", a.Version))
	if err != nil {
		return cli.WireStatus(err)
	}
	defer p.Close()
	events, err := p.Subscribe(ctx)
	if err != nil {
		return cli.WireStatus(err)
	}
	if !f.plain && hasScreen(a) {
		return approveOnScreen(ctx, a, p, events, n)
	}
	if cli.IsTerminal(a.Out) {
		fmt.Fprintln(a.Out, "sandgate: waiting for requests; press Ctrl-D to end")
	}
	screen := *a
	screen.Out, screen.Err = terminal.Fitted{Writer: cli.Bare(a.Out)}, terminal.Fitted{Writer: cli.Bare(a.Err)}
	pr := &prompt{App: &screen, approver: p, input: readLines(a.In), begun: time.Now(), turns: map[protocol.ApprovalID]uint64{}}
	return pr.loop(ctx, events)
}

func approveOnScreen(ctx context.Context, a *cli.App, p *client.Approver, events <-chan client.Event, n tui.Notify) error {
	err := tui.Run(ctx, tui.Options{
		Approver: p, Events: events, Boards: board.New(p, boards.Stores(a, "")).View(time.Now), In: a.In, Out: cli.Bare(a.Out), Environ: os.Environ(), Pager: os.Getenv("PAGER"), Notify: n,
		Editor: cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")),
	})
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return nil
}

// notifyOf reads the words of --notify.
func notifyOf(words []string) (n tui.Notify, err error) {
	for _, word := range words {
		switch word {
		case "bell":
			n.Bell = true
		case "terminal":
			n.OSC9 = true
		case "desktop":
			if _, err := exec.LookPath("notify-send"); err != nil {
				return n, cli.WithHint(cli.UsageError(fmt.Errorf("--notify desktop: %w", err)), "install libnotify, or use --notify bell,terminal")
			}
			n.Command = []string{"notify-send", "--app-name=sandgate", "--"}
		case "none":
			n = tui.Notify{}
		default:
			return n, cli.WithHint(cli.UsageError(fmt.Errorf("--notify %q: unknown", word)), "use bell, terminal, desktop or none; separate several with commas")
		}
	}
	return n, nil
}

// hasScreen reports whether there is a terminal that can move its cursor.
func hasScreen(a *cli.App) bool {
	dumb := cmp.Or(os.Getenv("TERM"), "dumb") == "dumb"
	return !dumb && cli.IsTerminal(a.In) && cli.IsTerminal(a.Out)
}
