package sandboxprofile

// Kind says which of the things a sandbox can do an Action asks for.
// The zero value is no action: a sandbox refuses it.
type Kind string

const (
	// Exec runs a program.
	Exec Kind = "exec"
	// ReadFile and WriteFile are answered by the sandbox's own init, so the
	// file tools stand under the same mounts, Landlock rules and system call
	// filter as a program does.
	ReadFile  Kind = "read_file"
	WriteFile Kind = "write_file"
)

// An Action is what a plan asks of a sandbox: run one program, or do one file
// operation. It holds values only (arguments, directory, environment); what the
// action may reach is the Profile's to say.
type Action struct {
	Kind Kind       `json:"kind"`
	Exec *Program   `json:"exec,omitempty"`
	File *Operation `json:"file,omitempty"`
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
}

// An Operation is one file operation on a path whose symbolic links were
// resolved when the call was checked. Executing it refuses to follow a link in
// any component (openat2(2), RESOLVE_NO_SYMLINKS): a link that has appeared
// since then is drift, and drift is a denial.
type Operation struct {
	Path string `json:"path"`
	// Content is what WriteFile writes.
	Content []byte `json:"content,omitempty"`
	// MaxBytes bounds what ReadFile returns; a longer file is cut and says so.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// FirstLine and Lines make ReadFile skip to a line, counted from 1, and stop
	// after so many; zero means the first line, and every line. MaxBytes bounds
	// what is left.
	FirstLine int64 `json:"first_line,omitempty"`
	Lines     int64 `json:"lines,omitempty"`
	// MakeParents lets WriteFile create missing directories.
	MakeParents bool `json:"make_parents,omitempty"`
}
