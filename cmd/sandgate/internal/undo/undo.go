package undo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/filediff"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/putback"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// OpenKept opens what is kept, whatever the configuration says now.
func OpenKept() (*changes.Store, error) {
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

// CallOf is how an undo by a person stands in the list of calls.
func CallOf(plan changes.PlaceUndo) changes.Call {
	return changes.Call{Session: "-", Call: "undo", Tool: "undo", Subject: "undo of " + strings.Join(plan.Records(), ", ")}
}

// changesCmd is shared by `log` and `undo`.
type changesCmd struct {
	*cli.App
	workspace, since string
	asJSON           bool
	kept             *changes.Store
}

func (x *changesCmd) flags(c *cobra.Command) {
	c.Flags().StringVar(&x.workspace, "workspace", "", "workspace `DIRECTORY` (default: the one that contains this directory)")
	c.Flags().StringVar(&x.since, "since", "", "only calls since `TIME`: 2h (ago), 2006-01-02 or RFC 3339")
}

func NewLogCommand(a *cli.App) *cobra.Command {
	x := &changesCmd{App: a}
	c := &cobra.Command{
		Use: "log [SESSION|CALL]", Short: "List calls and what they changed in this workspace", Args: cobra.MaximumNArgs(1),
		Long: `log lists the calls that changed files here, the latest last, if undo.enabled is set in the
configuration. Give the name of a call to see its files.`,
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
			if root, last, err := x.elsewhere(w, []string{w.Root}); err == nil && root != "" {
				fmt.Fprintf(x.Err, "sandgate: note: calls that ran in another workspace, %[1]s, changed files here too, the last one %[2]s: see `sandgate log --workspace %[1]s`\n", approval.EscapeName(root), last.ID)
			}
			if len(records) == 0 {
				fmt.Fprintf(x.Err, "sandgate: no call has changed files in %s\n", w.Root)
				return nil
			}
			return printLog(x.Out, records, len(args) == 1)
		},
	}
	x.flags(c)
	c.Flags().BoolVar(&x.asJSON, "json", false, "print JSON")
	return c
}

func NewCommand(a *cli.App) *cobra.Command {
	x := &undoCmd{changesCmd: changesCmd{App: a}}
	c := &cobra.Command{
		Use: "undo [CALL|SESSION] [PATH...]", Short: "Undo what calls changed in this workspace",
		Long: `undo restores files to their state before a call, before a session or, with --since, before
all calls since then. Without a name, it undoes the last call that is not undone yet. If a
file changed since, undo names it and does nothing. An undo is a call of its own in
` + "`sandgate log`" + `, and can be undone.

Messages, pushes and changes on other machines cannot be undone.`,
		Example: "  sandgate undo --dry-run\n  sandgate undo 20260102T150405 src/main.go\n  sandgate undo --since 1h --yes",
		RunE:    func(_ *cobra.Command, args []string) error { return x.run(args) },
	}
	x.flags(c)
	c.Flags().StringVar(&x.config, "config", "", "configuration `file` for the sandbox of the undo")
	c.Flags().BoolVar(&x.dryRun, "dry-run", false, "show what would change without changing it")
	c.Flags().BoolVar(&x.yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&x.force, "force", false, "also undo files that changed since, which you can undo, and leave out what nothing can restore")
	return c
}

type undoCmd struct {
	changesCmd
	config             string
	dryRun, yes, force bool
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
	s, err := OpenKept()
	if err != nil {
		return w, nil, err
	}
	x.kept = s
	root := ""
	for _, r := range s.Workspaces() {
		if sandboxprofile.Contains(r, dir) && len(r) > len(root) {
			root = r
		}
	}
	if root == "" {
		hint := "calls are saved while undo.enabled is true in a configuration that you trust (`sandgate config trust`); `sandgate config show` says whether it is"
		gone := slices.DeleteFunc(s.Workspaces(), func(r string) bool { _, err := os.Lstat(r); return err == nil })
		if len(gone) > 0 {
			hint = approval.EscapeLine("if this directory was moved, move it back for the undo: there are saved changes for " + cli.FirstFew(gone) + ", which does not exist")
		}
		return w, nil, cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("no saved changes for %s", dir)), hint)
	}
	review.SettleKeeps(x.App, []string{root})
	if w, err = s.Place(root); err == nil {
		records, err = w.Calls()
	}
	if err != nil {
		return w, nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return w, slices.DeleteFunc(records, func(r changes.Record) bool { return r.Ended.Before(since) }), nil
}

