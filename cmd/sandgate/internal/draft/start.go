package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// Start starts this program on a draft, which lies over its directories in a mount namespace of
// that process: as an overlay, else as a copy. Where nothing can be mounted, calls work on the
// copy where it lies. said tells people and agents what differs then.
func Start(d *Held, cfg *config.Config, args []string, with func(*exec.Cmd) error) (_ *exec.Cmd, said string, err error) {
	var cause error
	foreign := d.Foreign != "" && !d.Copied
	switch {
	case foreign:
		cause = fmt.Errorf("the sandbox could not write %s, which belongs to another user or group", d.Foreign)
	case !d.Moved:
		c, err := startMounted(d, args, with)
		if cause = err; c != nil {
			return c, copyText(d.Draft, changes.Copied{}, nil), nil
		}
	}
	if errors.Is(cause, errNoMounts) && !d.Moved {
		if err := d.Move(); err != nil {
			return nil, "", cli.WithStatus(cli.ExitInternal, err)
		}
	}
	var copied changes.Copied
	if !d.Copied {
		if copied, err = copyDraft(d.Draft, cfg); err != nil && foreign {
			if c, err := startMounted(d, args, with); err == nil {
				return c, approval.EscapeLine("files of other users or groups cannot be written in this draft, such as " + d.Foreign), nil
			}
		}
		if err != nil {
			return nil, "", cli.WithHint(cli.WithStatus(cli.ExitUnavailable, fmt.Errorf("%w; a copy is needed, because no overlay is possible: %s", err, approval.EscapeLine(cause.Error()))),
				"set undo.enabled to take back calls with `sandgate undo`, or set XDG_STATE_HOME to a directory on ext4, xfs or btrfs")
		}
		if !d.Moved {
			if c, _ := startMounted(d, args, with); c != nil {
				return c, copyText(d.Draft, copied, cause), nil
			}
		}
	}
	if !d.Moved {
		if err := d.Move(); err != nil {
			return nil, "", cli.WithStatus(cli.ExitInternal, err)
		}
	}
	self, err := cli.ResolvedSelf()
	if err != nil {
		return nil, "", err
	}
	c := exec.Command(self, args...)
	if err = with(c); err == nil {
		d.handOver(c, nil)
		err = c.Start()
	}
	if err != nil {
		return nil, "", cli.WithStatus(cli.ExitInternal, err)
	}
	return c, copyText(d.Draft, copied, cause), nil
}

// copyText is "" for an overlay.
func copyText(d *changes.Draft, c changes.Copied, cause error) string {
	if !d.Copied {
		return ""
	}
	text := "working on a copy of " + strings.Join(d.Roots, ", ")
	if c.Names > 0 {
		text += fmt.Sprintf(" (%s, %d MiB)", cli.Plural(c.Names, "name", "names"), c.Bytes>>20)
	}
	if d.Moved {
		var at []string
		for _, root := range d.Roots {
			at = append(at, d.Place(root))
		}
		text += ", which lies at " + strings.Join(at, ", ") + ": the workspace cannot be reached under its own path"
	}
	if cause != nil {
		text += "; no overlay: " + cause.Error()
	}
	return approval.EscapeLine(text)
}

// maxCopied is how many bytes the copies of a draft may take.
const maxCopied = 4 << 30

// copyDraft copies what calls may read. What is kept from them by its path, such as the file of a
// credential, would not be under another, and another name of it is kept from them as well.
func copyDraft(d *changes.Draft, cfg *config.Config) (changes.Copied, error) {
	log, err := assemble.LogPath(cfg)
	if err != nil {
		return changes.Copied{}, err
	}
	own, err := assemble.OwnPaths(cfg, log)
	if err != nil {
		return changes.Copied{}, err
	}
	found, err := assemble.Derive(cfg, own, "")
	if err != nil {
		return changes.Copied{}, err
	}
	operator, err := assemble.OperatorProfile(cfg)
	if err != nil {
		return changes.Copied{}, err
	}
	files := sandboxprofile.NewLookup(sandboxprofile.Intersect(found.Files, operator))
	programs := sandboxprofile.NewLookup(sandboxprofile.Intersect(found.Programs, operator))
	var others []string
	for _, p := range cfg.Sandbox.Paths {
		if !slices.ContainsFunc(d.Roots, func(root string) bool { return sandboxprofile.Contains(root, p.Root) }) {
			others = append(others, p.Root)
		}
	}
	return d.Copy(func(path string) bool { return (files.Rights(path)|programs.Rights(path))&sandboxprofile.Read != 0 }, others, maxCopied)
}

// A Held draft is one that nothing else works on, keeps or drops. A program started on it holds it,
// too, and ends with this process. However that ends, no call works on a draft that another process
// takes for abandoned.
type Held struct {
	*changes.Draft
	lock        *os.File
	alive, ends *os.File // of a pipe that nobody writes to
}

