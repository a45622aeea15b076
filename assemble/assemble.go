package assemble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/platform"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/profiles/toolchains"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/supervisor/mcphost"
	"github.com/sandgate/sandgate/supervisor/review"
	"github.com/sandgate/sandgate/supervisor/store"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
	"github.com/sandgate/sandgate/tools/program"
	"github.com/sandgate/sandgate/tools/shell"
	"github.com/sandgate/sandgate/tools/tasks"
)

// Running is a supervisor with everything that ends when it does.
type Running struct {
	*supervisor.Supervisor
	Derived  Derived
	Recovery audit.Recovery
	Planted  []confine.Planted // by calls that a crash cut off
	tried    confine.Enforced  // at the start; startBackend sets it
	close    []func() error
}

// Close ends the supervisor first and the log last.
func (r *Running) Close() error {
	var errs []error
	for _, c := range slices.Backward(r.close) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// Options are a command's additions to the configuration.
type Options struct {
	Mode     approval.Mode // "" is the configuration's
	Prompter approval.Prompter
	Warnings []string

	HTTP *protocol.HTTPStatus // nil: nothing listens

	Decided   func(approval.Decision, string) // called for each, if not nil
	Connected func(egress.Event)              // called for each connection, from many goroutines, if not nil

	Begin     func(context.Context) (review.Draft, error) // of what is reviewed; nil: nothing can be
	DraftOver []string                                    // by a draft that all calls work on; nil is none. No call is recorded for an undo then
	Decider   review.Decider                              // of the calls on a draft that is a session's; nil: we
	// Quarantine is where what calls planted is kept, with the notes of what was there before, by
	// which the next start takes back what a killed one has left. "" is everybody's. What works on
	// a draft has its own: there something else lies under the paths of the workspace.
	Quarantine string

	Version    string       // version of the program, for status and clients
	Backend    string       // "" is auto
	TryBackend bool         // find out at the start what the first call would
	Faults     *slog.Logger // what an operator should know and no call tells
	Ahead      bool         // there will be one session, and one call of a program in it
	Meant      string       // a place to work in that would be refused, and was named twice
	Program    string       // which one; "" if that is not known
	Typed      *Typed       // a person has typed it, and nothing asks; nil: there are questions
	Uncached   bool         // programs keep nothing for the next call

	Terminal *sandboxprofile.Terminal // that it gets; nil is none
}

// A Typed command is its own approval, and approves what its words say. Where the configuration asks about
// each read of a directory or each signature, it covers these only if it names the directory, or has git sign.
type Typed struct {
	Argv  []string
	Paths []string // that were typed beside it
	Dir   string
}

// signed are the commands of git that make what can be signed.
var signed = []string{"am", "cherry-pick", "commit", "merge", "pull", "rebase", "revert", "tag"}

// typed is d as a typed command has it.
func (d Derived) typed(t *Typed, paths tools.Paths) Derived {
	if t == nil {
		return d
	}
	if d.Unread = paths.Unread(slices.Concat(t.Argv, t.Paths), t.Dir); len(d.Unread) > 0 {
		d.Programs = bounds.Unasked(d.Programs, tools.Proposal{Withheld: d.Unread})
	}
	git, err := tools.LookPath("git", d.Path, "/", sandboxprofile.NewLookup(d.Programs).Runnable)
	makes := func(word string) bool { return slices.Contains(signed, word) }
	if d.signing != nil && d.signing.Ask && (err != nil || t.Argv[0] != "git" || paths.Writable(git) || !slices.ContainsFunc(t.Argv[1:], makes)) {
		signing := *d.signing
		signing.Refused = "you typed no command of git that signs, and git.sign is ask: add --mode interactive or --mode approve_all"
		d.signing = &signing
	}
	return d
}

// outliveReaders keeps SIGPIPE from ending this process: a reader of its output that goes
// away, as head does, would leave a call that did not end, whose files were not looked at.
// A handler, and not SIG_IGN, which programs would inherit.
func outliveReaders(r *Running) {
	none := make(chan os.Signal, 1)
	signal.Notify(none, syscall.SIGPIPE)
	r.close = append(r.close, func() error { signal.Stop(none); return nil })
}

// Start makes the supervisor that cfg describes.
func Start(cfg *config.Config, o Options) (_ *Running, err error) {
	r := &Running{}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if err := CheckPlaces(cfg, o.Meant); err != nil {
		return nil, err
	}
	outliveReaders(r)
	backend := StartBackend(r, cfg, o) // it takes as long as all the rest
	kept, err := openState(cfg, o, r)
	if err != nil {
		return nil, err
	}
	if o.Decider != nil {
		kept.memory.definitions = o.Decider
	}
	uncached := openCache(cfg, r)
	o.Uncached = o.Uncached || uncached != nil
	registry, d, err := Tools(cfg, kept.own, o)
	if err != nil {
		return nil, err
	}
	if uncached != nil {
		d.warnings = append(d.warnings, uncached.Error())
	}
	r.Derived = d
	servers, err := MCPServers(cfg, d, d.unseen)
	if err != nil {
		return nil, err
	}
	operator, err := OperatorProfile(cfg)
	if err != nil {
		return nil, err
	}
	confiner, unconfined, err := RequireBackend(cfg, backend)
	if err != nil {
		return nil, err
	}
	mode := cmp.Or(o.Mode, approval.Mode(cfg.Approval.Mode))
	approvals := newController(cfg, mode, o, kept.memory, registry)
	rules, err := openRules(cfg, registry, approvals)
	if err != nil {
		return nil, err
	}
	network, doubts, err := egressConfig(cfg)
	if err != nil {
		return nil, err
	}
	network.Connected, network.Signing = o.Connected, d.signing
	d.warnings = append(d.warnings, doubts...)
	sc := supervisor.Config{
		Version:    o.Version,
		ConfigFile: cfg.File,
		Sources:    cfg.Sources,
		Tools:      registry,
		Approvals:  approvals,
		Rules:      rules,
		Workdir:    cfg.StartDir(),
		Paths:      PathViews(cfg, d, operator),
		Orphans:    kept.memory.orphans,
		Mode:       mode,
		Log:        kept.log,
		Own:        ownPlaces(cfg, kept.log.Path()),
		Operator:   operator,
		Unconfined: unconfined,
		Tried:      r.tried,
		Egress:     network,
		Tasks:      background.Limits{Running: int(cfg.Tasks.Running), Ended: int(cfg.Tasks.Running), Output: int64(cfg.Tasks.Output)},
		Changes:    kept.changes,
		Caches:     kept.caches,
		BeginDraft: o.Begin,
		DraftOver:  o.DraftOver,
		HTTP:       o.HTTP,
		Decided:    o.Decided,
		Faults:     o.Faults,
		MCP:        mcphost.Config{Servers: servers, Approved: kept.memory.definitions},
		Warnings:   slices.Concat(o.Warnings, unconfinedWarnings(confiner), d.warnings),
		Notices:    notices(cfg, d),
	}
	programs := sandboxprofile.Intersect(d.Programs, operator)
	if confiner != nil {
		useBackend(&sc, r, confiner, kept)
		if o.Ahead {
			sc.SessionConfiner = oneSession(r, confiner, programs)
		}
	}
	sup, err := supervisor.New(sc)
	if err != nil {
		return nil, internalError(err)
	}
	r.Supervisor = sup
	r.close = append(r.close, sup.Close)
	if o.Ahead {
		sup.LookAhead(programs)
	}
	return r, nil
}

// A state is what a supervisor keeps on disk. It is opened before the tools are made: its
// directories are kept from them, and have to exist for that.
type state struct {
	log        *audit.Log
	memory     Memory
	quarantine *quarantine.Store
	changes    *changes.Store // nil if nothing is saved
	caches     string
	own        map[string]sandboxprofile.Rights
}

func openState(cfg *config.Config, o Options, r *Running) (s state, err error) {
	if s.quarantine, err = openQuarantine(o.Quarantine); err != nil {
		return s, err
	}
	if s.log, err = openLog(cfg, r); err != nil {
		return s, err
	}
	if s.memory, err = openMemory(cfg, r); err != nil {
		return s, err
	}
	if s.changes, err = openChanges(cfg); err != nil {
		return s, err
	}
	if o.DraftOver != nil {
		s.changes = nil
	}
	if s.changes != nil {
		r.close = append(r.close, s.changes.Close)
		if o.Ahead {
			s.changes.Load(WritableRoots(cfg))
		}
	}
	if s.caches, err = CachesDir(); err != nil {
		return s, err
	}
	s.own, err = OwnPaths(cfg, s.log.Path())
	return s, err
}

// notices are for people alone. No agent hears of them.
func notices(cfg *config.Config, d Derived) []string {
	var texts []string
	for _, n := range cfg.Notices {
		texts = append(texts, n.String())
	}
	for _, n := range cfg.Unused {
		texts = append(texts, UnusedText(n))
	}
	return append(texts, d.Found.Readable...)
}

// useBackend has calls run in sandboxes of confiner, and their writable trees scanned. What a crash
// had left unscanned is scanned first.
func useBackend(sc *supervisor.Config, r *Running, confiner *platform.Backend, kept state) {
	guard := tripwire.New(kept.quarantine, slices.Sorted(maps.Keys(kept.own))...)
	if kept.quarantine != nil {
		guard.Remember(filepath.Join(kept.quarantine.Dir(), "surveys"))
	}
	planted, err := guard.Recover()
	r.Planted, sc.Recovered = planted, planted
	if err != nil {
		sc.Warnings = append(sc.Warnings, err.Error())
	}
	confiner.Use(guard)
	sc.Confiner = confiner
	sc.SessionConfiner = func() supervisor.SessionConfiner { return confiner.Session() }
}

// oneSession gives the confiner of the one session that there will be. The sandbox of
// its program is built while the supervisor gets ready and decides.
func oneSession(r *Running, b *platform.Backend, p sandboxprofile.Profile) func() supervisor.SessionConfiner {
	session := b.Session()
	session.Ahead(p)
	r.close = append(r.close, session.Close)
	return func() supervisor.SessionConfiner { return session }
}

func openLog(cfg *config.Config, r *Running) (*audit.Log, error) {
	path, err := LogPath(cfg)
	if err != nil {
		return nil, err
	}
	options, err := LogOptions(cfg)
	if err != nil {
		return nil, err
	}
	log, recovery, err := audit.Open(path, options)
	if err != nil {
		return nil, internalError(err)
	}
	r.Recovery = recovery
	r.close = append(r.close, log.Close)
	return log, nil
}

// OpenQuarantine opens what is kept of what calls planted.
func OpenQuarantine() (*quarantine.Store, error) {
	dir, err := quarantine.DefaultDir()
	if err != nil {
		return nil, noState(err)
	}
	return openQuarantine(dir)
}

func openQuarantine(dir string) (*quarantine.Store, error) {
	if dir == "" {
		return OpenQuarantine()
	}
	s, err := quarantine.Open(dir)
	if err != nil {
		return nil, noState(err)
	}
	return s, nil
}

// noState is err of a state directory that cannot be had, with what helps.
func noState(err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) && os.Getenv("HOME") != "" {
		return internalError(err)
	}
	return hinted(internalError(err), "set HOME and XDG_STATE_HOME to directories that you can write to")
}

