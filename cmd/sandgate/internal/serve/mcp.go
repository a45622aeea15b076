package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	httpgate "github.com/sandgate/sandgate/adapters/http"
	"github.com/sandgate/sandgate/adapters/mcp"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/protocol"
)

func NewMCPCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "mcp",
		Short:   "Serve MCP clients, and confine MCP servers",
		Example: "  sandgate mcp serve\n  sandgate mcp wrap --ro ~/docs -- mcp-files ~/docs",
	}
	c.AddCommand(newMCPServeCmd(a), newMCPWrapCmd(a))
	return c
}

type mcpServeFlags struct {
	config, socket, operator, agent, http, tokenFile string
	review                                           bool
}

func newMCPServeCmd(a *cli.App) *cobra.Command {
	var f mcpServeFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Offer the running supervisor's tools as an MCP server",
		Long: `serve is an MCP server on standard input and output, and an agent of the running
supervisor: each tools/call is decided, confined and recorded like any other call. A
refusal is a result that says what would be allowed. Answer pending requests with
` + "`sandgate approve`" + `. With approval.elicitation in the configuration, a client that can ask
its user does so for its own calls, too. serve ends with its input and cancels the calls
that still run.

With --config, serve starts its own supervisor, with an operator socket for answers, and
needs no running one.

With --http, serve uses streamable HTTP on loopback at /mcp instead. Clients must send the
token in the token file. serve then runs until a signal ends it.`,
		Example: "  sandgate mcp serve\n  claude mcp add sandgate -- sandgate mcp serve --agent claude\n  sandgate mcp serve --config sandgate.yaml\n  sandgate mcp serve --http 127.0.0.1:8643",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if f.tokenFile != "" && f.http == "" {
				return cli.WithHint(cli.UsageError(errors.New("--token-file needs --http")), "add --http 127.0.0.1:8643")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			defer stop()
			if f.config != "" {
				return mcpServeAlone(ctx, a, f)
			}
			return mcpServe(ctx, a, f)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.config, "config", "", "start a supervisor with this configuration `file`")
	fs.StringVar(&f.operator, "operator-socket", "", "operator socket `path`, used where clients may ask their user (default: runtime directory/operator.sock)")
	fs.StringVar(&f.socket, "socket", "", "agent socket `path` (default: runtime directory/agent.sock)")
	fs.StringVar(&f.http, "http", "", "serve HTTP on this loopback `address`, such as 127.0.0.1:8643")
	fs.StringVar(&f.tokenFile, "token-file", "", "with --http: token `file`, created if missing (default: state directory/mcp-token)")
	fs.BoolVar(&f.review, "review", false, "work on a draft, and ask a person at the end what to keep")
	fs.StringVar(&f.agent, "agent", "", "agent `name` for approvers and the log (default: the client's own name)")
	return c
}

// mcpServeAlone is mcpServe with a supervisor in this process. It is reached over its
// socket like any other, so that there is one way in.
func mcpServeAlone(ctx context.Context, a *cli.App, f mcpServeFlags) (err error) {
	cfg, err := settings.Load(f.config, "")
	if err != nil {
		return err
	}
	faults := faults(a, warnings())
	x, err := setUp(a, cfg, assemble.Options{Version: a.Version, TryBackend: true, Faults: faults, Begin: review.NewReviewer(a, cfg, review.ServeFlags{Config: f.config}).Begin}, serveFlags{socket: f.socket, operator: f.operator})
	if err != nil {
		return err
	}
	defer x.close()
	f.socket, f.operator = x.sockets.agent.Addr().String(), x.sockets.operator.Addr().String()
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serveUntil(ctx, a, cfg, x.Running, x.sockets, x.web, faults) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-served)
	}()
	return mcpServe(ctx, a, f)
}

func mcpServe(ctx context.Context, a *cli.App, f mcpServeFlags) error {
	// A client shows its user what a server says that ends at once, and hides what it
	// answers later.
	agent, err := client.DialAgent(ctx, f.socket, client.WithProgram("sandgate mcp serve", a.Version))
	if err != nil {
		return cli.WireStatus(err)
	}
	agent.Close()
	cfg := mcp.Config{
		Version: a.Version, Agent: f.agent,
		Open: func(name string) mcp.Backend {
			return mcp.Supervisor(f.socket, protocol.SessionOpen{Agent: name, Review: f.review}, a.Version)
		},
		Operator: func(ctx context.Context) (*client.Approver, error) {
			return client.DialApprover(ctx, f.operator, client.WithProgram("sandgate mcp serve", a.Version))
		},
	}
	if f.http != "" {
		return mcpServeHTTP(ctx, a, f, cfg)
	}
	err = mcp.ServeStdio(ctx, cfg, a.In, cli.Bare(a.Out))
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return nil
}

// mcpServeHTTP has a token of its own: that of the page would let an agent decide.
func mcpServeHTTP(ctx context.Context, a *cli.App, f mcpServeFlags, cfg mcp.Config) error {
	file := f.tokenFile
	if file == "" {
		log, err := audit.DefaultPath()
		if err != nil {
			return cli.WithStatus(cli.ExitInternal, err)
		}
		file = filepath.Join(filepath.Dir(log), "mcp-token")
	}
	token, err := httpgate.Token(file)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	l, err := listenLoopback(f.http)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "sandgate: MCP        http://%s%s\nsandgate: token      %s\n", l.Addr(), mcp.HTTPPath, file)
	if err := mcp.ServeHTTP(ctx, cfg, l, token); err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return nil
}
