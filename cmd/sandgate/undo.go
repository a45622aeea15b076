package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// keptChanges opens what is kept, whatever the configuration says now.
func keptChanges() (*changes.Store, error) {
	dir, err := assemble.ChangesDir()
	if err != nil {
		return nil, err
	}
	s, err := changes.Open(dir, changes.Options{})
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return s, nil
}

// undoCall is how an undo by a person stands in the list of calls.
func undoCall(plan changes.PlaceUndo) changes.Call {
	return changes.Call{Session: "-", Call: "undo", Tool: "undo", Subject: "undo of " + strings.Join(plan.Records(), ", ")}
}

// changesCmd is what `log` and `undo` share.
type changesCmd struct {
	*cli.App
	workspace, since string
	asJSON           bool
}

func (x *changesCmd) flags(c *cobra.Command) {
	c.Flags().StringVar(&x.workspace, "workspace", "", "the `DIRECTORY` whose changes are meant (default: the one that this directory lies in)")
	c.Flags().StringVar(&x.since, "since", "", "only calls from `TIME` on: 2h (ago), 2006-01-02 or RFC 3339")
}

func newLogCmd(a *cli.App) *cobra.Command {
	x := &changesCmd{App: a}
	c := &cobra.Command{
		Use: "log [SESSION|CALL]", Short: "List calls with what they changed in this workspace", Args: cobra.MaximumNArgs(1),
		Long: `Log lists the calls that changed files here, the latest last, where the
configuration has undo.enabled. The name of a call shows its files.`,
		Example: "  sandgate log\n  sandgate log --since 2h --json",
		RunE: func(_ *cobra.Command, args []string) error {
			w, records, err := x.open()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if records = named(records, args[0]); len(records) == 0 {
					return unknownCall(args[0])
				}
			}
			if x.asJSON {
				return cli.PrintJSON(x.Out, append([]changes.Record{}, records...))
			}
			if len(records) == 0 {
				fmt.Fprintf(x.Err, "sandgate: no call has changed anything in %s\n", w.Root)
				return nil
			}
			return printLog(x.Out, records, len(args) == 1)
		},
	}
	x.flags(c)
	c.Flags().BoolVar(&x.asJSON, "json", false, "print JSON")
	return c
}

func newUndoCmd(a *cli.App) *cobra.Command {
	x := &undoCmd{changesCmd: changesCmd{App: a}}
	c := &cobra.Command{
		Use: "undo [CALL|SESSION] [PATH...]", Short: "Put back what calls changed in this workspace",
		Long: `Undo puts files back to what they were before a call, a session, or, with
--since, before all calls since then; without a name, before the last call that is
not undone yet. Files that were changed since are named, and then nothing is done.
An undo is a call of its own in ` + "`sandgate log`" + `, and can be undone.

What left the sandbox stays where it went: messages, pushes, other machines.`,
		Example: "  sandgate undo --dry-run\n  sandgate undo 20260102T150405 src/main.go\n  sandgate undo --since 1h --yes",
		RunE:    func(_ *cobra.Command, args []string) error { return x.run(args) },
	}
	x.flags(c)
	c.Flags().StringVar(&x.config, "config", "", "configuration `file`: the undo runs in a sandbox as it says")
	c.Flags().BoolVar(&x.dryRun, "dry-run", false, "show what would change, and change nothing")
	c.Flags().BoolVar(&x.yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&x.force, "force", false, "put back what was changed since, too; what stands there now can be undone to")
	return c
}

type undoCmd struct {
	changesCmd
	config             string
	dryRun, yes, force bool
}

// putBack has an undo carried out by this program in a sandbox of the workspace, as a call
// of its own: on the path of every call, under the profile of every program, with what it
// leaves looked at like what any call leaves.
func putBack(a *cli.App, workspace, config string) changes.Perform {
	return putBackAs(a, "sandgate undo", workspace, config, true)
}

