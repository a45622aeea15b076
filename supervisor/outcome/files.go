package outcome

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// OfFile makes the content of a file tool's result.
func OfFile(r *protocol.CallResult, plan tools.Plan, done confine.Result) {
	action := plan.Action
	f := done.File
	switch {
	case done.Errno != "":
		r.ExitCode = 1
		r.Content = []protocol.Content{protocol.NewContent(protocol.Stderr, []byte(fileError(plan, done)))}
		r.Structured = must.JSON(fileFailure{Path: action.File.Path, Errno: done.Errno, Edit: editError(done)})
	case f == nil:
	case f.Found != nil:
		searchResult(r, action.File.Path, *f.Found)
	default:
		changeResult(r, action, *f)
	}
}

type fileFailure struct {
	Path  string                    `json:"path"`
	Errno string                    `json:"errno"`
	Edit  *sandboxprofile.EditError `json:"edit,omitempty"`
}

// editError is why an edit failed, or nil. A sandbox's init sends it, so it is
// not taken to be there.
func editError(done confine.Result) *sandboxprofile.EditError {
	if done.File == nil {
		return nil
	}
	return done.File.Edit
}

// changeResult is the result of reading or changing one file.
func changeResult(r *protocol.CallResult, a sandboxprofile.Action, f confine.FileResult) {
	path := a.File.Path
	structured := map[string]any{"path": path, "size": f.Size}
	if f.SHA256 != "" {
		structured["sha256"] = f.SHA256
	}
	text, notes := "", ""
	switch a.Kind {
	case sandboxprofile.ReadFile:
		text, notes = readResult(structured, *a.File, f)
		r.Truncated = f.Truncated
	case sandboxprofile.EditFile:
		structured["replaced"] = f.Replaced
		text = fmt.Sprintf("replaced %s in %s\n", Plural(f.Replaced, "occurrence"), path)
	default:
		structured["created"] = f.Created
		text = fmt.Sprintf("wrote %d bytes to %s\n", f.Size, path)
	}
	r.Content = []protocol.Content{protocol.NewContent("", []byte(text))}
	if notes != "" {
		r.Content = append(r.Content, protocol.NewContent(protocol.Stderr, []byte("sandgate: "+notes+"\n")))
	}
	r.Structured = must.JSON(structured)
}

// readResult is the content that was read, and beside it, where it does not pass for
// content, how to go on when that is not all.
func readResult(structured map[string]any, op sandboxprofile.Operation, f confine.FileResult) (text, notes string) {
	structured["truncated"] = f.Truncated
	first := max(op.FirstLine, 1)
	switch content, lines := f.Content, int64(bytes.Count(f.Content, []byte("\n"))); {
	case f.Truncated && lines > 0:
		structured["next_offset"] = first + lines
		notes = fmt.Sprintf("cut after %d bytes of a file of %d; go on with offset %d", len(content), f.Size, first+lines)
	case f.Truncated:
		notes = fmt.Sprintf("cut after %d bytes of a file of %d, within line %d; raise max_bytes, or use the shell for a part of a line", len(content), f.Size, first)
	case len(content) == 0 && first > 1 && f.Size > 0:
		notes = fmt.Sprintf("the file has fewer than %d lines", first)
	}
	if whole := withoutPart(f.Content); f.Truncated && len(whole) > 0 && utf8.Valid(whole) {
		return string(whole), notes // a character cut in half does not make bytes of a text
	}
	return string(f.Content), notes
}

// searchResult is the result of looking through a directory: what was found, and
// beside it, where it does not pass for a finding, what was not looked at.
func searchResult(r *protocol.CallResult, path string, f sandboxprofile.Findings) {
	r.Truncated = f.Stopped != ""
	r.Structured = must.JSON(struct {
		Path string `json:"path"`
		sandboxprofile.Findings
		Truncated bool `json:"truncated"`
	}{path, f, r.Truncated})
	var out strings.Builder
	for _, e := range f.Entries {
		out.WriteString(entryText(e))
	}
	linesText(&out, f.Lines)
	r.Content = []protocol.Content{protocol.NewContent("", []byte(out.String()))}
	if notes := searchNotes(f); notes != "" {
		r.Content = append(r.Content, protocol.NewContent(protocol.Stderr, []byte(notes)))
	}
}

