package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/tools"
)

// A program that the sandbox refused a path may need just that path. Then a person who is
// there is asked about it, by name, and a yes runs the call once more, with that one thing
// and no other. What the first run did stays done, and the question says so.

// maxWidened is how often one call may ask: a program decides by itself what it complains of.
const maxWidened = 3

// A wider plan is one with one thing more.
type widerPlan struct {
	plan  tools.Plan
	path  string // links resolved
	right protocol.Right
	// lifted are the protected patterns that cover the path.
	lifted []string
}

func (w widerPlan) String() string {
	verb := map[protocol.Right]string{protocol.RightRead: "read", protocol.RightWrite: "change"}[w.right]
	s := verb + " " + approval.EscapeName(w.path)
	if len(w.lifted) > 0 {
		s += ", and whatever else is protected as " + strings.Join(w.lifted, ", ")
	}
	return s
}

// runWidened runs a plan, and once more for each thing that a person adds to it.
func (s *Supervisor) runWidened(ctx context.Context, c *call, plan tools.Plan) error {
	tried := map[string]bool{}
	for {
		err := s.runOnce(ctx, c, plan)
		if err != nil || len(tried) == maxWidened || !s.mayWiden(c, plan) {
			return err
		}
		w, ok := s.wider(c, plan)
		if !ok || tried[w.String()] {
			return nil
		}
		tried[w.String()] = true
		grant, err := s.askWider(ctx, c, w)
		var denied *approval.DeniedError
		switch {
		case errors.As(err, &denied):
			if failure.EndsBatch(denied.Decision) {
				c.denied(denied.Decision)
				return denied
			}
			return nil // the result says what was refused
		case err != nil:
			return err
		}
		if plan, err = s.approvedPlan(grant); err != nil {
			return err
		}
		if now, err := filepath.EvalSymlinks(w.path); err != nil || now != w.path {
			return failure.Drift(fmt.Errorf("%s is not what it was", w.path))
		}
		c.proposal.Plan, c.digest, c.profile = plan, grant.Digest(), s.profiles.known(plan.Profile)
		c.violations, c.structured = nil, nil
		c.warnings = append(slices.Clone(c.warnings), "This is the second run: a person let it "+w.String()+", which the first one was refused.")
	}
}

func (s *Supervisor) runOnce(ctx context.Context, c *call, plan tools.Plan) error {
	box, err := s.confine(ctx, c, plan)
	if err != nil {
		return err
	}
	defer s.frozen.leave(c) // a second run has a sandbox of its own
	defer box.Close()
	return s.run(ctx, c, plan, box)
}

// mayWiden reports whether a call that has ended may be asked about: it failed, somebody
// waits for it, and somebody is there to answer.
func (s *Supervisor) mayWiden(c *call, plan tools.Plan) bool {
	failed := c.result.ExitCode != 0 || c.result.Signal != ""
	return failed && plan.Action.Kind == sandboxprofile.Exec && c.proposal.Hold != nil && c.kind.widens() && !c.req.Defer &&
		c.session.mode != approval.ApproveAll && c.session.mode != approval.Strict && s.cfg.Approvals.Approvers(string(c.session.id)) > 0
}

// wider is the plan with the first thing that was refused and that a person could add.
func (s *Supervisor) wider(c *call, plan tools.Plan) (widerPlan, bool) {
	for _, v := range c.violations {
		if v.Kind != protocol.ViolationFile || v.Right != protocol.RightRead && v.Right != protocol.RightWrite {
			continue
		}
		if w, ok := s.widerBy(c, plan, v); ok {
			return w, true
		}
	}
	return widerPlan{}, false
}

