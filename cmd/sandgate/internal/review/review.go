package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/filediff"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/putback"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// RunOnDraft runs the command in a mount namespace of its own, where a draft lies over what it
// may write. There, this program takes the whole path of `run`.
func RunOnDraft(a *cli.App, cmd *cobra.Command, f run.Flags, argv []string) error {
	d, err := draftFor(a, f, argv)
	if err != nil {
		return err
	}
	held, err := draft.Hold(d)
	if err != nil {
		return err
	}
	defer held.Release()
	err = inDraft(a, held, cmd, f, argv)
	if err == nil && f.Keep {
		return keepAtOnce(a, d, f)
	}
	if told := tellDraft(a, d, f); told != nil { // it drops a draft that has nothing in it
		return errors.Join(err, told)
	}
	return err
}

// draftFor is the draft that is named, or a new one of all that the command may write.
func draftFor(a *cli.App, f run.Flags, argv []string) (*changes.Draft, error) {
	dir, err := draft.Dir()
	if err != nil {
		return nil, err
	}
	cfg, err := run.LoadConfig(a, f)
	if err != nil {
		return nil, err
	}
	roots, err := draft.Roots(cfg)
	if err != nil {
		return nil, err
	}
	SettleKeeps(a, roots)
	if f.Draft != "" {
		d, err := draft.Find(dir, f.Draft)
		if err == nil {
			err = draft.LiesOver(d, roots)
		}
		return d, err
	}
	return draft.New(cfg, dir, roots, argv)
}

// inDraft runs this program again, in the draft.
func inDraft(a *cli.App, d *draft.Held, cmd *cobra.Command, f run.Flags, argv []string) error {
	cfg, err := run.LoadConfig(a, f)
	if err != nil {
		return err
	}
	args := []string{"run", "--draft-of", d.Dir()}
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		if fl.Name == "review" || fl.Name == "draft" || fl.Name == "keep" {
			return
		}
		values := []string{fl.Value.String()}
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+fl.Name+"="+v)
		}
	})
	c, said, err := draft.Start(d, cfg, append(append(args, "--"), argv...), func(c *exec.Cmd) error {
		c.Stdin, c.Stdout, c.Stderr = a.In, cli.Bare(a.Out), cli.Bare(a.Err)
		return nil
	})
	if err != nil {
		return err
	}
	if said != "" {
		fmt.Fprintln(a.Err, "sandgate: "+said)
	}
	// A signal from a key reaches both processes, and the program answers it; a signal to
	// this process alone is passed on.
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(got)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case s := <-got:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				_ = c.Process.Signal(s) // it may have ended
			}
		case err := <-ended:
			var exit *exec.ExitError
			switch {
			case err == nil:
				return nil
			case errors.As(err, &exit) && exit.ExitCode() >= 0:
				return &cli.StatusError{Code: exit.ExitCode()} // it has said why
			case errors.As(err, &exit):
				return &cli.StatusError{Code: 128 + int(exit.Sys().(syscall.WaitStatus).Signal())}
			}
			return cli.WithStatus(cli.ExitInternal, err)
		}
	}
}

// keepAtOnce keeps what a command has left in a draft, as `review keep` does. Standard output is the command's.
func keepAtOnce(a *cli.App, d *changes.Draft, f run.Flags) error {
	quiet := *a
	quiet.Out = a.Err
	x := &reviewCmd{App: &quiet, config: f.Config}
	cfg, err := x.configOf(d)
	if err != nil {
		return err
	}
	n, err := x.keepOf(d, cfg, nil, nil)
	if err != nil {
		return err
	}
	if n > 0 {
		fmt.Fprintf(a.Err, "sandgate: kept %s\n", cli.Plural(n, "name", "names"))
	}
	return draft.Drop(d)
}

