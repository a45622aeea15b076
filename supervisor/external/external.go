package external

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Adapt is a proposal as one that the agent carries out itself. What of it only a sandbox
// could keep is refused.
func Adapt(p tools.Proposal, args json.RawMessage) (tools.Proposal, error) {
	own := p.Plan
	p.Plan.Kind, p.Plan.Class, p.Plan.Action.Ceiling = tools.ByAgent, sandboxprofile.ClassBeyond, nil
	if own.Action.Exec != nil {
		if p.Reach.Exact = tools.Beyond(p.Changeable); len(p.Changeable) == 0 {
			p.Reach.Exact = "it runs outside the sandbox, so it must be allowed as a whole by what it says"
		}
		if p.Request == nil && (p.Unheld != nil || own.Tool != "shell") {
			p.Request = cmp.Or(p.Unheld, &approval.Request{ToolName: own.Tool, Description: "Run " + own.Tool, Payload: map[string]any{"arguments": string(args)}})
		}
	}
	if p.Request != nil {
		p.Request.Description = "Outside any sandbox: " + p.Request.Description
	}
	if err := withoutSandbox(own); err != nil {
		return p, err
	}
	// In which directory a line writes need not be known: none of these names is free.
	if gitMatters(own) && slices.ContainsFunc(p.Redirected, mayPlant) {
		return p, errPlanted
	}
	return p, nil
}

func gitMatters(p tools.Plan) bool {
	return sandboxprofile.NewMatcher(p.Profile.Protect).Match("/.git/config")
}

var errPlanted = &approval.Blocked{
	Rule: "sandbox.protect", Reason: "git acts on this name in every directory, and a repository built piece by piece can make git run programs",
	Hint: "have git or a shell command write it, which runs in the sandbox",
}

// mayPlant is planted for a name that a command line has, wherever it is.
func mayPlant(name string) bool {
	return slices.ContainsFunc(strings.Split(sandboxprofile.Fold(strings.Trim(name, `'"`)), "/"), func(part string) bool {
		return slices.Contains([]string{"head", "commondir", ".git", "config", "config.worktree", "hooks", "info", "objects", "refs"}, part)
	})
}

// planted reports whether a file could be a part of a git repository that a program puts
// together. In a sandbox such a name is judged by what lies beside it, and is taken away
// if something in it would run. Here more than one of its parts may be written at the same
// time, so none is free: git needs a HEAD, and a .git or commondir that sends it there.
func planted(file string) bool {
	name := sandboxprofile.Fold(filepath.Base(file))
	if name == "head" || name == "commondir" || name == ".git" {
		return true
	}
	is := func(dir string, names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Lstat(filepath.Join(dir, name))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	for at := file; at != filepath.Dir(at); at = filepath.Dir(at) {
		switch dir := filepath.Dir(at); sandboxprofile.Fold(filepath.Base(at)) {
		case "config", "config.worktree", "hooks", "info", "objects", "refs":
			if is(dir, "HEAD") || is(dir, "objects", "refs") {
				return true
			}
		}
	}
	return false
}

// withoutSandbox refuses what only a sandbox keeps: tasks, which live in one; files that
// the operator's profile withholds from a tool whose path rules would have them; and
// searches, from whose results the sandbox leaves hidden files out; and parts of a git
// repository, which a sandbox judges together.
func withoutSandbox(p tools.Plan) error {
	if p.Background || p.Kind != tools.Sandboxed {
		return &protocol.Error{Code: protocol.CodeInvalidArguments, Message: fmt.Sprintf("%s is about a sandbox, and nothing to do elsewhere", p.Tool)}
	}
	op := p.Action.File
	if op == nil {
		return nil
	}
	need := sandboxprofile.Read
	switch p.Action.Kind {
	case sandboxprofile.ListFiles, sandboxprofile.GlobFiles, sandboxprofile.GrepFiles:
		// Other matchers take {/etc,x}, [.][.] and \.\. for what leads elsewhere.
		if op.Search == nil || len(p.Profile.Hide)+len(op.Search.Exclude) > 0 || strings.ContainsAny(op.Search.Glob, `{([`+"\\") {
			return &approval.Blocked{
				Rule: "sandbox.hide", Reason: "a search outside the sandbox would also find what is hidden, or asked about first",
				Hint: "search with a shell command (grep -rn, find), which runs in the sandbox",
			}
		}
	case sandboxprofile.WriteFile:
		need = sandboxprofile.Write
	case sandboxprofile.EditFile:
		need |= sandboxprofile.Write
	}
	if need&sandboxprofile.Write != 0 && planted(op.Path) && gitMatters(p) {
		return errPlanted
	}
	if otherSpelling(p.Profile, op.Path, need&sandboxprofile.Write != 0) {
		return &approval.Blocked{
			Rule: "sandbox.paths", Reason: "a file system that ignores the case of letters would take this for a name that other rules apply to",
			Hint: "write the name as the rules and the disk spell it, or use a shell command, which runs in the sandbox",
		}
	}
	if p.Profile.Rights(op.Path)&need != need {
		return &approval.Blocked{
			Rule: "sandbox.profile", Reason: fmt.Sprintf("the operator's profile does not grant %s on this path", need),
			Hint: "use a path in the workspace, or ask the user",
		}
	}
	return nil
}

// otherSpelling reports whether a file system that folds letters (APFS, NTFS, ext4 with casefold) may take a path for
// one that is hidden, protected, or below another directory of the profile. In a sandbox the kernel opens the
// name, and what it opened is judged; here the runtime opens it, and nothing is.
func otherSpelling(p sandboxprofile.Profile, path string, write bool) bool {
	folded := sandboxprofile.Fold(path)
	for dir := range p.Paths {
		if sandboxprofile.Contains(sandboxprofile.Fold(dir), folded) != sandboxprofile.Contains(dir, path) {
			return true
		}
	}
	var names []string
	for _, pattern := range p.Hide {
		names = append(names, sandboxprofile.Fold(pattern))
	}
	for _, pattern := range p.Protect {
		if write {
			names = append(names, sandboxprofile.Fold(pattern))
		}
	}
	return sandboxprofile.NewMatcher(names).Match(folded) // as it is spelled, it is neither
}
