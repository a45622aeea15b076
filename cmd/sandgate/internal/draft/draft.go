package draft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

func Dir() (string, error) {
	dir, err := statedir.Path("drafts")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", cli.WithStatus(cli.ExitInternal, err)
	}
	return dir, nil
}

func LockDraft(d *changes.Draft) (lock *os.File, err error) {
	if lock, err = d.Hold(); err != nil {
		err = cli.WithHint(cli.WithStatus(cli.ExitFound, err), "wait until the command or session ends, or stop it")
	}
	return lock, err
}

// maxDrafts is how many drafts may wait for a person before another one is refused: each lies
// on the disk of the state directory until somebody has looked at it.
const maxDrafts = 64

// CheckRoots refuses a draft that would lie over what sandgate itself writes: the log of its
// calls would go with it.
func CheckRoots(cfg *config.Config, dir string, roots []string) error {
	for _, root := range roots {
		if sandboxprofile.Contains(root, dir) {
			return cli.WithHint(fmt.Errorf("--review: %s contains the directory of drafts, %s", root, dir), "set XDG_STATE_HOME to a directory elsewhere")
		}
		log := cfg.Audit.Path
		if at, err := assemble.Resolved(filepath.Dir(log)); log != "" && (sandboxprofile.Contains(root, log) || err == nil && sandboxprofile.Contains(root, at)) {
			return cli.WithHint(fmt.Errorf("--review: %s contains the audit log, %s", root, log), "set audit.path to a file elsewhere")
		}
	}
	if n := len(changes.Drafts(dir)); n >= maxDrafts {
		return cli.WithHint(fmt.Errorf("%d drafts are waiting for a review", n), "keep or drop some of the drafts that `sandgate review` lists")
	}
	return nil
}

func New(cfg *config.Config, dir string, roots, argv []string) (*changes.Draft, error) {
	beside, err := Beside(cfg, roots)
	if err != nil {
		return nil, err
	}
	if err := CheckRoots(cfg, dir, slices.Concat(roots, beside)); err != nil {
		return nil, cli.UsageError(err)
	}
	d, err := changes.NewDraft(dir, roots, argv, beside...)
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return d, nil
}

// Beside are directories that calls may write and that the configuration does not name: the files of the
// repository that a workspace is a package or a linked work tree of.
func Beside(cfg *config.Config, roots []string) (beside []string, err error) {
	d, err := assemble.Derive(cfg, nil, "")
	for _, r := range d.Found.Repository {
		in := func(root string) bool { return sandboxprofile.Contains(root, r.Path) }
		if r.Write && !slices.ContainsFunc(roots, in) && !slices.ContainsFunc(beside, in) {
			beside = append(beside, r.Path)
		}
	}
	return beside, err
}

// LiesOver fails if programs could write past the draft: what it does not lie over is the
// workspace itself.
func LiesOver(d *changes.Draft, roots []string) error {
	for _, root := range roots {
		if !slices.ContainsFunc(d.Roots, func(over string) bool { return sandboxprofile.Contains(over, root) }) {
			return cli.WithHint(cli.UsageError(fmt.Errorf("--draft: draft %s does not cover %s, which the command may write", d.ID, root)),
				"go to the draft's own directory (`sandgate review` lists it), or start a new draft with --review")
		}
	}
	return nil
}

// Roots are the directories that programs may write, without those in another one.
func Roots(cfg *config.Config) (roots []string, err error) {
	var list []string
	for _, p := range cfg.Sandbox.Paths {
		if p.Mode == config.ReadWrite && p.SeenByPrograms() {
			list = append(list, p.Root)
		}
	}
	slices.Sort(list)
	for _, root := range list {
		if slices.ContainsFunc(roots, func(r string) bool { return sandboxprofile.Contains(r, root) }) {
			continue
		}
		if info, err := os.Lstat(root); err != nil || !info.IsDir() {
			return nil, cli.WithHint(cli.UsageError(fmt.Errorf("--review: %s is not a directory", root)), "give the directory that contains it with --rw")
		}
		roots = append(roots, root)
	}
	if len(roots) == 0 {
		return nil, cli.UsageError(errors.New("--review: the command cannot write anything, so there is nothing to review"))
	}
	return roots, nil
}

func Drop(d *changes.Draft) error {
	if err := d.Drop(); err != nil {
		return cli.WithStatus(cli.ExitInternal, errors.New(approval.EscapeLine(err.Error())))
	}
	return nil
}

func Plans(d *changes.Draft, cfg *config.Config, paths []string) (plans []changes.DraftPlan, err error) {
	u := cfg.Undo
	for i, root := range d.Roots {
		var below []string
		for _, p := range paths {
			if names, err := cli.BelowRoot(root, []string{p}); err == nil {
				below = append(below, names...)
			}
		}
		if len(paths) > 0 && len(below) == 0 {
			plans = append(plans, changes.DraftPlan{})
			continue
		}
		p, err := d.Plan(i, changes.Options{Size: max(int64(u.Size), 1<<40), File: int64(u.File), Age: u.Age}, below)
		if err != nil {
			return nil, cli.WithStatus(cli.ExitInternal, errors.New(approval.EscapeLine(err.Error())))
		}
		plans = append(plans, p)
	}
	return plans, nil
}

func Find(dir, name string) (*changes.Draft, error) {
	l := slices.DeleteFunc(changes.Drafts(dir), func(d *changes.Draft) bool { return !strings.HasPrefix(d.ID, name) })
	switch {
	case len(l) == 1:
		return l[0], nil
	case len(l) > 1: // an agent may have begun one since a person looked at another
		return nil, cli.WithHint(cli.UsageError(fmt.Errorf("%d drafts have names that start with %q", len(l), name)), "name one of the drafts that `sandgate review` lists")
	case name == "":
		return nil, cli.WithHint(cli.WithStatus(cli.ExitFound, errors.New("no drafts")), "create one with `sandgate run --review -- COMMAND`")
	}
	return nil, cli.WithHint(cli.UsageError(fmt.Errorf("%q is not a draft", name)), "see `sandgate review`")
}
