package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/units"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/supervisor/undo"
)

type runFlags struct {
	config, profile, mode, network, backend string
	workspaces                              []string
	ro, rw, env, expose, presets            []string
	noDetect, verbose                       bool
	debug                                   bool // its programs may trace each other
	unrecorded                              bool // what it changes is recorded by who runs it
	terminal                                bool // a program on a terminal has one of its own
	review                                  bool // what it writes is a draft
	keep                                    bool // that is kept if the command succeeds
	draft                                   string
	draftOf                                 string // the directory of the draft that it runs on, or ""
	connected                               func(egress.Event)
	timeout                                 time.Duration
	memory, fileSize                        string
	pids                                    int64
}

func newRunCmd(a *cli.App) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run one command in the sandbox, without a daemon",
		Long: `run executes one command with the full path of a call (plan, decision, sandbox, audit log),
without a running supervisor. Input, output and exit status pass through (128+N after
signal N, 127 not found, 126 not executable; 120 to 125: see ` + "`sandgate --help`" + `). Typing the
command approves it: --mode defaults to approve_all. Without a configuration file, time and
file size are unlimited. On a terminal, the program gets its own: full-screen programs
work, but cannot touch your clipboard, title or terminal reports. It gets none with --mode
interactive or strict, or with standard output in a pipe.`,
		Example: `  sandgate run -- python3 script.py
  sandgate run --ro ~/data --timeout 30s --network none -- ./analyse ~/data
  sandgate run --expose 8000 -- python3 -m http.server 8000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, argv []string) error { return runProgram(a, cmd, f, argv) },
	}
	f.add(c)
	return c
}

func newShellCmd(a *cli.App) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "shell [flags] [-- ARG...]",
		Short: "Open your shell in the sandbox",
		Long: `shell starts the shell in $SHELL, or else bash or sh, in the sandbox. Every program that you
