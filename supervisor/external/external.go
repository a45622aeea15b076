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
			p.Reach.Exact = "no sandbox holds it, so it is allowed by its own words alone"
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
	Rule: "sandbox.protect", Reason: "git takes notice of this name, whatever its directory is called, and a repository that is put together can have it run programs",
	Hint: "have git or a shell command write it, which runs in the sandbox",
}

// mayPlant is planted for a name that a command line has, wherever it is.
func mayPlant(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(strings.Trim(name, `'"`)), "/"), func(part string) bool {
		return slices.Contains([]string{"head", "commondir", ".git", "config", "config.worktree", "hooks", "info", "objects", "refs"}, part)
	})
}

// planted reports whether a file could be a part of a git repository that a program puts
// together. In a sandbox such a name is judged by what lies beside it, and is taken away
// if something in it would run. Here more than one of its parts may be written at the same
// time, so none is free: git needs a HEAD, and a .git or commondir that sends it there.
func planted(file string) bool {
	name := strings.ToLower(filepath.Base(file))
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
		switch dir := filepath.Dir(at); strings.ToLower(filepath.Base(at)) {
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
		if op.Search == nil || len(p.Profile.Hide)+len(op.Search.Exclude) > 0 || strings.Contains(op.Search.Glob, "{") {
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
	if p.Profile.Rights(op.Path)&need != need {
		return &approval.Blocked{
			Rule: "sandbox.profile", Reason: fmt.Sprintf("the operator's profile does not grant %s on this path", need),
			Hint: "use a path in the workspace, or ask the user",
		}
	}
	return nil
}
