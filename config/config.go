package config

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/units"
)

// A Config is one sandgate.yaml. The yaml tags are the key names; fields tagged
// "-" are about the file and not in it.
type Config struct {
	Version  int      `yaml:"version"`
	Policy   Policy   `yaml:"policy"`
	Sandbox  Sandbox  `yaml:"sandbox"`
	Shell    Shell    `yaml:"shell"`
	Tools    []Tool   `yaml:"tools"`
	Tasks    Tasks    `yaml:"tasks"`
	MCP      MCP      `yaml:"mcp"`
	Approval Approval `yaml:"approval"`
	Audit    Audit    `yaml:"audit"`
	Egress   Egress   `yaml:"egress"`
	HTTP     HTTP     `yaml:"http"`
	Git      Git      `yaml:"git"`
	Undo     Undo     `yaml:"undo"`

	// File is the absolute path of the file, or "" for the embedded default. A
	// tool that could write it would decide what the next start allows.
	File string `yaml:"-"`
	// Digest is the SHA-256 of the file's bytes as "sha256:<hex>", or "".
	Digest string `yaml:"-"`
	// Origins holds the position of each value that the file sets, by field
	// path: "sandbox.paths.workspace.mode", "shell.rules[2].pattern". A value
	// that is not listed is a default.
	Origins map[string]Position `yaml:"-"`
	// Notices are sentences for the operator about things that are allowed and
	// worth knowing: a link that was resolved, a protection that was removed.
	Notices []Notice `yaml:"-"`

	// Sources are the files that it was merged from, the administrator's first.
	Sources []Source `yaml:"-"`
	// Unused are the values of a file that is not trusted which would widen what
	// applies without it. They have no effect.
	Unused []Notice `yaml:"-"`
	// ByPolicy are the fields whose value comes from the policy, not from a file.
	ByPolicy []string `yaml:"-"`
	// Floor is the administrator's file, if there is one: see KeepFloor.
	Floor *Config `yaml:"-"`
	// Above is the configuration without the workspace's file, or nil if there is no such file.
	// Files that calls could write before that file was added are still there.
	Above *Config `yaml:"-"`
}

// DropNotices forgets what something beside the files has taken care of.
func (c *Config) DropNotices(gone func(Notice) bool) {
	c.Notices = slices.DeleteFunc(slices.Clone(c.Notices), gone)
}

// Set reports whether the file sets the value at a field path.
func (c *Config) Set(field string) bool {
	_, ok := c.Origins[field]
	return ok
}

// OwnFiles lists the files of sandgate itself that the configuration names, with
// the links in their directories resolved. No tool may write them, wherever they
// lie: who writes the configuration decides what the next start allows.
func (c *Config) OwnFiles() []string {
	var list []string
	own := append(c.Files(), c.Audit.Path, c.HTTP.TokenFile)
	for _, s := range c.SecretFiles() {
		own = append(own, s.File)
	}
	for _, path := range own {
		if path != "" {
			list = append(list, inRealDir(path))
		}
	}
	return list
}

// A NamedFile is a file, and the field that names it.
type NamedFile struct{ Field, File string }

// SecretFiles lists the files of secrets and credentials.
func (c *Config) SecretFiles() []NamedFile {
	var list []NamedFile
	credentials := func(field string, of []Credential) {
		for _, k := range of {
			list = append(list, NamedFile{fieldKey(field, k.Name) + ".file", k.File})
		}
	}
	program := func(field string, t *Tool) {
		for _, s := range t.Secrets {
			list = append(list, NamedFile{fieldKey(field+".secrets", s.Name) + ".file", s.File})
		}
		credentials(field+".credentials", t.Credentials)
	}
	credentials("shell.credentials", c.Shell.Credentials)
	for i := range c.Tools {
		program(fieldKey("tools", c.Tools[i].Name), &c.Tools[i])
	}
	if c.Egress.UpstreamUser != "" {
		list = append(list, NamedFile{"egress.upstream_user", c.Egress.UpstreamUser})
	}
	for i := range c.MCP.Servers {
		t := c.MCP.Servers[i].Tool()
		program(fieldKey("mcp.servers", t.Name), &t)
	}
	return list
}