// entryText is one line: a name is a file's, a name with a slash a directory's,
// and anything else says what it is.
func entryText(e sandboxprofile.Entry) string {
	name := quoteName(e.Path)
	switch e.Type {
	case "file":
		return name + "\n"
	case "directory":
		return name + "/\n"
	}
	return fmt.Sprintf("%s (%s)\n", name, e.Type)
}

// linesText writes lines as grep does: "path:12:text" for a match, "path-13-text"
// for one beside it, "--" where lines are left out between them.
func linesText(out *strings.Builder, lines []sandboxprofile.Line) {
	beside := false // some line is there for context
	for _, l := range lines {
		beside = beside || l.Context
	}
	for i, l := range lines {
		if l.Number == 0 {
			fmt.Fprintf(out, "%s\n", quoteName(l.Path))
			continue
		}
		if beside && i > 0 && (lines[i-1].Path != l.Path || lines[i-1].Number+1 != l.Number) {
			out.WriteString("--\n")
		}
		mark := ":"
		if l.Context {
			mark = "-"
		}
		fmt.Fprintf(out, "%s%s%d%s%s\n", quoteName(l.Path), mark, l.Number, mark, l.Text)
	}
}

// quoteName quotes a name that could pass for more than one line, or for nothing.
func quoteName(name string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == utf8.RuneError }
	if strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// searchNotes says in words what a result leaves out.
func searchNotes(f sandboxprofile.Findings) string {
	var notes []string
	if len(f.Entries)+len(f.Lines) == 0 {
		notes = append(notes, "nothing found")
	}
	switch f.Stopped {
	case sandboxprofile.StoppedAtLimit:
		notes = append(notes, "there is more: narrow the search, or raise limit")
	case sandboxprofile.StoppedAtBytes:
		notes = append(notes, "there is more than fits into one answer: narrow the search")
	case sandboxprofile.StoppedAtTime:
		notes = append(notes, "the time for a search is over: narrow it to a directory")
	case sandboxprofile.StoppedByCall:
		notes = append(notes, "the call was ended; this is what was found until then")
	}
	if f.Binary > 0 {
		notes = append(notes, Plural(f.Binary, "binary file")+" not searched")
	}
	if f.Ignored > 0 {
		notes = append(notes, Plural(f.Ignored, "path")+" left out because of .gitignore; ignored: true includes them")
	}
	for _, s := range f.Skipped {
		notes = append(notes, "skipped "+quoteName(s.Path)+": "+s.Reason)
	}
	if more := f.SkippedCount - int64(len(f.Skipped)); more > 0 {
		notes = append(notes, fmt.Sprintf("skipped %d more", more))
	}
	if len(notes) == 0 {
		return ""
	}
	return "sandgate: " + strings.Join(notes, "\nsandgate: ") + "\n"
}

func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// fileError says in words what the file operation met, and what to do about it.
func fileError(plan tools.Plan, done confine.Result) string {
	text := errnoWords(plan.Action, done.Errno)
	if e := editError(done); e != nil {
		text = e.Error() + "; " + e.Hint()
	}
	return fmt.Sprintf("%s: %s: %s\n", plan.Tool, plan.Action.File.Path, text)
}

// errnoWords says what an errno means of the file that an action is about.
func errnoWords(a sandboxprofile.Action, errno string) string {
	if errno == "ENOENT" && a.Kind == sandboxprofile.WriteFile {
		return "a directory on the way does not exist; set make_parents to create it"
	}
	words := map[string]string{
		"ENOENT":       "no such file or directory; glob finds files by name",
		"EISDIR":       "is a directory; list_files shows what is in it",
		"ENOTDIR":      "is not a directory",
		"EINVAL":       "is not a regular file",
		"ENXIO":        "is not a regular file",
		"EROFS":        "is read-only inside the sandbox",
		"EACCES":       "permission denied",
		"EPERM":        "operation not permitted",
		"ELOOP":        "became a symbolic link after the call was checked",
		"EBUSY":        "is protected inside the sandbox",
		"ENOSPC":       "no space left on the device; the file is as it was",
		"EDQUOT":       "the disk quota is used up; the file is as it was",
		"EIO":          "the device failed; the file is as it was",
		"ENAMETOOLONG": "a name on the way is longer than the file system takes, mostly 255 bytes",
		"ESTALE":       "changed since it was read or the call was checked; read it again",
		"EAGAIN":       "is being changed by another call; try again",
		"EFBIG":        "is too large for this tool; use the shell",
		"ECANCELED":    "the call was ended before that was done; the file is as it was",
	}
	if text := words[errno]; text != "" {
		return text
	}
	return errno
}
