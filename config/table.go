package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/units"
)

// A Rule of combination says what becomes of a key that several files set.
type Combination string

const (
	Smallest    Combination = "smallest"      // the smaller value is the narrower one
	Largest     Combination = "largest"       // the larger value is the narrower one
	Strictest   Combination = "strictest"     // sticky: the strictest of all files holds
	Union       Combination = "union"         // sticky: the lists of all files together
	Common      Combination = "common"        // what all bounds have
	Meet        Combination = "meet"          // what every bound reaches
	ByTier      Combination = "by tier"       // each file's are tried, and the strictest decides
	All         Combination = "all"           // each file's narrows
	ByName      Combination = "by name"       // entry by entry; the administrator's stand
	Outermost   Combination = "administrator" // the administrator's stands
	Independent Combination = "each file's own"
)

// An Entry is one line of the table: what happens to a key, and all that lies in it,
// when files are merged.
type Entry struct {
	Key string
	How Combination
	// Narrows reports whether a file that is not trusted has a say.
	Narrows bool

	over   func(*merger) // t is laid over c
	within func(*merger) // t bounds c
}

// Table is how files are merged, in the order of the file format. Every key is in
// exactly one line.
func Table() []Entry { return table() }

func table() []Entry {
	return []Entry{
		{Key: "version", How: Independent, Narrows: true, over: func(m *merger) { m.take("version") }, within: nothing},
		policyEntry(),
		{"sandbox.paths", Meet, true, (*merger).layPaths, (*merger).boundPaths},
		owned("sandbox.workdir", func(c *Config) *string { return &c.Sandbox.Workdir }),
		names("sandbox.presets", func(c *Config) *[]string { return &c.Sandbox.Presets }),
		union("sandbox.protect", func(c *Config) *[]string { return &c.Sandbox.Protect }),
		union("sandbox.hide", func(c *Config) *[]string { return &c.Sandbox.Hide }),
		names("sandbox.env.allow", func(c *Config) *[]string { return &c.Sandbox.Env.Allow }),
		{"sandbox.env.set", ByName, false, (*merger).laySet, (*merger).boundSet},
		smallest("sandbox.limits.timeout", func(c *Config) *time.Duration { return &c.Sandbox.Limits.Timeout }),
		smallest("sandbox.limits.cpu", func(c *Config) *time.Duration { return &c.Sandbox.Limits.CPU }),
		smallest("sandbox.limits.memory", func(c *Config) *units.Size { return &c.Sandbox.Limits.Memory }),
		smallest("sandbox.limits.pids", func(c *Config) *int64 { return &c.Sandbox.Limits.Pids }),
		smallest("sandbox.limits.file_size", func(c *Config) *units.Size { return &c.Sandbox.Limits.FileSize }),
		smallest("sandbox.limits.output", func(c *Config) *units.Size { return &c.Sandbox.Limits.Output }),
		smallest("sandbox.limits.open_files", func(c *Config) *int64 { return &c.Sandbox.Limits.OpenFiles }),
		strictest("sandbox.debug", func(c *Config) *bool { return &c.Sandbox.Debug }, false, true),
		strictest("sandbox.require_os_sandbox", func(c *Config) *bool { return &c.Sandbox.RequireOSSandbox }, true, false),
		strictest("sandbox.os_sandbox_fallback", func(c *Config) *Fallback { return &c.Sandbox.OSSandboxFallback }, FailFast, RefuseTools),
		{"sandbox.profile", All, true, (*merger).addProfile, (*merger).boundProfile},
		{"shell.network", Meet, true, (*merger).layNetwork, (*merger).boundNetwork},
		{"shell.default", Strictest, true, (*merger).layDefault, (*merger).boundDefault},
		{"shell.rules", ByTier, true, (*merger).addRules, (*merger).boundRules},
		{"shell.credentials", ByName, false, (*merger).layCredentials, (*merger).boundCredentials},
		{"tools", ByName, false, (*merger).layTools, (*merger).boundTools},
		smallest("tasks.timeout", func(c *Config) *time.Duration { return &c.Tasks.Timeout }),
		smallest("tasks.running", func(c *Config) *int64 { return &c.Tasks.Running }),
		smallest("tasks.output", func(c *Config) *units.Size { return &c.Tasks.Output }),
		{"mcp", ByName, false, (*merger).layServers, (*merger).boundServers},
		strictest("approval.mode", func(c *Config) *ApprovalMode { return &c.Approval.Mode }, Strict, Interactive, ApproveAll),
		smallest("approval.timeout", func(c *Config) *time.Duration { return &c.Approval.Timeout }),
		strictest("approval.no_approver", func(c *Config) *NoApprover { return &c.Approval.NoApprover }, DenyAtOnce, WaitForApprover),
		ordered("approval.deny_cache", Largest, func(c *Config) *time.Duration { return &c.Approval.DenyCache }, func(a, b time.Duration) bool { return a > b }),
		strictest("approval.unknown_tools", func(c *Config) *Effect { return &c.Approval.UnknownTools }, Deny, Ask, Allow),
		names("approval.safe_tools", func(c *Config) *[]string { return &c.Approval.SafeTools }),
		{"approval.dangerous_tools", Union, true, (*merger).layDangerous, (*merger).boundDangerous},
		strictest("approval.elicitation", func(c *Config) *bool { return &c.Approval.Elicitation }, false, true),
		owned("approval.store", func(c *Config) *Store { return &c.Approval.Store }),
		owned("audit.path", func(c *Config) *string { return &c.Audit.Path }),
		strictest("audit.sync", func(c *Config) *AuditSync { return &c.Audit.Sync }, SyncAlways, SyncDecision, SyncNever),
		{"audit.redact", Union, false, (*merger).addRedact, (*merger).boundRedact},
		strictest("egress.deny_private", func(c *Config) *bool { return &c.Egress.DenyPrivate }, true, false),
		owned("egress.upstream", func(c *Config) *string { return &c.Egress.Upstream }),
		owned("egress.upstream_user", func(c *Config) *string { return &c.Egress.UpstreamUser }),
		smallest("egress.limits.open", func(c *Config) *int64 { return &c.Egress.Limits.Open }),
		smallest("egress.limits.connections", func(c *Config) *int64 { return &c.Egress.Limits.Connections }),
		smallest("egress.limits.bytes", func(c *Config) *units.Size { return &c.Egress.Limits.Bytes }),
		smallest("egress.limits.idle", func(c *Config) *time.Duration { return &c.Egress.Limits.Idle }),
		strictest("git.sign", func(c *Config) *Effect { return &c.Git.Sign }, Deny, Ask, Allow),
		names("git.repositories", func(c *Config) *[]string { return &c.Git.Repositories }),
		owned("undo.enabled", func(c *Config) *bool { return &c.Undo.Enabled }),
		owned("undo.age", func(c *Config) *time.Duration { return &c.Undo.Age }),
		owned("undo.size", func(c *Config) *units.Size { return &c.Undo.Size }),
		owned("undo.file", func(c *Config) *units.Size { return &c.Undo.File }),
		owned("http.listen", func(c *Config) *string { return &c.HTTP.Listen }),
		owned("http.token_file", func(c *Config) *string { return &c.HTTP.TokenFile }),
	}
}

