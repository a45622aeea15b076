package learn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/configdiff"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/fragment"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/tools"
)

type learnFlags struct {
	box          run.Flags
	merge, write string
	session, log string
	yes, inPlace bool
	asJSON       bool
	tries        int
}

func NewCommand(a *cli.App) *cobra.Command {
	var f learnFlags
	c := &cobra.Command{
		Use:   "learn [flags] -- COMMAND [ARG...]",
		Short: "Find out what a command needs, and print it as a configuration",
		Long: `learn runs the command in the sandbox several times: first with the paths of the current
configuration and no host, then adding what was refused, then removing one thing at a time
while the result stays the same. It prints what remains as a configuration, with a reason
for each line and the differences from the current one, and runs the command once more
under exactly that to prove it. It does not put anything into effect.

Each try runs without input, in a draft that is thrown away (see ` + "`sandgate review`" + `), so the
workspace does not change. Data sent to other machines is not taken back. Therefore learn
asks before a try may reach a new host or path, unless you give --yes.

learn never proposes hidden or protected names, sandgate's own files, files that seem to
contain a secret, or a whole home directory or anything above it.
With --session, learn runs nothing: it reads the audit log for what a session was refused
and what people answered.

Exit status: 0 if the configuration is proven or comes from a session, otherwise 1.`,
		Example: `  sandgate learn -- go test ./...
  sandgate learn --yes --write ../learned.yaml -- npm test
  sandgate learn --merge ../learned.yaml --write ../both.yaml -- npm run build
  sandgate learn --session s-4f1c`,
		RunE: func(c *cobra.Command, argv []string) error {
			switch {
			case f.session != "" && len(argv) > 0:
				return cli.UsageError(errors.New("learn: give either a command or --session, not both"))
			case f.session != "":
				return learnSession(a, f)
			case len(argv) == 0:
				return cli.WithHint(cli.UsageError(errors.New("learn: no command given")), "usage: sandgate learn -- COMMAND")
			}
			if err := cli.InUTF8(argv); err != nil {
				return err
			}
			return learn(c.Context(), a, f, argv)
		},
	}
	fs := c.Flags()
	fs.SetInterspersed(false)
	fs.StringVar(&f.box.Config, "config", "", "configuration `file`")
	fs.StringArrayVar(&f.box.Workspaces, "workspace", nil, "writable `directory` (default: the current one)")
	fs.StringVar(&f.box.Backend, "backend", "auto", assemble.BackendUsage)
	fs.DurationVar(&f.box.Timeout, "timeout", 0, "kill a try after this `time`")
	fs.IntVar(&f.tries, "tries", 40, "run the command at most `N` times")
	fs.BoolVarP(&f.yes, "yes", "y", false, "allow each try what the previous one was refused, without asking")
	fs.BoolVar(&f.inPlace, "in-place", false, "run in the workspace itself, if drafts do not work on this machine")
	fs.StringVar(&f.merge, "merge", "", "include what an earlier run wrote to `file`")
	fs.StringVar(&f.write, "write", "", "write the configuration to a new `file` or to the file of --merge, too")
	fs.StringVar(&f.session, "session", "", "learn from the session `ID` of the audit log")
	fs.StringVar(&f.log, "log", "", "with --session: read the log `FILE` (default: in the state directory)")
	fs.BoolVar(&f.asJSON, "json", false, "print JSON")
	return c
}

// A learnt is the outcome, as JSON.
type learnt struct {
	Proven   bool                    `json:"proven"`
	Why      string                  `json:"why,omitempty"`  // it is not
	Status   int                     `json:"status"`         // of the command
	Said     string                  `json:"said,omitempty"` // the end of its error output, if it failed
	Tries    int                     `json:"tries"`
	Fragment fragment.Fragment       `json:"fragment"`
	Config   string                  `json:"config"` // the fragment as a file
	Diff     []sandboxprofile.Change `json:"diff"`   // from the configuration in use
	// Refused has what was refused and is not proposed, with the reason.
	Refused []refusal `json:"refused"`
	// Connections are the hosts and addresses that tries connected to, or were refused.
	Connections []connection `json:"connections"`
}

