package boards

import (
	"io"
	"strings"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/ui/board"
)

// Stores are the views of this user's directories for the boards of the page and of
// `sandgate approve`.
func Stores(a *cli.App, config string) board.Stores {
	quiet := &cli.App{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard} // the screen is the board's
	return board.Stores{Quarantine: quarantineBoard{}, Changes: changesBoard{quiet, config}}
}

// quarantineBoard is the quarantine as the page and the screen of `sandgate approve` show
// it: what `sandgate quarantine` works on.
type quarantineBoard struct{}

func (quarantineBoard) List() (kept []board.Kept, err error) {
	s, err := assemble.OpenQuarantine()
	if err != nil {
		return nil, err
	}
	items, err := s.List()
	for _, x := range items {
		for _, e := range x.Entries {
			if e.Kept() {
				kept = append(kept, board.Kept{Item: x.ID, Entry: e.N, Path: e.Path, Why: e.Reason, Call: e.Call, Taken: e.Taken})
			}
		}
	}
	return kept, err
}

func (quarantineBoard) Restore(item string, entry int) error {
	return withQuarantine(func(s *quarantine.Store) error { return s.Restore(item, entry) })
}

func (quarantineBoard) Drop(item string) error {
	return withQuarantine(func(s *quarantine.Store) error { return s.Drop(item) })
}

func withQuarantine(do func(*quarantine.Store) error) error {
	s, err := assemble.OpenQuarantine()
	if err != nil {
		return err
	}
	return do(s)
}