func policyEntry() Entry {
	return owned("policy", func(c *Config) *Policy { return &c.Policy })
}

func nothing(*merger) {}

// ordered is a single value of which one is narrower than another.
func ordered[T comparable](key string, how Combination, at func(*Config) *T, narrower func(a, b T) bool) Entry {
	sticky := how == Strictest
	take := func(m *merger) {
		*at(m.c) = *at(m.t)
		m.take(key)
	}
	return Entry{
		Key: key, How: how, Narrows: true,
		over: func(m *merger) {
			if !sticky || !m.c.Set(key) || narrower(*at(m.t), *at(m.c)) {
				take(m)
			}
		},
		within: func(m *merger) {
			ours, theirs := *at(m.c), *at(m.t)
			switch {
			case narrower(theirs, ours):
				m.narrowed(key)
				take(m)
			case ours != theirs:
				m.unused(key, m.wider(key, theirs, ours))
			}
		},
	}
}

func smallest[T cmp.Ordered](key string, at func(*Config) *T) Entry {
	return ordered(key, Smallest, at, func(a, b T) bool { return a < b })
}

// strictest is a value of a few, listed from the strictest on.
func strictest[T comparable](key string, at func(*Config) *T, values ...T) Entry {
	return ordered(key, Strictest, at, func(a, b T) bool { return slices.Index(values, a) < slices.Index(values, b) })
}

// owned is a value that is neither narrower nor wider than another: the most specific
// file that is trusted sets it, unless the administrator's does.
func owned[T comparable](key string, at func(*Config) *T) Entry {
	take := func(m *merger) {
		*at(m.c) = *at(m.t)
		m.take(key)
	}
	return Entry{
		Key: key, How: Outermost,
		over: take,
		within: func(m *merger) {
			switch {
			case *at(m.c) == *at(m.t):
			case m.tier.Trusted:
				m.narrowed(key)
				take(m)
			default:
				m.unused(key, "only a trusted file sets it")
			}
		},
	}
}

// names is a list of what is granted.
func names(key string, at func(*Config) *[]string) Entry {
	return Entry{
		Key: key, How: Common, Narrows: true,
		over: func(m *merger) {
			*at(m.c) = slices.Clone(*at(m.t))
			m.take(key)
		},
		within: func(m *merger) { m.keepCommon(key, at(m.c), *at(m.t)) },
	}
}

// keepCommon leaves out of a list what t does not have.
func (m *merger) keepCommon(key string, have *[]string, theirs []string) {
	ours := *have
	for i, s := range theirs {
		if !slices.Contains(ours, s) {
			m.unused(fieldIndex(key, i), quote(s)+" would be one more")
		}
	}
	keep := common(ours, theirs)
	if len(keep) == len(ours) {
		return
	}
	m.narrowed(key)
	m.take(key)
	for i, s := range keep {
		m.c.Origins[fieldIndex(key, i)] = m.position(fieldIndex(key, slices.Index(theirs, s)))
	}
	*have = keep
}

// union is a list of what is denied. What is shipped the user or the administrator can
// do without, and a workspace cannot.
func union(key string, at func(*Config) *[]string) Entry {
	add := func(m *merger) { m.addAll(key, at(m.c), *at(m.t)) }
	return Entry{
		Key: key, How: Union, Narrows: true,
		over: func(m *merger) {
			if m.c.Set(key) || m.tier.Tier == TierWorkspace {
				add(m)
				return
			}
			*at(m.c) = slices.Clone(*at(m.t))
			m.take(key)
		},
		within: add,
	}
}

// addAll adds to a list what it lacks of t's.
func (m *merger) addAll(key string, have *[]string, theirs []string) {
	list := slices.Clone(*have)
	for i, s := range theirs {
		if !slices.Contains(list, s) {
			m.c.Origins[fieldIndex(key, len(list))] = m.position(fieldIndex(key, i))
			list = append(list, s)
		}
	}
	*have = list
}
