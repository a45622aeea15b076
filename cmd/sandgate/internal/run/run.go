package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/units"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/changes"
)

type Flags struct {
	Config, Profile, Mode, Network, Backend string
	Workspaces                              []string
	Ro, Rw, Env, expose, presets            []string
	NoDetect, verbose                       bool
	debug                                   bool // its programs may trace each other
	Unrecorded                              bool // what it changes is recorded by who runs it
	terminal                                bool // a program on a terminal has one of its own
	Review                                  bool // what it writes is a draft
	Keep                                    bool // that is kept if the command succeeds
	Draft                                   string
	DraftOf                                 string // the directory of the draft that it runs on, or ""
	Connected                               func(egress.Event)
	Timeout                                 time.Duration
	Memory, fileSize                        string
	Pids                                    int64
}

// Register gives a command the flags.
func (f *Flags) Register(c *cobra.Command) {
	f.terminal = true
	fs := c.Flags()
	fs.SetInterspersed(false) // flags end at COMMAND, so its own are never eaten
	fs.StringVar(&f.Config, "config", "", "configuration `file`")
	fs.StringVar(&f.Profile, "profile", "", "operator profile that narrows permissions, a shipped `name` or a file")
	fs.StringArrayVar(&f.Workspaces, "workspace", nil, "writable `directory` (default: the current one); repeat it to confirm one such as /")
	fs.StringVar(&f.Mode, "mode", string(approval.ApproveAll), "interactive, approve_all or strict")
	fs.StringVar(&f.Network, "network", "", "none, host, or a list of HOST[:PORT]")
	fs.StringSliceVar(&f.expose, "expose", nil, "let this machine connect to a `port` inside: PORT or HOST:INSIDE; HOST 0 is any free port (repeatable)")
	fs.StringSliceVar(&f.presets, "preset", nil, "also show what toolchain `name` reads: "+strings.Join(profiles.PresetNames(), ", ")+" (repeatable)")
	fs.BoolVar(&f.NoDetect, "no-detect", false, "do not detect toolchains from PATH and the project")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "list what is shown for toolchains, and what is left out")
	fs.StringArrayVar(&f.Ro, "ro", nil, "also show `path`, read-only (repeatable)")
	fs.StringArrayVar(&f.Rw, "rw", nil, "also show `path`, writable (repeatable)")
	fs.StringArrayVar(&f.Env, "env", nil, "pass a variable, `NAME` or NAME=VALUE (repeatable)")
	fs.DurationVar(&f.Timeout, "timeout", 0, "kill everything after this `time`")
	fs.StringVar(&f.Memory, "memory", "", "memory limit of all processes together, such as 512MiB")
	fs.Int64Var(&f.Pids, "pids", 0, "limit of the number of processes and threads")
	fs.StringVar(&f.fileSize, "file-size", "", "size limit of each file, holes included, such as 512MiB")
	fs.BoolVar(&f.debug, "debug", false, "allow debuggers and tracers for the command's own processes")
	fs.StringVar(&f.Backend, "backend", "auto", assemble.BackendUsage)
	fs.BoolVar(&f.Review, "review", false, "write to a draft, and ask at the end what to keep: see sandgate review")
	fs.BoolVar(&f.Keep, "keep", false, "with --review or --draft: keep the draft without asking if the status is 0")
	fs.StringVar(&f.Draft, "draft", "", "continue draft `name`, as --review does with a new one")
	fs.StringVar(&f.DraftOf, "draft-of", "", "run on the draft in this `directory`")
	_ = fs.MarkHidden("draft-of")
}

// Once takes one command through the whole path of a call, with a supervisor of its
// own. agent is who asks; typed says that the mode was. settle ends keeps of drafts that were
// killed below some directories, before anything happens there. It gives what was derived too.
func Once(ctx context.Context, a *cli.App, agent string, f Flags, typed bool, argv []string, settle func(*cli.App, []string)) (result protocol.CallResult, found assemble.Derived, err error) {
	cfg, err := LoadConfig(a, f)
	if err != nil {
		return result, found, err
	}
	if f.Config != "" && assemble.CallsMayWrite(cfg, f.Config) {
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", approval.EscapeLine(f.Config+" is in a directory that calls may write: a call can change what the next run with it allows"))
	}
	if f.DraftOf == "" { // there the workspace is the draft
		settle(a, assemble.WritableRoots(cfg))
	}
	return Under(ctx, a, cfg, agent, f, typed, argv)
}