start from it is confined like a program of ` + "`sandgate run`" + ", until the shell ends.",
		Example: `  sandgate shell
  sandgate shell --network example.org`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProgram(a, cmd, f, append([]string{ownShell()}, args...))
		},
	}
	f.add(c)
	return c
}

// ownShell is the person's shell, if sandboxes have it.
func ownShell() string {
	for _, path := range []string{os.Getenv("SHELL"), "/bin/bash"} {
		real, err := assemble.Resolved(path)
		if err == nil && filepath.IsAbs(path) && sandboxprofile.IsSystemTree(real) {
			return path
		}
	}
	return "/bin/sh"
}

// add gives a command the flags.
func (f *runFlags) add(c *cobra.Command) {
	f.terminal = true
	fs := c.Flags()
	fs.SetInterspersed(false) // flags end at COMMAND, so its own are never eaten
	fs.StringVar(&f.config, "config", "", "configuration `file`")
	fs.StringVar(&f.profile, "profile", "", "operator profile that narrows permissions, a shipped `name` or a file")
	fs.StringArrayVar(&f.workspaces, "workspace", nil, "writable `directory` (default: the current one); repeat it to confirm one such as /")
	fs.StringVar(&f.mode, "mode", string(approval.ApproveAll), "interactive, approve_all or strict")
	fs.StringVar(&f.network, "network", "", "none, host, or a list of HOST[:PORT]")
	fs.StringSliceVar(&f.expose, "expose", nil, "let this machine connect to a `port` inside: PORT or HOST:INSIDE; HOST 0 is any free port (repeatable)")
	fs.StringSliceVar(&f.presets, "preset", nil, "also show what toolchain `name` reads: "+strings.Join(profiles.PresetNames(), ", ")+" (repeatable)")
	fs.BoolVar(&f.noDetect, "no-detect", false, "do not detect toolchains from PATH and the project")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "list what is shown for toolchains, and what is left out")
	fs.StringArrayVar(&f.ro, "ro", nil, "also show `path`, read-only (repeatable)")
	fs.StringArrayVar(&f.rw, "rw", nil, "also show `path`, writable (repeatable)")
	fs.StringArrayVar(&f.env, "env", nil, "pass a variable, `NAME` or NAME=VALUE (repeatable)")
	fs.DurationVar(&f.timeout, "timeout", 0, "kill everything after this `time`")
	fs.StringVar(&f.memory, "memory", "", "memory limit of all processes together, such as 512MiB")
	fs.Int64Var(&f.pids, "pids", 0, "limit of the number of processes and threads")
	fs.StringVar(&f.fileSize, "file-size", "", "size limit of each file, holes included, such as 512MiB")
	fs.BoolVar(&f.debug, "debug", false, "allow debuggers and tracers for the command's own processes")
	fs.StringVar(&f.backend, "backend", "auto", assemble.BackendUsage)
	fs.BoolVar(&f.review, "review", false, "write to a draft, and ask at the end what to keep: see sandgate review")
	fs.BoolVar(&f.keep, "keep", false, "with --review or --draft: keep the draft without asking if the status is 0")
	fs.StringVar(&f.draft, "draft", "", "continue draft `name`, as --review does with a new one")
	fs.StringVar(&f.draftOf, "draft-of", "", "run on the draft in this `directory`")
	_ = fs.MarkHidden("draft-of")
}

func runProgram(a *cli.App, cmd *cobra.Command, f runFlags, argv []string) error {
	if err := cli.InUTF8(argv); err != nil {
		return err
	}
	if f.review || f.draft != "" {
		return runDraft(a, cmd, f, argv)
	}
	if f.keep {
		return cli.UsageError(errors.New("--keep: no draft to keep; add --review"))
	}
	ctx := cmd.Context()
	if f.draftOf != "" {
		var err error
		if _, ctx, err = takeDraft(ctx, f.draftOf); err != nil {
			return err
		}
	}
	result, found, err := runOnce(a, ctx, "sandgate run", f, cmd.Flags().Changed("mode"), argv)
	if err != nil {
		return err
	}
	if result.EnforcedBy.Backend == confine.NoBackend {
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", confine.UnconfinedWarning)
	}
	for _, w := range result.Warnings { // the others are of the configuration, and the same each time
		if strings.Contains(w, undo.NotUndone) || strings.HasPrefix(w, gateway.Signed) {
			fmt.Fprintf(a.Err, "sandgate: warning: %s\n", approval.EscapeLine(w))
		}
	}
	printRefusals(a, result.Violations, found)
	if result.ExitCode != 0 {
		tellLeftOut(a, found)
		tellUnfollowed(a, found)
		err := sayNotStarted(a, result)
		if result.ExitCode == cli.ExitNotFound && len(result.Content) > 0 {
			tellWhere(a, found, argv[0])
		}
		return cli.WithStatus(result.ExitCode, err)
	}
	return nil
}

// runOnce takes one command through the whole path of a call, with a supervisor of its
// own. agent is who asks; typed says that the mode was. It gives what was derived too.
func runOnce(a *cli.App, ctx context.Context, agent string, f runFlags, typed bool, argv []string) (result protocol.CallResult, found assemble.Derived, err error) {
	cfg, err := runConfig(a, f)
	if err != nil {
		return result, found, err
	}
	if f.config != "" && callsMayWrite(cfg, f.config) {
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", approval.EscapeLine(f.config+" is in a directory that calls may write: a call can change what the next run with it allows"))
	}
	if f.draftOf == "" { // there the workspace is the draft
		settleKeeps(a, assemble.WritableRoots(cfg))
	}
	return runUnder(a, ctx, cfg, agent, f, typed, argv)
}

// runUnder is runOnce under a configuration that there is.
func runUnder(a *cli.App, ctx context.Context, cfg *config.Config, agent string, f runFlags, typed bool, argv []string) (result protocol.CallResult, found assemble.Derived, err error) {
	mode, err := runMode(cfg, approval.Mode(f.mode), typed)
	if err != nil {
		return result, found, err
	}
	// Where somebody is asked, or nobody may be, a sandbox that is built ahead is not needed.
	meant, err := assemble.SaidTwice(f.workspaces)
	if err != nil {
		return result, found, err
	}
	o := assemble.Options{Version: a.Version, Meant: meant, Mode: mode, Backend: f.backend, Ahead: mode == approval.ApproveAll, Program: argv[0], Uncached: f.unrecorded || f.draftOf != "", Connected: f.connected}
	place := func(path string) string { return path }
	if f.draftOf != "" {
		d, err := changes.OpenDraft(f.draftOf)
		if err != nil {
			return result, found, cli.WithStatus(cli.ExitInternal, err)
		}
		onCopies(cfg, d)
		place = d.Place
		o.DraftOver, o.Quarantine = over(d), d.Quarantine()
	}
	var person *terminal.Console
	if f.terminal && mode == approval.ApproveAll { // else questions are asked there
		if person = terminal.OpenConsole(a); person != nil {
			defer person.Close()
			o.Terminal = person.Size
		}
	}
	shown := terminal.NewProgramOutput(a, person)
	stdin := a.In
	if mode == approval.Interactive {
		prompter := terminal.NewPrompter()
		prompter.Quiet = shown.Ask
		o.Prompter = prompter
		stdin = shown.Input(stdin)
	}
	r, err := assemble.Start(cfg, o)
	if err != nil {
		return result, found, err
	}
	defer r.Close()
	found = r.Derived
	reportRecovery(a, r)
	tellToolchains(a, found, f.verbose, argv[0])

	ctx, stop := terminal.UntilSignal(ctx, person, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	defer shown.End()
	peer := assemble.Self()
	s, err := r.OpenLocal(peer, protocol.SessionOpen{Agent: agent}, supervisor.Streams{Stdin: stdin, Stdout: shown.Out, Stderr: shown.Err, Terminal: person.Streams()})
	if err != nil {
		return result, found, cli.WireStatus(err)
	}
	args, err := runArgs(cfg, argv, place)
	if err != nil {
		return result, found, err
	}
	result, err = r.Call(ctx, peer, protocol.ToolsCall{SessionID: s.SessionID, CallID: "run", Tool: "run", Args: args}, sayExposed(a))
	found.Said = shown.StderrTail()
	if err != nil {
		return result, found, terminal.SignalStatus(ctx, cli.WireStatus(err))
	}
	return result, found, nil
}

// sayExposed tells where the ports are, once they are open and before the program runs.
func sayExposed(a *cli.App) func(protocol.Method, any) {
	return func(_ protocol.Method, params any) {
		state, ok := params.(protocol.ToolState)
		if !ok {
			return
		}
		for _, p := range state.Exposed {
			fmt.Fprintf(a.Err, "sandgate: port %d inside is at %s\n", p.Port, p.Address)
		}
	}
}

// runArgs are the arguments of the tool run. The current directory is kept where
// the sandbox has it; elsewhere the program starts in the workspace.
func runArgs(cfg *config.Config, argv []string, place func(string) string) (json.RawMessage, error) {
	args := map[string]any{"argv": argv}
	cwd, err := assemble.Resolved(".")
	if err != nil {
		return nil, cli.WithStatus(cli.ExitUsage, err)
	}
	cwd = place(cwd)
	if cfg.ProgramsSee(cwd) {
		args["dir"] = cwd
	}
	return json.Marshal(args)
}

// sayNotStarted passes on what sandgate itself has to say about a program that
// could not be executed; everything else has gone through.
func sayNotStarted(a *cli.App, r protocol.CallResult) error {
	for _, c := range r.Content {
		fmt.Fprint(a.Err, c.Text)
	}
	return nil
}

// runConfig is the configuration with the command line's flags over it.
func runConfig(a *cli.App, f runFlags) (*config.Config, error) {
	if err := assemble.CheckBackend(f.backend); err != nil {
		return nil, err
	}
	if !isMode(f.mode) {
		return nil, cli.WithHint(cli.UsageError(fmt.Errorf("--mode %q: unknown mode", f.mode)), "use interactive, approve_all or strict")
	}
	cfg, err := settings.LoadAndWarn(a, f.config, strings.Join(f.workspaces[:min(len(f.workspaces), 1)], ""))
	if err != nil {
		return nil, err
	}
	l := &cfg.Sandbox.Limits
	for field, limit := range map[string]func(){
		"timeout": func() { l.Timeout = time.Duration(sandboxprofile.Unlimited) },
		"cpu":     func() { l.CPU = time.Duration(sandboxprofile.Unlimited) },
		"output":  func() { l.Output = units.Size(sandboxprofile.Unlimited) }, // nothing is kept: it passes through
		// A file's size counts its holes: heaps of Java and sparse images are larger than a disk.
		"file_size": func() { l.FileSize = units.Size(sandboxprofile.Unlimited) },
	} {
		if !cfg.Set("sandbox.limits." + field) {
			limit()
		}
	}
	if err := applyFlags(cfg, f); err != nil {
		return nil, err
	}
	cfg.Undo.Enabled = cfg.Undo.Enabled && !f.unrecorded
	return cfg, keepFloor(cfg)
}

// keepFloor holds the command line against what the administrator's file bounds. It is
// refused rather than narrowed: whoever typed it expects it to hold.
func keepFloor(cfg *config.Config) error {
	var beyond []string
	for _, n := range cfg.KeepFloor() {
		beyond = append(beyond, n.Field+" is "+n.Text)
	}
	if len(beyond) == 0 {
		return nil
	}
	return cli.WithHint(cli.UsageError(errors.New("the command line asks for more than is allowed: "+strings.Join(beyond, "; "))), "remove the flag")
}

// runMode is how requests are treated. Typing a command answers what would be asked,
// but not where the administrator has nobody asked.
func runMode(cfg *config.Config, mode approval.Mode, typed bool) (approval.Mode, error) {
	if cfg.Floor == nil || !cfg.Floor.Set("approval.mode") || cfg.Floor.Approval.Mode != config.Strict {
		return mode, nil
	}
	if typed && mode != approval.Strict {
		return mode, looserMode("--mode "+string(mode), cfg)
	}
	return approval.Strict, nil
}

func looserMode(flag string, cfg *config.Config) error {
	return cli.WithHint(cli.UsageError(fmt.Errorf("%s is looser than approval.mode: %s in the administrator's file, %s",
		flag, cfg.Floor.Approval.Mode, cfg.Floor.Origin("approval.mode"))), "remove the flag")
}

func isMode(m string) bool {
	switch approval.Mode(m) {
	case approval.Interactive, approval.ApproveAll, approval.Strict:
		return true
	}
	return false
}

func applyFlags(cfg *config.Config, f runFlags) error {
	if f.profile != "" {
		cfg.ReplaceProfile(f.profile)
	}
	if err := addRoots(cfg, f); err != nil {
		return err
	}
	if err := addPresets(cfg, f); err != nil {
		return err
	}
	switch f.network {
	case "":
	case "none", "host":
		cfg.Shell.Network = config.Network{Mode: config.NetworkMode(f.network)}
	default:
		cfg.Shell.Network = config.Network{Mode: config.NetworkAllow, Allow: strings.Split(f.network, ",")}
	}
	if err := addExposed(cfg, f.expose); err != nil {
		return err
	}
	for _, e := range f.env {
		name, value, set := strings.Cut(e, "=")
		if set {
			if cfg.Sandbox.Env.Set == nil {
				cfg.Sandbox.Env.Set = map[string]string{}
			}
			cfg.Sandbox.Env.Set[name] = value
		} else {
			cfg.Sandbox.Env.Allow = append(cfg.Sandbox.Env.Allow, name)
		}
	}
	cfg.Sandbox.Debug = cfg.Sandbox.Debug || f.debug
	l := &cfg.Sandbox.Limits
	if f.timeout > 0 {
		l.Timeout = f.timeout
	}
	if f.pids > 0 {
		l.Pids = f.pids
	}
	for flag, size := range map[string]struct {
		text string
		to   *units.Size
	}{"--memory": {f.memory, &l.Memory}, "--file-size": {f.fileSize, &l.FileSize}} {
		if size.text == "" {
			continue
		}
		n, err := units.ParseSize(size.text)
		if err != nil {
			return cli.UsageError(fmt.Errorf("%s: %w", flag, err))
		}
		*size.to = n
	}
	return nil
}

// addPresets adds those of --preset, and takes the search for toolchains out with
// --no-detect.
func addPresets(cfg *config.Config, f runFlags) error {
	for _, name := range f.presets {
		if !slices.Contains(profiles.PresetNames(), name) {
			return cli.WithHint(cli.UsageError(fmt.Errorf("--preset %q: unknown preset", name)), "use "+strings.Join(profiles.PresetNames(), ", "))
		}
		if !slices.Contains(cfg.Sandbox.Presets, name) {
			cfg.Sandbox.Presets = append(slices.Clone(cfg.Sandbox.Presets), name)
		}
	}
	if f.noDetect {
		cfg.Sandbox.Presets = slices.DeleteFunc(slices.Clone(cfg.Sandbox.Presets), func(name string) bool { return name == config.DetectPreset })
	}
	return nil
}

// addExposed adds the ports of --expose to those of the configuration.
func addExposed(cfg *config.Config, ports []string) error {
	nw := &cfg.Shell.Network
	if len(ports) > 0 && nw.Mode == config.NetworkHost {
		return cli.WithHint(cli.UsageError(errors.New("--expose: --network host already shares all ports with this machine")), "use another --network, or remove --expose")
	}
	for _, p := range ports {
		if _, err := sandboxprofile.ParseExposedPort(p); err != nil {
			return cli.WithHint(cli.UsageError(fmt.Errorf("--expose: %q is not a port", p)), "use PORT such as 8080, or HOST:INSIDE such as 3000:8080 or 0:8080")
		}
		nw.Expose = append(nw.Expose, config.Port(p))
	}
	return nil
}

// addRoots adds the paths of --ro and --rw. A path of the command line is the
// operator's own word, so it is not asked about again.
func addRoots(cfg *config.Config, f runFlags) error {
	for i, p := range append(append([]string{}, f.ro...), f.rw...) {
		root, err := assemble.Resolved(p)
		if err != nil {
			return cli.WithStatus(cli.ExitUsage, err)
		}
		mode, name := config.ReadOnly, fmt.Sprintf("ro%d", i+1)
		if i >= len(f.ro) {
			mode, name = config.ReadWrite, fmt.Sprintf("rw%d", i+1-len(f.ro))
		}
		cfg.Sandbox.Paths = append(cfg.Sandbox.Paths, config.Path{Name: name, Root: root, Mode: mode})
	}
	return nil
}
