package sandboxprofile

// Findings are the results of ListFiles, GlobFiles and GrepFiles. Names and lines that are not
// valid UTF-8 contain the replacement character, because JSON cannot carry them; file tools
// cannot open such names.
type Findings struct {
	Entries []Entry `json:"entries,omitempty"` // ListFiles, GlobFiles
	Lines   []Line  `json:"lines,omitempty"`   // GrepFiles
	// Matches is how many lines matched, and Files how many files were looked at.
	Matches int64 `json:"matches,omitempty"`
	Files   int64 `json:"files,omitempty"`
	// Binary is how many files GrepFiles left alone when it met a zero byte.
	Binary int64 `json:"binary,omitempty"`
	// Ignored is how many entries were left out because of a .gitignore file.
	Ignored int64 `json:"ignored,omitempty"`
	// Skipped names some of what was not looked at, and SkippedCount counts all.
	Skipped      []Skipped `json:"skipped,omitempty"`
	SkippedCount int64     `json:"skipped_count,omitempty"`
	// Stopped says why the search ended before its end; "" if it did not.
	Stopped Stopped `json:"stopped,omitempty"`
}

// Stopped is why a search gave up.
type Stopped string

const (
	StoppedAtLimit Stopped = "limit"     // as many results as were asked for
	StoppedAtBytes Stopped = "max_bytes" // the results are as large as they may be
	StoppedAtTime  Stopped = "time"      // Search.Within is over
	StoppedByCall  Stopped = "cancelled" // the call was ended
)

// An Entry is a name in a directory.
type Entry struct {
	Path string `json:"path"`
	// Type is one of file, directory, symlink, fifo, socket, device.
	Type string `json:"type"`
	Size int64  `json:"size,omitempty"` // of a file, in bytes; ListFiles only
}

// A Line is a matching line of a file, or one beside it. With FilesOnly it has a
// path and nothing else.
type Line struct {
	Path    string `json:"path"`
	Number  int64  `json:"line,omitempty"` // from 1
	Text    string `json:"text,omitempty"`
	Context bool   `json:"context,omitempty"`
}

// A Skipped is something that was not looked at.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}
