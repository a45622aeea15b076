package broker

import (
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Standing is the status of a name in the profile of a sandbox. The zero value grants
// nothing.
type Standing uint8

const (
	// Outside is a name that the profile, or the ceiling of the action, does not let
	// programs write.
	Outside Standing = iota
	// Hidden is one that a pattern takes every right from.
	Hidden
	// Protected is one that a pattern takes Write from.
	Protected
	// Writable is one that may be made, changed and removed.
	Writable
)

// String is the word for a refusal.
func (s Standing) String() string {
	return [...]string{"outside", "hidden", "protected", "writable"}[s]
}

// Rules judge names. They are pure, and safe for concurrent use.
type Rules struct {
	rights *sandboxprofile.Lookup // with every pattern
	bare   *sandboxprofile.Lookup // without any
	// of letters without case: whether a directory takes notice of it is the file
	// system's to say, and a name that differs in nothing else is not worth a hole
	hide, protect *sandboxprofile.Matcher
	ends          *sandboxprofile.Matcher // the last components of patterns of several that hide
	git           bool                    // what git runs is protected
	paths         map[string]sandboxprofile.Rights
	private       []string
	sockets       []string   // that may be connected to: they are what stands there now
	heads         [][]string // patterns of more than one component
	still         bool       // nothing but private is changed
	fixed         []string   // of private: nothing there is changed
}

// NewRules prepares p. private are directories of the sandbox alone, on the host's
// disk: everything in them is its own, and no pattern counts there.
func NewRules(p sandboxprofile.Profile, private []string) *Rules {
	bare := p
	bare.Protect, bare.Hide = nil, nil
	r := &Rules{
		rights: sandboxprofile.NewLookup(p), bare: sandboxprofile.NewLookup(bare),
		hide: folded(p.Hide), protect: folded(p.Protect), paths: p.Paths, private: private, sockets: p.UnixSockets,
	}
	r.git = r.protect.Match("/.git/config")
	var ends []string
	for _, pattern := range p.Hide {
		if dir, last := path.Split(pattern); dir != "" {
			ends = append(ends, last)
		}
	}
	r.ends = folded(ends)
	for _, list := range [][]string{p.Protect, p.Hide} {
		for _, pattern := range list {
			if parts := strings.Split(fold(pattern), "/"); len(parts) > 1 {
				r.heads = append(r.heads, parts)
			}
		}
	}
	return r
}

// Under are the same rules for an action that changes nothing in the private directories fixed, and if it is
// still, nothing but the others.
func (r *Rules) Under(still bool, fixed []string) *Rules {
	u := *r
	u.still, u.fixed = still, fixed
	return &u
}

// Of is the status of the absolute, clean path name.
func (r *Rules) Of(name string) Standing {
	switch {
	case below(r.fixed, name):
		return Outside
	case r.own(name):
		return Writable
	case r.still:
		return Outside
	case slices.Contains(r.sockets, name) && r.bare.Rights(name)&sandboxprofile.Write != 0:
		return Protected
	case r.bare.Rights(name)&sandboxprofile.Write == 0:
		return Outside
	}
	lower := fold(name)
	switch {
	case r.hide.Match(lower):
		return Hidden
	case strings.Contains(name, "/"+tempPrefix): // another broker's: this one's have no call
		return Protected
	case r.protect.Match(lower) || r.rights.Rights(name)&sandboxprofile.Write == 0:
		return Protected
	}
	return Writable
}

func folded(patterns []string) *sandboxprofile.Matcher {
	lower := make([]string, len(patterns))
	for i, p := range patterns {
		lower[i] = fold(p)
	}
	return sandboxprofile.NewMatcher(lower)
}

// Readable reports whether the profile lets name be read.
func (r *Rules) Readable(name string) bool {
	return r.own(name) || r.rights.Rights(name)&sandboxprofile.Read != 0
}

// hides reports whether a pattern hides name itself.
func (r *Rules) hides(name string) bool { return !r.own(name) && r.hide.Match(fold(name)) }

// MayHaveHidden reports whether a file that lies at name no more may have been hidden
// there: the kernel tells its path with the names that the directories above have by now.
func (r *Rules) MayHaveHidden(name string) bool {
	return !r.own(name) && r.ends.Match(fold(name))
}

func (r *Rules) own(name string) bool { return below(r.private, name) }

// grant is the path of the profile that says what may be done with a name; "" is none.
func (r *Rules) grant(name string) string {
	for ; ; name = path.Dir(name) {
		if _, said := r.paths[name]; said {
			return name
		}
		if name == "/" || name == "." {
			return ""
		}
	}
}

// below reports whether name is one of the directories, or lies in one.
func below(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return sandboxprofile.Contains(dir, name) })
}

// Reach is how many components below the directory name its own name, or one above it,
// can decide whether a pattern matches: what lies deeper stands as it did when the
// directory gets another name.
func (r *Rules) Reach(name string) int { return longest(r.tails(name)) }

// tails are the remainders of the patterns that name, or a name above it, begins.
func (r *Rules) tails(name string) (list [][]string) {
	parts := strings.Split(fold(strings.Trim(name, "/")), "/")
	for _, pattern := range r.heads {
		for n := min(len(pattern)-1, len(parts)); n > 0; n-- {
			if endsWith(parts, pattern[:n]) {
				list = append(list, pattern[n:])
			}
		}
	}
	return list
}

func longest(tails [][]string) int {
	most := 0
	for _, t := range tails {
		most = max(most, len(t))
	}
	return most
}