// A tried is how a try ended.
type tried struct {
	Status  int       `json:"status"`
	Program string    `json:"program"` // that ran; "" if there was none
	Said    string    `json:"said"`    // the end of its error output
	Output  string    `json:"output"`  // a digest of what it printed, but for numbers
	Refused []refusal `json:"refused"`
	// Toolchains are the shipped presets that have something of what detection found.
	Toolchains []string `json:"toolchains"`
	Env        []string `json:"env"` // names of the variables that it was given

	// Namesakes are programs that are others inside than outside, each in words.
	Namesakes []string `json:"namesakes"`

	Connections []connection `json:"connections"`

	changed string
}

// A refusal is something that a try was refused, and what would allow it or why that is not
// proposed.
type refusal struct {
	Subject string       `json:"subject"`
	Needs   []needs.Need `json:"needs,omitempty"`
	Why     string       `json:"why,omitempty"`
}

// A learner runs a command again and again.
type learner struct {
	*cli.App
	learnFlags
	argv  []string
	cfg   *config.Config
	ran   int
	asked connections // of all tries
	first tried       // with all that it may have
	// steady are the parts of an outcome that two runs under the same had in common.
	steadyOutput, steadyChanges bool
}

func learn(ctx context.Context, a *cli.App, f learnFlags, argv []string) error {
	f.box.Mode, f.box.Unrecorded = string(approval.ApproveAll), true
	cfg, err := run.LoadConfig(a, f.box)
	if err != nil {
		return err
	}
	for flag, file := range map[string]string{"--write": f.write, "--merge": f.merge} {
		if file != "" && assemble.CallsMayWrite(cfg, file) {
			return cli.WithHint(cli.UsageError(fmt.Errorf("learn: %s: %s is in a directory that calls may write: a call could change the file before you use it", flag, file)),
				"choose a directory that calls cannot write, such as the parent of the workspace")
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	l := &learner{App: a, learnFlags: f, argv: argv, cfg: cfg}
	var before fragment.Fragment
	if f.merge != "" {
		if before, err = readFragment(f.merge); err != nil {
			return err
		}
	}
	wide, refused, err := l.widen(ctx)
	if err != nil {
		return err
	}
	out := learnt{Status: l.first.Status, Refused: append([]refusal{}, refused...), Fragment: wide}
	if l.first.Status != 0 {
		out.Fragment.Env, out.Said = nil, l.first.Said
		out.Why = fmt.Sprintf("the command ended with status %d", l.first.Status)
		return l.end(out)
	}
	if out.Fragment, err = l.narrow(ctx, wide); err != nil {
		return err
	}
	if f.merge != "" {
		out.Fragment = out.Fragment.With(before)
	}
	if len(out.Fragment.Env) == len(l.first.Env) {
		out.Fragment.Env = nil // as it is
	}
	last, err := l.try(ctx, out.Fragment)
	if err != nil {
		return err
	}
	l.first.Namesakes = last.Namesakes
	if out.Why = l.differs(last); out.Why == "" {
		out.Proven = true
	} else {
		out.Why = "with the proposed configuration, " + out.Why
	}
	return l.end(out)
}

// maxRounds is how often what was refused is added. A program that is refused one file of
// many at a time is given their directory before that.
const maxRounds = 16

// widen runs the command until it is refused nothing more that may be proposed.
func (l *learner) widen(ctx context.Context) (f fragment.Fragment, refused []refusal, err error) {
	f = fragment.Of(l.cfg, "in the configuration in use")
	for round := 1; ; round++ {
		if l.first, err = l.try(ctx, f); err != nil {
			return f, nil, err
		}
		if round == 1 {
			for _, name := range l.first.Env {
				f.Env = append(f.Env, fragment.Reasoned{Name: name, Reason: "in the configuration in use"})
			}
		}
		more, what := f.Clone(), []string{}
		refused = nil
		// What a variable says may take the place of what was refused: a registry, for one.
		isEnv := func(n needs.Need) bool { return n.Env != "" }
		first := slices.ContainsFunc(l.first.Refused, func(r refusal) bool { return slices.ContainsFunc(r.Needs, isEnv) && more.Lacks(r.Needs) })
		for _, r := range l.first.Refused {
			added := false
			for _, n := range r.Needs {
				if first && !isEnv(n) {
					continue
				}
				added = more.Add(n, "refused earlier: "+r.Subject) || added
			}
			if added {
				what = append(what, r.Subject)
			} else {
				r.Needs, r.Why = nil, cmp.Or(r.Why, "it is refused anyway")
				refused = append(refused, r)
			}
		}
		more, in := l.collapsed(more)
		for _, dir := range in {
			what = append(what, "read all of "+dir)
		}
		l.say("status %d, %s", l.first.Status, cmp.Or(prefixed("refused: ", cli.FirstFew(what)), "nothing refused that could be proposed"))
		if len(what) == 0 || round == maxRounds || l.ran >= l.tries {
			break
		}
		if !l.yes {
			question := "sandgate: allow this in the next try? " + approval.EscapeLine(strings.Join(what, ", "))
			if err := terminal.Confirm("learn", question, "add --yes to allow each try what the previous one was refused"); err != nil {
				l.App.Complain(err)
				for _, r := range l.first.Refused {
					if slices.Contains(what, r.Subject) {
						refused = append(refused, refusal{Subject: r.Subject, Why: "it was not allowed in a try"})
					}
				}
				break
			}
		}
		f = more
	}
	if l.first.Status != 0 {
		return f, refused, nil // there is nothing to compare with
	}
	again, err := l.try(ctx, f)
	l.steadyOutput, l.steadyChanges = again.Output == l.first.Output, again.changed == l.first.changed
	if err == nil && again.Status != l.first.Status {
		err = cli.WithStatus(cli.ExitFound, fmt.Errorf("learn: the command ended with status %d, and in an identical run with %d: its needs cannot be determined", l.first.Status, again.Status))
	}
	return f, refused, err
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// collapsed puts a directory in the place of files of it that were read, if it may be proposed as
// a whole, and says which.
func (l *learner) collapsed(f fragment.Fragment) (_ fragment.Fragment, dirs []string) {
	const many = 3
	in := map[string]int{}
	isFile := func(p fragment.Path) bool {
		info, err := os.Lstat(p.Root)
		return p.Position == (config.Position{}) && p.Mode == config.ReadOnly && err == nil && info.Mode().IsRegular()
	}
	for _, p := range f.Paths {
		if isFile(p) {
			in[filepath.Dir(p.Root)]++
		}
	}
	d, err := assemble.Derive(l.cfg, nil, "")
	if err != nil {
		return f, nil
	}
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		whole := needs.Need{Path: dir}
		if n := in[dir]; n < many || notProposed(&whole, d, l.cfg) != "" || whole.Preset != "" {
			continue
		}
		dirs = append(dirs, dir)
		f.Paths = slices.DeleteFunc(f.Paths, func(p fragment.Path) bool { return isFile(p) && filepath.Dir(p.Root) == dir })
		f.Add(whole, fmt.Sprintf("refused earlier: read %d of its files", in[dir]))
	}
	return f, dirs
}

// A part is something that a fragment can be without.
type part struct {
	what string
	drop func(*fragment.Fragment)
	keep func(f *fragment.Fragment, reason string) // says why it stays
}

// narrow leaves out what the command ends the same without.
func (l *learner) narrow(ctx context.Context, f fragment.Fragment) (fragment.Fragment, error) {
	var err error
	for _, group := range [][]part{l.envParts(f), l.presetParts(f), l.pathParts(f), l.hostParts(f)} {
		if f, err = l.shed(ctx, f, group); err != nil {
			return f, err
		}
	}
	if f, err = l.named(ctx, f); err != nil {
		return f, err
	}
	return f, nil
}

// shed tries without all parts, and where that is too few, without each half of them.
func (l *learner) shed(ctx context.Context, f fragment.Fragment, parts []part) (fragment.Fragment, error) {
	if len(parts) == 0 {
		return f, nil
	}
	if l.ran >= l.tries-1 { // one is for the proof
		for _, p := range parts {
			p.keep(&f, "not tried without it")
		}
		return f, nil
	}
	less := f.Clone()
	var what []string
	for _, p := range parts {
		p.drop(&less)
		what = append(what, p.what)
	}
	got, err := l.try(ctx, less)
	if err != nil {
		return f, err
	}
	how := l.differs(got)
	l.say("%s: %s", cli.FirstFew(what), cmp.Or(how, "as before"))
	switch {
	case how == "":
		return less, nil
	case len(parts) == 1:
		parts[0].keep(&f, parts[0].what+": "+how)
		return f, nil
	}
	half := len(parts) / 2
	if f, err = l.shed(ctx, f, parts[:half]); err != nil {
		return f, err
	}
	return l.shed(ctx, f, parts[half:])
}

// differs says in what a try ended otherwise than with all that it may have.
func (l *learner) differs(t tried) string {
	switch {
	case t.Program != l.first.Program:
		return "it is " + cmp.Or(t.Program, "not there") + " then"
	case t.Status != l.first.Status:
		return fmt.Sprintf("it ended with status %d", t.Status)
	case l.steadyOutput && t.Output != l.first.Output:
		return "its output differs"
	case l.steadyChanges && t.changed != l.first.changed:
		return "it changed other files"
	}
	return ""
}

// always are variables that programs expect everywhere.
var always = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TZ"}

func drop(list *[]fragment.Reasoned, name string) {
	*list = slices.DeleteFunc(*list, func(r fragment.Reasoned) bool { return r.Name == name })
}

func because(list []fragment.Reasoned, name, reason string) {
	for i := range list {
		if list[i].Name == name {
			list[i].Reason = reason
		}
	}
}

func (l *learner) envParts(f fragment.Fragment) (parts []part) {
	for _, r := range f.Env {
		if slices.Contains(always, r.Name) {
			because(f.Env, r.Name, "what every program expects")
			continue
		}
		parts = append(parts, part{"without " + r.Name, func(f *fragment.Fragment) { drop(&f.Env, r.Name) }, func(f *fragment.Fragment, why string) { because(f.Env, r.Name, why) }})
	}
	return parts
}

// systemPreset is the preset that every program needs.
const systemPreset = "system"

func (l *learner) presetParts(f fragment.Fragment) (parts []part) {
	for _, r := range f.Presets {
		if r.Name == systemPreset {
			because(f.Presets, r.Name, "what every program needs")
			continue
		}
		parts = append(parts, part{"without the preset " + r.Name, func(f *fragment.Fragment) { drop(&f.Presets, r.Name) }, func(f *fragment.Fragment, why string) { because(f.Presets, r.Name, why) }})
	}
	return parts
}

// named puts shipped presets in the place of all that is detected, if they are enough.
func (l *learner) named(ctx context.Context, f fragment.Fragment) (fragment.Fragment, error) {
	if len(l.first.Toolchains) == 0 || l.ran >= l.tries-2 || !slices.ContainsFunc(f.Presets, func(r fragment.Reasoned) bool { return r.Name == config.DetectPreset }) {
		return f, nil
	}
	less := f.Clone()
	drop(&less.Presets, config.DetectPreset)
	var list []fragment.Reasoned
	for _, name := range l.first.Toolchains {
		list = append(list, fragment.Reasoned{Name: name, Reason: "of what was detected"})
	}
	less.Presets = fragment.Union(less.Presets, list)
	got, err := l.try(ctx, less)
	if err != nil {
		return f, err
	}
	how := l.differs(got)
	l.say("the presets %s in place of detect: %s", strings.Join(l.first.Toolchains, ", "), cmp.Or(how, "as before"))
	if how != "" {
		return f, nil
	}
	parts := l.presetParts(less)
	return l.shed(ctx, less, slices.DeleteFunc(parts, func(p part) bool {
		return !slices.ContainsFunc(list, func(r fragment.Reasoned) bool { return p.what == "without the preset "+r.Name })
	}))
}

func (l *learner) pathParts(f fragment.Fragment) (parts []part) {
	start := l.cfg.StartDir()
	change := func(root string, do func(*fragment.Path)) func(*fragment.Fragment) {
		return func(f *fragment.Fragment) {
			for i := range f.Paths {
				if f.Paths[i].Root == root {
					do(&f.Paths[i])
				}
			}
		}
	}
	why := func(root string) func(*fragment.Fragment, string) {
		return func(f *fragment.Fragment, reason string) {
			change(root, func(p *fragment.Path) { p.Reason = reason })(f)
		}
	}
	for _, p := range f.Paths {
		if p.Mode == config.ReadWrite {
			parts = append(parts, part{"without writing to " + p.Root, change(p.Root, func(p *fragment.Path) {
				p.Mode, p.Reason = config.ReadOnly, "nothing was written there"
			}), why(p.Root)})
		}
	}
	for _, p := range f.Paths {
		if sandboxprofile.Contains(p.Root, start) {
			continue // where the command starts
		}
		parts = append(parts, part{"without " + p.Root, func(f *fragment.Fragment) {
			f.Paths = slices.DeleteFunc(f.Paths, func(q fragment.Path) bool { return q.Root == p.Root })
		}, why(p.Root)})
	}
	return parts
}

func (l *learner) hostParts(f fragment.Fragment) (parts []part) {
	for _, r := range f.Network.Hosts {
		parts = append(parts, part{"without " + r.Name, func(f *fragment.Fragment) { drop(&f.Network.Hosts, r.Name) }, func(f *fragment.Fragment, why string) { because(f.Network.Hosts, r.Name, why) }})
	}
	for _, r := range f.Network.Services {
		is := func(s fragment.Service) bool { return s.Name == r.Name }
		parts = append(parts, part{"without the service " + r.Name, func(f *fragment.Fragment) {
			f.Network.Services = slices.DeleteFunc(f.Network.Services, is)
		}, func(f *fragment.Fragment, why string) {
			f.Network.Services[slices.IndexFunc(f.Network.Services, is)].Reason = why
		}})
	}
	return parts
}

func (l *learner) say(format string, args ...any) {
	fmt.Fprintf(l.Err, "sandgate: try %d: %s\n", l.ran, approval.EscapeLine(fmt.Sprintf(format, args...)))
}

// try runs the command under a fragment, in a draft of its own.
func (l *learner) try(ctx context.Context, f fragment.Fragment) (t tried, err error) {
	l.ran++
	cfg, err := run.LoadConfig(quiet(l.App), l.box)
	if err != nil {
		return t, err
	}
	part, err := parseFragment("learnt.yaml", []byte(f.Text()))
	if err != nil {
		return t, err
	}
	fragment.Overlay(cfg, part)
	dir, err := triesDir()
	if err != nil {
		return t, err
	}
	defer os.Remove(dir) // where nothing else is in it
	var d *draft.Held
	at := dir
	if roots, err := draft.Roots(cfg); err == nil && !l.inPlace {
		made, err := draft.New(cfg, dir, roots, l.argv)
		if err != nil {
			return t, err
		}
		if d, err = draft.Hold(made); err != nil {
			return t, err
		}
		at = d.Dir()
		defer d.Release()
		defer func() { err = errors.Join(err, draft.Drop(made)) }()
	}
	// Outside of every sandbox, like drafts.
	files, err := os.MkdirTemp(at, "learn-")
	if err != nil {
		return t, cli.WithStatus(cli.ExitInternal, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	if err := os.WriteFile(filepath.Join(files, fragmentFile), []byte(f.Text()), 0o600); err != nil {
		return t, cli.WithStatus(cli.ExitInternal, err)
	}
	if t, err = l.start(ctx, cfg, l.tryArgs(files, d), files, d); err == nil && !l.inPlace {
		t.changed, err = changedIn(d, cfg)
	}
	return t, err
}

// triesDir has the drafts of tries: they are never reviewed, and those that a killed learn has left are
// removed.
func triesDir() (string, error) {
	dir, err := draft.Dir()
	if err == nil {
		dir = filepath.Join(dir, "tries")
		if err = os.MkdirAll(dir, 0o700); err != nil {
			err = cli.WithStatus(cli.ExitInternal, err)
		}
	}
	for _, d := range changes.Drafts(dir) {
		if lock, err := d.Hold(); err == nil {
			_ = d.Drop() // the next one tries again
			lock.Close()
		}
	}
	return dir, err
}

// caches are names that programs write if they can, and do without.
var caches = []string{"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache"}

// changedIn is a digest of the names that a draft changes. Git writes what it has looked at
// into its index, where it may.
func changedIn(d *draft.Held, cfg *config.Config) (string, error) {
	var names []string
	if d == nil { // nothing may be written
		return digest(nil), nil
	}
	plans, err := draft.Plans(d.Draft, cfg, nil)
	if err != nil {
		return "", err
	}
	for i, p := range plans {
		for _, s := range p.Steps {
			name := filepath.Join(d.Roots[i], string(s.Path))
			isCache := slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return slices.Contains(caches, part) })
			if !isCache && !(s.Was != nil && s.Now != nil && strings.HasSuffix(name, "/.git/index")) {
				names = append(names, name)
			}
		}
	}
	return digest([]byte(strings.Join(names, "\n"))), nil
}

const fragmentFile, triedFile = "learnt.yaml", "tried.json"

func (l *learner) tryArgs(files string, d *draft.Held) []string {
	args := []string{"learn-try", "--files=" + files, "--config=" + l.box.Config, "--backend=" + l.box.Backend, "--timeout=" + l.box.Timeout.String()}
	for _, w := range l.box.Workspaces {
		args = append(args, "--workspace="+w)
	}
	if d != nil {
		args = append(args, "--draft-of="+d.Dir())
	}
	return append(append(args, "--"), l.argv...)
}

func (l *learner) start(ctx context.Context, cfg *config.Config, args []string, files string, d *draft.Held) (t tried, err error) {
	self, err := cli.ResolvedSelf()
	if err != nil {
		return t, err
	}
	var said bytes.Buffer
	var copied string
	c := exec.Command(self, args...)
	if d != nil {
		c, copied, err = draft.Start(d, cfg, args, func(c *exec.Cmd) error { c.Stderr = &said; return nil })
	} else {
		c.Stderr = &said
		err = c.Start()
	}
	if err != nil {
		return t, cli.WithHint(cli.WithStatus(cli.ExitUnavailable, fmt.Errorf("learn: %s", approval.EscapeLine(err.Error()))), "add --in-place to run it in the workspace itself, which it may then change")
	}
	if copied != "" && l.ran == 1 {
		l.say("%s, and so does each one", copied)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(syscall.SIGTERM) }) // it ends its sandbox
	failed := c.Wait()
	stop()
	if ctx.Err() != nil {
		return t, cli.WithStatus(cli.ExitInternal, errors.New("learn: interrupted; the workspace is unchanged"))
	}
	b, err := os.ReadFile(filepath.Join(files, triedFile))
	if err == nil {
		err = json.Unmarshal(b, &t)
		l.asked.try(t.Connections)
		return t, err
	}
	_, _ = l.Err.Write(said.Bytes())
	code := cli.ExitInternal
	if exit := (*exec.ExitError)(nil); errors.As(failed, &exit) && exit.ExitCode() > 0 {
		code = exit.ExitCode()
	}
	return t, cli.WithStatus(code, errors.New("learn: the command could not be run in the sandbox"))
}

// quiet is an app that prints nothing itself.
func quiet(a *cli.App) *cli.App { return cli.New(a.In, a.Out, new(bytes.Buffer), a.Version) }

// end prints what was learnt.
func (l *learner) end(out learnt) error {
	out.Tries, out.Config, out.Connections = l.ran, out.Fragment.Text(), l.asked.sorted()
	var err error
	if out.Diff, err = l.diff(out.Config); err != nil {
		return err
	}
	if err := l.writeFragment(out.Config); err != nil {
		return err
	}
	if l.asJSON {
		err = cli.PrintJSON(l.Out, out)
	} else {
		err = l.print(out)
	}
	if err == nil && !out.Proven && l.session == "" {
		return cli.WithStatus(cli.ExitFound, nil)
	}
	return err
}

// diff is in what programs' profile differs from the one in use.
func (l *learner) diff(text string) ([]sandboxprofile.Change, error) {
	now, err := settings.LoadAndWarn(quiet(l.App), l.box.Config, strings.Join(l.box.Workspaces[:min(len(l.box.Workspaces), 1)], ""))
	if err != nil {
		return nil, err
	}
	part, err := parseFragment("learnt.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	before, operator, err := assemble.ProfileFor(*now, "shell", "")
	if err != nil {
		return nil, err
	}
	fragment.Overlay(now, part)
	after, _, err := assemble.ProfileFor(*now, "shell", "")
	return append([]sandboxprofile.Change{}, sandboxprofile.Diff(sandboxprofile.Intersect(before, operator), sandboxprofile.Intersect(after, operator))...), err
}

// maxDiffLines is how many lines of the difference are printed.
const maxDiffLines = 20

func (l *learner) print(out learnt) error {
	var b strings.Builder
	of := tools.QuoteCommand(l.argv)
	if l.session != "" {
		of = "the session " + l.session
	}
	fmt.Fprintf(&b, "# What this needs: %s\n", approval.EscapeLine(of))
	b.WriteString(out.Config)
	b.WriteString("\n# Differences from the configuration in use:\n")
	var changed strings.Builder
	if err := configdiff.PrintProfileChanges(&changed, out.Diff); err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(changed.String()) {
		if n++; n <= maxDiffLines {
			b.WriteString("#   " + line)
		}
	}
	if n > maxDiffLines {
		fmt.Fprintf(&b, "#   and %d more: see all with `sandgate config diff` or --json\n", n-maxDiffLines)
	}
	_, err := l.Out.Write([]byte(b.String()))
	printConnections(l.Err, out.Connections, out.Tries)
	for _, r := range out.Refused {
		fmt.Fprintf(l.Err, "sandgate: refused, and not proposed: %s\n", approval.EscapeLine(cli.Join(": ", r.Subject, r.Why)))
	}
	for line := range strings.Lines(out.Said) {
		fmt.Fprintf(l.Err, "sandgate: its output: %s\n", approval.EscapeLine(strings.TrimRight(line, "\r\n")))
	}
	if len(l.first.Namesakes) > 0 {
		fmt.Fprintf(l.Err, "sandgate: note: with this configuration, %s\n", approval.EscapeLine(cli.FirstFew(l.first.Namesakes)))
	}
	if out.Proven {
		fmt.Fprintf(l.Err, "sandgate: proven: the last of %d tries ran with this configuration and ended like the first complete run\n", out.Tries)
	} else {
		fmt.Fprintf(l.Err, "sandgate: not proven: %s\n", approval.EscapeLine(out.Why))
	}
	return err
}

func (f learnFlags) writeFragment(text string) error {
	var err error
	switch {
	case f.write == "":
	case f.write == f.merge:
		err = os.WriteFile(f.write, []byte(text), 0o600)
	default:
		err = settings.CreateFile(f.write, []byte(text))
	}
	if err != nil {
		return cli.WithHint(cli.UsageError(fmt.Errorf("learn: --write: %w", err)), "name a new file, or add to the existing one with --merge")
	}
	return nil
}

// readFragment reads what was learnt before.
func readFragment(file string) (fragment.Fragment, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return fragment.Fragment{}, cli.UsageError(fmt.Errorf("learn: --merge: %w", err))
	}
	cfg, err := parseFragment(file, b)
	if err != nil {
		return fragment.Fragment{}, err
	}
	f := fragment.Of(cfg, "in "+filepath.Base(file))
	if cfg.Set("sandbox.env.allow") {
		for _, name := range cfg.Sandbox.Env.Allow {
			f.Env = append(f.Env, fragment.Reasoned{Name: name, Reason: "in " + filepath.Base(file)})
		}
	}
	return f, nil
}

func parseFragment(name string, text []byte) (*config.Config, error) {
	env, err := assemble.Env()
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse(text, name, env)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return cfg, nil
}

// neverShown says why a path is never proposed, whatever asks for it; "" if it may be.
func neverShown(path string) string {
	home := userHome()
	switch {
	case home == "":
		return "the home directory is not known"
	case sandboxprofile.Contains(path, home):
		return "it is or contains a whole home directory"
	case slices.Contains(assemble.WholeTrees, path):
		return "it contains the whole machine or every user's files"
	case isHome(path):
		return "it is the whole home directory of a user"
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run"} {
		if sandboxprofile.Contains(dir, path) {
			return "it is system state, not a file to show"
		}
	}
	own := assemble.OwnDirectories()
	if dir, err := statedir.Path(""); err == nil {
		own = append(own, dir)
	}
	for _, dir := range own {
		if sandboxprofile.Contains(dir, path) || sandboxprofile.Contains(path, dir) {
			return "it belongs to sandgate"
		}
	}
	return ""
}

// isHome reports whether a path is a home directory where systems put them, whoever it belongs to.
func isHome(path string) bool {
	return path == "/root" || slices.Contains([]string{"/home", "/Users"}, filepath.Dir(path))
}

// neverWritten says why a program is never proposed to write to a path; "" if it may be. What it wrote there would run,
// or be followed, outside of the sandbox.
func neverWritten(path string) string {
	if !sandboxprofile.Contains("/var/tmp", path) {
		for _, tree := range []string{"/var", "/opt", "/boot", "/root", "/Library", "/System", "/Applications"} {
			if sandboxprofile.Contains(tree, path) && !sandboxprofile.Contains(userHome(), path) {
				return "programs of the system may run or follow what is written there"
			}
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && (sandboxprofile.Contains(real, path) || sandboxprofile.Contains(path, real)) {
			return "it contains programs that you run outside of the sandbox (PATH)"
		}
	}
	for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
		base := filepath.Base(at)
		settings := base == "Library" || strings.HasPrefix(base, ".") && base != ".cache"
		if settings && (isHome(filepath.Dir(at)) || filepath.Dir(at) == userHome()) {
			return "it contains settings that programs follow outside of the sandbox"
		}
	}
	return ""
}

// userHome is the home directory, links resolved, or "".
func userHome() string {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return ""
	}
	return home
}