// OperatorProfile is the profile that bounds every tool: the meet of all that are
// named. None bounds nothing, and the tools' own profiles hold as they are. One that
// takes the host's network away leaves nothing to say about that.
func OperatorProfile(cfg *config.Config) (sandboxprofile.Profile, error) {
	all, err := meetOfProfiles(cfg)
	if err == nil && all.Network.Mode != sandboxprofile.NetworkHost {
		cfg.DropNotices(func(n config.Notice) bool { return n.Text == config.HostNetwork })
	}
	return all, err
}

func meetOfProfiles(cfg *config.Config) (sandboxprofile.Profile, error) {
	all := sandboxprofile.Top()
	for _, named := range cfg.OperatorProfiles() {
		p, err := config.Operator(named.Name, ProfileVars(cfg, named))
		if err != nil {
			return p, configError(err)
		}
		all = sandboxprofile.Intersect(all, p)
	}
	return all, nil
}

// OwnPaths are the files of sandgate itself and the rights that tools keep on
// them, wherever they lie: the configuration may be read, since a person may have
// put it beside the code, and the directory of the log is not theirs at all.
func OwnPaths(cfg *config.Config, log string) (map[string]sandboxprofile.Rights, error) {
	own := map[string]sandboxprofile.Rights{}
	for _, p := range cfg.OwnFiles() {
		own[p] = 0
	}
	for _, p := range cfg.Files() {
		own[p] = sandboxprofile.Read
	}
	err := errors.Join(keepAway(cfg, own, log, "set audit.path to a file in a directory of its own"), keepRulesAway(cfg, own))
	if err == nil && cfg.Approval.Store == config.StoreBbolt {
		// Another directory than that of the log if audit.path is set. A tool that
		// could write there would answer for the operator.
		var answers string
		if answers, err = store.DefaultPath(); err == nil {
			err = keepAway(cfg, own, answers, "set XDG_STATE_HOME to another directory, or approval.store to memory")
		}
	}
	if err == nil {
		var token string
		if token, err = TokenFile(cfg); err == nil {
			err = keepAway(cfg, own, token, "set http.token_file to a file in a directory of its own")
		}
	}
	if err == nil {
		var kept string
		if kept, err = quarantine.DefaultDir(); err == nil {
			err = keepAway(cfg, own, kept, "set XDG_STATE_HOME to another directory")
		}
	}
	if err == nil {
		var dir string
		if dir, err = statedir.Path("drafts"); err == nil {
			err = keepAway(cfg, own, filepath.Join(dir, "draft"), "set XDG_STATE_HOME to another directory")
		}
	}
	if err == nil && cfg.Undo.Enabled {
		var dir string
		if dir, err = ChangesDir(); err == nil {
			err = keepAway(cfg, own, filepath.Join(dir, "workspace"), "set XDG_STATE_HOME to another directory")
		}
	}
	return own, err
}

