package board

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
	for _, k := range list {
		section.Items = append(section.Items, Item{Text: present.Name(k.Path), Under: present.Say("%s, taken %s ago from call %s, item %s", k.Why, present.Span(s.now().Sub(k.Taken)), k.Call, k.Item), Careful: true,
			Actions: []Action{
				{Act: Act{Do: "kept.restore", Target: fmt.Sprintf("%s/%d", k.Item, k.Entry)}, Words: "Put back", Sure: present.Say("Restore %s? Your programs may then run it. Inspect it first: sandgate quarantine show %s", present.Whole(k.Path), k.Item)},
				{Act: Act{Do: "kept.drop", Target: k.Item}, Words: "Delete", Sure: present.Say("Delete the item %s and all of its content?", k.Item)},
			}})
	}
	return []Section{section}, nil
}

var errNoQuarantine = errors.New("the quarantine is not available here: use `sandgate quarantine`")

func (s *Source) restore(_ context.Context, a Act) (present.Sentence, error) {
	item, entry, _ := strings.Cut(a.Target, "/")
	n, err := strconv.Atoi(entry)
	if err != nil {
		return "", fmt.Errorf("%q does not name an entry of the quarantine", a.Target)
	}
	if s.quarantine == nil {
		return "", errNoQuarantine
	}
	return "Restored to where it was.", s.quarantine.Restore(item, n)
}

func (s *Source) drop(_ context.Context, a Act) (present.Sentence, error) {
	if s.quarantine == nil {
		return "", errNoQuarantine
	}
	return "Deleted.", s.quarantine.Drop(a.Target)
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
		{Text: present.Say("%d sessions, %d calls running, %d so far", st.Sessions, st.CallsRunning, st.CallsTotal)},
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