// Hold is for a draft that calls are to work on.
func Hold(d *changes.Draft) (h *Held, err error) {
	h = &Held{Draft: d}
	if h.lock, err = LockDraft(d); err != nil {
		return nil, err
	}
	if h.ends, h.alive, err = os.Pipe(); err == nil {
		err = d.Begin()
	}
	if err != nil {
		h.Release()
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return h, nil
}

func (h *Held) Release() {
	_ = h.End() // else it is said that this process was killed
	h.lock.Close()
	h.alive.Close()
	h.ends.Close()
}

// Descriptors of a process that is started on a draft: toldAt receives the reason why the draft could
// not be mounted, and is closed once that is written; the others belong to a heldDraft.
const toldAt, lockAt, endsAt = 3, 4, 5

func (h *Held) handOver(c *exec.Cmd, tell *os.File) {
	c.ExtraFiles = []*os.File{tell, h.lock, h.ends}
	if len(h.Beside) > 0 {
		c.Env = append(c.Environ(), acrossMounts+"=1")
	}
}

// acrossMounts has git, and us, find a repository that lies around a mount: a draft is one.
const acrossMounts = "GIT_DISCOVERY_ACROSS_FILESYSTEM"

// Take is for what was started on a draft. ctx ends with the process that started it. It comes before
// anything else is started, which would get the descriptors.
func Take(ctx context.Context, dir string) (*changes.Draft, context.Context, error) {
	unix.CloseOnExec(lockAt)
	unix.CloseOnExec(endsAt)
	d, err := changes.OpenDraft(dir)
	if err == nil && !d.IsHeldBy(lockAt) {
		err = errors.New("this command is internal; to continue a draft, use `sandgate run --draft`")
	}
	if err != nil {
		return nil, nil, cli.WithStatus(cli.ExitInternal, err)
	}
	ctx, end := context.WithCancelCause(ctx)
	ends := os.NewFile(endsAt, "the end of who started this")
	go func() {
		_, _ = ends.Read(make([]byte, 1))
		end(terminal.Signalled{Signal: syscall.SIGHUP})
	}()
	return d, ctx, nil
}

// errNoMounts: nothing can be mounted here.
var errNoMounts = errors.New("a mount namespace")

// startMounted starts this program in a mount namespace with the draft. nil and why, if there
// can be none.
func startMounted(d *Held, args []string, with func(*exec.Cmd) error) (*exec.Cmd, error) {
	self, err := cli.ResolvedSelf()
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	c := exec.Command(self, append([]string{"in-draft", "--dir", cwd, d.Dir(), "--"}, args...)...)
	if err = with(c); err == nil {
		own := ownMounts()
		if c.SysProcAttr != nil {
			own.Setsid = c.SysProcAttr.Setsid
		}
		c.SysProcAttr = own
		d.handOver(c, tell)
		err = c.Start()
	}
	tell.Close()
	if err != nil {
		var why *os.PathError // it names this program
		if errors.As(err, &why) {
			err = why.Err
		}
		return nil, fmt.Errorf("%w: %w", errNoMounts, err)
	}
	why, err := io.ReadAll(io.LimitReader(told, 4<<10))
	if err == nil && len(why) > 0 {
		err = errors.New(string(why))
	}
	if err != nil {
		_ = c.Wait() // it has said why
		return nil, err
	}
	return c, nil
}

// Inside is the process that startMounted starts: it mounts the draft in its own namespace, and becomes
// this program with args, in dir.
func Inside(draft, dir string, args []string) error {
	unix.CloseOnExec(toldAt)
	d, err := changes.OpenDraft(draft)
	if err == nil {
		err = d.Mount()
	}
	if err == nil {
		err = os.Chdir(dir) // the one that the draft lies over
	}
	if err == nil {
		err = execAgain(args)
	}
	if _, unheard := unix.Write(toldAt, []byte(err.Error())); unheard == nil {
		return cli.WithStatus(cli.ExitUnavailable, nil)
	}
	return cli.WithStatus(cli.ExitUnavailable, err)
}

// UseCopies has a configuration name the copies that a draft works on, where it names what they
// are of: the workspace itself is in no profile then.
func UseCopies(cfg *config.Config, d *changes.Draft) {
	if cfg != nil && len(d.Beside) > 0 && !d.Moved {
		set := map[string]string{acrossMounts: "1"}
		maps.Copy(set, cfg.Sandbox.Env.Set)
		cfg.Sandbox.Env.Set = set
	}
	if cfg == nil || !d.Moved {
		return
	}
	cfg.Sandbox.Paths = slices.Clone(cfg.Sandbox.Paths)
	for i := range cfg.Sandbox.Paths {
		p := &cfg.Sandbox.Paths[i]
		p.Root = d.Place(p.Root)
	}
	cfg.Sandbox.Workdir = d.Place(cfg.Sandbox.Workdir)
	UseCopies(cfg.Above, d)
}

// WritableAtMost are the directories that a call on the draft may write at most.
func WritableAtMost(d *changes.Draft) (list []string) {
	for _, root := range d.Roots {
		list = append(list, filepath.Clean(d.Place(root)))
	}
	return list
}