// ownPlaces are the files of sandgate and the directories that it keeps its state in,
// wherever they lie: no answer of a person's gives them to a program.
func ownPlaces(cfg *config.Config, log string) []string {
	list := append(cfg.OwnFiles(), logPlaces(cfg, log)...)
	if answers, err := store.DefaultPath(); err == nil {
		list = append(list, filepath.Dir(answers))
	}
	if kept, err := quarantine.DefaultDir(); err == nil {
		list = append(list, kept)
	}
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "sandgate"))
	}
	list = append(list, unixsock.RuntimeDir()) // who could put a socket there would pass for the supervisor
	for i, path := range list {
		if real, err := Resolved(path); err == nil {
			list[i] = real
		}
	}
	return list
}

// logPlaces is the directory of the log, or the log's files where what calls work in lies in that directory.
func logPlaces(cfg *config.Config, log string) []string {
	dir, err := Resolved(filepath.Dir(log))
	if err != nil || !slices.ContainsFunc(cfg.Sandbox.Paths, func(p config.Path) bool { return sandboxprofile.Contains(dir, p.Root) }) {
		return []string{filepath.Dir(log)}
	}
	files, err := filepath.Glob(log + "*")
	if err != nil {
		return []string{log} // its name has a pattern in it
	}
	return append(files, log)
}