// tellDraft says what is in a draft, and asks a person at a terminal what becomes of it. One with nothing in it goes.
func tellDraft(a *cli.App, d *changes.Draft, f run.Flags) error {
	cfg, err := run.LoadConfig(a, f)
	if err != nil {
		return err
	}
	plans, err := draft.Plans(d, cfg, nil)
	if err != nil {
		return err
	}
	text, n := listDraft(d, plans, cfg)
	if n == 0 {
		fmt.Fprint(a.Err, terminal.Fit(a.Err, text))
		return draft.Drop(d)
	}
	tty := personAt(a.Err)
	if tty != nil {
		// The program may have left the cursor anywhere: none of its text may stand beside or below the list.
		fmt.Fprint(tty, "\x1b[m\r\n\x1b[J")
		text = "sandgate: the command has ended; its draft changes\n" + text
	}
	fmt.Fprint(a.Err, terminal.Fit(a.Err, text))
	said := fmt.Sprintf("sandgate: %s in draft %s; the workspace has not changed", cli.Plural(n, "name", "names"), d.ID)
	if tty == nil {
		said += ": use `sandgate review show`, keep or drop"
	}
	said += "\n"
	if cfg.Shell.Network.Mode != config.NetworkNone {
		said += "sandgate: data that the command sent to other machines is not taken back, whatever you do with the draft\n"
	}
	fmt.Fprint(a.Err, terminal.Fit(a.Err, said))
	if tty == nil {
		return nil
	}
	defer tty.Close()
	return askAboutDraft(a, tty, d, cfg, f, plans, text+said)
}

// printDraft lists what a draft would do to a workspace, with what the files hold if whole.
func printDraft(out io.Writer, root string, p changes.DraftPlan, cfg *config.Config, whole bool) {
	if len(p.Steps) > 0 {
		fmt.Fprintf(out, "%s:\n", approval.EscapeName(root))
	}
	protect, _ := assemble.Patterns(cfg)
	names := shownNames{}
	names.of(0, p.Steps)
	for _, s := range p.Steps {
		fmt.Fprintln(out, "  "+filediff.Sign(s.Now, s.Was)+" "+names.text(0, pathOf(s))+marks(s, root, protect))
		if whole && s.Was != s.Now {
			if err := filediff.Print(out, p.Content, s.Now, s.Was, "now", "draft"); err != nil {
				fmt.Fprintln(out, "  "+approval.EscapeLine(err.Error()))
			}
		}
	}
}

type reviewCmd struct {
	*cli.App
	config     string
	force, yes bool
	asJSON     bool
}

func NewCommand(a *cli.App) *cobra.Command {
	x := &reviewCmd{App: a}
	c := &cobra.Command{
		Use: "review", Short: "Inspect, keep or drop drafts from `run --review`", Args: cobra.NoArgs,
		Long: "review lists drafts: the changes that commands of " + "`sandgate run --review`" + ` made, none of
which are in the workspace yet. To name a draft, give enough of the start of its name to
be unique. If there is only one draft, you can leave out the name.

Data that a command sent to other machines is not taken back, whatever you do with its draft.`,
		Example: "  sandgate run --review -- npm install\n  sandgate review show\n  sandgate review keep",
		RunE:    func(*cobra.Command, []string) error { return x.list() },
	}
	pick := func(args []string) (*changes.Draft, []string, error) {
		dir, err := draft.Dir()
		if err != nil {
			return nil, nil, err
		}
		name := ""
		if len(args) > 0 {
			name, args = args[0], args[1:]
		}
		d, err := draft.Find(dir, name)
		return d, args, err
	}
	show := &cobra.Command{
		Use: "show [DRAFT] [PATH...]", Short: "Show the changes of a draft as a diff", Example: "  sandgate review show\n  sandgate review show 20260102T150405 src",
		RunE: func(_ *cobra.Command, args []string) error {
			d, paths, err := pick(args)
			if err != nil {
				return err
			}
			x.tellCutOff(d)
			return x.show(d, paths)
		},
	}
	keep := &cobra.Command{
		Use: "keep [DRAFT] [PATH...]", Short: "Copy a draft, or some of its files, into the workspace", Example: "  sandgate review keep\n  sandgate review keep 20260102T150405 src/main.go",
		Long: `keep copies the changes of a draft into the workspace, as a call of its own in a sandbox:
it refuses changes that no call may make. If a file in the workspace changed after the
draft began, keep names it and does nothing. keep applies all changes or none: an interrupt
takes them back. If keep is killed, the next sandgate in that workspace completes it, or
` + "`sandgate review drop`" + " takes it back.",
		RunE: func(_ *cobra.Command, args []string) error {
			SettleKeeps(x.App, nil)
			d, paths, err := pick(args)
			if err != nil {
				return err
			}
			return x.keep(d, paths)
		},
	}
	keep.Flags().BoolVar(&x.force, "force", false, "replace files that changed since, too; their content is saved beside the draft")
	drop := &cobra.Command{
		Use: "drop [DRAFT]", Short: "Delete a draft", Args: cobra.MaximumNArgs(1), Example: "  sandgate review drop 20260102T150405",
		RunE: func(_ *cobra.Command, args []string) error {
			d, _, err := pick(args)
			if err != nil {
				return err
			}
			if !x.yes {
				if err := terminal.Confirm("review drop", "delete draft "+d.ID+"?", "give --yes"); err != nil {
					return err
				}
			}
			lock, err := draft.LockDraft(d)
			if err != nil {
				return err
			}
			defer lock.Close()
			if err := x.giveUp(d); err != nil {
				return err
			}
			return draft.Drop(d)
		},
	}
	drop.Flags().BoolVar(&x.yes, "yes", false, "do not ask")
	for _, sub := range []*cobra.Command{show, keep, drop} {
		sub.Flags().StringVar(&x.config, "config", "", "configuration `file`")
		c.AddCommand(sub)
	}
	for _, list := range []*cobra.Command{c, show} {
		list.Flags().BoolVar(&x.asJSON, "json", false, "print JSON")
	}
	return c
}

