package boards

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/filediff"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/putback"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/undo"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/present"
)

// changesBoard shows changes that calls made, on the page and on the screen of `sandgate
// approve`: the ones that `sandgate log` and `sandgate undo` work on.
type changesBoard struct {
	app    *cli.App
	config string // of the supervisor; "" is the one that is found
}

func (changesBoard) Changed() (list []board.Changed, err error) {
	s, err := undo.OpenKept()
	if err != nil {
		return nil, err
	}
	for _, root := range s.Workspaces() {
		p, err := s.Place(root)
		if err != nil {
			return nil, err
		}
		records, err := p.Calls()
		if err != nil {
			return nil, err
		}
		undone := undo.Undone(records)
		for _, r := range records {
			if r.Workspace != "" && r.Workspace != root {
				continue // it is in that workspace's list, with all else that it changed
			}
			c := board.Changed{ID: r.ID, Workspace: root, Session: r.Session, Agent: r.Agent, Tool: r.Tool, What: r.Subject,
				Ended: r.Ended, With: len(r.With), Undo: r.Undo, Undone: undone(r)}
			for _, f := range r.Changes {
				c.Files = append(c.Files, board.File{Sign: filediff.Sign(f.Before, f.After), Path: f.PathIn(), Was: string(f.From)})
			}
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b board.Changed) int { return cmp.Compare(b.ID, a.ID) })
	return list, nil
}

// Undo forces nothing: what was changed since is an error that names it.
func (x changesBoard) Undo(root string, ids []string) (present.Sentence, error) {
	s, err := undo.OpenKept()
	if err != nil {
		return "", err
	}
	if !slices.Contains(s.Workspaces(), root) {
		return "", fmt.Errorf("no saved changes for %s", root)
	}
	p, err := s.Place(root)
	if err != nil {
		return "", err
	}
	records, err := p.Calls()
	if err != nil {
		return "", err
	}
	records = slices.DeleteFunc(records, func(r changes.Record) bool { return !slices.Contains(ids, r.ID) })
	if len(records) != len(ids) {
		return "", fmt.Errorf("changes of %s of these calls are no longer saved", cli.Plural(len(ids)-len(records), "record", "records"))
	}
	plan, err := p.Plan(records, nil)
	if err != nil {
		return "", err
	}
	if plan.Len() == 0 {
		return "Nothing to restore: everything is already as it was.", nil
	}
	rec, err := plan.Apply(undo.CallOf(plan), false, putback.Undo(x.app, review.SettleKeeps, root, x.config))
	if err != nil {
		return "", err
	}
	if n := len(rec.Changes); n != 1 {
		return present.Say("Restored %d names. You can undo that, too.", n), nil
	}
	return "Restored 1 name. You can undo that, too.", nil
}
