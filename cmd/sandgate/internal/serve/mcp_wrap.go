package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/adapters/mcp"
	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	toolsmcp "github.com/sandgate/sandgate/tools/mcp"
)

type mcpWrapFlags struct {
	run.Flags
	name, operator, agent, fallback string
	allow, deny                     []string
}

func newMCPWrapCmd(a *cli.App) *cobra.Command {
	var f mcpWrapFlags
	c := &cobra.Command{
		Use:   "wrap [flags] -- COMMAND [ARG...]",
		Short: "Run one MCP server in the sandbox; replaces its command in a client's configuration",
		Long: `wrap runs a third-party MCP server in a sandbox, between the server and its client. It
works like a server in mcp.servers of the configuration: tools keep the server's names,
and each tools/call is decided and recorded. The server sees only the paths of --ro and
--rw, the hosts of --network and the variables of --env.

wrap is a supervisor with its own operator socket, which it prints on standard error.
Answer pending requests there with ` + "`sandgate approve`" + `.

If the server calls a tool destructive or open-world, wrap asks before each call, unless
--allow gives the tool's full name: --allow write_file.

Only tools pass through. Resources, prompts and other features of the server do not, and
requests from the server to its client are refused.`,
		Example: `  sandgate mcp wrap --network api.github.com --env GITHUB_TOKEN --allow 'search_*' -- github-mcp stdio
  sandgate mcp wrap --rw ~/project --default allow --allow write_file -- mcp-files ~/project`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			defer stop()
			return mcpWrap(ctx, a, f, argv)
		},
	}
	fs := c.Flags()
	fs.SetInterspersed(false) // flags end at COMMAND, so its own are never eaten
	fs.StringVar(&f.Config, "config", "", "configuration `file`")
	fs.StringVar(&f.Profile, "profile", "", "operator profile that narrows permissions, a shipped `name` or a file")
	fs.StringVar(&f.Mode, "mode", "", "interactive, approve_all or strict (default: the configuration's)")
	fs.StringVar(&f.name, "name", "", "server `name` for approvers and the log (default: the command's name)")
	fs.StringVar(&f.agent, "agent", "", "agent `name` (default: the client's own name)")
	fs.StringVar(&f.operator, "operator-socket", "", "operator socket `path` (default: runtime directory/operator.sock, or another name if taken)")
	fs.StringArrayVar(&f.allow, "allow", nil, "do not ask about tools that match this `glob`; a full name overrides the server's warnings (repeatable)")
	fs.StringArrayVar(&f.deny, "deny", nil, "refuse tools that match this `glob` (repeatable)")
	fs.StringVar(&f.fallback, "default", string(config.Ask), "how to decide about other tools: ask, allow or deny")
	fs.StringVar(&f.Network, "network", "none", "none, host, or a list of HOST[:PORT]")
	fs.StringArrayVar(&f.Ro, "ro", nil, "show `path`, read-only (repeatable)")
	fs.StringArrayVar(&f.Rw, "rw", nil, "show `path`, writable (repeatable)")
	fs.StringArrayVar(&f.Env, "env", nil, "pass a variable, `NAME` or NAME=VALUE (repeatable)")
	fs.DurationVar(&f.Timeout, "timeout", 0, "time limit of one call")
	fs.StringVar(&f.Memory, "memory", "", "limit of the server's memory, such as 512MiB")
	fs.Int64Var(&f.Pids, "pids", 0, "limit of the number of processes")
	fs.StringVar(&f.Backend, "backend", "auto", assemble.BackendUsage)
	return c
}

func mcpWrap(ctx context.Context, a *cli.App, f mcpWrapFlags, argv []string) (err error) {
	cfg, server, err := f.configuration(argv)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandgate-wrap-") // mode 0700: nobody else is this supervisor's agent
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	defer os.RemoveAll(dir)
	sockets, err := listenToWrap(a, f, filepath.Join(dir, "agent.sock"))
	if err != nil {
		return err
	}
	defer sockets.close()
	startThreads(standbyThreads)
	faults := faults(a, warnings())
	review.SettleKeeps(a, assemble.WritableRoots(cfg))
	r, err := assemble.Start(cfg, assemble.Options{Version: a.Version, Mode: approval.Mode(f.Mode), Backend: f.Backend, TryBackend: true, Faults: faults})
	if err != nil {
		return err
	}
	defer r.Close()
	run.PrintRecovery(a, r)
	announce(a, r, sockets, nil)
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serveUntil(ctx, a, cfg, r, sockets, nil, faults) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-served)
	}()
	err = mcp.ServeStdio(ctx, mcp.Config{
		Version: a.Version, Agent: f.agent,
		Open: func(name string) mcp.Backend {
			return mcp.Wrapped(sockets.agent.Addr().String(), name, a.Version, server)
		},
	}, a.In, cli.Bare(a.Out))
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return nil
}