func (x *reviewCmd) list() error {
	dir, err := draft.Dir()
	if err != nil {
		return err
	}
	l := changes.Drafts(dir)
	for _, d := range l {
		x.tellCutOff(d)
	}
	if x.asJSON {
		shown := []draftJSON{}
		for _, d := range l {
			shown = append(shown, draftJSON{d.ID, d.Began, d.Roots, d.Command})
		}
		return cli.PrintJSON(x.Out, shown)
	}
	if len(l) == 0 {
		fmt.Fprintln(x.Err, "sandgate: no drafts; create one with `sandgate run --review -- COMMAND`")
		return nil
	}
	tw := tabwriter.NewWriter(x.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "DRAFT\tBEGAN\tOF\tCOMMAND")
	for _, d := range l {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", d.ID, d.Began.Local().Format(time.DateTime), shownNames{}.texts(d.Roots), approval.EscapeLine(strings.Join(d.Command, " ")))
	}
	return tw.Flush()
}

// A draftJSON is one of `review --json`.
type draftJSON struct {
	ID      string    `json:"id"`
	Began   time.Time `json:"began"`
	Of      []string  `json:"of"` // directories
	Command []string  `json:"command"`
}

// A stepJSON is one of `review show --json`: what a keep of the draft would do to a name.
type stepJSON struct {
	Root string       `json:"root"` // a directory
	Path changes.Name `json:"path"` // below it
	// Now is the entry in the workspace, Draft the one in the draft: nil means that there is
	// none. They are as in `log --json`.
	Now      *changes.Entry `json:"now,omitempty"`
	Draft    *changes.Entry `json:"draft,omitempty"`
	Conflict string         `json:"conflict,omitempty"`
	Merged   bool           `json:"merged,omitempty"` // with what somebody has changed since
	// Remarks are the words that the list has behind the name.
	Remarks string `json:"remarks,omitempty"`
}

func (x *reviewCmd) showJSON(d *changes.Draft, plans []changes.DraftPlan, cfg *config.Config) error {
	protect, _ := assemble.Patterns(cfg)
	l := []stepJSON{}
	for i, p := range plans {
		for _, s := range p.Steps {
			l = append(l, stepJSON{d.Roots[i], s.Path, s.Now, s.Was, s.Conflict, s.Merged, strings.TrimSpace(marks(s, d.Roots[i], protect))})
		}
	}
	return cli.PrintJSON(x.Out, l)
}

// configOf is the configuration of a draft's workspace.
func (x *reviewCmd) configOf(d *changes.Draft) (*config.Config, error) {
	return run.LoadConfig(x.App, run.Flags{Config: x.config, Workspaces: []string{d.Roots[0], d.Roots[0]}, Mode: string(approval.ApproveAll), Backend: "auto", NoDetect: true})
}

