package present

import "strings"

// A DiffPart is what a line of a unified diff is.
type DiffPart int

const (
	DiffContext DiffPart = iota
	DiffOurs             // what sandgate says of the next file: no line of a file's begins with a star
	DiffFile             // the name of a file
	DiffPlace            // where a hunk belongs
	DiffAdded
	DiffRemoved
)

// A DiffReader tells what the lines of a diff are, one after the other: of one file's, or of
// a draft's, which has lines of ours between its files. After the first hunk's head +++ is an
// added line with two pluses, and not a name that the one who wrote it would like to have there.
type DiffReader struct{ body bool }

func (r *DiffReader) Line(text string) DiffPart {
	switch {
	case strings.HasPrefix(text, "* "):
		return DiffOurs
	case strings.HasPrefix(text, "@@"):
		r.body = true
		return DiffPlace
	case !r.body && (strings.HasPrefix(text, "+++") || strings.HasPrefix(text, "---")):
		return DiffFile
	case strings.HasPrefix(text, "+"):
		return DiffAdded
	case strings.HasPrefix(text, "-"):
		return DiffRemoved
	}
	return DiffContext
}
