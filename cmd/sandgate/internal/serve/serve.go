package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine/platform"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/server"
)

type serveFlags struct {
	config, socket, operator, http string
	log                            string
	backend                        string // that sandgate bench compares with others
	draftOf                        string // the directory of the draft that its calls work on, or ""
	approveAll, strict             bool
	logLevel                       *slog.LevelVar
}

func NewCommand(a *cli.App) *cobra.Command {
	f := serveFlags{logLevel: warnings()}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Start the supervisor and listen for agents and operators",
		Long: `serve listens on two Unix sockets, one for agents and one for operators, in a directory
that only this user can enter. SIGINT or SIGTERM ends it, after every call has been killed
and recorded. SIGHUP reloads the standing rules or, if serve was started on a terminal, ends
it, as closing that terminal does.

With --http, or http.listen in the configuration, operators can also answer on a web page.
A link that works once opens it; ` + "`sandgate approve --web`" + ` prints another.

Standard error (the journal under systemd) gets what operators should know and no call
reports: faults of sandgate itself, refused connections, a host without room for sandboxes.`,
		Example: "  sandgate serve --config sandgate.yaml\n  sandgate serve --strict\n  sandgate serve --http 127.0.0.1:8642",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serve(a, cmd, f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.config, "config", "", "configuration `file`")
	fs.StringVar(&f.socket, "socket", "", "agent socket `path` (default: runtime directory/agent.sock)")
	fs.StringVar(&f.operator, "operator-socket", "", "operator socket `path` (default: runtime directory/operator.sock)")
	fs.StringVar(&f.http, "http", "", "serve the web page and bridges on this loopback `address`, such as 127.0.0.1:8642")
	fs.TextVar(f.logLevel, "log-level", f.logLevel, "log messages of this `level` and above: error, warn or info")
	fs.StringVar(&f.log, "log", logAuto, "print each decision: decisions, none, or auto (on a terminal and in the journal)")
	fs.StringVar(&f.draftOf, "draft-of", "", "work on the draft in this `directory`, until standard input ends")
	fs.StringVar(&f.backend, "backend", "auto", assemble.BackendUsage)
	_, _ = fs.MarkHidden("draft-of"), fs.MarkHidden("backend")
	fs.BoolVar(&f.approveAll, "approve-all", false, "approve what would be asked; rules that deny still apply")
	fs.BoolVar(&f.strict, "strict", false, "deny what would be asked")
	c.MarkFlagsMutuallyExclusive("approve-all", "strict")
	return c
}

func (f serveFlags) options() (o assemble.Options, err error) {
	o.TryBackend, o.Backend = true, f.backend
	if err := assemble.CheckBackend(f.backend); err != nil {
		return o, err
	}
	switch f.log {
	case logAuto, logDecisions, logNone:
	default:
		return o, cli.WithHint(cli.UsageError(fmt.Errorf("--log %q: unknown value", f.log)), "use decisions, none or auto")
	}
	switch {
	case f.approveAll:
		o.Mode = approval.ApproveAll
		o.Warnings = []string{"--approve-all: no one is asked; only rules and the sandbox limit the tools"}
	case f.strict:
		o.Mode = approval.Strict
	}
	return o, nil
}

func serve(a *cli.App, cmd *cobra.Command, f serveFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	ctx, over := cmd.Context(), (*changes.Draft)(nil)
	if f.draftOf != "" {
		if over, ctx, err = draft.Take(ctx, f.draftOf); err != nil {
			return err
		}
	}
	o.Version, o.Faults = a.Version, faults(a, f.logLevel)
	cfg, err := settings.Load(f.config, "") // what has no effect is among the warnings
	if err != nil {
		return err
	}
	for _, text := range cfg.Caveats() {
		fmt.Fprintf(a.Err, "sandgate: notice: %s\n", text)
	}
	if f.approveAll && cfg.Floor != nil && cfg.Floor.Set("approval.mode") && cfg.Floor.Approval.Mode != config.ApproveAll {
		return run.LooserMode("--approve-all", cfg)
	}
	if f.http != "" && cfg.Floor != nil && cfg.Floor.Set("http.listen") && cfg.Floor.HTTP.Listen != f.http {
		return cli.WithHint(cli.UsageError(fmt.Errorf("--http %s differs from http.listen: %q in the administrator's file, %s",
			f.http, cfg.Floor.HTTP.Listen, cfg.Floor.Origin("http.listen"))), "remove the flag")
	}
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if cli.IsTerminal(a.Err) {
		ending = append(ending, syscall.SIGHUP, syscall.SIGQUIT)
	}
	// Before anything is made that a signal would leave behind.
	ctx, stop := signal.NotifyContext(ctx, ending...)
	defer stop()
	if over != nil {
		if ctx, err = review.WorkOn(ctx, a, cfg, &o, over); err != nil {
			return err
		}
	} else {
		o.Begin = review.NewReviewer(a, cfg, review.ServeFlags{Config: f.config, ApproveAll: f.approveAll, Strict: f.strict}).Begin
	}
	x, err := setUp(a, cfg, o, f)
	if err != nil {
		return err
	}
	defer x.close()
	debug.SetGCPercent(servingGC)
	idle, stopIdle := context.WithCancel(cmd.Context())
	defer stopIdle()
	go whenIdle(idle, time.Tick(idleInterval), x.Supervisor.Calls, giveBackMemory)

	if !cli.IsTerminal(a.Err) {
		defer reloadOnHangup(a, x.Running)()
	}
	return serveUntil(ctx, a, cfg, x.Running, x.sockets, x.web, o.Faults)
}

