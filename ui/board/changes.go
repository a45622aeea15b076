package board

import (
	"context"
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
			sections[i].Actions = []Action{s.undo("Undo all of it", key[0], ids, present.Say("Undo everything that these %d calls of session %s changed in %s?", len(ids), present.Whole(key[1]), present.Whole(key[0])))}
		}
	}
	if n := len(list) - latestChanges; n > 0 { // an agent could push what it did out of the list
		sections = append(sections, Section{Heading: present.Say("%d earlier calls", n), Empty: "See them with `sandgate log`."})
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
	it := Item{ID: c.Workspace + "\x00" + c.ID, Text: what, Under: files, Now: present.Say("%s ago", present.Span(s.now().Sub(c.Ended)))}
	if c.With > 0 {
		it.Under += present.Say(", while %d other calls ran: some of the changes may be theirs", c.With)
	}
	if c.Undone {
		it.Under += ", undone"
		return it
	}
	questions := []present.Sentence{present.Say("Restore %d files to their state before this call? %s; the call:", len(c.Files), files)}
	if cut {
		questions = append(questions, present.Say("That was not everything: see every name and the whole call with `sandgate log %s`. Restore anyway?", c.ID))
	}
	it.Actions = []Action{s.undo("Undo", c.Workspace, []string{c.ID}, questions...)}
	return it
}

func (s *Source) undo(words, workspace string, ids []string, questions ...present.Sentence) Action {
	return Action{Do: "changes.undo", Words: words, asks: sure(questions...), state: ids,
		do: func(context.Context, string) (present.Sentence, error) { return s.changes.Undo(workspace, ids) }}
}
