package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// This file says which command lines run although nobody has allowed them, and how the
// kernel then holds them to what that rests on.

// What decides where no rule does.
const (
	ruleReads    = "reads"    // the line only reads, and is held to that
	ruleConfined = "confined" // shell.default: confined
)

// settled is what becomes of a decision once its class counts, and the class that the
// answer rests on: the most that the line may then do.
func (t *Tool) settled(d Decision) (Decision, sandboxprofile.Class) {
	switch {
	case d.Effect == tools.Deny:
		return d, sandboxprofile.Unclassified
	case d.Effect == tools.Allow && d.Analysis.Class == Read:
		return d, sandboxprofile.ClassRead
	case d.Effect == tools.Allow && t.Default.Effect() < tools.Allow && !slices.ContainsFunc(d.Parts, func(p Part) bool { return !p.reads && p.Rule != rulePaths }):
		return d.by(rulePaths), sandboxprofile.ClassWorkspace // its commands only read, and the path rules let it redirect
	case d.Effect == tools.Allow && d.RuleIndex < 0 && t.Default.Effect() < tools.Allow:
		return d, sandboxprofile.ClassWorkspace
	case d.Effect == tools.Allow:
		return d, sandboxprofile.ClassBeyond // by name, which covers what the profile gives
	case d.Free():
		return d.by(ruleReads), sandboxprofile.ClassRead
	case t.Default.Confined && !slices.ContainsFunc(d.Parts, t.asked):
		return d.by(ruleConfined), sandboxprofile.ClassWorkspace
	}
	return d, sandboxprofile.Unclassified
}

// by is d, allowed by what it is called.
func (d Decision) by(rule string) Decision {
	d.Effect, d.Rule, d.RuleName, d.RuleIndex, d.Reason, d.Hint = tools.Allow, rule, "", -1, "", ""
	return d
}

// asked reports whether a part of a command line is asked about even where the sandbox
// decides: a rule says so, or a root whose writes are to be approved.
func (t *Tool) asked(p Part) bool {
	writes := p.Rule == rulePaths && strings.HasPrefix(p.Text, ">") && !t.Paths.Private(strings.TrimLeft(p.Text, "> ")) &&
		slices.ContainsFunc(t.Paths.Rules, func(r tools.PathRule) bool { return r.WriteApproval })
	return p.Effect == tools.Ask && (p.RuleIndex >= 0 || writes)
}

// readsAsked asks about a line that starts in a directory, or names a path, whose reads are
// to be approved. What a line reads there without naming it, its program does not find:
// see tools.Proposal.Withheld.
func (t *Tool) readsAsked(d Decision, dir string) Decision {
	if label := t.Paths.Asks(d.names(), dir); d.Effect == tools.Allow && label != "" {
		d.Effect, d.Rule, d.RuleName, d.RuleIndex, d.Reason = tools.Ask, rulePaths, "", -1, label+" asks before a read"
	}
	return d
}

// names are all words of a line that may name a path.
func (d Decision) names() (names []string) {
	for _, p := range d.Parts {
		names = append(names, strings.TrimLeft(p.Text, "<> ")) // of a redirection
		if len(p.readings) > 0 {
			names = append(names, p.readings[0]...)
		}
	}
	return names
}

// ceiling is how the kernel holds a program that runs because of a class.
func (t *Tool) ceiling(d Decision, c sandboxprofile.Class, program, dir string) *sandboxprofile.Ceiling {
	if c == sandboxprofile.Unclassified {
		return nil
	}
	l := &sandboxprofile.Ceiling{Class: c, AnyProgram: true}
	if c != sandboxprofile.ClassRead {
		return l
	}
	if files := t.executables(d.Analysis.Programs, program, dir); files != nil {
		l.Programs, l.AnyProgram = files, false
	}
	return l
}

