package sandboxprofile

import "time"

// Kind says which of the things a sandbox can do an Action asks for. The zero value is
// not an action: a sandbox refuses it.
type Kind string

const (
	// Exec runs a program.
	Exec Kind = "exec"
	// ReadFile and WriteFile are answered by the sandbox's own init, so the
	// file tools stand under the same mounts, Landlock rules and system call
	// filter as a program does.
	ReadFile  Kind = "read_file"
	WriteFile Kind = "write_file"
	// EditFile replaces parts of a file: Operation.Edit.
	EditFile Kind = "edit_file"
	// ListFiles, GlobFiles and GrepFiles walk a directory: Operation.Search.
	ListFiles Kind = "list_files"
	GlobFiles Kind = "glob"
	GrepFiles Kind = "grep"
)

// An Action tells a sandbox what to do: run one program or perform one file operation. It
// contains only values (arguments, directory, environment); the Profile says what the action
// may reach.
type Action struct {
	Kind Kind       `json:"kind"`
	Exec *Program   `json:"exec,omitempty"`
	File *Operation `json:"file,omitempty"`
	// Ceiling bounds an action that no person has allowed, below the profile.
	Ceiling *Ceiling `json:"ceiling,omitempty"`
}

// A Program is one execve.
type Program struct {
	// Path is the absolute path of the executable as the sandbox sees it, with
	// every symbolic link resolved. No search happens inside the sandbox.
	Path string `json:"path"`
	// Argv is the whole argument vector, Argv[0] included.
	Argv []string `json:"argv"`
	// Dir is the absolute working directory.
	Dir string `json:"dir"`
	// Env is the whole environment, NAME=value, sorted by name. Names outside
	// the profile's Env set are removed before the program starts.
	Env []string `json:"env"`
	// Stdin is the program's standard input; nil leaves that to the caller.
	Stdin []byte `json:"stdin,omitempty"`
	// Secrets are the operator's files whose content the program gets. They are read when the
	// action runs; the action itself never contains them.
	Secrets []Secret `json:"secrets,omitempty"`
	// Terminal, if set, is a terminal of the sandbox's own that the program gets
	// in place of its streams, as its controlling terminal.
	Terminal *Terminal `json:"terminal,omitempty"`
}

// A Terminal has a size, in characters.
type Terminal struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
	// Apart has bit N set if stream N was redirected and is not the terminal.
	Apart uint8 `json:"apart,omitempty"`
}

// Has reports whether a stream, 0 to 2, is the terminal's.
func (t *Terminal) Has(stream int) bool { return t != nil && t.Apart&(1<<stream) == 0 }

// A Secret names a file whose content one program is given. It is in the
// environment variable Name if Env is set; otherwise the program inherits it as
// an open file, the first such secret as descriptor 3, the next as 4.
//
// If Service or Host is set, the program is not given it: the variable Name holds a
// placeholder, for which the egress proxy puts the content into the headers of
// requests to that service or host.
type Secret struct {
	Name string `json:"name"`
	File string `json:"file"` // absolute, links resolved
	Env  bool   `json:"env,omitempty"`
	// Service is the rule of the proxy that names it, NAME=ADDRESS.
	Service string `json:"service,omitempty"`
	// Host is HOST:PORT, where TLS ends at the proxy.
	Host string `json:"host,omitempty"`
}

// Unseen reports whether the program has a placeholder in the secret's place.
func (s Secret) Unseen() bool { return s.Service != "" || s.Host != "" }

// Credentials are the secrets that the action's program does not see.
func (a Action) Credentials() []Secret {
	var list []Secret
	if a.Exec != nil {
		for _, s := range a.Exec.Secrets {
			if s.Unseen() {
				list = append(list, s)
			}
		}
	}
	return list
}