// keepAway takes the directory of one of our files away from tools, if it lies
// in a configured path at all. One that has a configured path in it, or is one,
// cannot be covered.
func keepAway(cfg *config.Config, own map[string]sandboxprofile.Rights, file, hint string) error {
	dir, err := Resolved(filepath.Dir(file))
	if errors.Is(err, fs.ErrNotExist) { // `profile derive` makes none, and there is nothing to keep yet
		return nil
	}
	if err != nil {
		return internalError(err)
	}
	for _, p := range cfg.Sandbox.Paths {
		if !sandboxprofile.Contains(p.Root, dir) {
			continue
		}
		own[dir] = 0
		for _, q := range cfg.Sandbox.Paths {
			if sandboxprofile.Contains(dir, q.Root) {
				err := fmt.Errorf("%s shares its directory with sandbox.paths.%s (%s)", file, q.Name, q.Root)
				return hinted(configError(err), hint)
			}
		}
	}
	return nil
}

// without takes rights away from p at the given paths, where it has more.
func without(p sandboxprofile.Profile, own map[string]sandboxprofile.Rights) sandboxprofile.Profile {
	p.Paths = maps.Clone(p.Paths)
	for path, keep := range own {
		if r := p.Rights(path); !r.SubsetOf(keep) {
			p.Paths[path] = r.Intersect(keep)
		}
	}
	return p
}