// elsewhere is the last call that changed something at or below one of these paths of a workspace and is recorded of
// another one, in which it lies or which lies in it. root is that one; "" is none.
func (x *changesCmd) elsewhere(w changes.Place, paths []string) (root string, last changes.Record, err error) {
	for _, other := range x.kept.Workspaces() {
		if other == w.Root || !sandboxprofile.Contains(other, w.Root) && !sandboxprofile.Contains(w.Root, other) {
			continue
		}
		p, err := x.kept.Place(other)
		if err != nil {
			return "", last, cli.WithStatus(cli.ExitInternal, err)
		}
		records, err := p.Calls()
		if err != nil {
			return "", last, cli.WithStatus(cli.ExitInternal, err)
		}
		l := lastCall(slices.DeleteFunc(slices.Clone(records), func(r changes.Record) bool {
			return r.Workspace != "" && r.Workspace != other || !r.Below(other, paths) // in a list of its own workspace's
		}), Undone(records))
		if len(l) > 0 && l[0].ID > last.ID {
			root, last = other, l[0]
		}
	}
	return root, last, nil
}

// notLast fails if a later call than the chosen one has changed these paths, and is recorded of another workspace: it is
// the one that a person who names none means.
func (x *changesCmd) notLast(w changes.Place, chosen []changes.Record, paths []string) error {
	if x.workspace != "" {
		return nil
	}
	root, last, err := x.elsewhere(w, paths)
	if err != nil || root == "" || len(chosen) > 0 && chosen[0].ID > last.ID {
		return err
	}
	dir := approval.EscapeName(root)
	return cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("nothing was done: the last call that changed files here, %s, ran in another workspace, %s", last.ID, dir)),
		"undo it with `sandgate undo --workspace "+dir+" "+last.ID+"`, or name a call that `sandgate log` lists")
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
	return cli.WithHint(cli.UsageError(fmt.Errorf("%d calls have names that start with %q", len(l), name)), "give more of the name: `sandgate log` lists the calls")
}

func unknownCall(name string) error {
	return cli.WithHint(cli.UsageError(fmt.Errorf("%q is not a call or session that changed something here, nor a file that one changed", name)), "see `sandgate log`")
}

// Undone says of which an undo, which is not undone itself, took back all.
func Undone(records []changes.Record) func(changes.Record) bool {
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
func lastCall(records []changes.Record, undone func(changes.Record) bool) []changes.Record {
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
		chosen = lastCall(records, Undone(records))
		if err := x.notLast(w, chosen, []string{w.Root}); err != nil {
			return err
		}
	case x.since == "":
		chosen = nil // the last call that changed one of the paths
	}
	below, err := cli.AbsolutePaths(paths)
	if err != nil {
		return err
	}
	for i, name := range below {
		if !w.Holds(name) {
			return cli.UsageError(fmt.Errorf("%s is not in %s", paths[i], w.Root))
		}
	}
	if chosen == nil && len(below) > 0 {
		chosen = lastCall(slices.DeleteFunc(slices.Clone(records), func(r changes.Record) bool { return !r.Below(w.Root, below) }), Undone(records))
		if err := x.notLast(w, chosen, below); err != nil {
			return err
		}
		if chosen == nil {
			return unknownCall(args[0])
		}
	}
	if len(chosen) == 0 {
		return cli.WithStatus(cli.ExitFound, errors.New("nothing to undo"))
	}
	plan, err := w.Plan(chosen, below)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, errors.New(approval.EscapeLine(err.Error())))
	}
	return x.carryOut(w, plan)
}