// executables are all files that a line of known programs executes, sorted; nil if they
// are not known, as where one of the programs is a script.
func (t *Tool) executables(names []string, program, dir string) []string {
	files := []string{}
	add := func(path string, scripts bool) bool {
		x := t.known.of(path)
		files = append(files, x.Files...)
		return (!x.Script || scripts) && !slices.ContainsFunc(x.Files, func(f string) bool { return !t.sees.Runnable(f) })
	}
	if !add(program, false) {
		return nil
	}
	for _, name := range names {
		path, err := tools.LookPath(name, t.searchPath(), dir, t.sees.Runnable)
		if err != nil {
			continue // built into bash, or not there to be executed
		}
		_, listed := starts[name]
		if !add(path, listed) {
			return nil
		}
		for _, more := range startsFiles[name] {
			if t.sees.Runnable(more) && tools.IsELF(more) {
				files = append(files, more)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// startsFiles are files that programs of the tables execute by a path of their own.
var startsFiles = map[string][]string{
	"git": {"/usr/lib/git-core/git", "/usr/libexec/git-core/git"}, // git(1), --exec-path
}

// Unasked are the variables of a program that nobody was asked about: see Proposal.Unasked.
func (t *Tool) Unasked(argv []string, dir string) map[string]string {
	return t.unasked(t.Policy().denying().In(dir).Decide(tools.QuoteCommand(argv), "bash"))
}

func (t *Tool) unasked(d Decision) map[string]string {
	const variable = "GIT_ALLOW_PROTOCOL" // git(1)
	protocols, named := "", false
	for _, p := range d.Parts {
		if p.RuleIndex >= 0 || max(d.Effect, p.Effect) < tools.Allow { // not by what holds it anyway
			protocols, named = max(protocols, p.protocols), true
		}
	}
	if !named {
		return nil
	}
	// Nobody sits there to edit, or to turn pages: an editor's orders would be the line's own. Git starts nothing for ":".
	env := map[string]string{"GIT_EDITOR": ":", "GIT_SEQUENCE_EDITOR": ":", "EDITOR": "false", "VISUAL": "false", "HGEDITOR": "false", "SVN_EDITOR": "false", "GIT_PAGER": "cat", "PAGER": "cat"}
	if _, set := tools.LookupEnv(t.Env, variable); !set && protocols != "" {
		env[variable] = protocols
	}
	return env
}

// protocols are those by which git may speak with another repository where a rule or an
// answer to another call lets it, whatever the settings of this one make of a remote: the
// hooks of a directory are programs. A path in the words was named by that rule. Of two
// parts the greater holds.
func protocols(views []view) string {
	for _, v := range views {
		if len(v.words) < 2 || likeness(path.Base(v.words[0].text)) != "git" {
			continue
		}
		switch name := "git/" + v.words[1].text; {
		case known().in("git-remotes", name):
			p, reason := known().rules[name].parse(v.words[2:])
			if reason == "" && len(p.operands) > 0 && !remote(name, p.operands[0]) && strings.Contains(p.operands[0].prefix(), "/") {
				return "file:git:http:https:ssh"
			}
			fallthrough
		case known().in("git-transports", name):
			return "git:http:https:ssh"
		}
	}
	return ""
}

// unheld is what is asked where nothing holds a command line to the class that allowed it: the profile
// reaches further than the class, or an agent carries the line out by itself.
func (t *Tool) unheld(p *Policy, c tools.Call, command, dir string, d Decision) *approval.Request {
	if c.Elsewhere && t.anywhere(p, command, dir, d) || !c.Elsewhere && (d.RuleIndex >= 0 || t.Default.Effect() == tools.Allow) {
		return nil // a person's own word
	}
	d.Effect = tools.Ask
	return p.request(c, command, dir, d)
}

// anywhere reports whether what is allowed may run where no sandbox is. If it were misread, nothing would
// hold it. So no reading counts: the line is one command, written out, that a list or a rule with
// "exact: true" has word by word. Nor may the configuration have the sandbox keep anything: no rule bounds the
// line, no directory is asked about by itself, and a program has the network of the host in any case.
func (t *Tool) anywhere(p *Policy, command, dir string, d Decision) bool {
	here, err := t.Paths.Decide(dir, false)
	if err != nil || here.Effect < tools.Allow || len(d.Bounds)+len(t.Paths.AskedReads())+len(t.Paths.Unnamed()) > 0 {
		return false
	}
	words := literalWords(command)
	exact := d.RuleIndex >= 0 && words != nil && p.rules.list[d.RuleIndex].Exact && p.rules.list[d.RuleIndex].SandboxPaths == nil
	return known().in("anywhere", strings.Join(words, ":")) ||
		t.Profile.Network.Mode > sandboxprofile.NetworkProxied && (exact || t.Default.Effect() == tools.Allow)
}