// Derived is the profile that the configuration's tools run under, before the operator's
// profile narrows it.
type Derived struct {
	Needs           sandboxprofile.Needs
	paths           tools.Paths
	Files, Programs sandboxprofile.Profile
	warnings        []string

	Found toolchains.Found // of the person's toolchains
	Path  string           // PATH of programs
	// ownPath says that nothing is decided by a program's name: PATH may have directories of
	// the workspace, such as that of a virtual environment which was activated.
	ownPath  bool
	Passed   []string // the variables that programs get
	Withheld []string // variables that look like secrets
	Unread   []string // directories that a typed command does not have, since it does not name them
	Said     string   // the end of what the program wrote to its error output, once it has run
	// unseen are files that hold secrets, in what is shown of the toolchains.
	unseen map[string]sandboxprofile.Rights
	cache  string            // where programs keep caches; "" is nowhere
	cached map[string]string // the variables that lead there
	// signing signs what git hands over, nil if nothing does; settings are those of git for it.
	signing  *gateway.Signing
	settings map[string]string
	// denied is manifest.Config.Denied for tools of a file.
	denied func(config.Tier) (func(argv []string, dir string) error, error)
	// starts says which files a program starts that is run in a directory.
	starts func(argv []string, dir string) []tools.Started
}

// Derive gives the profile that tools of cfg run under, without the parts that own takes from
// them all. program is the program of a command, or "" if it is not known.
func Derive(cfg *config.Config, own map[string]sandboxprofile.Rights, program string) (Derived, error) {
	needs, found, err := deriveNeeds(cfg, program)
	if err != nil {
		return Derived{}, configError(err)
	}
	own = maps.Clone(own)
	if own == nil {
		own = map[string]sandboxprofile.Rights{}
	}
	for _, file := range found.Secrets {
		own[file] = 0
	}
	passed, withheld := allowedNames(cfg)
	narrow, unseen, warnings := forPrograms(cfg, needs)
	maps.Copy(unseen, own)
	offline := needs // a file tool has no business on the network, and starts nothing
	offline.Network, offline.Syscalls = sandboxprofile.Network{}, nil
	return Derived{
		Needs:    needs,
		paths:    toolPaths(cfg, needs),
		Files:    without(sandboxprofile.Derive(offline), own),
		Programs: shellCredentials(cfg).Under(without(sandboxprofile.Derive(narrow), unseen)),
		warnings: append(warnings, found.Tokens...),
		Found:    found,
		Passed:   passed, Withheld: withheld,
		unseen: own,
	}, nil
}

