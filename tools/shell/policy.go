package shell

import (
	"path"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// Files answers what the path rules say. Paths are as they stand on the command
// line; dir is the absolute directory that a relative one starts from.
type Files interface {
	// Start is the directory in which the command begins.
	Start() string
	// Origin is where commands begin that name no directory.
	Origin() string
	// Home is what "~" stands for.
	Home() string
	// Check says whether path may be read, or written.
	Check(path, dir string, write bool) (effect tools.Effect, reason, hint string)
	// Scratch reports whether path lies in a directory of the sandbox's own, that is gone
	// with it and stays writable for a line that is held to reading.
	Scratch(path, dir string) bool
	// Free reports whether calls may write to path although nobody is asked, and are asked
	// where commands begin.
	Free(path, dir string) bool
	// Real is a directory without links.
	Real(dir string) string
	// Within reports whether path lies in one of the named roots.
	Within(path, dir string, roots []string) bool
}

// Programs tells programs apart.
type Programs interface {
	// Identify gives the base name of the trusted program that name, which
	// has no slash or has one, runs from directory dir. It reports false for a
	// file that merely has such a name.
	Identify(name, dir string) (base string, ok bool)
	// Locate gives the program that a name without a slash runs from directory dir, if it
	// lies where tools can write; else "".
	Locate(name, dir string) string
	// Sh gives the name of the shell that sh is: "bash", "dash". "" is another.
	Sh() string
}

// A Policy decides on command lines. It is safe for concurrent use.
type Policy struct {
	rules *ruleSet
	// answers are rules that allow, and are tried before all others that do not deny.
	answers  []compiledRule
	fallback tools.Effect
	// guarded is set when a rule is stricter than the default, so that code
	// which cannot be read could be a way around it.
	guarded bool
	// tiers are the rules of each file by themselves: what one of them asks about or
	// denies holds, whatever those of another say first.
	tiers []*Policy
	// closed are the tiers that deny what none of their own rules matches.
	closed []string
	files  Files
	// origin is the directory that the configuration starts commands in. Programs
	// that act on the configuration they find in their directory are allowed by
	// rules there only.
	origin   string
	programs Programs
	// exported are the variables of the environment.
	exported map[string]bool
	// altered says what in the environment changes how bash reads a command line.
	altered string
	// done stops each analysis: tools.Call.Done.
	done <-chan struct{}
}

// until is p for a call that somebody may give up.
func (p *Policy) until(done <-chan struct{}) *Policy {
	q := *p
	q.done = done
	return &q
}

// NewPolicy compiles rules and holds them against their own examples. Its error
// is a *RuleError. A nil Files is a workspace of which only names are known, a
// nil Programs the usual system directories.
func NewPolicy(d Default, rules []Rule, files Files, programs Programs) (*Policy, error) {
	return newPolicy(d, nil, rules, files, programs)
}

// newPolicy is NewPolicy where tiers deny what none of their rules matches.
func newPolicy(d Default, closed []string, rules []Rule, files Files, programs Programs) (*Policy, error) {
	p := &Policy{fallback: d.Effect(), closed: closed, files: files, programs: programs}
	if files == nil {
		p.files = lexicalFiles{}
	}
	if programs == nil {
		p.programs = systemPrograms{}
	}
	p.origin = p.files.Origin()
	if err := p.compile(rules); err != nil {
		return nil, err
	}
	return p, p.checkExamples()
}

func (p *Policy) compile(rules []Rule) error {
	var list []compiledRule
	p.guarded = false
	for i, r := range rules {
		c, err := compileRule(i, r)
		if err != nil {
			return err
		}
		list = append(list, c)
		p.guarded = p.guarded || c.effect < p.fallback
	}
	p.rules = newRuleSet(list, func(r *compiledRule) bool { return !r.Narrows || r.effect == tools.Deny })
	p.tiers = p.byTier(list)
	return nil
}

// In is the policy for a command that starts in another directory.
func (p *Policy) In(dir string) *Policy {
	if dir == p.files.Start() {
		return p
	}
	moved := p.copied()
	moved.each(func(q *Policy) { q.files = startingIn{p.files, dir} })
	return moved
}

type startingIn struct {
	Files
	dir string
}

func (s startingIn) Start() string { return s.dir }

// lexicalFiles judges paths by their spelling: a workspace that may be read,
// whose writes are asked about, and outside which everything is.
type lexicalFiles struct{}

const lexicalRoot = "/workspace"

func (lexicalFiles) Start() string  { return lexicalRoot }
func (lexicalFiles) Origin() string { return lexicalRoot }
func (lexicalFiles) Home() string   { return "/home" }

func (lexicalFiles) Check(name, dir string, write bool) (tools.Effect, string, string) {
	abs := absolute(name, dir)
	switch {
	case !below(lexicalRoot, abs):
		return tools.Ask, "a path outside the workspace", "stay inside the workspace"
	case looksSecret(abs):
		return tools.Ask, "a file that usually contains secrets", "leave it out"
	case write:
		return tools.Ask, "writes a file", "use write_file"
	}
	return tools.Allow, "", ""
}

func (lexicalFiles) Scratch(string, string) bool { return false }
func (lexicalFiles) Free(string, string) bool    { return false }
func (lexicalFiles) Real(dir string) string      { return dir }

func (lexicalFiles) Within(name, dir string, _ []string) bool {
	return below(lexicalRoot, absolute(name, dir))
}

// looksSecret knows the files that the default configuration hides.
func looksSecret(abs string) bool {
	for c := range strings.SplitSeq(abs, "/") {
		if hasField(".env .ssh .aws .gnupg .netrc .git-credentials id_rsa id_dsa id_ecdsa id_ed25519", c) ||
			strings.HasPrefix(c, ".env.") && !hasField(".env.example .env.sample .env.template", c) || strings.HasSuffix(c, ".pem") || strings.HasSuffix(c, ".key") {
			return true
		}
	}
	return false
}

func absolute(name, dir string) string {
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	return path.Clean(name)
}

func below(root, abs string) bool {
	return abs == root || root == "/" || strings.HasPrefix(abs, root+"/")
}

// systemPrograms trusts the directories that only an administrator writes to.
type systemPrograms struct{}

func (systemPrograms) Locate(string, string) string { return "" }
func (systemPrograms) Sh() string                   { return "dash" }

func (systemPrograms) Identify(name, _ string) (string, bool) {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return base, base == name || hasField("/bin /usr/bin /sbin /usr/sbin /usr/local/bin", path.Dir(path.Clean(name)))
}
