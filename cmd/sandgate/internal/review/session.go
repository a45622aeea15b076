package review

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/relay"
	"github.com/sandgate/sandgate/supervisor/review"
)

// A Reviewer makes the drafts of a supervisor's sessions: each is another `serve` of this
// program, with the same configuration, in a mount namespace of its own.
type Reviewer struct {
	app *cli.App
	cfg *config.Config
	f   ServeFlags
	// atOnce has a place for each that works: it takes the memory of a supervisor.
	atOnce chan struct{}
}

// ServeFlags are those of `serve` that the supervisor of a draft has too.
type ServeFlags struct {
	Config             string
	ApproveAll, Strict bool
}

// maxReviewed is how many sessions are under review at once.
const maxReviewed = 8

func NewReviewer(a *cli.App, cfg *config.Config, f ServeFlags) Reviewer {
	return Reviewer{a, cfg, f, make(chan struct{}, maxReviewed)}
}

func (x Reviewer) Begin(ctx context.Context) (review.Draft, error) {
	dir, err := draft.Dir()
	if err != nil {
		return nil, err
	}
	roots := assemble.WritableRoots(x.cfg)
	beside, err := draft.Beside(x.cfg, roots)
	if err != nil {
		return nil, err
	}
	if err := draft.CheckRoots(x.cfg, dir, slices.Concat(roots, beside)); err != nil {
		return nil, err
	}
	for _, root := range roots {
		if info, err := os.Lstat(root); err != nil || !info.IsDir() {
			return nil, cli.WithHint(fmt.Errorf("%s is not a directory", root), "list the directory that contains it in sandbox.paths")
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("calls cannot write anything, so there is nothing to review")
	}
	select {
	case x.atOnce <- struct{}{}:
	default:
		return nil, protocol.Errorf(protocol.CodeTooManyRequests, "%d sessions are already under review", cap(x.atOnce)).WithHint("close one, or try again after one has ended")
	}
	free := sync.OnceFunc(func() { <-x.atOnce })
	draft, err := changes.NewDraft(dir, roots, []string{"a session of sandgate serve"}, beside...)
	if err != nil {
		free()
		return nil, err
	}
	d := &sessionDraft{Reviewer: x, draft: draft, free: free}
	if err := d.start(ctx); err != nil {
		defer d.Close()
		return nil, errors.Join(err, d.stop(), draft.Drop())
	}
	return d, nil
}

// A sessionDraft is a draft with the supervisor that works on it.
type sessionDraft struct {
	Reviewer
	draft *changes.Draft
	held  *draft.Held
	free  func() // the place among those that work

	process *exec.Cmd
	// questions are those that the supervisor would decide. It ends with them.
	questions net.Conn
	ended     chan struct{}
	said      []string // the last lines, once it has ended
	copied    string   // what is not as usual, where calls work on a copy

	agent   *client.Agent
	session *client.Session
	plans   []changes.DraftPlan // set by End
}

func (d *sessionDraft) ID() string { return d.draft.ID }

func (d *sessionDraft) Copied() string { return d.copied }

func (d *sessionDraft) Of(path string) string { return d.draft.Of(path) }

// start starts the supervisor and waits until it listens.
func (d *sessionDraft) start(ctx context.Context) (err error) {
	if d.held, err = draft.Hold(d.draft); err != nil {
		return err
	}
	// Beside our own: no sandbox sees that directory.
	agent, err := unixsock.DefaultPath("draft-" + d.draft.ID + ".sock")
	if err != nil {
		return err
	}
	operator := strings.TrimSuffix(agent, ".sock") + "-op.sock"
	args := []string{"serve", "--draft-of", d.draft.Dir(), "--log", "none", "--socket", agent, "--operator-socket", operator}
	if d.f.Config != "" {
		args = append(args, "--config", d.f.Config)
	}
	switch {
	case d.f.ApproveAll:
		args = append(args, "--approve-all")
	case d.f.Strict:
		args = append(args, "--strict")
	}
	questions, its, err := connected()
	if err != nil {
		return err
	}
	defer its.Close()
	var out io.Reader
	c, said, err := draft.Start(d.held, d.cfg, args, func(c *exec.Cmd) (err error) {
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a key that ends us is not for it: we end it
		c.Stdin = its
		out, err = c.StderrPipe()
		return err
	})
	if err != nil {
		questions.Close()
		return err
	}
	d.copied = said
	d.process, d.questions, d.ended = c, questions, make(chan struct{})
	ready := make(chan struct{})
	go d.listen(out, ready)
	select {
	case <-ready:
	case <-d.ended:
		return errors.New(d.lastSaid())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.agent, err = client.DialAgent(ctx, agent, client.WithProgram("sandgate review", d.app.Version))
	return err
}

// listen reads what the supervisor says until it has ended.
func (d *sessionDraft) listen(out io.Reader, ready chan<- struct{}) {
	defer close(d.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == cli.ReadyText && ready != nil {
			close(ready)
			ready = nil
		}
		d.said = append(d.said[max(0, len(d.said)-4):], lines.Text())
	}
	_, _ = io.Copy(io.Discard, out) // a line too long to scan
	_ = d.process.Wait()            // what it said is the reason, and all there is
}

// lastSaid is why a supervisor has ended. It must have.
func (d *sessionDraft) lastSaid() string {
	var said []string
	for _, line := range d.said {
		said = append(said, strings.TrimPrefix(strings.TrimPrefix(line, "sandgate: "), "error: "))
	}
	return approval.EscapeLine(strings.Join(said, "; "))
}

func (d *sessionDraft) Open(ctx context.Context, p protocol.SessionOpen, decider review.Decider) (err error) {
	go relay.Serve(d.questions, decider)
	d.session, err = d.agent.OpenSession(ctx, p)
	return err
}

func (d *sessionDraft) Call(ctx context.Context, req protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error) {
	return d.session.Forward(ctx, req,
		client.OnOutput(func(o protocol.ToolOutput) { notify(protocol.MethodToolOutput, o) }),
		client.OnState(func(s protocol.ToolState) { notify(protocol.MethodToolState, s) }))
}

func (d *sessionDraft) Check(ctx context.Context, req protocol.ToolsCall) (protocol.CheckResult, error) {
	return d.session.Check(ctx, req.Tool, req.Args, client.WithCallID(req.CallID))
}

func (d *sessionDraft) Tools(ctx context.Context) (protocol.ToolsList, error) {
	return d.session.List(ctx)
}

// stop ends the supervisor, its calls and all that they started.
func (d *sessionDraft) stop() error {
	defer d.free()
	var errs []error
	if d.agent != nil {
		errs = append(errs, d.agent.Close())
	}
	if d.process != nil {
		_ = d.questions.Close() // or it has ended already
		<-d.ended
	}
	return errors.Join(errs...)
}

func (d *sessionDraft) Close() {
	if d.held != nil {
		d.held.Release()
	}
}

func (d *sessionDraft) End() (found review.Changes, err error) {
	if err := d.stop(); err != nil {
		return found, err
	}
	if d.plans, err = draft.Plans(d.draft, d.cfg, nil); err != nil {
		return found, err
	}
	steps := make([][]changes.Step, len(d.plans))
	for i, p := range d.plans {
		steps[i] = p.Steps
	}
	return d.shown(steps)
}

// part are the steps at or below some names, each of which has to have some.
func (d *sessionDraft) part(names []string) ([][]changes.Step, error) {
	part := make([][]changes.Step, len(d.plans))
	had := map[string]bool{}
	names, err := d.allMeant(names)
	if err != nil {
		return nil, err
	}
	for i, p := range d.plans {
		for _, s := range p.Steps {
			kept := false
			for _, name := range names {
				at := filepath.Join(d.draft.Roots[i], string(s.Path))
				if name == "." || sandboxprofile.Contains(d.draft.Roots[i], d.path(name)) && sandboxprofile.Contains(d.path(name), at) {
					kept, had[name] = true, true
				}
			}
			if kept {
				part[i] = append(part[i], s)
			}
		}
		// A directory that the draft makes is there for what is kept of it.
		for _, s := range p.Steps {
			if had["."] {
				break
			}
			holds := func(o changes.Step) bool {
				return s.Path != o.Path && sandboxprofile.Contains(string(s.Path), string(o.Path))
			}
			if s.Now == nil && s.Was.IsDir() && slices.ContainsFunc(part[i], holds) && !slices.ContainsFunc(part[i], func(o changes.Step) bool { return o.Path == s.Path }) {
				part[i] = append(part[i], s)
			}
		}
		slices.SortFunc(part[i], func(a, b changes.Step) int { return strings.Compare(string(a.Path), string(b.Path)) })
	}
	for _, name := range names {
		if name == "" || !had[name] {
			return nil, fmt.Errorf("the draft has no change at %q", name)
		}
	}
	return part, nil
}

// path resolves an approver's path: it starts at the first root.
func (d *sessionDraft) path(name string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.draft.Roots[0], name)
	}
	return filepath.Clean(name)
}

