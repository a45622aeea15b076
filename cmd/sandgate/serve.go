package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/supervisor"
)

type serveFlags struct {
	config, socket, operator, http string
	approveAll, strict             bool
}

func newServeCmd(a *app) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Start the supervisor and listen for agents and operators",
		Long: `serve listens on two Unix sockets: agents ask on the one, operators answer on the
other. Both lie in a directory that only this user can enter. It ends on SIGINT or
SIGTERM, after every call has been killed and recorded.`,
		Example: "  sandgate serve --config sandgate.yaml\n  sandgate serve --strict",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.config, "config", "", "configuration `file`")
	fs.StringVar(&f.socket, "socket", "", "agent socket `path` (default: agent.sock in the runtime directory)")
	fs.StringVar(&f.operator, "operator-socket", "", "operator socket `path` (default: operator.sock in the runtime directory)")
	fs.StringVar(&f.http, "http", "", "listen for the web page on `address` (not supported yet)")
	fs.BoolVar(&f.approveAll, "approve-all", false, "approve whatever would be asked; rules that deny still hold")
	fs.BoolVar(&f.strict, "strict", false, "deny whatever would be asked")
	c.MarkFlagsMutuallyExclusive("approve-all", "strict")
	return c
}

func (f serveFlags) options() (o buildOptions, err error) {
	switch {
	case f.http != "":
		return o, withHint(usageError(fmt.Errorf("--http is not supported yet")), "answer with `sandgate approve`")
	case f.approveAll:
		o.mode = approval.ApproveAll
		o.warnings = []string{"--approve-all: nobody is asked; only rules and the sandbox bound the tools"}
	case f.strict:
		o.mode = approval.Strict
	}
	return o, nil
}

func (a *app) serve(cmd *cobra.Command, f serveFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	cfg, err := loadConfig(f.config, "")
	if err != nil {
		return err
	}
	sockets, err := a.listenBoth(f)
	if err != nil {
		return err
	}
	defer sockets.close()
	r, err := build(cfg, o)
	if err != nil {
		return err
	}
	defer r.Close()
	a.reportRecovery(r.recovery)
	a.announce(r, sockets)

	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return a.serveUntil(ctx, r, sockets)
}

func (a *app) serveUntil(ctx context.Context, r *running, s *sockets) error {
	server := supervisor.NewServer(r.Supervisor, supervisor.ServerConfig{Version: version})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- server.ServeAgent(ctx, s.agent) }()
	go func() { ended <- server.ServeOperator(ctx, s.operator) }()
	err := <-ended
	cancel()
	if second := <-ended; err == nil {
		err = second
	}
	fmt.Fprintln(a.err, "sandgate: stopped")
	if err != nil {
		return withStatus(exitInternal, err)
	}
	return nil
}

// announce says what a person needs to know at start; every weakening has its line.
func (a *app) announce(r *running, s *sockets) {
	st := r.Status()
	fmt.Fprintf(a.err, "sandgate: agents     %s\n", s.agent.Addr())
	fmt.Fprintf(a.err, "sandgate: operators  %s\n", s.operator.Addr())
	fmt.Fprintf(a.err, "sandgate: audit log  %s\n", st.Audit.Path)
	if !st.Sandbox.Ready {
		fmt.Fprintf(a.err, "sandgate: warning: every tool is refused: %s\nsandgate: hint: %s\n", st.Sandbox.Reason, st.Sandbox.Hint)
	}
	for _, w := range st.Warnings {
		fmt.Fprintf(a.err, "sandgate: warning: %s\n", w)
	}
	fmt.Fprintln(a.err, "sandgate: ready")
}

// reportRecovery says what an earlier crash left in the audit log.
func (a *app) reportRecovery(rec audit.Recovery) {
	if t := rec.Torn; t != nil {
		fmt.Fprintf(a.err, "sandgate: the audit log ended in the middle of a line; %d bytes are kept in %s\n", t.Bytes, t.File)
	}
	for _, e := range rec.Interrupted {
		fmt.Fprintf(a.err, "sandgate: interrupted: call %s (%s) was running when sandgate died; none of its processes is left\n",
			approval.EscapeLine(e.Call), approval.EscapeLine(e.Tool))
	}
}

// resolved is the absolute path with every symbolic link resolved.
func resolved(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}
