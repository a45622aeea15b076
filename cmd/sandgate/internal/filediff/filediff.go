package filediff

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// Print shows what two entries hold, and by what modes they differ.
func Print(out io.Writer, content func(*changes.Entry) ([]byte, error), from, to *changes.Entry, now, then string) error {
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
	lines, why, err := Lines(content, from, to)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	if why != "" {
		fmt.Fprintf(out, "  %s: %d bytes %s, %d %s\n", why, Size(from), now, Size(to), then)
	}
	for _, line := range lines {
		fmt.Fprintln(out, "  │ "+line) // so that none is taken for a name of the list
	}
	return nil
}

// Bounds of a comparison: udiff takes 200 times the size of a text of empty lines, and a
// call that ran without a prompt may have written it.
const maxCompared, maxComparedLines = 1 << 20, 200_000

// Lines are the lines of a unified diff without its head, escaped, or why there are none.
func Lines(content func(*changes.Entry) ([]byte, error), from, to *changes.Entry) (lines []string, why string, err error) {
	if Size(from)+Size(to) > maxCompared {
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

// Size is the size of a file, in bytes.
func Size(e *changes.Entry) int64 {
	if e == nil {
		return 0
	}
	return e.Size
}

func Sign(before, after *changes.Entry) string {
	switch {
	case before == nil:
		return "+"
	case after == nil:
		return "-"
	}
	return "~"
}