func (x *reviewCmd) show(d *changes.Draft, paths []string) error {
	cfg, err := x.configOf(d)
	if err != nil {
		return err
	}
	plans, err := draft.Plans(d, cfg, paths)
	if err != nil {
		return err
	}
	if x.asJSON {
		return x.showJSON(d, plans, cfg)
	}
	var b bytes.Buffer
	for i, p := range plans {
		printDraft(&b, d.Roots[i], p, cfg, true)
	}
	if b.Len() == 0 {
		fmt.Fprintln(x.Err, "sandgate: the workspace already has the draft's changes")
	}
	_, err = x.Out.Write(b.Bytes())
	return err
}

func (x *reviewCmd) keep(d *changes.Draft, paths []string) error {
	cfg, err := x.configOf(d)
	if err != nil {
		return err
	}
	lock, err := draft.LockDraft(d)
	if err != nil {
		return err
	}
	defer lock.Close()
	n, err := x.keepOf(d, cfg, paths, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(x.Err, "sandgate: kept %s\n", cli.Plural(n, "name", "names"))
	if len(paths) > 0 {
		return nil // the rest may still be wanted
	}
	return draft.Drop(d)
}

// keepOf puts the draft's state of paths and everything below them into the workspace, or all
// of it. shown, if not nil, is what a person has seen of it: nothing else is kept.
func (x *reviewCmd) keepOf(d *changes.Draft, cfg *config.Config, paths []string, shown [][]changes.Step) (n int, err error) {
	which := paths
	if shown != nil {
		which = nil
	}
	plans, err := draft.Plans(d, cfg, which)
	if err != nil {
		return 0, err
	}
	for i, p := range plans {
		if shown != nil && len(paths) > 0 { // directories that are made for them are not of the paths
			p.Steps = slices.DeleteFunc(p.Steps, func(s changes.Step) bool {
				return !slices.ContainsFunc(shown[i], func(o changes.Step) bool { return o.Path == s.Path })
			})
			plans[i] = p
		}
		if shown != nil && !slices.EqualFunc(p.Steps, shown[i], changes.Step.Same) {
			return 0, cli.WithStatus(cli.ExitFound, fmt.Errorf("%s changed after the question was shown; nothing was done", approval.EscapeName(d.Roots[i])))
		}
		n += len(p.Steps)
		printDraft(x.Out, d.Roots[i], p, cfg, false)
		if l := p.Blocking(x.force); len(l) > 0 {
			return 0, cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("%s cannot be kept now; nothing was done", cli.Plural(len(l), "file", "files"))),
				"name only the other paths, or add --force to replace files that changed since; it does not help with large or special files")
		}
	}
	if n == 0 && len(paths) > 0 {
		return 0, cli.WithStatus(cli.ExitFound, errors.New("the draft has no changes in these paths"))
	}
	if n == 0 {
		return 0, nil
	}
	config := x.config
	if config != "" {
		if config, err = filepath.Abs(config); err != nil {
			return 0, cli.WithStatus(cli.ExitUsage, err)
		}
	}
	if x.force {
		saved, err := d.SaveReplaced(plans)
		if err != nil {
			return 0, cli.WithStatus(cli.ExitFound, errors.New(approval.EscapeLine(err.Error())))
		}
		if saved != "" {
			fmt.Fprintf(x.Err, "sandgate: files that had changed since and were replaced are saved in %s\n", approval.EscapeName(saved))
		}
	}
	perform, end := untilStopped(putInPlace(x.App, d, config))
	defer end()
	if err := d.Keep(plans, changes.Keep{Config: config, Drops: len(paths) == 0 || shown != nil}, x.force, perform); err != nil {
		return 0, cli.WithHint(cli.WithStatus(cli.ExitFound, errors.New(approval.EscapeLine(err.Error()))), "the draft still exists: see `sandgate review show`")
	}
	return n, nil
}

// untilStopped carries out a keep until a signal comes: then it fails, and is taken back.
func untilStopped(perform changes.Perform) (_ changes.Perform, end func()) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	stopped := false
	check := func() error {
		select {
		case s := <-got:
			if !stopped { // what takes it back goes on
				stopped = true
				return terminal.Signalled{Signal: s.(syscall.Signal)}
			}
		default:
		}
		return nil
	}
	return func(root string, order io.Reader) error {
		err := check()
		if err == nil {
			err = perform(root, order)
			if by := check(); by != nil { // it was told, too, and has failed of that
				err = by
			}
		}
		return err
	}, func() { signal.Stop(got) }
}

