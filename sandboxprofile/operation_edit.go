package sandboxprofile

import (
	"bytes"
	"fmt"
	"strings"
)

// An EditError says why an edit cannot be done. It crosses the line between the
// sandbox and the supervisor, so it holds numbers, and words are made at the end.
type EditError struct {
	// Edit is which one of how many Edits, counted from 1.
	Edit  int `json:"edit"`
	Edits int `json:"edits"`
	// Found is how often Old occurs, and Want how often it should; zero means
	// any number from one on.
	Found int64 `json:"found"`
	Want  int64 `json:"want"`
	// Overlap says that occurrences share bytes: which to replace is anyone's guess.
	Overlap bool `json:"overlap,omitempty"`
	// CRLF says that Old would occur if its lines ended as the file's do.
	CRLF bool `json:"crlf,omitempty"`
	// TooLarge says that the file would grow beyond MaxBytes.
	TooLarge bool `json:"too_large,omitempty"`
}

func (e *EditError) Error() string {
	which := ""
	if e.Edits > 1 {
		which = fmt.Sprintf("edit %d of %d: ", e.Edit, e.Edits)
	}
	return which + e.reason()
}

func (e *EditError) reason() string {
	switch {
	case e.TooLarge:
		return "the edited file would be too large"
	case e.Overlap:
		return "occurrences of old_string overlap, so the replacement is ambiguous"
	case e.Found == 0:
		return "old_string does not occur in the file"
	case e.Want == 1:
		return fmt.Sprintf("old_string occurs %d times in the file; it must be unique", e.Found)
	default:
		return fmt.Sprintf("old_string occurs %d times in the file, not %d", e.Found, e.Want)
	}
}

// Hint says what a caller can do about it.
func (e *EditError) Hint() string {
	switch {
	case e.TooLarge:
		return "split the file, or raise sandbox.limits.file_size"
	case e.CRLF:
		return `the file's lines end in \r\n: write old_string and new_string that way`
	case e.Found == 0 && e.Edit > 1:
		return "each edit works on the result of the ones before it; read the file again, and copy the text exactly"
	case e.Found == 0:
		return "read the file again, and copy the text exactly, with indentation and line endings"
	case e.Overlap, e.Want == 1:
		return "add lines around it until it occurs once, or set replace_all or expected_count"
	default:
		return "read the file again, or correct expected_count"
	}
}

// Edit does what an EditFile operation asks for with the content of the file.
// All edits are done or, with an *EditError, none. The count is that of
// occurrences replaced.
func (o Operation) Edit(content []byte) (edited []byte, replaced int64, err error) {
	for i, e := range o.Edits {
		next, n, fault := e.apply(content, o.MaxBytes)
		if fault != nil {
			fault.Edit, fault.Edits = i+1, len(o.Edits)
			return nil, 0, fault
		}
		content, replaced = next, replaced+n
	}
	return content, replaced, nil
}

func (e Edit) apply(content []byte, maxBytes int64) ([]byte, int64, *EditError) {
	n, overlap := count(content, []byte(e.Old))
	want := e.Count
	if want == 0 && !e.All {
		want = 1
	}
	fault := &EditError{Found: n, Want: want, Overlap: overlap}
	switch {
	case n == 0:
		fault.CRLF = occursWithCRLF(content, e.Old)
		return nil, 0, fault
	case overlap, want != 0 && n != want:
		return nil, 0, fault
	}
	if size := int64(len(content)) + n*int64(len(e.New)-len(e.Old)); size > maxBytes {
		return nil, 0, &EditError{Found: n, Want: want, TooLarge: true}
	}
	return bytes.ReplaceAll(content, []byte(e.Old), []byte(e.New)), n, nil
}

// count gives how often old occurs, or that two occurrences overlap; it looks no
// further then. Each byte of content is searched once or, behind an occurrence,
// twice.
func count(content, old []byte) (n int64, overlap bool) {
	if len(old) == 0 {
		return 0, false
	}
	for at := bytes.Index(content, old); at >= 0; n++ {
		next := bytes.Index(content[at+1:], old)
		if next < 0 {
			return n + 1, false
		}
		if next+1 < len(old) {
			return n + 2, true
		}
		content = content[at+1:]
		at = next
	}
	return n, false
}

func occursWithCRLF(content []byte, old string) bool {
	if !strings.Contains(old, "\n") || strings.Contains(old, "\r\n") {
		return false
	}
	return bytes.Contains(content, []byte(strings.ReplaceAll(old, "\n", "\r\n")))
}