// Keep keeps what was shown at or below the names, and nothing else.
func (d *sessionDraft) Keep(names []string) error {
	shown, err := d.part(names)
	if err == nil {
		names, err = d.allMeant(names)
	}
	if err != nil {
		return err
	}
	var paths []string
	if !slices.Contains(names, ".") {
		for _, name := range names {
			paths = append(paths, d.path(name))
		}
	}
	x := &reviewCmd{App: &cli.App{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, config: d.f.Config}
	if _, err := x.keepOf(d.draft, d.cfg, paths, shown); err != nil {
		return err
	}
	return d.draft.Drop()
}

func (d *sessionDraft) Drop() error { return d.draft.Drop() }

// WorkOn has a supervisor work on a draft that lies over what its calls may write. The
// process that started it decides, over standard input, and it ends with that.
func WorkOn(ctx context.Context, a *cli.App, cfg *config.Config, o *assemble.Options, d *changes.Draft) (context.Context, error) {
	draft.UseCopies(cfg, d)
	questions, err := takeStdin(a.In)
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	asker := relay.Ask(questions)
	o.DraftOver, o.Uncached, o.Decider, o.Quarantine = draft.WritableAtMost(d), true, asker, d.Quarantine()
	cfg.HTTP.Listen = ""
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		<-asker.Ended()
	}()
	return ctx, nil
}