// Tools builds every tool that cfg describes, and gives what they were derived from.
// None of them reaches own.
func Tools(cfg *config.Config, own map[string]sandboxprofile.Rights, o Options) (*tools.Registry, Derived, error) {
	d, err := Derive(cfg, own, o.Program)
	if err != nil {
		return nil, d, err
	}
	d.ownPath = o.Ahead
	own = d.unseen
	others := d
	if !o.Uncached {
		d = d.WithCache(cfg)
	}
	if d, err = d.WithSigning(cfg); err != nil {
		return nil, d, internalError(err)
	}
	paths := toolPaths(cfg, d.Needs)
	list := files.New(files.Config{Paths: paths, Profile: d.Files})
	paths = d.cachePaths(paths).Prepared()
	env := d.signEnv(d.cacheEnv(ProgramEnv(cfg, d)))
	d.Path, _ = tools.LookupEnv(env, "PATH")
	d = d.typed(o.Typed, paths)
	sh, err := shellTool(cfg, d, paths, env)
	if err != nil {
		return nil, d, configError(err)
	}
	background := tasks.New(tasks.Config{Shell: sh, Wall: cfg.Tasks.Timeout})
	run := program.New(program.Config{Paths: paths, Profile: d.Programs, Env: env, Reach: sh.Reach, Rules: sh.Ruled, Unasked: sh.Unasked, Starts: sh.StartsOf, Credentials: shellCredentials(cfg), Terminal: o.Terminal})
	d.starts = sh.StartsOf
	d.denied = func(tier config.Tier) (func([]string, string) error, error) {
		above := deniesAbove(cfg, tier)
		if len(above) == 0 {
			return nil, nil
		}
		of, err := shell.New(shell.Config{Default: shell.Default{Allowed: true}, Rules: above, Paths: paths, Profile: d.Programs, Env: env})
		if err != nil {
			return nil, err
		}
		return func(argv []string, dir string) error {
			_, _, err := of.Ruled(argv, dir)
			return err
		}, nil
	}
	others.starts, others.denied, others.Path = d.starts, d.denied, d.Path
	custom, err := customTools(cfg, others, own)
	if err != nil {
		return nil, d, err
	}
	// A test compiles the shipped schemas, and package manifest those of custom tools.
	registry, err := tools.ShippedRegistry(slices.Concat(list, []tools.Tool{sh, run}, background, custom)...)
	return registry, d, err
}

func shellRules(rules []config.Rule) []shell.Rule {
	var out []shell.Rule
	for _, r := range rules {
		out = append(out, shell.Rule{
			Pattern: r.Pattern, Exact: r.Exact, ReadOnly: r.ReadOnly, Allowed: &r.Allowed, Approval: &r.Approval,
			Description: r.Description, Reason: r.Reason, SandboxPaths: r.SandboxPaths,
			Match: r.Match, NoMatch: r.NoMatch, Position: r.Position.String(),
			Name: r.Name, Tier: string(r.Tier), Narrows: r.Narrows, Review: r.Review,
		})
	}
	return out
}

// deniesAbove are the rules that deny, of the files above a tier. A file may define a tool
// for something that its own rules otherwise deny: that is the purpose of tools.
func deniesAbove(cfg *config.Config, tier config.Tier) []shell.Rule {
	var list []shell.Rule
	for i, r := range shellRules(cfg.Shell.Rules) {
		if at := cfg.Shell.Rules[i]; !at.Allowed && at.Tier.Above(tier) {
			list = append(list, r)
		}
	}
	return list
}

// closedTiers are the files that deny what none of their own rules names.
func closedTiers(cfg *config.Config) []string {
	var list []string
	for _, t := range cfg.Shell.Closed {
		list = append(list, string(t))
	}
	return list
}

// boundRules are the rules with the network and the limits that they narrow to.
func boundRules(cfg *config.Config) ([]shell.Rule, error) {
	rules := shellRules(cfg.Shell.Rules)
	for i, r := range cfg.Shell.Rules {
		if r.Network == nil && r.Limits == nil && !r.Review {
			continue
		}
		ceiling := sandboxprofile.Top()
		ceiling.Limits = narrowed(ceiling.Limits, r.Limits)
		if r.Network != nil {
			var err error
			if ceiling.Network, err = network(*r.Network); err != nil {
				return nil, fmt.Errorf("%s: shell.rules[%d].network: %w", r.Position, i, err)
			}
		}
		rules[i].Bound = &ceiling
	}
	return rules, nil
}