// listenToWrap makes the sockets. Where another supervisor answers operators already,
// ours is beside it.
func listenToWrap(a *cli.App, f mcpWrapFlags, agent string) (*sockets, error) {
	s, err := listenBoth(a, serveFlags{socket: agent, operator: f.operator})
	if f.operator != "" || !errors.Is(err, unixsock.ErrInUse) {
		return s, err
	}
	return listenBoth(a, serveFlags{socket: agent, operator: besideOperator()})
}

func besideOperator() string {
	path, err := unixsock.DefaultPath(unixsock.OperatorSocket)
	if err != nil {
		return "" // as before, and the error is said then
	}
	return filepath.Join(filepath.Dir(path), fmt.Sprintf("operator-%d.sock", os.Getpid()))
}

// configuration is that of the file, with one MCP server in place of all.
func (f mcpWrapFlags) configuration(argv []string) (*config.Config, string, error) {
	if err := assemble.CheckBackend(f.Backend); err != nil {
		return nil, "", err
	}
	if f.Mode != "" && !run.IsMode(f.Mode) {
		return nil, "", cli.WithHint(cli.UsageError(fmt.Errorf("--mode %q: unknown mode", f.Mode)), "use interactive, approve_all or strict")
	}
	s, err := f.server(argv)
	if err != nil {
		return nil, "", cli.UsageError(err)
	}
	cfg, err := settings.Load(f.Config, "")
	if err != nil {
		return nil, "", err
	}
	// Only the command line says what the server sees, and nothing else is within reach.
	cfg.Sandbox.Paths, cfg.Shell.Rules, cfg.Tools = nil, nil, nil
	if err := run.Apply(cfg, f.Flags); err != nil {
		return nil, "", err
	}
	s.Network = cfg.Shell.Network
	s.Sandbox.Paths = map[string]config.Mode{}
	for _, p := range cfg.Sandbox.Paths {
		s.Sandbox.Paths[p.Name] = p.Mode
	}
	cfg.MCP.Servers = []config.MCPServer{s}
	if floor := cfg.Floor; floor != nil && floor.Set("approval.mode") && f.Mode != "" && f.Mode != string(approval.Strict) &&
		floor.Approval.Mode != config.ApproveAll && f.Mode != string(floor.Approval.Mode) {
		return nil, "", run.LooserMode("--mode "+f.Mode, cfg)
	}
	return cfg, s.Name, run.KeepFloor(cfg)
}

// server is the one of the command line, without what it may reach.
func (f mcpWrapFlags) server(argv []string) (config.MCPServer, error) {
	s := config.MCPServer{Name: f.name, Command: argv, Approval: config.MCPApproval{
		Default: config.Effect(f.fallback), Tools: map[string]config.Effect{},
	}}
	if s.Name == "" {
		s.Name = serverNameOf(argv[0])
	}
	if !toolsmcp.ValidServerName(s.Name) {
		return s, fmt.Errorf("--name %q: want at most %d letters, digits and -", s.Name, toolsmcp.MaxServerName)
	}
	switch s.Approval.Default {
	case config.Allow, config.Ask, config.Deny:
	default:
		return s, fmt.Errorf("--default %q: want ask, allow or deny", f.fallback)
	}
	for _, glob := range f.allow {
		s.Approval.Tools[glob] = config.Allow
	}
	for _, glob := range f.deny { // of one that is given for both, the stricter
		s.Approval.Tools[glob] = config.Deny
	}
	return s, nil
}

// serverNameOf makes a name of the command's.
func serverNameOf(program string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && toolsmcp.ValidServerName(string(r)) || r == '-' {
			return r
		}
		return '-'
	}, filepath.Base(program))
	name = strings.Trim(name, "-")
	name = name[:min(len(name), toolsmcp.MaxServerName)]
	if name == "" {
		return "server"
	}
	return name
}