// tellCutOff says of a draft that the keep of it was killed. To look at it does nothing about that.
func (x *reviewCmd) tellCutOff(d *changes.Draft) {
	if _, was := d.WasCutOff(); was {
		tellLeftWork(x.App, d)
	}
	if k, _ := d.UnderWay(); k == nil {
		return
	}
	lock, err := d.Hold()
	if err != nil {
		return // it goes on
	}
	lock.Close()
	fmt.Fprintf(x.Err, "sandgate: keeping draft %s was interrupted: `sandgate review keep` or the next sandgate there completes it; `sandgate review drop` takes it back\n", d.ID)
}

// tellLeftWork says of a draft that what worked on it was killed.
func tellLeftWork(a *cli.App, d *changes.Draft) {
	fmt.Fprintf(a.Err, "sandgate: draft %s is from a sandgate that was killed: it has everything written until then, and the workspace has not changed; see `sandgate review show %s`\n", d.ID, d.ID)
}

// giveUp takes back the part of an interrupted keep that was done: a person who drops the
// draft wants none of it.
func (x *reviewCmd) giveUp(d *changes.Draft) error {
	k, err := d.UnderWay()
	if err != nil || k == nil {
		return err
	}
	left, err := d.GiveUp(k, putInPlace(x.App, d, k.Config))
	tellLeft(x.App, left)
	if err != nil {
		return cli.WithHint(cli.WithStatus(cli.ExitFound, errors.New(approval.EscapeLine(err.Error()))), "the draft still exists: see `sandgate review show`")
	}
	return nil
}

func tellLeft(a *cli.App, left []changes.Step) {
	for _, s := range left {
		fmt.Fprintln(a.Err, "sandgate: "+approval.EscapeLine("not touched: "+approval.EscapeName(string(s.Path))+": "+s.Conflict))
	}
}

// putInPlace carries out a keep in a sandbox, as an undo is: of what lies beside the workspace, in one of that.
func putInPlace(a *cli.App, d *changes.Draft, config string) changes.Perform {
	return func(root string, order io.Reader) error {
		workspace := root
		if slices.Contains(d.Beside, root) {
			workspace = d.Roots[0]
		}
		return putback.Perform(a, SettleKeeps, "sandgate review", workspace, config, false)(root, order)
	}
}

// SettleKeeps brings keeps that were killed to their end, before anything else happens in the
// directories that they are of. One that cannot be removed is reported, and tried again at the
// next start. Of drafts on which a command was killed it says so, once.
func SettleKeeps(a *cli.App, roots []string) {
	dir, err := statedir.Path("drafts")
	if err != nil {
		return
	}
	for _, d := range changes.Drafts(dir) {
		concerns := func(root string) bool {
			return slices.ContainsFunc(roots, func(r string) bool { return sandboxprofile.Contains(r, root) || sandboxprofile.Contains(root, r) })
		}
		if roots != nil && !slices.ContainsFunc(d.Roots, concerns) {
			continue
		}
		if first, _ := d.WasCutOff(); first {
			tellLeftWork(a, d)
		}
		if err := settleKeep(a, d); err != nil {
			fmt.Fprintln(a.Err, "sandgate: "+approval.EscapeLine("keeping draft "+d.ID+" was interrupted and could not be completed: "+err.Error()))
		}
	}
}

func settleKeep(a *cli.App, d *changes.Draft) error {
	if k, err := d.UnderWay(); k == nil {
		return err
	}
	lock, err := d.Hold()
	if errors.Is(err, changes.ErrInUse) {
		return nil // it goes on
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	k, err := d.UnderWay() // it may have ended meanwhile
	if k == nil {
		return err
	}
	what := "kept"
	if k.Back {
		what = "taken back"
	}
	fmt.Fprintf(a.Err, "sandgate: keeping draft %s was interrupted: it is now %s\n", d.ID, what)
	left, err := d.Settle(k, putInPlace(a, d, k.Config))
	tellLeft(a, left)
	if err == nil && k.Drops && !k.Back && len(left) == 0 {
		return draft.Drop(d)
	}
	return err
}