// putBackAs works below a root: the workspace, or a directory that its calls may write, too.
func putBackAs(a *cli.App, agent, workspace, config string, unrecorded bool) changes.Perform {
	return func(root string, order io.Reader) error {
		self, err := resolvedSelf()
		if err != nil {
			return err
		}
		var said bytes.Buffer
		inside := &cli.App{In: order, Out: io.Discard, Err: &said}
		var beside []string
		if !sandboxprofile.Contains(workspace, root) && unrecorded { // what a draft lies over, its calls may write
			beside = []string{root}
		}
		f := runFlags{config: config, workspaces: []string{workspace, workspace}, ro: []string{self}, rw: beside, mode: string(approval.ApproveAll), network: "none", backend: "auto", noDetect: true, unrecorded: unrecorded, timeout: 10 * time.Minute}
		result, found, err := runOnce(inside, context.Background(), agent, f, true, []string{self, "put-back", root})
		if err != nil {
			return err
		}
		printRefusals(a, result.Violations, found)
		if result.ExitCode != 0 {
			why := said.String()
			if _, failed, ok := strings.Cut(why, "sandgate: error: "); ok { // behind what is said of every start here
				why = failed
			}
			why = strings.TrimSpace(why)
			return errors.New("not all of it could be put back: " + approval.EscapeLine(why))
		}
		if n := len(result.Violations); n > 0 {
			return fmt.Errorf("%s not put back: no call may leave that there", cli.Plural(n, "name was", "names were"))
		}
		return nil
	}
}

// thisProgram is what an undo runs in its sandbox. Tests, which are no sandgate, have one
// beside them.
var thisProgram = os.Executable

func resolvedSelf() (string, error) {
	self, err := thisProgram()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", cli.WithStatus(cli.ExitInternal, fmt.Errorf("undo: find this program: %w", err))
	}
	return self, nil
}

// newPutBackCmd is what an undo runs in its sandbox.
func newPutBackCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "put-back DIRECTORY", Short: "Carry out, in a sandbox, what `sandgate undo` has planned", Args: cobra.ExactArgs(1), Hidden: true,
		Example: "  sandgate put-back DIRECTORY < ORDER",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := changes.PutBack(args[0], a.In); err != nil {
				return cli.WithStatus(cli.ExitFound, err)
			}
			return nil
		},
	}
}

// open finds the workspace and its calls.
func (x *changesCmd) open() (w changes.Place, records []changes.Record, err error) {
	since, err := cli.ParseMoment(x.since, time.Now())
	if err != nil {
		return w, nil, cli.UsageError(fmt.Errorf("--since: %w", err))
	}
	dir, err := filepath.Abs(x.workspace)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return w, nil, cli.UsageError(fmt.Errorf("--workspace: %w", err))
	}
	s, err := keptChanges()
	if err != nil {
		return w, nil, err
	}
	root := ""
	for _, r := range s.Workspaces() {
		if sandboxprofile.Contains(r, dir) && len(r) > len(root) {
			root = r
		}
	}
	if root == "" {
		hint := "set undo.enabled: true in the configuration, and what calls change from then on can be undone"
		gone := slices.DeleteFunc(s.Workspaces(), func(r string) bool { _, err := os.Lstat(r); return err == nil })
		if len(gone) > 0 {
			hint = approval.EscapeLine("if it had another place before, move it back there for the undo: something is kept of " + cli.FirstFew(gone) + ", which is not there")
		}
		return w, nil, cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("nothing is kept of %s", dir)), hint)
	}
	settleKeeps(x.App, []string{root})
	if w, err = s.Place(root); err == nil {
		records, err = w.Calls()
	}
	if err != nil {
		return w, nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return w, slices.DeleteFunc(records, func(r changes.Record) bool { return r.Ended.Before(since) }), nil
}

// named are the records of a session, or of the calls whose names begin so, by the names that
// sandgate gave them. An agent chooses its own names for calls, and could choose a file's.
func named(records []changes.Record, name string) (l []changes.Record) {
	for _, r := range records {
		begins := func(id string) bool { return strings.HasPrefix(id, name) && len(name) >= len("20060102T150405") }
		if r.Session == name || slices.ContainsFunc(r.IDs(), begins) {
			l = append(l, r)
		}
	}
	return l
}