// Files lists the files that the configuration is read from, those of operator
// profiles included. A tool may know them; one that wrote them would decide what the
// next start allows.
func (c *Config) Files() []string {
	list := []string{c.File}
	for _, s := range c.Sources {
		list = append(list, s.File)
	}
	for _, p := range c.OperatorProfiles() {
		if isProfileFile(p.Name) {
			list = append(list, p.Name)
		}
	}
	list = slices.DeleteFunc(list, func(file string) bool { return file == "" })
	for i := range list {
		list[i] = inRealDir(list[i])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inRealDir resolves the links in the directory of a path, if it is there.
func inRealDir(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Sandbox is the `sandbox` section.
type Sandbox struct {
	// Paths are in the file's order. Where roots overlap, the longest wins.
	Paths []Path `yaml:"paths"`
	// Workdir is the directory that a file names for programs to start in, absolute,
	// with symbolic links resolved, or "". Config.StartDir has what holds.
	Workdir string   `yaml:"workdir"`
	Presets []string `yaml:"presets"`
	// Protect and Hide hold patterns; the word "default" stands for the shipped list.
	Protect []string `yaml:"protect"`
	Hide    []string `yaml:"hide"`
	Env     EnvVars  `yaml:"env"`
	Limits  Limits   `yaml:"limits"`
	// Debug lets programs of a call trace each other.
	Debug             bool     `yaml:"debug"`
	RequireOSSandbox  bool     `yaml:"require_os_sandbox"`
	OSSandboxFallback Fallback `yaml:"os_sandbox_fallback"`
	// Profile is "", a shipped profile's name, or the absolute path of a file.
	Profile string `yaml:"profile"`
	// Profiles are those of all files that name one: each narrows.
	Profiles []OperatorProfile `yaml:"-"`
}

// An OperatorProfile is an operator profile as a file names it.
type OperatorProfile struct {
	Name     string // as Sandbox.Profile
	Tier     Tier
	Position Position
	// Paths are the roots of that file's `sandbox.paths`, by name.
	Paths map[string]string
}

// OperatorProfiles are all operator profiles that narrow what tools have.
func (c *Config) OperatorProfiles() []OperatorProfile {
	list := slices.Clone(c.Sandbox.Profiles)
	named := func(p OperatorProfile) bool { return p.Name == c.Sandbox.Profile }
	if c.Sandbox.Profile != "" && !slices.ContainsFunc(list, named) {
		list = append(list, OperatorProfile{Name: c.Sandbox.Profile})
	}
	return list
}

// DetectPreset is the entry of Presets that stands for toolchains detected from the project and
// from the PATH of the user who starts sandgate.
const DetectPreset = "detect"

// DefaultList is the entry of Protect and Hide that stands for the shipped list.
const DefaultList = "default"

// A Path is one entry of `sandbox.paths`.
type Path struct {
	Name     string   `yaml:"-" role:"name"`
	Position Position `yaml:"-" role:"position"`
	// Root is absolute, with symbolic links resolved.
	Root          string   `yaml:"root" need:"required"`
	Mode          Mode     `yaml:"mode"`
	WriteApproval bool     `yaml:"write_approval"`
	ReadApproval  bool     `yaml:"read_approval"`
	Suffixes      []string `yaml:"suffixes"` // empty: every file

	IsFile bool `yaml:"-"` // Root is a single file
}

func (p *Path) setDefaults() {
	p.Mode = ReadOnly
	p.WriteApproval = true
}

// Mode is how a path may be used. The zero value is not valid.
type Mode string

const (
	ReadOnly  Mode = "ro"
	ReadWrite Mode = "rw"
)

// Values lists the words of the file format.
func (Mode) Values() []string { return []string{string(ReadOnly), string(ReadWrite)} }

// EnvVars is `sandbox.env`.
type EnvVars struct {
	Allow []string          `yaml:"allow"` // names taken over from sandgate's own environment
	Set   map[string]string `yaml:"set"`
}

// Limits bound one call. In a rule, zero means the value of `sandbox.limits`.
// sandboxprofile.Limits are the limits that a sandbox enforces, and include more numbers.
type Limits struct {
	Timeout   time.Duration `yaml:"timeout"` // wall time
	CPU       time.Duration `yaml:"cpu"`     // processor time of all processes together
	Memory    units.Size    `yaml:"memory"`
	Pids      int64         `yaml:"pids"` // processes and threads
	FileSize  units.Size    `yaml:"file_size"`
	Output    units.Size    `yaml:"output"` // stdout and stderr together
	OpenFiles int64         `yaml:"open_files"`
}

// Fallback says what to do if an operating-system sandbox is required and none works.
type Fallback string

const (
	FailFast    Fallback = "fail_fast"    // refuse to start
	RefuseTools Fallback = "refuse_tools" // start, refuse every file and shell tool
)

// Values lists the words of the file format.
func (Fallback) Values() []string { return []string{string(FailFast), string(RefuseTools)} }

// ReplaceProfile puts an operator profile in the place of the one that the user's file
// names. Those of other files stay.
func (c *Config) ReplaceProfile(name string) {
	c.Sandbox.Profiles = slices.DeleteFunc(slices.Clone(c.Sandbox.Profiles), func(p OperatorProfile) bool {
		return p.Tier == TierUser || p.Tier == TierFlag
	})
	c.Sandbox.Profile = name
}

// Shell is the `shell` section.
type Shell struct {
	Network Network      `yaml:"network"`
	Default ShellDefault `yaml:"default"`
	Rules   []Rule       `yaml:"rules"`
	// Credentials are secrets that programs use for a service or a host of Network
	// and do not see.
	Credentials []Credential `yaml:"credentials"`
	// Closed are the tiers whose own default denies: what none of a tier's rules
	// allows is denied, also if a rule of another tier allows it.
	Closed []Tier `yaml:"-"`
}

// A Credential is one entry of `shell.credentials`, or of a custom tool's
// `credentials`. It is for a service or for a host.
type Credential struct {
	Name string `yaml:"-" role:"name"` // of the variable that holds the placeholder
	// File holds the secret. It is absolute, with symbolic links resolved.
	File    string `yaml:"file" need:"required"`
	Service string `yaml:"service"` // a name of the network's services
	Host    string `yaml:"host"`    // HOST or HOST:PORT, which the network allows; 443 without a port
}

// ShellDefault says what happens to a command that no rule matches.
type ShellDefault struct {
	Allowed  bool `yaml:"allowed"`
	Approval bool `yaml:"approval"`
	// Confined lets a command run as far as the sandbox holds it, and asks about what
	// leaves it. In the file it is the word `confined` in place of the mapping.
	Confined bool `yaml:"-"`
}

// A Rule is one entry of `shell.rules`. A matching rule that denies always decides; otherwise
// the first matching rule does. It becomes a shell.Rule, where its network and limits are a
// ceiling.
type Rule struct {
	Position Position `yaml:"-" role:"position"`
	// Tier is whose rule it is, of several files, and Name what decisions call it
	// then. A rule that Narrows is from a file that is not trusted: nothing runs
	// because of it.
	Tier        Tier   `yaml:"-"`
	Name        string `yaml:"-"`
	Narrows     bool   `yaml:"-"`
	Pattern     string `yaml:"pattern" need:"required"`
	Exact       bool   `yaml:"exact"`
	ReadOnly    bool   `yaml:"read_only"`
	Allowed     bool   `yaml:"allowed"`
	Approval    bool   `yaml:"approval"`
	Description string `yaml:"description"`
	Reason      string `yaml:"reason"`
	// SandboxPaths are names of `sandbox.paths`; empty means no such limit.
	SandboxPaths []string `yaml:"sandbox_paths"`
	Match        []string `yaml:"match"`
	NoMatch      []string `yaml:"no_match"`
	Network      *Network `yaml:"network"` // nil: as `shell.network`
	Limits       *Limits  `yaml:"limits"`  // nil: as `sandbox.limits`
	Review       bool     `yaml:"review"`
}

func (r *Rule) setDefaults() {
	r.Allowed = true
	r.Approval = true
}

// A Tool is one entry of `tools`.
type Tool struct {
	Name        string         `yaml:"-" role:"name"`
	Position    Position       `yaml:"-" role:"position"`
	Description string         `yaml:"description"`
	Command     []string       `yaml:"command" need:"required"`
	InputSchema map[string]any `yaml:"input_schema"` // JSON Schema of the arguments
	// OptionsAllowed are names of arguments whose values may begin with a dash.
	OptionsAllowed []string       `yaml:"options_allowed"`
	Stdin          string         `yaml:"stdin"` // "", none, json, or "{{argument}}"
	Stdout         Stdout         `yaml:"stdout"`
	Timeout        *time.Duration `yaml:"timeout"` // nil: as the limits say
	Secrets        []ToolSecret   `yaml:"secrets"`
	Credentials    []Credential   `yaml:"credentials"` // for Sandbox.Network
	Approval       ToolApproval   `yaml:"approval"`
	Sandbox        ToolSandbox    `yaml:"sandbox"`
	// Tier is the file that defines it, of several: what those above it deny holds for it.
	Tier   Tier `yaml:"-"`
	Review bool `yaml:"review"`
}

func (t *Tool) setDefaults() {
	t.Stdout = StdoutText
	t.Approval.Required = true
	t.Sandbox.Network.Mode = NetworkNone
}

// Stdout is the output format of a custom tool's program.
type Stdout string

const (
	StdoutText Stdout = "text"
	StdoutJSON Stdout = "json" // one JSON value, which becomes the structured result
)

// Values lists the words of the file format.
func (Stdout) Values() []string { return []string{string(StdoutText), string(StdoutJSON)} }

// ToolApproval is a custom tool's `approval`.
type ToolApproval struct {
	Required    bool     `yaml:"required"`
	Payload     []string `yaml:"payload"` // argument names that make two calls the same; nil: all
	Description string   `yaml:"description"`
}

// A ToolSecret is one entry of a custom tool's `secrets`: a file whose content
// its program is given.
type ToolSecret struct {
	Name string `yaml:"-" role:"name"` // of the environment variable
	// File is absolute, with symbolic links resolved.
	File string   `yaml:"file" need:"required"`
	As   SecretAs `yaml:"as"`
}

func (s *ToolSecret) setDefaults() { s.As = SecretFile }

// SecretAs is how a program gets a secret.
type SecretAs string

const (
	SecretFile SecretAs = "file" // NAME_FILE names an open file
	SecretEnv  SecretAs = "env"  // in the variable itself
)

// Values lists the words of the file format.
func (SecretAs) Values() []string { return []string{string(SecretFile), string(SecretEnv)} }

// ToolSandbox is a custom tool's `sandbox`: what it has of what `sandbox` grants
// to every program, and its own network. A part that is nil is the whole.
type ToolSandbox struct {
	Paths   map[string]Mode `yaml:"paths"`
	Presets []string        `yaml:"presets"`
	Network Network         `yaml:"network"`
	Env     *ToolEnv        `yaml:"env"`
	Limits  *Limits         `yaml:"limits"`
	// Implied are those of Paths that the definition does not name: other files have rules of
	// their own for parts of a directory that it does.
	Implied []string `yaml:"-"`
}

// ToolEnv is a custom tool's `sandbox.env`.
type ToolEnv struct {
	Allow []string          `yaml:"allow"` // of sandbox.env.allow; nil: all of them
	Set   map[string]string `yaml:"set"`   // beside those of sandbox.env.set
}

// MCP is the `mcp` section.
type MCP struct {
	Servers []MCPServer `yaml:"servers"`
}

// An MCPServer is one entry of `mcp.servers`.
type MCPServer struct {
	Name        string       `yaml:"-" role:"name"`
	Position    Position     `yaml:"-" role:"position"`
	Command     []string     `yaml:"command" need:"required"`
	Network     Network      `yaml:"network"`
	Secrets     []ToolSecret `yaml:"secrets"`
	Credentials []Credential `yaml:"credentials"` // for Network
	Sandbox     MCPSandbox   `yaml:"sandbox"`
	Approval    MCPApproval  `yaml:"approval"`
}

// MCPSandbox selects from what `sandbox` grants to every program: only the named paths, and all
// of the rest unless some is named.
type MCPSandbox struct {
	Paths   map[string]Mode `yaml:"paths"`
	Presets []string        `yaml:"presets"`
	Env     *ToolEnv        `yaml:"env"`
	Limits  *Limits         `yaml:"limits"`
}

func (s *MCPServer) setDefaults() {
	s.Network.Mode = NetworkNone
	s.Approval.Default = Ask
}

// Tool is the server's program as a custom tool without arguments would have it. Its
// braces are not templates.
func (s *MCPServer) Tool() Tool {
	t := Tool{
		Name: s.Name, Position: s.Position, Stdout: StdoutText, Secrets: s.Secrets, Credentials: s.Credentials,
		Sandbox: ToolSandbox{
			Paths: s.Sandbox.Paths, Presets: s.Sandbox.Presets, Network: s.Network, Env: s.Sandbox.Env, Limits: s.Sandbox.Limits,
		},
	}
	for _, word := range s.Command {
		t.Command = append(t.Command, strings.ReplaceAll(word, "{{", "{{{{"))
	}
	if t.Sandbox.Paths == nil {
		t.Sandbox.Paths = map[string]Mode{} // a stranger's program sees what it is given
	}
	return t
}

// MCPApproval says which of a server's tools are asked about. Tools maps globs
// over tool names; where several match, the strictest wins.
type MCPApproval struct {
	Default Effect            `yaml:"default"`
	Tools   map[string]Effect `yaml:"tools"`
}

// Effect is allow, ask or deny. Unlike approval.Effect it can be missing: the zero value is
// not valid.
type Effect string

const (
	Allow Effect = "allow"
	Ask   Effect = "ask"
	Deny  Effect = "deny"
)

// Values lists the words of the file format.
func (Effect) Values() []string { return []string{string(Ask), string(Allow), string(Deny)} }

// Approval is the `approval` section.
type Approval struct {
	Mode           ApprovalMode  `yaml:"mode"`
	Timeout        time.Duration `yaml:"timeout"`
	NoApprover     NoApprover    `yaml:"no_approver"`
	DenyCache      time.Duration `yaml:"deny_cache" zero:"off"`
	UnknownTools   Effect        `yaml:"unknown_tools"`
	SafeTools      []string      `yaml:"safe_tools"`
	DangerousTools []string      `yaml:"dangerous_tools"`
	// Guarded are dangerous tools of a file that is not trusted. No glob allows them,
	// and unlike the others they are not known by being listed.
	Guarded []string `yaml:"-"`
	// Elicitation lets MCP clients of `sandgate mcp serve` ask their person.
	Elicitation bool  `yaml:"elicitation"`
	Store       Store `yaml:"store"`
}

// ApprovalMode is how requests are treated.
type ApprovalMode string

const (
	Interactive ApprovalMode = "interactive"
	ApproveAll  ApprovalMode = "approve_all"
	Strict      ApprovalMode = "strict"
)

// Values lists the words of the file format.
func (ApprovalMode) Values() []string {
	return []string{string(Interactive), string(ApproveAll), string(Strict)}
}

// NoApprover says what happens to a request while no approver is connected.
type NoApprover string

const (
	WaitForApprover NoApprover = "wait"
	DenyAtOnce      NoApprover = "deny"
)

// Values lists the words of the file format.
func (NoApprover) Values() []string { return []string{string(WaitForApprover), string(DenyAtOnce)} }

// Store is where remembered decisions and pending requests live.
type Store string

const (
	StoreBbolt  Store = "bbolt"  // a file in the state directory
	StoreMemory Store = "memory" // gone when the supervisor ends
)

// Values lists the words of the file format.
func (Store) Values() []string { return []string{string(StoreBbolt), string(StoreMemory)} }

// Audit is the `audit` section.
type Audit struct {
	Path string    `yaml:"path"` // "": in the state directory
	Sync AuditSync `yaml:"sync"`
	// Redact adds to the shipped rules by which secrets are found.
	Redact []RedactRule `yaml:"redact"`
}

// A RedactRule finds one more sort of secret before it is written to the log.
type RedactRule struct {
	Position Position `yaml:"-" role:"position"`
	Name     string   `yaml:"name" need:"required"`
	// Pattern is a regular expression (RE2). What its group "secret" matches is
	// replaced, or all of the match without such a group.
	Pattern string   `yaml:"pattern" need:"required"`
	Match   []string `yaml:"match"`
	NoMatch []string `yaml:"no_match"`
}

// AuditSync is which entries are on disk before the work goes on.
type AuditSync string

const (
	SyncDecision AuditSync = "decision" // a decision's, before its tool starts
	SyncAlways   AuditSync = "always"   // every entry
	SyncNever    AuditSync = "never"    // none: a crash of the host loses the last ones
)

// Values lists the words of the file format.
func (AuditSync) Values() []string {
	return []string{string(SyncDecision), string(SyncAlways), string(SyncNever)}
}

// Tasks is the `tasks` section: what holds for programs in the background, where
// it differs from sandbox.limits.
type Tasks struct {
	Timeout time.Duration `yaml:"timeout"` // wall time, in place of sandbox.limits.timeout
	Running int64         `yaml:"running"` // at once, in one session
	Output  units.Size    `yaml:"output"`  // kept to be read; the task goes on
}

// Egress is the `egress` section.
type Egress struct {
	DenyPrivate bool `yaml:"deny_private"`
	// Upstream is the proxy that connections leave the machine by: "" is the one of
	// sandgate's environment, and "none" none.
	Upstream string `yaml:"upstream"`
	// UpstreamUser is a file with USER:PASSWORD for it.
	UpstreamUser string       `yaml:"upstream_user"`
	Limits       EgressLimits `yaml:"limits"`
}

// EgressLimits bound what one call does over the network.
type EgressLimits struct {
	Open        int64         `yaml:"open"`        // connections at once
	Connections int64         `yaml:"connections"` // in all
	Bytes       units.Size    `yaml:"bytes"`       // in both directions, of all connections
	Idle        time.Duration `yaml:"idle"`        // without a byte in either direction
}

// Undo is the `undo` section: what is kept of what calls change.
type Undo struct {
	Enabled bool          `yaml:"enabled"`
	Age     time.Duration `yaml:"age"`  // of a call
	Size    units.Size    `yaml:"size"` // on disk, for each workspace
	File    units.Size    `yaml:"file"` // the content of a larger one is not kept
}

// Git is the `git` section: signatures, by keys that no sandbox sees.
type Git struct {
	// Sign says whether commits and tags are signed that a program in a sandbox makes.
	Sign Effect `yaml:"sign"`
	// Repositories are the directories in which they are: a call signs whose workspace lies
	// in one of them.
	Repositories []string `yaml:"repositories"`
}

// HTTP is the `http` section.
type HTTP struct {
	Listen    string `yaml:"listen"` // "": off
	TokenFile string `yaml:"token_file"`
}

// defaults is the meaning of a file that sets nothing, apart from the workspace.
func defaults() *Config {
	return &Config{
		Version: 1,
		Policy:  Careful,
		Sandbox: Sandbox{
			Presets: []string{"system", "git", DetectPreset},
			Protect: []string{DefaultList},
			Hide:    []string{DefaultList},
			Env:     EnvVars{Allow: variableNames()},
			Limits: Limits{
				Timeout: 2 * time.Minute, CPU: 2 * time.Minute,
				Memory: 4 * units.GiB, Pids: 4096, FileSize: 4 * units.GiB,
				Output: 10 * units.MiB, OpenFiles: 4096,
			},
			RequireOSSandbox:  true,
			OSSandboxFallback: FailFast,
		},
		Shell: Shell{
			Network: Network{Mode: NetworkNone},
			Default: ShellDefault{Allowed: true, Approval: true},
		},
		Tasks: Tasks{Timeout: time.Hour, Running: 16, Output: units.MiB},
		Undo:  Undo{Age: 7 * 24 * time.Hour, Size: 2 * units.GiB, File: 64 * units.MiB},
		Approval: Approval{
			Mode: Interactive, Timeout: 5 * time.Minute,
			NoApprover: WaitForApprover, DenyCache: 5 * time.Minute,
			UnknownTools:   Ask,
			SafeTools:      []string{"read_file", "list_files", "glob", "grep"},
			DangerousTools: []string{"shell", "write_file", "edit_file"},
			Store:          StoreBbolt,
		},
		Git:    Git{Sign: Deny},
		Audit:  Audit{Sync: SyncDecision},
		Egress: Egress{DenyPrivate: true, Limits: EgressLimits{Open: 1024, Connections: 20_000, Bytes: 16 * units.GiB, Idle: 5 * time.Minute}},
	}
}
