package sandboxprofile

// Needs is what the configuration and one call say that a tool needs. It is the
// only input of Derive.
type Needs struct {
	// Roots are the configured directories, absolute, clean, links resolved.
	Roots []Root
	// Presets are toolchain grants; they only ever read and execute.
	Presets []Preset
	// Home is where the private HOME lies.
	Home    string
	Protect []string
	Hide    []string
	Network Network
	Env     Env
	Limits  Limits

	UnixSockets []string
	Fresh       bool
}

// A Root is one directory of `sandbox.paths`.
type Root struct {
	Name  string
	Path  string
	Write bool
}

// A Preset is a shipped read-only grant: what a toolchain reads, and why.
type Preset struct {
	Name   string
	Reason string
	Grants []Grant
}

// A Grant is one line of a preset. A path that the host does not have grants nothing.
type Grant struct {
	Path   string // absolute; a leading "~/" is the user's real home
	Rights Rights
	Reason string
}