// oneMeant fails if the beginning of a name is that of several calls, of whatever sessions.
func oneMeant(l []changes.Record, name string) error {
	if len(l) < 2 || l[0].Session == name {
		return nil
	}
	return cli.WithHint(cli.UsageError(fmt.Errorf("the names of %d calls begin with %q", len(l), name)), "give more of it: `sandgate log` lists them")
}

func unknownCall(name string) error {
	return cli.WithHint(cli.UsageError(fmt.Errorf("%q is not a call or session that changed something here, or a file that one changed", name)), "see `sandgate log`")
}

// undoneCalls says of which an undo, which is not undone itself, took back all.
func undoneCalls(records []changes.Record) func(changes.Record) bool {
	taken := map[string]bool{}
	undone := func(r changes.Record) bool {
		return !slices.ContainsFunc(r.IDs(), func(id string) bool { return !taken[id] })
	}
	for _, r := range slices.Backward(records) {
		if !undone(r) {
			for _, id := range r.Undoes {
				taken[id] = true
			}
		}
	}
	return undone
}

// lastCall is the last one that is not undone.
func lastCall(records []changes.Record) []changes.Record {
	undone := undoneCalls(records)
	for _, r := range slices.Backward(records) {
		if !undone(r) && !r.Undo {
			return []changes.Record{r}
		}
	}
	return nil
}

func (x *undoCmd) run(args []string) error {
	w, records, err := x.open()
	if err != nil {
		return err
	}
	paths := args
	chosen := records
	switch {
	case len(args) > 0 && len(named(records, args[0])) > 0:
		chosen, paths = named(records, args[0]), args[1:]
		if err := oneMeant(chosen, args[0]); err != nil {
			return err
		}
	case x.since == "" && len(args) == 0:
		chosen = lastCall(records)
	case x.since == "":
		chosen = nil // the last call that changed one of the paths
	}
	below, err := absolutePaths(paths)
	if err != nil {
		return err
	}
	for i, name := range below {
		if !w.Holds(name) {
			return cli.UsageError(fmt.Errorf("%s is not in %s", paths[i], w.Root))
		}
	}
	if chosen == nil && len(below) > 0 {
		chosen = lastCall(slices.DeleteFunc(slices.Clone(records), func(r changes.Record) bool { return !r.Below(w.Root, below) }))
		if chosen == nil {
			return unknownCall(args[0])
		}
	}
	if len(chosen) == 0 {
		return cli.WithStatus(cli.ExitFound, errors.New("nothing is there to undo"))
	}
	plan, err := w.Plan(chosen, below)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, errors.New(approval.EscapeLine(err.Error())))
	}
	return x.carryOut(w, plan)
}

func (x *undoCmd) carryOut(w changes.Place, plan changes.PlaceUndo) error {
	if plan.Len() == 0 {
		fmt.Fprintln(x.Err, "sandgate: everything is as it was already")
		return nil
	}
	for _, part := range plan.Parts {
		if part.Root != w.Root && len(part.Steps) > 0 {
			fmt.Fprintf(x.Out, "%s:\n", approval.EscapeName(part.Root))
		}
		for _, s := range part.Steps {
			var step bytes.Buffer
			fmt.Fprintln(&step, stepText(part.Root, s))
			if x.dryRun {
				if err := printDiff(&step, part.Workspace, s); err != nil {
					return err
				}
			}
			fmt.Fprint(x.Out, step.String())
		}
	}
	if l := plan.Blocking(x.force); len(l) > 0 {
		return cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("%s cannot be put back as things are; nothing was done", cli.Plural(len(l), "file", "files"))),
			"name the other paths, or give --force where somebody has changed a file since")
	}
	if x.dryRun {
		return nil
	}
	for _, part := range plan.Parts {
		for _, c := range part.UnderWay() {
			if !c.Lasting {
				fmt.Fprintf(x.Err, "sandgate: note: call %s of session %s is under way here, and may change these files again\n", approval.EscapeLine(c.Call), approval.EscapeLine(c.Session))
			}
		}
	}
	if !x.yes {
		if err := terminal.Confirm("undo", "put "+cli.Plural(plan.Len(), "name", "names")+" back?", "give --yes"); err != nil {
			return err
		}
	}
	rec, err := plan.Apply(undoCall(plan), x.force, putBack(x.changesCmd.App, w.Root, x.config))
	if err != nil {
		return cli.WithHint(cli.WithStatus(cli.ExitFound, errors.New(approval.EscapeLine(err.Error()))), "what was put back until then is in `sandgate log`")
	}
	fmt.Fprintf(x.Err, "sandgate: put back; `sandgate undo %s` takes that back\n", rec.ID)
	for _, part := range plan.Parts {
		if i := slices.IndexFunc(part.Steps, unkept); i >= 0 {
			fmt.Fprintf(x.Err, "sandgate: but nothing brings back what %s held: %s\n", approval.EscapeName(string(part.Steps[i].Path)), approval.EscapeLine(part.Steps[i].Now.Unkept))
			break
		}
	}
	return nil
}