// widerBy adds one path. What is hidden, sandgate's own or the system's is never added, nor
// what the operator's profile withholds; nor HOME or a directory above it, which is no one
// thing; nor what this user has no right to.
func (s *Supervisor) widerBy(c *call, plan tools.Plan, v protocol.Violation) (widerPlan, bool) {
	w := widerPlan{plan: plan, right: v.Right}
	want, access := sandboxprofile.Read, uint32(unix.R_OK)
	if v.Right == protocol.RightWrite {
		want, access = sandboxprofile.Read|sandboxprofile.Write, unix.W_OK
	}
	if l := plan.Action.Ceiling; want&sandboxprofile.Write != 0 && l != nil && l.Class == sandboxprofile.ClassRead {
		return w, false // a line that only reads was misread
	}
	var err error
	if w.path, err = filepath.EvalSymlinks(v.Path); errors.Is(err, fs.ErrNotExist) && want&sandboxprofile.Write != 0 {
		w.path, err = filepath.EvalSymlinks(filepath.Dir(v.Path))
	}
	if err != nil || s.neverAdded(c, w.path) || unix.Access(w.path, access) != nil {
		return w, false
	}
	info, err := os.Lstat(w.path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return w, false
	}
	p := plan.Profile
	p.Paths = maps.Clone(p.Paths)
	for _, dir := range c.proposal.Withheld { // it is asked about as a whole, as it is when it is named
		if sandboxprofile.Contains(dir, w.path) && p.Paths[dir] == 0 {
			w.path = dir
			delete(p.Paths, dir)
			p.Paths[dir] = p.Rights(dir) & (want | sandboxprofile.Execute) // and not all that the root around it has
		}
	}
	p.Protect = slices.DeleteFunc(slices.Clone(p.Protect), func(pattern string) bool {
		covers := want&sandboxprofile.Write != 0 && sandboxprofile.MatchPattern(pattern, v.Path)
		if covers {
			w.lifted = append(w.lifted, pattern)
		}
		return covers
	})
	if !want.SubsetOf(p.Rights(w.path)) {
		p.Paths[w.path] = p.Rights(w.path) | want
	}
	w.plan.Profile = sandboxprofile.Intersect(p, s.cfg.Operator)
	return w, want.SubsetOf(w.plan.Profile.Rights(w.path)) && w.plan.Profile.Digest() != plan.Profile.Digest()
}

func (s *Supervisor) neverAdded(c *call, path string) bool {
	home, err := os.UserHomeDir()
	if err != nil || sandboxprofile.IsSystemTree(path) || sandboxprofile.Contains(path, home) || sandboxprofile.Contains("/run", path) {
		return true
	}
	for _, own := range s.cfg.Own {
		if sandboxprofile.Contains(own, path) || sandboxprofile.Contains(path, own) {
			return true
		}
	}
	longest, none := "", false
	for dir, r := range c.proposal.Plan.Profile.Paths {
		if sandboxprofile.Contains(dir, path) && len(dir) > len(longest) {
			longest, none = dir, r == 0
		}
	}
	return none && !slices.Contains(c.proposal.Withheld, longest)
}

// askWider asks whether the call may run once more, with one thing more. Nobody may have been
// asked about the first run, or about other files than are there now: the question shows what
// the second one starts, and no other content runs.
func (s *Supervisor) askWider(ctx context.Context, c *call, w widerPlan) (approval.Grant, error) {
	description := "Run again, and let it " + w.String() + ": " + tools.Shorten(s.cfg.Log.RedactedText(c.subject()))
	p := c.proposal
	p.Plan, p.Unheld = w.plan, nil
	p.Request = bounds.InProfile(&approval.Request{
		ToolName: toolPath, Description: description,
		Payload: map[string]any{"path": w.path, "right": string(w.right), "protected": w.lifted, "tool": string(c.req.Tool), "definition": p.Definition, "hosts": w.plan.Profile.Network.Allow},
		Covers:  "this path for every call of the tool, with the same network and the same files that it starts, that fails for want of it: such a call runs twice",
	}, &w.plan)
	p.Present = func(context.Context) (*approval.Presentation, error) {
		return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf(
			"It failed, and was refused to %s.\nA yes runs it once more from the beginning, with that and nothing else besides; what it did so far stays.\nfor: %s %s",
			w, c.req.Tool, c.args)}, nil
	}
	p = p.Hold(p)
	bounds.Freeze(&p, c.session.mode)
	digest := s.digestOf(p.Plan)
	return beside{s, c}.ask(ctx, approval.Call{
		ToolName: toolPath, Digest: digest, Subject: subject{p, c.args},
		Reach:   approval.Reach{Single: "each path is asked about by its name"},
		Request: p.Request, Present: p.Present,
		Details: func() map[string]string { return s.details(p, digest, c.warnings) },
	})
}

// answered records what came of a question that is no call's own: what people said, and
// each allow that was remembered or that a rule gives. err is the question's own.
func (s *Supervisor) answered(description string, about map[string]any, g approval.Grant, err error) error {
	decision := decisionOf(g, err)
	if decision.RequestID == "" && err != nil {
		return err
	}
	if err := s.logAnswer(description, about, decision); err != nil {
		return err
	}
	if decision.RequestID != "" {
		_ = s.cfg.Approvals.Recorded(decision.RequestID) // or the next start finds it, and its answer in the log
	}
	return err
}

// toolPath is the name under which questions about paths are asked.
const toolPath = "path"