// A service is a supervisor, its sockets and, if it has one, its web page.
type service struct {
	*assemble.Running
	sockets *sockets
	web     *httpSide    // nil: none
	log     *DecisionLog // nil: none
}

// setUp makes a service, and says where it is.
func setUp(a *cli.App, cfg *config.Config, o assemble.Options, f serveFlags) (_ *service, err error) {
	startThreads(standbyThreads) // before anybody can use up what they are made of
	x := &service{}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	if x.sockets, err = listenBoth(a, f); err != nil {
		return nil, err
	}
	if x.web, err = listenHTTP(a, cfg, f.http, x.sockets); err != nil {
		return nil, err
	}
	if x.web != nil {
		o.HTTP = x.web.status
	}
	if x.log = newDecisionLog(a.Err, f.log); x.log != nil {
		o.Decided = x.log.decided
	}
	if o.DraftOver == nil {
		review.SettleKeeps(a, assemble.WritableRoots(cfg))
	}
	if x.Running, err = assemble.Start(cfg, o); err != nil {
		return nil, err
	}
	run.PrintRecovery(a, x.Running)
	announce(a, x.Running, x.sockets, x.web)
	return x, nil
}

// close ends what was made, the last first.
func (x *service) close() {
	if x.Running != nil {
		x.Running.Close()
	}
	if x.log != nil {
		x.log.close()
	}
	if x.web != nil {
		x.web.close()
	}
	if x.sockets != nil {
		x.sockets.close()
	}
}

// servingGC lets the heap of a supervisor that is being called grow to three times what
// it needs. A waiting one gives that back.
const servingGC = 200

// idleInterval is how long, at least, no call must have come until a supervisor gives
// back the memory that calls needed.
const idleInterval = 30 * time.Second

// whenIdle calls rest at the start, and after that when there were calls since the last
// time and none between two ticks.
func whenIdle(ctx context.Context, tick <-chan time.Time, calls func() int64, rest func()) {
	rested, last := calls(), calls()
	rest()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		now := calls()
		if now == last && now != rested {
			rest()
			rested = now
		}
		last = now
	}
}

// giveBackMemory is about what will not be needed soon.
func giveBackMemory() {
	debug.FreeOSMemory()
	dropProgramPages()
}

// reloadOnHangup reads the standing rules again at each SIGHUP, until stop.
func reloadOnHangup(a *cli.App, r *assemble.Running) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	self := assemble.Self()
	go func() {
		for range hangup {
			if n, err := r.RuleService().Reload(self); err != nil {
				a.Complain(err)
			} else {
				fmt.Fprintf(a.Err, "sandgate: reloaded %d rules, %d of them without effect\n", n.Rules, n.Inactive)
			}
			for _, text := range r.Status().Stale {
				fmt.Fprintf(a.Err, "sandgate: warning: %s\n", approval.EscapeLine(text))
			}
		}
	}()
	return func() {
		signal.Stop(hangup)
		close(hangup)
	}
}

// warnings is the default level of a log.
func warnings() *slog.LevelVar {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	return level
}

// faults is where a supervisor logs what an operator should know and no call tells.
// What others say in it is quoted.
func faults(a *cli.App, level *slog.LevelVar) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
}

func serveUntil(ctx context.Context, a *cli.App, cfg *config.Config, r *assemble.Running, s *sockets, web *httpSide, faults *slog.Logger) error {
	server := server.New(r.Supervisor, server.Config{Version: a.Version, Log: faults, Elicitation: cfg.Approval.Elicitation})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sides := []func() error{
		func() error { return server.ServeAgent(ctx, s.agent) },
		func() error { return server.ServeOperator(ctx, s.operator) },
	}
	if web != nil {
		sides = append(sides, func() error { return web.server.Serve(ctx) })
	}
	ended := make(chan error, len(sides))
	for _, serve := range sides {
		go func() { ended <- serve() }()
	}
	err := <-ended
	cancel()
	for range len(sides) - 1 {
		if next := <-ended; err == nil {
			err = next
		}
	}
	fmt.Fprintln(a.Err, "sandgate: stopped")
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	return nil
}

// announce says what a person needs to know at start; every weakening has its line.
func announce(a *cli.App, r *assemble.Running, s *sockets, web *httpSide) {
	st := r.Status()
	fmt.Fprintf(a.Err, "sandgate: agents     %s\n", s.agent.Addr())
	fmt.Fprintf(a.Err, "sandgate: operators  %s\n", s.operator.Addr())
	if web != nil {
		announceHTTP(a, web)
	}
	fmt.Fprintf(a.Err, "sandgate: audit log  %s\n", st.Audit.Path)
	if !st.Sandbox.Ready {
		fmt.Fprintf(a.Err, "sandgate: warning: every tool is refused: %s\nsandgate: hint: %s\n", st.Sandbox.Reason, st.Sandbox.Hint)
	}
	for _, w := range st.Warnings {
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", w)
	}
	for _, w := range platform.WithoutReserve() {
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", w)
	}
	fmt.Fprintln(a.Err, cli.ReadyText)
}