// absolutePaths are what paths of the command line mean. A directory may be named through a link; the name
// itself is what was changed.
func absolutePaths(paths []string) (l []string, err error) {
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(dir, filepath.Base(abs))
		}
		l = append(l, abs)
	}
	return l, nil
}

// belowRoot turns paths of the command line into names of the workspace.
func belowRoot(root string, paths []string) (names []string, err error) {
	full, err := absolutePaths(paths)
	if err != nil {
		return nil, err
	}
	for i, abs := range full {
		if !sandboxprofile.Contains(root, abs) {
			return nil, cli.UsageError(fmt.Errorf("%s is not in %s", paths[i], root))
		}
		name, err := filepath.Rel(root, abs)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		names = append(names, name)
	}
	return names, nil
}

func stepText(root string, s changes.Step) string {
	what := "restore"
	switch {
	case s.Was == nil:
		what = "remove"
	case s.Now == nil:
		what = "bring back"
	}
	text := fmt.Sprintf("%-10s %s", what, approval.EscapeName(string(s.Path)))
	if s.Moves {
		text += "  (it gets its old name back)"
	}
	if s.From != nil {
		text += "  (it is " + approval.EscapeName(string(s.From.Path)) + " now; what it held was not kept: " + approval.EscapeLine(s.Was.Unkept) + ")"
	}
	if s.Merged {
		text += "  (what was changed since stays)"
	}
	if unkept(s) {
		text += "  (what it holds now was not kept: " + approval.EscapeLine(s.Now.Unkept) + ")"
	}
	var st unix.Stat_t
	if s.Now != nil && !s.Now.IsDir() && unix.Lstat(filepath.Join(root, string(s.Path)), &st) == nil && st.Nlink > 1 {
		text += "  (by this name: another name of the file keeps what it holds now)"
	}
	if lost := s.Unowned(); lost != "" {
		text += "  (" + lost + ")"
	}
	if s.Was != nil && s.Was.Cache && s.Now == nil {
		text += "  (empty: what a cache holds is not kept)"
	}
	if s.Conflict != "" {
		text += "  (conflict: " + approval.EscapeLine(s.Conflict) + ")"
	}
	return text
}

// unkept reports whether nothing has what an undo takes away.
func unkept(s changes.Step) bool {
	return s.Now != nil && !s.Moves && !s.Now.IsDir() && s.Now.Unkept != ""
}

func printDiff(out io.Writer, w *changes.Workspace, s changes.Step) error {
	return printChange(out, w.Content, s.Now, s.Was, "now", "then")
}

