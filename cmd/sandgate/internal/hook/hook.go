package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/adapters/hooks"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/internal/ownfile"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

type hookFlags struct {
	socket, agent, ask, onError, settings string
	confine, install, uninstall, write    bool
	probe                                 bool
	timeout                               time.Duration
}

func NewCommand(a *cli.App) *cobra.Command {
	var f hookFlags
	c := &cobra.Command{
		Use:   "hook claude-code|codex|gemini-cli",
		Short: "Decide the tool calls of an agent runtime through its hooks",
		Long: `An agent runtime runs hook before it uses one of its own tools. hook reads the event on
standard input, asks the running supervisor, and answers in the runtime's format.

Shell commands are rewritten so that the supervisor runs them in its sandbox, unless you
give --confine=false. The runtime carries out all other tools itself, without a sandbox,
so hook's answer about them is only advice. If such a call needs a person's approval, the
runtime asks its own user where it can; with --ask operator, ` + "`sandgate approve`" + ` asks.

If anything fails, the call is refused: exit status 2, with the reason on standard error.

--install prints the runtime's settings with the hook added, --uninstall with it removed;
--write changes the file. The other flags become part of the hook. --check asks Codex
whether it runs the hook in this directory: Codex skips a hook that you have not trusted,
and ` + "`codex exec`" + " does not report that.",
		Example: `  sandgate hook claude-code --install --write
  sandgate hook codex --install --ask operator
  sandgate hook codex --check && codex exec --sandbox danger-full-access "..."
  sandgate hook claude-code --uninstall --settings .claude/settings.local.json --write
  echo "$EVENT" | sandgate hook claude-code`,
		Args:      cobra.ArbitraryArgs, // checked where a mistake is answered with exit status 2
		ValidArgs: hooks.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return hook(ctx, a, f, cmd, args)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.socket, "socket", "", "agent socket `path` (default: runtime directory/agent.sock)")
	fs.StringVar(&f.agent, "agent", "", "agent `name` for approvers and the log (default: the runtime's name)")
	fs.BoolVar(&f.confine, "confine", true, "run shell commands in the supervisor's sandbox")
	fs.StringVar(&f.ask, "ask", "runtime", "`who` is asked about tools that the runtime carries out itself: runtime or operator")
	fs.StringVar(&f.onError, "on-error", "deny", "answer after a failure: deny, or ask if the runtime can ask its user")
	fs.DurationVar(&f.timeout, "timeout", 0, "refuse if there is no answer within this `time` (default 50s; 9m50s with --ask operator)")
	fs.BoolVar(&f.install, "install", false, "print the settings with the hook added")
	fs.BoolVar(&f.uninstall, "uninstall", false, "print the settings with the hook removed")
	fs.StringVar(&f.settings, "settings", "", "settings `file` (default: the user's own)")
	fs.BoolVar(&f.write, "write", false, "with --install or --uninstall: change the file")
	fs.BoolVar(&f.probe, "check", false, "ask the runtime whether it runs the hook (codex)")
	c.MarkFlagsMutuallyExclusive("install", "uninstall", "check")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return blocking(err) })
	return c
}

// blocking gives an error the status that a runtime takes for a refusal. It takes every
// other but 0 for a hook that failed, and goes on without it.
func blocking(err error) error {
	return cli.WithStatus(hooks.ExitBlocks, cli.WithHint(err, "see `sandgate hook --help`; a hook that does not work allows nothing"))
}

func hook(ctx context.Context, a *cli.App, f hookFlags, cmd *cobra.Command, args []string) error {
	runtime, err := f.check(args)
	if err != nil {
		return blocking(err)
	}
	if f.install || f.uninstall {
		return changeSettings(a, f, cmd, runtime)
	}
	if f.probe {
		return probeHook(ctx, a, runtime)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no answer within %v", f.timeout))
	defer cancel()
	answer := answerHook(ctx, a, f, runtime)
	if answer.Broken && f.onError == "ask" {
		answer.Verdict = hooks.Ask
	}
	return writeHook(a, runtime.Encode(answer))
}

// check completes the flags.
func (f *hookFlags) check(args []string) (*hooks.Runtime, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("hook: %d runtimes given, want one of %s", len(args), strings.Join(hooks.Names(), ", "))
	}
	runtime := hooks.Runtimes()[args[0]]
	switch {
	case runtime == nil:
		return nil, fmt.Errorf("hook: unknown runtime %q, want one of %s", args[0], strings.Join(hooks.Names(), ", "))
	case f.ask != "runtime" && f.ask != "operator":
		return nil, fmt.Errorf("--ask %q: want runtime or operator", f.ask)
	case f.onError != "deny" && f.onError != "ask":
		return nil, fmt.Errorf("--on-error %q: want deny or ask", f.onError)
	case f.onError == "ask" && !runtime.Asks():
		return nil, fmt.Errorf("--on-error ask: %s hooks cannot ask the user", runtime.Name)
	case f.timeout < 0:
		return nil, fmt.Errorf("--timeout %v: want a positive time", f.timeout)
	case (f.write || f.settings != "") && !f.install && !f.uninstall:
		return nil, errors.New("--settings and --write need --install or --uninstall")
	case f.probe && runtime.Prober() == nil:
		return nil, fmt.Errorf("--check: not needed for %s, which runs every installed hook", runtime.Name)
	}
	if f.agent == "" {
		f.agent = runtime.Name
	}
	if f.timeout == 0 {
		f.timeout = 50 * time.Second
		if f.ask == "operator" {
			f.timeout = 10*time.Minute - hookSlack
		}
	}
	return runtime, nil
}

