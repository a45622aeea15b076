package confine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// After a polite SIGTERM a tool has termGrace; after a SIGKILL the kernel has
// killGrace before the whole sandbox is torn down from outside.
const (
	termGrace = 2 * time.Second
	killGrace = 10 * time.Second
)

// bwrapSandbox is one bubblewrap with our init in it.
type bwrapSandbox struct {
	profile  sandboxprofile.Profile
	facts    sandboxprofile.Facts // of the host when it was built
	enforced Enforced
	cmd      *exec.Cmd
	conn     *net.UnixConn
	exit     *os.File // listening socket in the sandbox's network, if it is proxied
	frames   chan received
	said     *said // standard error of bubblewrap and of init

	running sync.Mutex // one action at a time
	// spoiled is set when the sandbox is no longer as it was built: an action left
	// something that the next could see, or the sandbox failed.
	spoiled atomic.Bool
	closing sync.Once
	closed  chan struct{}
}

type received struct {
	frame wire.Frame
	err   error
	files []*os.File
}

// fileReader reads a Unix socket and keeps the descriptors that come with the
// bytes. Go marks them close-on-exec.
type fileReader struct {
	conn  *net.UnixConn
	files []*os.File
}

func (r *fileReader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, oob)
	if oobn > 0 {
		r.keep(oob[:oobn])
	}
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

func (r *fileReader) keep(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			r.files = append(r.files, os.NewFile(uintptr(fd), "egress"))
		}
	}
}

func (r *fileReader) take() []*os.File {
	files := r.files
	r.files = nil
	return files
}