// printChange shows what two entries hold, and by what modes they differ.
func printChange(out io.Writer, content func(*changes.Entry) ([]byte, error), from, to *changes.Entry, now, then string) error {
	if from != nil && to != nil && from.Mode != to.Mode {
		fmt.Fprintf(out, "  mode: %o %s, %o %s\n", from.Mode&0o7777, now, to.Mode&0o7777, then)
	}
	if from != nil && to != nil && from.Owner != to.Owner && from.Owner != 0 && to.Owner != 0 {
		fmt.Fprintf(out, "  it belongs to %v %s, to %v %s\n", from.Owner, now, to.Owner, then)
	}
	if from != nil && to != nil && from.Attributes != to.Attributes {
		fmt.Fprintf(out, "  extended attributes: %d bytes %s, %d %s\n", len(from.Attributes), now, len(to.Attributes), then)
	} else if from == nil && to != nil && to.Attributes != "" {
		fmt.Fprintf(out, "  extended attributes: %d bytes %s\n", len(to.Attributes), then)
	}
	for _, e := range []struct {
		*changes.Entry
		when string
	}{{from, now}, {to, then}} {
		if e.Entry != nil && e.Link != "" {
			fmt.Fprintf(out, "  link to %s %s\n", approval.EscapeName(string(e.Link)), e.when)
		}
	}
	lines, why, err := diffOf(content, from, to)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	if why != "" {
		fmt.Fprintf(out, "  %s: %d bytes %s, %d %s\n", why, sizeOf(from), now, sizeOf(to), then)
	}
	for _, line := range lines {
		fmt.Fprintln(out, "  │ "+line) // so that none is taken for a name of the list
	}
	return nil
}

// What is compared: udiff takes 200 times the size of a text of empty lines, and a call that
// nobody was asked about has written it.
const maxCompared, maxComparedLines = 1 << 20, 200_000

// diffOf are the lines of a unified diff without its head, escaped, or why there are none.
func diffOf(content func(*changes.Entry) ([]byte, error), from, to *changes.Entry) (lines []string, why string, err error) {
	if sizeOf(from)+sizeOf(to) > maxCompared {
		return nil, "too large to compare", nil
	}
	old, err := content(from)
	if err != nil {
		return nil, "", err
	}
	fresh, err := content(to)
	switch {
	case err != nil || bytes.Equal(old, fresh):
		return nil, "", err
	case !approval.IsText(old) || !approval.IsText(fresh):
		return nil, "binary", nil
	case bytes.Count(old, []byte{'\n'})+bytes.Count(fresh, []byte{'\n'}) > maxComparedLines:
		return nil, "too many lines to compare", nil
	}
	all := udiff.Unified("", "", string(old), string(fresh))
	for i, line := range slices.Collect(strings.Lines(all)) {
		if i >= 2 { // the head names nothing, and a line of a file's may look like it
			lines = append(lines, approval.EscapeLine(strings.TrimSuffix(line, "\n")))
		}
	}
	return lines, "", nil
}

// sizeOf is the size of a file, in bytes.
func sizeOf(e *changes.Entry) int64 {
	if e == nil {
		return 0
	}
	return e.Size
}

func printLog(out io.Writer, records []changes.Record, files bool) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "CALL\tSESSION\tTOOL\tCHANGES\tWHAT")
	for _, r := range records {
		made, changed, removed := 0, 0, 0
		for _, c := range r.Changes {
			switch {
			case c.Before == nil:
				made++
			case c.After == nil:
				removed++
			default:
				changed++
			}
		}
		what := r.Subject
		if r.Unfinished {
			what = "(ended before all was put back) " + what
		}
		if r.Interrupted {
			what = "(sandgate ended before it did) " + what
		}
		if len(r.With) > 0 {
			what = "(at the same time as " + cli.Plural(len(r.With), "other call", "other calls") + ") " + what
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t+%d ~%d -%d\t%s\n", r.ID, approval.EscapeName(r.Session), approval.EscapeName(r.Tool), made, changed, removed, approval.EscapeLine(what))
	}
	if err := tw.Flush(); err != nil || !files {
		return err
	}
	for _, r := range records {
		for _, c := range r.Changes {
			fmt.Fprintln(out, "  "+fileText(c))
		}
	}
	return nil
}

func fileText(c changes.Change) string {
	text := fileSign(c.Before, c.After) + " " + approval.EscapeName(c.PathIn())
	if c.Late {
		text += " (after sandgate had ended: somebody else may have done it)"
	}
	if c.From != "" {
		text += " (was " + approval.EscapeName(string(c.From)) + ")"
	}
	return text
}

func fileSign(before, after *changes.Entry) string {
	switch {
	case before == nil:
		return "+"
	case after == nil:
		return "-"
	}
	return "~"
}
