package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/ui/present"
)

// latestChanges is how many calls the board shows.
const latestChanges = 100

// changed are sessions, each a list of what its calls changed, the latest first.
func (s *Source) changed(context.Context) ([]Section, error) {
	const none = "No changes to undo. Changes of calls are saved if the configuration has undo.enabled: true."
	if s.changes == nil {
		return []Section{{Heading: "What calls changed", Empty: "Changes are not available here: use `sandgate log`."}}, nil
	}
	list, err := s.changes.Changed()
	if err != nil {
		return nil, err
	}
	var sections []Section
	at := map[[2]string]int{}
	for _, c := range list[:min(len(list), latestChanges)] {
		key := [2]string{c.Workspace, c.Session}
		i, known := at[key]
		if !known {
			i = len(sections)
			at[key] = i
			sections = append(sections, Section{Heading: c.heading()})
		}
		sections[i].Items = append(sections[i].Items, s.change(c))
	}
	for key, i := range at {
		if ids := undoable(list, key); len(ids) > 1 {
			sections[i].Actions = []Action{{Act: Act{Do: "changes.undo", Target: strings.Join(append([]string{key[0]}, ids...), "\x00")}, Words: "Undo all of it",
				Sure: present.Say("Undo everything that these %d calls changed in %s?", len(ids), present.Whole(key[0]))}}
		}
	}
	if len(sections) == 0 {
		sections = []Section{{Heading: "What calls changed", Empty: none}}
	}
	return sections, nil
}

// undoable are the calls of a session that are not undone, the latest first.
func undoable(list []Changed, key [2]string) (ids []string) {
	for _, c := range list {
		if !c.Undone && !c.Undo && c.Workspace == key[0] && c.Session == key[1] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (c Changed) heading() present.Sentence {
	if c.Undo {
		return present.Say("Undone in %s", c.Workspace)
	}
	return present.Say("What %s changed in %s, session %s", named(c.Agent), c.Workspace, c.Session)
}

func (s *Source) change(c Changed) Item {
	const shown = 4
	all := make([]present.Sentence, len(c.Files))
	long := func(text string) bool { return present.Name(text) != present.Whole(text) }
	cut := len(all) > shown || long(c.What)
	for i, f := range c.Files {
		all[i] = f.text()
		cut = cut || long(f.Path) || long(f.Was)
	}
	files := present.Several(all, shown)
	what := present.Say("%s: %s", c.Tool, c.What)
	if c.Tool == "shell" { // as the activity has it
		what = present.Name(strings.TrimPrefix(c.What, "Execute: "))
	}
	it := Item{Text: what, Under: present.Say("%s ago: %s", present.Span(s.now().Sub(c.Ended)), files)}
	if c.With > 0 {
		it.Under += present.Say(", while %d other calls ran: some of the changes may be theirs", c.With)
	}
	if c.Undone {
		it.Under += ", undone"
		return it
	}
	undo := Action{Act: Act{Do: "changes.undo", Target: c.Workspace + "\x00" + c.ID}, Words: "Undo",
		Sure: present.Say("Restore %d files to their state before this call? %s; the call: %s", len(c.Files), files, c.What)}
	if cut {
		undo.Again = present.Say("That was not everything: see every name and the whole call with `sandgate log %s`. Restore anyway?", c.ID)
	}
	it.Actions = []Action{undo}
	return it
}

func (s *Source) undo(_ context.Context, a Act) (present.Sentence, error) {
	parts := strings.Split(a.Target, "\x00")
	switch {
	case s.changes == nil:
		return "", errors.New("changes are not available here: use `sandgate undo`")
	case len(parts) < 2 || slices.Contains(parts, ""):
		return "", fmt.Errorf("%q does not name a workspace and its calls", a.Target)
	}
	return s.changes.Undo(parts[0], parts[1:])
}