func (r *fileReader) drop() { closeFiles(r.files) }

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// receive hands on what init says until it hangs up.
func (s *bwrapSandbox) receive() {
	in := &fileReader{conn: s.conn}
	defer in.drop()
	for {
		f, err := wire.Decode(in)
		select {
		case s.frames <- received{f, err, in.take()}:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *bwrapSandbox) setUp(ctx context.Context, setup wire.Setup) error {
	if err := s.send(wire.Frame{Setup: &setup}, nil); err != nil {
		return s.explain(err)
	}
	select {
	case r := <-s.frames:
		switch {
		case r.err != nil:
			return s.explain(r.err)
		case r.frame.Failed != nil:
			return &Unenforceable{Part: r.frame.Failed.Step, Reason: r.frame.Failed.Error, Hint: "run `sandgate doctor`"}
		case r.frame.Ready == nil || (len(r.files) == 1) != (setup.EgressPort != 0):
			closeFiles(r.files)
			return errors.New("confine: the sandbox's init sent an unexpected frame")
		}
		if len(r.files) == 1 {
			s.exit = r.files[0]
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(setupTimeout):
		return fmt.Errorf("confine: the sandbox was not ready within %v: %s", setupTimeout, s.said)
	}
}

// explain turns a sandbox that died before it was ready into the reason that
// bubblewrap printed.
func (s *bwrapSandbox) explain(err error) error {
	s.stop()
	text := s.said.String()
	if text == "" {
		return fmt.Errorf("confine: bubblewrap ended before the sandbox was ready: %w", err)
	}
	return explainBwrap(text)
}

// Enforced implements Sandbox.
func (s *bwrapSandbox) Enforced() Enforced { return s.enforced }

// Egress implements Proxied.
func (s *bwrapSandbox) Egress() (net.Listener, error) {
	if s.exit == nil {
		return nil, errors.New("confine: the sandbox has no way out to listen on")
	}
	l, err := net.FileListener(s.exit)
	if err != nil {
		return nil, fmt.Errorf("confine: egress socket: %w", err)
	}
	return l, nil
}

// Run implements Sandbox.
func (s *bwrapSandbox) Run(ctx context.Context, a sandboxprofile.Action, std Stdio) (Result, error) {
	return s.run(ctx, s.profile, a, std)
}

// run does a with the limits and the environment of p, whose shape is that of
// the sandbox.
func (s *bwrapSandbox) run(ctx context.Context, p sandboxprofile.Profile, a sandboxprofile.Action, std Stdio) (Result, error) {
	s.running.Lock()
	defer s.running.Unlock()
	r, err := s.perform(ctx, p, a, std)
	if err != nil {
		s.spoiled.Store(true)
	}
	return r, err
}

func (s *bwrapSandbox) perform(ctx context.Context, profile sandboxprofile.Profile, a sandboxprofile.Action, std Stdio) (Result, error) {
	if a.Kind != sandboxprofile.Exec {
		return s.exchange(ctx, wire.Run{Action: a}, profile.Limits.Wall, nil, nil)
	}
	if a.Exec == nil {
		return Result{}, errors.New("confine: an exec action without a program")
	}
	program := *a.Exec
	program.Env = permitted(profile.Env, program.Env)
	a.Exec = &program

	over := make(chan struct{}, 1)
	p, err := newPlumbing(std, profile.Limits.Output, over)
	if err != nil {
		return Result{}, err
	}
	defer p.close()
	res, err := s.exchange(ctx, wire.Run{Action: a, Limits: rlimits(profile.Limits)}, profile.Limits.Wall, p, over)
	if err == nil {
		p.wait() // every writer is dead: the readers reach end of file
	}
	res.Stdout, res.Stderr, res.Truncated = p.counts()
	if err != nil {
		return res, err
	}
	now, err := survey(profile)
	res.Appeared = appeared(s.facts, now)
	return res, err
}

// exchange sends one action and waits for its end, signalling it when its time,
// its output or its caller's patience is used up.
func (s *bwrapSandbox) exchange(ctx context.Context, run wire.Run, limit time.Duration, p *plumbing, over <-chan struct{}) (Result, error) {
	if err := s.send(wire.Frame{Run: &run}, p.childFiles()); err != nil {
		return Result{}, fmt.Errorf("confine: start action: %w", err)
	}
	p.closeChildFiles()
	wall := newTimer(limit)
	defer wall.Stop()
	var (
		cause   = Exited
		stop    = ctx.Done()
		expired = wall.C
		harder  <-chan time.Time
		giveUp  <-chan time.Time
		end     = func(c Cause) { cause, stop, expired, over = c, nil, nil, nil }
		signal  = func(n unix.Signal) { _ = s.send(wire.Frame{Signal: &wire.Signal{Number: int(n)}}, nil) }
		killNow = func() { signal(unix.SIGKILL); giveUp = time.After(killGrace) }
	)
	for {
		select {
		case r := <-s.frames:
			closeFiles(r.files) // none is expected here
			if r.err != nil || r.frame.Done == nil {
				s.stop()
				return Result{}, fmt.Errorf("confine: the sandbox died during the action: %s", s.lastWords(r.err))
			}
			if r.frame.Done.Spoiled {
				s.spoiled.Store(true)
			}
			return result(*r.frame.Done, cause), nil
		case <-expired:
			end(TimedOut)
			signal(unix.SIGTERM)
			harder = time.After(termGrace)
		case <-stop:
			end(Cancelled)
			killNow()
		case <-over:
			end(OutputLimit)
			killNow()
		case <-harder:
			harder = nil
			killNow()
		case <-giveUp:
			s.stop()
			return Result{}, errors.New("confine: the sandbox did not end after SIGKILL; it was torn down")
		}
	}
}

// newTimer is a timer that never fires for an unlimited duration.
func newTimer(d time.Duration) *time.Timer {
	return time.NewTimer(max(d, 0))
}

func (s *bwrapSandbox) lastWords(err error) string {
	if text := s.said.String(); text != "" {
		return text
	}
	if err == nil {
		return "unexpected frame"
	}
	return err.Error()
}

func result(d wire.Done, cause Cause) Result {
	r := Result{Cause: cause, Duration: d.Duration, File: &FileResult{
		Content: d.Content, Size: d.Size, Mode: d.Mode, Truncated: d.Truncated, Created: d.Created,
		SHA256: d.SHA256, Replaced: d.Replaced, Edit: d.Edit, Found: d.Found,
	}}
	if d.Errno != 0 {
		errno := unix.Errno(d.Errno)
		r.Cause, r.Errno = NotStarted, unix.ErrnoName(errno)
		r.ExitCode = 126
		if errno == unix.ENOENT {
			r.ExitCode = 127
		}
		return r
	}
	if d.TooMany && cause == Exited {
		r.Cause = PidsLimit
	}
	status := unix.WaitStatus(d.Status)
	if status.Signaled() {
		r.Signal = unix.SignalName(status.Signal())
		r.ExitCode = 128 + int(status.Signal())
	} else {
		r.ExitCode = status.ExitStatus()
	}
	return r
}

// send writes one frame with files beside its first byte.
func (s *bwrapSandbox) send(f wire.Frame, files []*os.File) error {
	b, err := wire.Encode(f)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd()) // Fd makes the description blocking, as a program expects
		}
		n, _, err := s.conn.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	_, err = s.conn.Write(b)
	return err
}

// Close implements Sandbox. Hanging up makes init exit, and the kernel kills
// what is left of its pid namespace before bubblewrap sees it end.
func (s *bwrapSandbox) Close() error {
	s.stop()
	return nil
}

func (s *bwrapSandbox) stop() {
	s.closing.Do(func() {
		close(s.closed)
		s.conn.Close()
		if s.exit != nil {
			s.exit.Close()
		}
		timer := time.AfterFunc(killGrace, func() { _ = s.cmd.Process.Kill() })
		defer timer.Stop()
		_ = s.cmd.Wait() // how bubblewrap ended says nothing more
	})
}

// permitted drops the variables that the profile does not name.
func permitted(e sandboxprofile.Env, env []string) []string {
	if e.All {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(e.Names, name)
	})
}