// hookSlack is how much longer than ours a runtime's own time limit is: it takes a hook
// that has not answered by then for a yes.
const hookSlack = 10 * time.Second

// answerHook always has an answer, also to what never ends.
func answerHook(ctx context.Context, a *cli.App, f hookFlags, runtime *hooks.Runtime) hooks.Answer {
	answers := make(chan hooks.Answer, 1)
	go func() {
		input, err := io.ReadAll(io.LimitReader(a.In, hooks.MaxInput+1))
		if err != nil {
			answers <- hooks.Broken(fmt.Errorf("read the input: %w", err))
			return
		}
		answers <- answerInput(ctx, a, f, runtime, input)
	}()
	select {
	case answer := <-answers:
		return answer
	case <-ctx.Done():
		return hooks.Broken(context.Cause(ctx))
	}
}

func answerInput(ctx context.Context, a *cli.App, f hookFlags, runtime *hooks.Runtime, input []byte) hooks.Answer {
	h := hooks.Hook{Runtime: runtime, ApproversAsk: f.ask == "operator", Scratch: claudeScratch(), Alone: ownfile.Alone}
	socket, err := f.socketPath()
	if err == nil {
		h.Program, err = ownFile()
	}
	if err != nil {
		return hooks.Broken(err)
	}
	h.Open = func(ctx context.Context, name string) (hooks.Session, error) {
		agent, err := client.DialAgent(ctx, socket, client.WithProgram("sandgate hook "+runtime.Name, a.Version))
		if err != nil {
			return nil, err
		}
		return agent.OpenSession(ctx, protocol.SessionOpen{Agent: f.agent, Name: name}) // it ends with this process
	}
	if f.confine {
		h.Command = func(session string) []string {
			argv := []string{h.Program, "call", "--socket", socket, "--agent", f.agent, "--here"}
			if session != "" {
				argv = append(argv, "--session", session)
			}
			return append(argv, "--", "shell")
		}
	}
	return h.Answer(ctx, input)
}

// claudeScratch is where Claude Code puts the output of commands in the background.
func claudeScratch() string {
	tmp := cmp.Or(os.Getenv("CLAUDE_CODE_TMPDIR"), "/tmp")
	return filepath.Join(tmp, fmt.Sprintf("claude-%d", os.Getuid()))
}

// socketPath is absolute: the runtime runs the rewritten command elsewhere, and perhaps
// with another environment.
func (f *hookFlags) socketPath() (string, error) {
	if f.socket == "" {
		return unixsock.DefaultPath(unixsock.AgentSocket)
	}
	return filepath.Abs(f.socket)
}

// ownFile is this program's file, by a path without links: none of them can be pointed
// elsewhere before the runtime runs the rewritten command.
func ownFile() (string, error) {
	named, err := ownPath()
	if err != nil {
		return "", err
	}
	file, err := filepath.EvalSymlinks(named)
	if err != nil {
		return "", err
	}
	if filepath.Base(file) != filepath.Base(named) { // a program of several names knows itself by this one
		dir, err := filepath.EvalSymlinks(filepath.Dir(named))
		return filepath.Join(dir, filepath.Base(named)), err
	}
	return file, nil
}

// ownPath is the path by which this program was started, if that is this program, and
// else that of its file: the name that a person has installed stays the same.
func ownPath() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	named, err := exec.LookPath(os.Args[0])
	if err == nil {
		named, err = filepath.Abs(named)
	}
	if err != nil {
		return own, nil
	}
	a, errA := os.Stat(own)
	b, errB := os.Stat(named)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return named, nil
	}
	return own, nil
}

// writeHook is the process's last word. What cannot be written is a refusal.
func writeHook(a *cli.App, o hooks.Output) error {
	if _, err := a.Out.Write(o.Stdout); err != nil {
		return blocking(fmt.Errorf("write the answer: %w", err))
	}
	a.Err.Write(o.Stderr)
	if o.Exit != 0 {
		return cli.WithStatus(o.Exit, nil)
	}
	return nil
}