// deriveNeeds is the configuration in the words of package sandboxprofile.
func deriveNeeds(cfg *config.Config, program string) (n sandboxprofile.Needs, found toolchains.Found, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return n, found, fmt.Errorf("home directory: %w", err)
	}
	nw, err := network(cfg.Shell.Network)
	if err != nil {
		return n, found, fmt.Errorf("shell.network: %w", err)
	}
	names, _ := allowedNames(cfg)
	n = sandboxprofile.Needs{
		Home:    home,
		Network: nw,
		Limits:  limits(cfg.Sandbox.Limits),
		Env:     sandboxprofile.Env{Names: names},
	}
	if cfg.Sandbox.Debug {
		n.Syscalls = []string{seccomp.Tracing}
	}
	n.Protect, n.Hide = Patterns(cfg)
	for name := range withProxy(cfg.Shell.Network, cfg.Sandbox.Env.Set) {
		n.Env.Names = append(n.Env.Names, name)
	}
	if nw.Mode == sandboxprofile.NetworkProxied {
		n.Env.Names = append(n.Env.Names, javaOptions...)
	} else if cfg.Shell.Network.Mode == config.NetworkNone {
		n.Env.Names = slices.AppendSeq(n.Env.Names, maps.Keys(once))
	}
	for _, c := range cfg.Shell.Credentials {
		n.Env.Names = append(n.Env.Names, c.Name)
	}
	for _, p := range cfg.Sandbox.Paths {
		n.Roots = append(n.Roots, sandboxprofile.Root{Name: p.Name, Path: p.Root, Write: p.Mode == config.ReadWrite})
	}
	for _, name := range cfg.Sandbox.Presets {
		if name == config.DetectPreset {
			continue
		}
		preset, err := profiles.Preset(name)
		if err != nil {
			return n, found, err
		}
		n.Presets = append(n.Presets, preset)
	}
	found = detect(cfg, &n, program)
	if user, other := foreignOwner(WritableRoots(cfg)); other {
		withinReach(user, &n, &found)
	}
	withoutTokens(&n, &found)
	for _, p := range cfg.Sandbox.Paths {
		if p.Mode == config.ReadWrite && p.SeenByPrograms() {
			repository(&n, &found, p.Root)
		}
	}
	return n, found, nil
}

// forPrograms leaves out of needs what mounts cannot keep for a program: a root
// that is limited to some suffixes. The file tools keep to suffixes by
// themselves; a program would not, so it does not see such a root at all, also not
// as a part of another.
func forPrograms(cfg *config.Config, n sandboxprofile.Needs) (_ sandboxprofile.Needs, unseen map[string]sandboxprofile.Rights, warnings []string) {
	unseen = map[string]sandboxprofile.Rights{}
	n.Roots = slices.DeleteFunc(slices.Clone(n.Roots), func(r sandboxprofile.Root) bool {
		i := slices.IndexFunc(cfg.Sandbox.Paths, func(p config.Path) bool { return p.Name == r.Name })
		if i < 0 || cfg.Sandbox.Paths[i].SeenByPrograms() {
			return false // what is not configured is of the repository that the workspace belongs to
		}
		unseen[r.Path] = 0
		warnings = append(warnings, fmt.Sprintf("sandbox.paths.%s is limited to %s: only file tools can see it, programs do not",
			r.Name, strings.Join(cfg.Sandbox.Paths[i].Suffixes, ", ")))
		return true
	})
	return n, unseen, warnings
}

// Patterns returns the patterns of files that no tool may write, and of files that no tool may
// see.
func Patterns(cfg *config.Config) (protect, hide []string) {
	return config.WithShipped(cfg.Sandbox.Protect, profiles.Protect()), config.WithShipped(cfg.Sandbox.Hide, profiles.Hide())
}