// An Operation is one file operation on a path whose symbolic links were
// resolved when the call was checked. Executing it refuses to follow a link in
// any component (openat2(2), RESOLVE_NO_SYMLINKS): a link that has appeared
// since then is drift, and drift is a denial.
type Operation struct {
	Path string `json:"path"`
	// Content is the data that WriteFile writes.
	Content []byte `json:"content,omitempty"`
	// MaxBytes bounds what ReadFile returns; a longer file is cut and says so.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// FirstLine and Lines make ReadFile skip to a line, counted from 1, and stop
	// after so many; zero means the first line, and every line. MaxBytes bounds
	// what is left.
	FirstLine int64 `json:"first_line,omitempty"`
	Lines     int64 `json:"lines,omitempty"`
	// Encoding is the file's encoding, which ReadFile converts to UTF-8: "utf-16" or "latin-1"; ""
	// returns the bytes unchanged.
	Encoding string `json:"encoding,omitempty"`
	// MakeParents lets WriteFile create missing directories.
	MakeParents bool `json:"make_parents,omitempty"`
	// SHA256, if set, is the hash that the file must have before WriteFile or EditFile
	// changes it, in lower-case hexadecimal: the caller's own view of the file.
	SHA256 string `json:"sha256,omitempty"`
	// Edits are the replacements of EditFile, each applied to the result of the previous one.
	// MaxBytes bounds the file's size before and after.
	Edits []Edit `json:"edits,omitempty"`
	// Base is which file EditFile was approved for; nil means that there was none.
	Base *Base `json:"base,omitempty"`
	// Search describes what ListFiles, GlobFiles and GrepFiles look for below Path, or in Path if
	// it is a file. MaxBytes bounds the size of the result.
	Search *Search `json:"search,omitempty"`
}

// An Edit replaces text that occurs in a file.
type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	// Count is how often Old has to occur; zero means once. All of them are
	// replaced.
	Count int64 `json:"count,omitempty"`
	// All takes any number of occurrences from one on.
	All bool `json:"all,omitempty"`
}

// Base identifies one state of one file, as stat(2) tells it. The change time
// moves with every change and cannot be set back. Times are nanoseconds since 1970.
type Base struct {
	Device     uint64 `json:"device"`
	Inode      uint64 `json:"inode"`
	Size       int64  `json:"size"`
	ModTime    int64  `json:"mtime_ns"`
	ChangeTime int64  `json:"ctime_ns"`
	Mode       uint32 `json:"mode"`
}

// A Search says what to look for in a tree, and what to leave alone.
type Search struct {
	// Prefix is put before each name in the results, so that a caller can use
	// them as paths: "src/", or "" for the working directory.
	Prefix string `json:"prefix,omitempty"`
	// Glob selects the files that GlobFiles finds, from Path on, and GrepFiles reads:
	// see ParseGlob. For GrepFiles a glob without a slash is held against the last
	// component, and one with "!" before it leaves files out.
	Glob string `json:"glob,omitempty"`
	// Pattern is the regular expression (package regexp) that GrepFiles matches against each line,
	// in time proportional to the input.
	Pattern string `json:"pattern,omitempty"`
	// FilesOnly makes GrepFiles name files with a match, and not the lines.
	FilesOnly bool `json:"files_only,omitempty"`
	// Before and After are how many lines of context GrepFiles gives.
	Before int64 `json:"before,omitempty"`
	After  int64 `json:"after,omitempty"`
	// Depth is how many levels ListFiles shows; zero means all.
	Depth int64 `json:"depth,omitempty"`
	// Ignored says to look also at what .gitignore files leave out.
	Ignored bool `json:"ignored,omitempty"`
	// Limit is how many entries or matching lines are given at most.
	Limit int64 `json:"limit"`
	// Within is how long the search may take, in nanoseconds. What was found
	// until then is given.
	Within time.Duration `json:"within"`
	// Root is where .gitignore files begin to count: Path or a directory above it.
	Root string `json:"root"`
	// Hide are patterns of paths that are left out (MatchPattern), and Exclude
	// paths that are named and not entered, because they have rules of their own.
	Hide    []string `json:"hide,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Suffixes, if any, are the only endings of files that GrepFiles reads.
	Suffixes []string `json:"suffixes,omitempty"`
}