func endsWith(have, want []string) bool {
	for i, w := range want {
		if ok, err := path.Match(w, have[len(have)-len(want)+i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// tempPrefix begins the names of files that brokers make on the way. No program may change
// one, nor what lies below one.
const tempPrefix = ".sandgate-broker-"

// Lures reports whether the entry name of a directory that others look into, as /tmp, is
// one that their programs act on: git looks for a repository in each directory above
// the one that it is called in, other tools for their settings, and sandgate for what
// killed sandboxes have left.
func (r *Rules) Lures(name string) bool {
	lower := fold(name)
	return isLure(path.Base(lower)) || r.protect.Match(lower) || r.Reach(name) > 0 || r.git && isOneOf(path.Base(name), ".git", "HEAD")
}

// lures are names that programs of the user's take for their own in a directory like /tmp
// without asking who made them, in small letters. A name that does not exist yet is
// enough: a program comes and connects, writes, or reads.
var lures = []string{
	"sandgate-*", ".sandgate-*", // what killed sandboxes have left, the sockets' directory, the queue for names
	// Sockets, at which the user's clients hand over descriptors, environments and passwords.
	"tmux-*", "screens", "screen-*", "uscreens", ".s.*" /* PostgreSQL */, "mysql*.sock*", "emacs[0-9]*", "ssh-*", "gpg-*", "keyring-*", "dbus-*",
	"pulse-*", ".x*-lock", ".*-unix" /* X11, ICE, font servers */, "vscode-*", "dconf*", "orbit-*", "kde-*", "ksocket-*", "podman-*", "containers-*",
	"krb5cc*", "tkt*", // tickets, which are written
	// What tools look for in each directory above the one that they are called in.
	"node_modules", "package.json", "package-lock.json", "pnpm-workspace.yaml", ".pnp.*", ".yarnrc*", ".npmrc", "tsconfig*.json", "jsconfig.json", ".eslintrc*",
	"eslint.config.*", ".prettierrc*", "prettier.config.*", "babel.config.*", ".babelrc*", "jest.config.*", "vite.config.*", "postcss.config.*", ".browserslistrc",
	"lerna.json", "nx.json", "turbo.json", "deno.json*", "conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", ".python-version",
	"pipfile", "go.work", "go.mod", "cargo.toml", ".cargo", "rust-toolchain*", ".mvn", "pom.xml", "settings.gradle*", ".bundle",
	"gemfile", "rakefile", ".ruby-version", "composer.json", "mix.exs", "justfile", ".justfile", "taskfile.y*ml", "workspace.bazel", "module.bazel", ".bazelrc",
	".svn", ".hg", ".jj", ".envrc", ".env", ".tool-versions", "mise.toml", ".mise.toml", ".editorconfig", ".clang-format", ".clang-tidy", ".clangd", ".vscode", ".idea",
	".pre-commit-config.yaml", "flake.nix", "vagrantfile", "compose.y*ml", "docker-compose.y*ml",
	"directory.build.*", "global.json", "nuget.config", ".mocharc*", ".rspec", ".rubocop.yml", ".pylintrc", "mypy.ini", "ruff.toml", ".ruff.toml",
	"tailwind.config.*", ".coveragerc", ".flake8", ".gitattributes", "meson.build", "rebar.config",
	// Directories of code that was compiled or transformed.
	"jest_*", "jiti", "metro-*", "node-compile-cache", "v8-compile-cache*", "tsx-*", "numba_cache", "torchinductor_*", "triton", "nvim.*", ".java_pid*",
}

// isLure reports whether a base name in small letters is one of those, or has the number of this
// user in it, as the names have that programs agree on by it. Root's is in many others.
func isLure(base string) bool {
	if slices.ContainsFunc(lures, func(glob string) bool { ok, _ := path.Match(glob, base); return ok }) {
		return true
	}
	uid := os.Geteuid()
	numbers := strings.FieldsFunc(base, func(r rune) bool { return r < '0' || r > '9' })
	return uid != 0 && slices.Contains(numbers, strconv.Itoa(uid))
}

func isOneOf(name string, list ...string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return fold(x) == fold(name) }) // a file system may fold
}

// Splits reports whether the profile names a path below dir, or dir itself: renaming
// it would move a part of the profile's meaning.
func (r *Rules) Splits(dir string) bool {
	named := slices.AppendSeq(slices.Concat(r.private, r.sockets), maps.Keys(r.paths))
	return slices.ContainsFunc(named, func(p string) bool { return sandboxprofile.Contains(dir, p) })
}

// A gitName is the role of a protected name for git, where git itself has to make it.
type gitName uint8

const (
	notGit   gitName = iota
	gitHooks         // the directory of hooks: it may exist, and hold samples
	gitSample
	gitConfig // a configuration: it may be replaced by one that only adds harmless keys
)

// sampleSuffix ends the names of hooks that git never runs (githooks(5)).
const sampleSuffix = ".sample"

// gitNameOf says it of a name that stands Protected.
func gitNameOf(name string) gitName {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	switch {
	case strings.HasSuffix(base, sampleSuffix) && path.Base(dir) == "hooks" && inGitDir(path.Dir(dir)):
		return gitSample
	case !inGitDir(dir):
		return notGit
	case base == "hooks":
		return gitHooks
	case base == "config", base == "config.worktree":
		return gitConfig
	}
	return notGit
}

// inGitDir reports whether dir is .git itself, a submodule's directory in it, or a
// linked worktree's.
func inGitDir(dir string) bool {
	if path.Base(dir) == ".git" {
		return true
	}
	_, below, found := strings.Cut(dir, "/.git/")
	if !found {
		return false
	}
	first, _, _ := strings.Cut(below, "/")
	return first == "modules" || first == "worktrees"
}

// fold is what a file system may take a name for.
func fold(name string) string { return sandboxprofile.Fold(name) }