func rlimits(l sandboxprofile.Limits) wire.Rlimits {
	r := wire.Rlimits{
		CPUSeconds: sandboxprofile.Unlimited,
		Data:       l.Memory,
		Processes:  l.Pids,
		FileSize:   l.FileSize,
		OpenFiles:  l.OpenFiles,
	}
	if int64(l.CPU) != sandboxprofile.Unlimited {
		r.CPUSeconds = max(1, int64((l.CPU+time.Second-1)/time.Second)) // the kernel counts whole seconds
	}
	return r
}

// plumbing is the pipes of one program.
type plumbing struct {
	child   []*os.File // what the program gets
	parent  []*os.File // what we keep
	readers sync.WaitGroup
	budget  atomic.Int64
	lost    atomic.Bool
	n       [2]atomic.Int64
	over    chan<- struct{}
}

func newPlumbing(std Stdio, output int64, over chan<- struct{}) (*plumbing, error) {
	p := &plumbing{over: over}
	p.budget.Store(output)
	stdin, err := p.input(std.Stdin)
	if err != nil {
		return nil, err
	}
	p.child = []*os.File{stdin}
	for i, w := range []io.Writer{std.Stdout, std.Stderr} {
		r, wr, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, fmt.Errorf("confine: pipe: %w", err)
		}
		p.child, p.parent = append(p.child, wr), append(p.parent, r)
		p.readers.Add(1)
		go p.drain(i, r, w)
	}
	return p, nil
}

// input gives the program's standard input. A reader is copied by a goroutine
// that ends when the pipe breaks; one blocked in Read outlives the action.
func (p *plumbing) input(r io.Reader) (*os.File, error) {
	if r == nil {
		f, err := os.Open(os.DevNull)
		return f, err
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("confine: pipe: %w", err)
	}
	go func() {
		defer wr.Close()
		_, _ = io.Copy(wr, r)
	}()
	return rd, nil
}

// drain copies one stream until its last writer is dead. What goes beyond the
// budget is dropped, and the program is ended for it.
func (p *plumbing) drain(i int, r *os.File, w io.Writer) {
	defer p.readers.Done()
	if w == nil {
		w = io.Discard
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			p.n[i].Add(int64(n))
			keep := n
			if left := p.budget.Add(-int64(n)); left < 0 {
				keep = max(0, n+int(left))
				p.lost.Store(true)
				select {
				case p.over <- struct{}{}:
				default:
				}
			}
			if keep > 0 {
				if _, werr := w.Write(buf[:keep]); werr != nil {
					w = io.Discard // the reader has gone; the program may finish
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *plumbing) counts() (stdout, stderr int64, truncated bool) {
	return p.n[0].Load(), p.n[1].Load(), p.lost.Load()
}

func (p *plumbing) childFiles() []*os.File {
	if p == nil {
		return nil
	}
	return p.child
}

func (p *plumbing) closeChildFiles() {
	if p == nil {
		return
	}
	for _, f := range p.child {
		f.Close()
	}
	p.child = nil
}

func (p *plumbing) wait() { p.readers.Wait() }

func (p *plumbing) close() {
	p.closeChildFiles()
	for _, f := range p.parent {
		f.Close()
	}
}