func (x *undoCmd) carryOut(w changes.Place, plan changes.PlaceUndo) error {
	if plan.Len() == 0 {
		fmt.Fprintln(x.Err, "sandgate: nothing to restore: everything is already as it was")
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
	var left error
	if x.force {
		var n int
		var first changes.Step
		if plan, n, first = plan.WithoutFinal(); n > 0 {
			left = cli.WithStatus(cli.ExitFound, fmt.Errorf("%s cannot be restored: %s: %s", cli.Plural(n, "file", "files"), approval.EscapeName(string(first.Path)), approval.EscapeLine(first.Conflict)))
		}
	}
	if l := plan.Blocking(x.force); len(l) > 0 {
		return cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("%s cannot be restored now; nothing was done", cli.Plural(len(l), "file", "files"))),
			"name only the other paths, or add --force: it replaces files that changed since, and leaves out what nothing can restore")
	}
	if x.dryRun || plan.Len() == 0 {
		return left
	}
	for _, part := range plan.Parts {
		for _, c := range part.UnderWay() {
			if !c.Lasting {
				fmt.Fprintf(x.Err, "sandgate: note: call %s of session %s is still running here and may change these files again\n", approval.EscapeName(c.Call), approval.EscapeName(c.Session))
			}
		}
	}
	if !x.yes {
		if err := terminal.Confirm("undo", "put "+cli.Plural(plan.Len(), "name", "names")+" back?", "give --yes"); err != nil {
			return err
		}
	}
	rec, err := plan.Apply(CallOf(plan), x.force, putback.Undo(x.changesCmd.App, review.SettleKeeps, w.Root, x.config))
	if err != nil {
		return cli.WithHint(cli.WithStatus(cli.ExitFound, errors.New(approval.EscapeLine(err.Error()))), "see what was restored until then with `sandgate log`")
	}
	fmt.Fprintf(x.Err, "sandgate: restored; to reverse this: `sandgate undo %s`\n", rec.ID)
	for _, part := range plan.Parts {
		if i := slices.IndexFunc(part.Steps, unkept); i >= 0 {
			fmt.Fprintf(x.Err, "sandgate: but the content of %s cannot be brought back: %s\n", approval.EscapeName(string(part.Steps[i].Path)), approval.EscapeLine(part.Steps[i].Now.Unkept))
			break
		}
	}
	for _, part := range plan.Parts {
		if i := slices.IndexFunc(part.Steps, func(s changes.Step) bool { return stays(part.Root, s) }); i >= 0 {
			fmt.Fprintf(x.Err, "sandgate: but %s stays: it contains what is not recorded\n", approval.EscapeName(filepath.Join(part.Root, string(part.Steps[i].Path))))
			break
		}
	}
	return left
}

// stays reports whether a directory that was to be removed is still there.
func stays(root string, s changes.Step) bool {
	if s.Was != nil || !s.Now.IsDir() {
		return false
	}
	_, err := os.Lstat(filepath.Join(root, string(s.Path)))
	return err == nil
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
		text += "  (it is " + approval.EscapeName(string(s.From.Path)) + " now; its content was not saved and may have changed: " + approval.EscapeLine(s.Was.Unkept) + ")"
	}
	if s.Merged {
		text += "  (later changes stay)"
	}
	if unkept(s) {
		text += "  (its present content was not saved: " + approval.EscapeLine(s.Now.Unkept) + ")"
	}
	var st unix.Stat_t
	if s.Now != nil && !s.Now.IsDir() && unix.Lstat(filepath.Join(root, string(s.Path)), &st) == nil && st.Nlink > 1 {
		text += "  (only under this name: another name of the file keeps its present content)"
	}
	if lost := s.Unowned(); lost != "" {
		text += "  (" + lost + ")"
	}
	if s.Was != nil && s.Was.Cache && s.Now == nil {
		text += "  (empty: the content of caches is not saved)"
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
	return filediff.Print(out, w.Content, s.Now, s.Was, "now", "then")
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
			what = "(ended before everything was restored) " + what
		}
		switch {
		case r.Pending:
			what = "(what it created is not all listed) " + what
		case r.Interrupted:
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
	text := filediff.Sign(c.Before, c.After) + " " + approval.EscapeName(c.PathIn())
	if c.Late {
		text += " (after the call had ended: another program may have done this)"
	}
	if c.From != "" {
		text += " (was " + approval.EscapeName(string(c.From)) + ")"
	}
	return text
}