// Under is Once under a configuration that there is.
func Under(ctx context.Context, a *cli.App, cfg *config.Config, agent string, f Flags, typed bool, argv []string) (result protocol.CallResult, found assemble.Derived, err error) {
	mode, err := runMode(cfg, approval.Mode(f.Mode), typed)
	if err != nil {
		return result, found, err
	}
	words := mode == approval.ApproveAll && !typed // are all that a person has said
	if words {
		cfg.Shell.Network.Ask = false // they approve no host that one of the programs names
	}
	// Where a person is asked, or must not be, a sandbox built ahead is not needed.
	meant, err := assemble.SaidTwice(f.Workspaces)
	if err != nil {
		return result, found, err
	}
	o := assemble.Options{Version: a.Version, Meant: meant, Mode: mode, Backend: f.Backend, Ahead: mode == approval.ApproveAll, Program: argv[0], Uncached: f.Unrecorded || f.DraftOf != "", Connected: f.Connected}
	place := func(path string) string { return path }
	if f.DraftOf != "" {
		d, err := changes.OpenDraft(f.DraftOf)
		if err != nil {
			return result, found, cli.WithStatus(cli.ExitInternal, err)
		}
		draft.UseCopies(cfg, d)
		place = d.Place
		o.DraftOver, o.Quarantine = draft.WritableAtMost(d), d.Quarantine()
	}
	args, dir, err := runArgs(cfg, argv, place)
	if err != nil {
		return result, found, err
	}
	if words {
		o.Typed = &assemble.Typed{Argv: argv, Dir: dir}
		for _, path := range slices.Concat(f.Ro, f.Rw) {
			if path, err := assemble.Resolved(path); err == nil { // as addRoots has it
				o.Typed.Paths = append(o.Typed.Paths, path)
			}
		}
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
	PrintRecovery(a, r)
	needs.PrintToolchains(a, found, f.verbose, argv[0])

	ctx, stop := terminal.UntilSignal(ctx, person, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	defer shown.End()
	peer := assemble.Self()
	s, err := r.OpenLocal(peer, protocol.SessionOpen{Agent: agent}, supervisor.Streams{Stdin: stdin, Stdout: shown.Out, Stderr: shown.Err, Terminal: person.Streams()})
	if err != nil {
		return result, found, cli.WireStatus(err)
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
func runArgs(cfg *config.Config, argv []string, place func(string) string) (raw json.RawMessage, dir string, err error) {
	args := map[string]any{"argv": argv}
	cwd, err := assemble.Resolved(".")
	if err != nil {
		return nil, "", cli.WithStatus(cli.ExitUsage, err)
	}
	dir = cfg.StartDir()
	if cwd = place(cwd); cfg.ProgramsSee(cwd) {
		args["dir"], dir = cwd, cwd
	}
	raw, err = json.Marshal(args)
	return raw, dir, err
}

// LoadConfig is the configuration with the command line's flags over it.
func LoadConfig(a *cli.App, f Flags) (*config.Config, error) {
	if err := assemble.CheckBackend(f.Backend); err != nil {
		return nil, err
	}
	if !IsMode(f.Mode) {
		return nil, cli.WithHint(cli.UsageError(fmt.Errorf("--mode %q: unknown mode", f.Mode)), "use interactive, approve_all or strict")
	}
	cfg, err := settings.LoadAndWarn(a, f.Config, strings.Join(f.Workspaces[:min(len(f.Workspaces), 1)], ""))
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
	if err := Apply(cfg, f); err != nil {
		return nil, err
	}
	cfg.Undo.Enabled = cfg.Undo.Enabled && !f.Unrecorded
	return cfg, KeepFloor(cfg)
}

// KeepFloor holds the command line against what the administrator's file bounds. It is
// refused rather than narrowed: the person who typed it expects it to take effect.
func KeepFloor(cfg *config.Config) error {
	var beyond []string
	for _, n := range cfg.KeepFloor() {
		beyond = append(beyond, n.Field+" is "+n.Text)
	}
	if len(beyond) == 0 {
		return nil
	}
	return cli.WithHint(cli.UsageError(errors.New("the command line asks for more than is allowed: "+strings.Join(beyond, "; "))), "remove the flag")
}

// runMode is how requests are treated. Typing a command answers the question that it
// would raise, unless the administrator forbids questions.
func runMode(cfg *config.Config, mode approval.Mode, typed bool) (approval.Mode, error) {
	if cfg.Floor == nil || !cfg.Floor.Set("approval.mode") || cfg.Floor.Approval.Mode != config.Strict {
		return mode, nil
	}
	if typed && mode != approval.Strict {
		return mode, LooserMode("--mode "+string(mode), cfg)
	}
	return approval.Strict, nil
}

func LooserMode(flag string, cfg *config.Config) error {
	return cli.WithHint(cli.UsageError(fmt.Errorf("%s is looser than approval.mode: %s in the administrator's file, %s",
		flag, cfg.Floor.Approval.Mode, cfg.Floor.Origin("approval.mode"))), "remove the flag")
}

func IsMode(m string) bool {
	switch approval.Mode(m) {
	case approval.Interactive, approval.ApproveAll, approval.Strict:
		return true
	}
	return false
}

func Apply(cfg *config.Config, f Flags) error {
	if f.Profile != "" {
		cfg.ReplaceProfile(f.Profile)
	}
	if err := addRoots(cfg, f); err != nil {
		return err
	}
	if err := addPresets(cfg, f); err != nil {
		return err
	}
	switch f.Network {
	case "":
	case "none", "host":
		cfg.Shell.Network = config.Network{Mode: config.NetworkMode(f.Network)}
	default:
		nw, err := config.AllowHosts(strings.Split(f.Network, ",")...)
		if err != nil {
			return cli.UsageError(fmt.Errorf("--network: %w", err))
		}
		cfg.Shell.Network = nw
	}
	if err := addExposed(cfg, f.expose); err != nil {
		return err
	}
	for _, e := range f.Env {
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
	if f.Timeout > 0 {
		l.Timeout = f.Timeout
	}
	if f.Pids > 0 {
		l.Pids = f.Pids
	}
	for flag, size := range map[string]struct {
		text string
		to   *units.Size
	}{"--memory": {f.Memory, &l.Memory}, "--file-size": {f.fileSize, &l.FileSize}} {
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
func addPresets(cfg *config.Config, f Flags) error {
	for _, name := range f.presets {
		if !slices.Contains(profiles.PresetNames(), name) {
			return cli.WithHint(cli.UsageError(fmt.Errorf("--preset %q: unknown preset", name)), "use "+strings.Join(profiles.PresetNames(), ", "))
		}
		if !slices.Contains(cfg.Sandbox.Presets, name) {
			cfg.Sandbox.Presets = append(slices.Clone(cfg.Sandbox.Presets), name)
		}
	}
	if f.NoDetect {
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
		port, err := sandboxprofile.ParseExposedPort(p)
		if err != nil {
			return cli.WithHint(cli.UsageError(fmt.Errorf("--expose: %q is not a port", p)), "use PORT such as 8080, or HOST:INSIDE such as 3000:8080 or 0:8080")
		}
		nw.Expose = append(nw.Expose, config.Port(port))
	}
	return nil
}

// addRoots adds the paths of --ro and --rw. A path of the command line is the
// operator's own word, so it is not asked about again.
func addRoots(cfg *config.Config, f Flags) error {
	for i, p := range append(append([]string{}, f.Ro...), f.Rw...) {
		root, err := assemble.Resolved(p)
		if err != nil {
			return cli.WithStatus(cli.ExitUsage, err)
		}
		mode, name := config.ReadOnly, fmt.Sprintf("ro%d", i+1)
		if i >= len(f.Ro) {
			mode, name = config.ReadWrite, fmt.Sprintf("rw%d", i+1-len(f.Ro))
		}
		cfg.Sandbox.Paths = append(cfg.Sandbox.Paths, config.Path{Name: name, Root: root, Mode: mode})
	}
	return nil
}
