package tui

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/ui/board"
)

// boards are as a test says, and note what is done.
type boards struct{ done []board.Act }

func (b *boards) Load(_ context.Context, name string) (board.Board, error) {
	return board.Board{Name: name, Sections: []board.Section{{Heading: "Open " + name, Items: []board.Item{
		{Text: "first", Under: "below it", Actions: []board.Action{{Act: board.Act{Do: "end", Target: "1"}, Words: "End", Sure: "End the first?"}}},
		{Text: "second", Careful: true, Actions: []board.Action{{Act: board.Act{Do: "edit", Target: "2", Text: "old"}, Words: "Edit", Label: "The rule", Hint: "words"}}},
	}, Actions: []board.Action{{Act: board.Act{Do: "reload"}, Words: "Read again"}}}}}, nil
}

func (b *boards) Do(_ context.Context, a board.Act) (string, error) {
	b.done = append(b.done, a)
	return "It is done.", nil
}

// TestBoards: digits lead to them; what ends something is asked about, and what needs a
// text takes it; a key that comes too soon does nothing.
func TestBoards(t *testing.T) {
	d := newDesk(80, 24)
	b := &boards{}
	d.m.opts.Boards = b
	d.arrive(request(1, nil))
	d.read()
	d.press("3")
	golden(t, "board.txt", d.screen())
	d.press("a") // at once
	if len(b.done) != 0 || d.m.board.asked != nil {
		t.Error(b.done)
	}
	d.read()
	d.press("a")
	if !strings.Contains(d.screen(), "End the first?") {
		t.Error(d.screen())
	}
	d.press("y") // as soon as it is asked
	d.read()
	d.press("y", "down")
	d.read()
	d.press("a")
	d.write("new")
	d.read()
	d.press("A")
	want := []board.Act{{Do: "end", Target: "1"}, {Do: "edit", Target: "2", Text: "new"}, {Do: "reload"}}
	if diff := cmp.Diff(want, b.done); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(d.screen(), "It is done.") {
		t.Error(d.screen())
	}
	expect(t, d) // no key of a board is an answer
	d.press("1")
	d.press("y")
	expect(t, d)
	if !strings.Contains(d.screen(), "│ go test 1") {
		t.Error(d.screen())
	}
	fitsScreen(t, d.screen(), 80, 24)
}