// maxScratch bounds each private directory: it lies in memory.
const maxScratch = 1 << 30

func limits(l config.Limits) sandboxprofile.Limits {
	return sandboxprofile.Limits{
		Wall: l.Timeout, CPU: l.CPU, Memory: int64(l.Memory), Pids: l.Pids, FileSize: int64(l.FileSize),
		OpenFiles: l.OpenFiles, Output: int64(l.Output), Scratch: min(int64(l.FileSize), maxScratch),
	}
}

func toolPaths(cfg *config.Config, n sandboxprofile.Needs) tools.Paths {
	p := pathsOf(cfg, n)
	p.Origin = cfg.Vouched().StartDir()
	if cfg.Above != nil {
		n.Protect, n.Hide = Patterns(cfg.Above)
		above := pathsOf(cfg.Above, n)
		p.Above = &above
	}
	return p
}

func pathsOf(cfg *config.Config, n sandboxprofile.Needs) tools.Paths {
	p := tools.Paths{Hide: n.Hide, Protect: n.Protect, Home: n.Home, Cwd: cfg.StartDir()}
	for _, c := range cfg.Sandbox.Paths {
		p.Rules = append(p.Rules, tools.PathRule{
			Name: c.Name, Root: c.Root, Write: c.Mode == config.ReadWrite, Suffixes: c.Suffixes,
			ReadApproval: c.ReadApproval, WriteApproval: c.WriteApproval, Undoable: cfg.FreeByPolicy(c.Name), Position: c.Position.String(),
		})
	}
	return p.Prepared()
}

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// ProgramEnv is the environment of every program.
func ProgramEnv(cfg *config.Config, d Derived) []string {
	allow, _ := allowedNames(cfg)
	return withoutRetries(cfg, withJavaProxy(cfg, environ(allow, withProxy(cfg.Shell.Network, cfg.Sandbox.Env.Set), d, d.Programs)))
}

// environ is the environment of programs. Its PATH has directories that the sandbox
// shows and no program in it can write to. What rules or people allow by its name would
// else be what a tool has put there.
func environ(allow []string, set map[string]string, d Derived, p sandboxprofile.Profile) []string {
	env := tools.BuildEnv(allow, set, hostEnv(d.Found), d.Needs.Home)
	for i, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + safePath(path, p, d)
		}
	}
	return env
}

func safePath(path string, p sandboxprofile.Profile, d Derived) string {
	var keep []string
	for _, dir := range strings.Split(path, ":") {
		r := p.Rights(dir)
		if r&sandboxprofile.Execute == 0 {
			// Only the link is shown, such as ~/.nix-profile. What is on the way to where it leads
			// can be changed by programs, so its name is not used.
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir, r = real, p.Rights(real)
			}
		}
		written := r&sandboxprofile.Write != 0 || d.paths.Writable(dir)
		safe := !written || d.ownPath && slices.ContainsFunc(d.Needs.Roots, func(root sandboxprofile.Root) bool {
			return sandboxprofile.Contains(root.Path, dir)
		})
		if strings.HasPrefix(dir, "/") && r&sandboxprofile.Execute != 0 && safe {
			keep = append(keep, dir)
		}
	}
	if len(keep) == 0 {
		return defaultPath
	}
	return strings.Join(keep, ":")
}

// ProfileVars returns the variables of an operator profile: the paths of the file that names
// it, and the other configured paths.
func ProfileVars(cfg *config.Config, named config.OperatorProfile) map[string]string {
	vars := map[string]string{}
	for _, p := range cfg.Sandbox.Paths {
		vars[p.Name] = p.Root
	}
	if dir := CacheOf(cfg); dir != "" {
		vars["cache of the workspace"] = dir // no name of a path: "$*" has it
	}
	maps.Copy(vars, named.Paths)
	return vars
}
