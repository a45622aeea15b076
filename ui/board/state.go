package board

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/sandgate/sandgate/ui/present"
)

func (s *Source) kept(context.Context) ([]Section, error) {
	section := Section{Heading: "Files that calls planted where your programs would run them", Empty: "The quarantine is empty."}
	if s.quarantine == nil {
		section.Empty = "The quarantine is not available here: use `sandgate quarantine list`."
		return []Section{section}, nil
	}
	list, err := s.quarantine.List()
	if err != nil {
		return nil, err
	}
	of := map[string]*whole{} // an item is deleted whole: with what each of its rows is about
	for _, k := range list {
		if of[k.Item] == nil {
			of[k.Item] = &whole{}
		}
		of[k.Item].add(k.Path)
	}
	for _, k := range list {
		others := present.Sentence("In it:")
		if n := of[k.Item].Rows - 1; n > 0 {
			others = present.Say("In it, beside %d other rows of this list:", n)
		}
		section.Items = append(section.Items, Item{ID: fmt.Sprintf("%s/%d", k.Item, k.Entry), Text: present.Name(k.Path), whole: present.Whole(k.Path),
			Under: present.Say("%s, from call %s, item %s", k.Why, k.Call, k.Item), Now: present.Say("taken %s ago", present.Span(s.now().Sub(k.Taken))), Careful: true,
			Actions: []Action{
				{Do: "kept.restore", Words: "Put back", asks: sure(present.Say("Restore this? Your programs may then run it. Inspect it first: sandgate quarantine show %s. It goes to", k.Item)),
					do: done("Restored to where it was.", func(context.Context) error { return s.quarantine.Restore(k.Item, k.Entry) })},
				{Do: "kept.drop", Words: "Delete", asks: sure(present.Say("Delete the item %s and all of its content? %s", k.Item, others)), state: of[k.Item],
					do: done("Deleted.", func(context.Context) error { return s.quarantine.Drop(k.Item) })},
			}})
	}
	return []Section{section}, nil
}

// A whole is what an item is made of, in a few bytes: it is held against each of its rows, of which a tool makes as many as
// it likes.
type whole struct {
	Rows int
	Sum  [sha256.Size]byte
}

func (w *whole) add(path string) {
	w.Rows++
	w.Sum = sha256.Sum256(append(w.Sum[:], path...))
}

func (s *Source) status(ctx context.Context) ([]Section, error) {
	st, err := s.approver.Status(ctx)
	if err != nil {
		return nil, err
	}
	config := present.Sentence("the built-in configuration, without a file")
	if st.Config != "" {
		config = present.Say("the configuration %s", st.Config)
	}
	running := []Item{
		{Text: present.Say("sandgate %s, process %d, up for %s", st.Version, st.PID, present.Span(s.now().Sub(st.Started)))},
		{Text: present.Say("by %s", config), Under: present.Say("read at the start; mode %s", st.Mode)},
		{Text: present.Say("%d sessions, %d calls under way, %d so far", st.Sessions, st.CallsRunning, st.CallsTotal)},
		{Text: present.Say("Pending requests: %d; open screens and other approvers: %d", st.Pending, st.Approvers)},
	}
	held := []Item{{Text: present.Say("Tools are confined by %s", st.Sandbox.EnforcedBy.Backend)}}
	if !st.Sandbox.Ready {
		held = []Item{{Text: "Every tool is refused: " + present.WholeEnd(st.Sandbox.Reason), Under: present.WholeEnd(st.Sandbox.Hint), Careful: true}}
	}
	log := Item{Text: present.Say("%d entries in the log", st.Audit.Entries), Under: present.Name(st.Audit.Path)}
	if st.Audit.Error != "" {
		log = Item{Text: "The log cannot be written, so no call runs: " + present.WholeEnd(st.Audit.Error), Under: present.Name(st.Audit.Path), Careful: true}
	}
	stale := Section{Heading: "Needs attention", Empty: "No warnings."}
	for _, w := range append(st.Stale, st.Warnings...) {
		stale.Items = append(stale.Items, Item{Text: present.WholeEnd(w), Careful: true})
	}
	return []Section{stale, {Heading: "Running", Items: running}, {Heading: "Protection", Items: append(held, log)}}, nil
}
