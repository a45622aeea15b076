package linux

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// After a polite SIGTERM a tool has termGrace; after a SIGKILL the kernel has
// killGrace before the whole sandbox is torn down from outside. An init that does not exit
// within wakeGrace may have been stopped.
const (
	wakeGrace = 100 * time.Millisecond
	termGrace = 2 * time.Second
	killGrace = 10 * time.Second
)

// bwrapSandbox is one bubblewrap with our init in it.
type bwrapSandbox struct {
	profile  sandboxprofile.Profile
	kinds    *tripwire.Kinds      // of the host when it was built
	facts    sandboxprofile.Facts // the same, and the masks
	covers   []cover
	guard    *tripwire.Guard
	baseline *tripwire.Baseline
	group    *cgroup
	killed   int64 // processes that the kernel had killed for memory before it was started
	room     *room
	leave    func()   // of the room
	warnings []string // of the host, when it was looked at last
	trust    []byte   // what its sandboxprofile.TrustBundle holds, if it has one
	enforced confine.Enforced
	cmd      *exec.Cmd
	end      unix.Signal // that cmd is torn down with; 0 is SIGKILL
	conn     *net.UnixConn
	exit     *os.File // listening socket in the sandbox's network, if it is proxied
	first    *os.File // process 1 (pidfd_open(2)), until the warden knows it
	sockets  *sockets // of the sandbox's network, if its profile exposes ports
	sending  sync.Mutex
	inside   *innerNetwork // what else there is of the sandbox's network, if it is proxied
	frames   chan received
	stderr   *stderrTail // standard error of bubblewrap and of init

	// others counts the processes that the kernel counts against the limit but that are
	// not of this sandbox, Unlimited if they are invisible; it is nil in a user namespace
	// of its own.
	others func() int64

	kept chan struct{} // init has answered a wire.Keep; nil without a broker

	running sync.Mutex // one action at a time
	// spoiled is set when the sandbox is no longer as it was built: an action left
	// something that the next could see, or the sandbox failed.
	spoiled atomic.Bool
	once    bool // it is for one call
	closing sync.Once
	closed  chan struct{}
}

// start starts the sandbox's first process.
func (s *bwrapSandbox) start(t *cgroupTree, start func(*exec.Cmd) error) (err error) {
	s.killed = killedForMemory()
	s.group, err = t.startIn(s.cmd, start)
	return err
}

// receive hands on what init says until it hangs up.
func (s *bwrapSandbox) receive() {
	in := &fileReader{conn: s.conn}
	defer in.drop()
	for {
		f, err := wire.Decode(in)
		r := received{f, err, in.take()}
		if err == nil && f.Made != nil && s.sockets.deliver(r) {
			continue
		}
		if err == nil && f.Kept != nil {
			select {
			case s.kept <- struct{}{}:
			default: // nobody has asked
			}
			continue
		}
		select {
		case s.frames <- r:
		case <-s.closed:
			closeFiles(r.files)
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *bwrapSandbox) setUp(ctx context.Context, setup wire.Setup) error {
	return s.setUpWith(ctx, setup, nil)
}

// setUpWith sends descriptors beside the setup.
func (s *bwrapSandbox) setUpWith(ctx context.Context, setup wire.Setup, files []*os.File) error {
	sent := s.send(wire.Frame{Setup: &setup}, files)
	if sent != nil && !errors.Is(sent, unix.EPIPE) && !errors.Is(sent, unix.ECONNRESET) {
		return s.explain(sent)
	}
	select { // also where init has gone: it may have said why
	case r := <-s.frames:
		switch {
		case r.err != nil:
			return s.explain(cmp.Or(sent, r.err))
		case r.frame.Failed != nil:
			if short := shortageIn(r.frame.Failed.Step, r.frame.Failed.Error); short != nil {
				return short
			}
			return failedSetup(*r.frame.Failed)
		case r.frame.Ready == nil || len(r.files) != socketsOf(setup):
			closeFiles(r.files)
			return errors.New("confine: the sandbox's init sent an unexpected frame")
		}
		s.take(setup, r.files)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(setupTimeout):
		return fmt.Errorf("confine: the sandbox was not ready within %v: %s", setupTimeout, s.stderr)
	}
}

// take keeps the sockets of Ready.
func (s *bwrapSandbox) take(setup wire.Setup, files []*os.File) {
	if setup.First {
		at := len(files) - 1
		s.first, files = files[at], files[:at]
	}
	if setup.Loopback {
		at := len(files) - loopbackSockets
		addLoopback(files[at], files[at+1])
		closeFiles(files[at:])
		files = files[:at]
	}
	if len(files) > 0 {
		s.exit = files[0]
	}
	if len(files) > 1 {
		s.inside = &innerNetwork{proxy: files[0], datagrams: files[1], streams: files[2:]}
	}
}

const partBroker = "the broker that changes files for programs"

// failedSetup is why init could not restrict itself, with what helps.
func failedSetup(f wire.Failed) error {
	switch {
	case strings.Contains(f.Error, broker.ListenerTaken):
		return &confine.Unenforceable{
			Part: partBroker, Reason: broker.ListenerTaken,
			Hint: "run it outside of the other sandbox, or allow user namespaces, with which bubblewrap needs no listener",
		}
	case strings.Contains(f.Error, broker.NoNotifications):
		return &confine.Unenforceable{Part: partBroker, Reason: broker.NoNotifications, Hint: "Linux 5.19 or newer, or user namespaces, with which bubblewrap needs no notifications"}
	}
	if f.Step == "landlock" && strings.HasSuffix(f.Error, unix.EACCES.Error()) {
		return &confine.Unenforceable{Part: f.Step, Reason: f.Error, Hint: notReached}
	}
	return &confine.Unenforceable{Part: f.Step, Reason: f.Error, Hint: "run `sandgate doctor`"}
}

// explain turns a sandbox that died before it was ready into the reason that
// bubblewrap printed.
func (s *bwrapSandbox) explain(err error) error {
	s.stop()
	text := s.stderr.String()
	if text == "" {
		if confine.IsShortage(err) {
			return err
		}
		return fmt.Errorf("confine: bubblewrap ended before the sandbox was ready: %w", err)
	}
	return explainBwrap(text)
}

// Enforced implements Sandbox.
func (s *bwrapSandbox) Enforced() confine.Enforced { return s.enforced }

// Warnings implements Warned.
func (s *bwrapSandbox) Warnings() []string { return s.warnings }

// Egress implements Proxied.
func (s *bwrapSandbox) Egress() (net.Listener, error) {
	if s.exit == nil {
		return nil, errors.New("confine: the sandbox has no way out to listen on")
	}
	l, err := listenerOf(s.exit)
	if err != nil {
		return nil, fmt.Errorf("confine: egress socket: %w", err)
	}
	return l, nil
}

// Carry implements Proxied.
func (s *bwrapSandbox) Carry(a confine.Addresses) (confine.Carried, error) {
	if s.inside == nil {
		return confine.Carried{}, errors.New("confine: the sandbox has no sockets to carry")
	}
	if err := s.inside.make(a); err != nil {
		return confine.Carried{}, &confine.Unenforceable{
			Part: "carrying programs without proxy support", Reason: err.Error(),
			Hint: "run `sandgate doctor`; programs that use the proxy variables work",
		}
	}
	return s.inside.carried()
}

// Entrance implements Exposed.
func (s *bwrapSandbox) Entrance() (confine.Entrance, error) {
	return s.sockets.entrance(s.profile.Network)
}

// Run implements Sandbox.
func (s *bwrapSandbox) Run(ctx context.Context, a sandboxprofile.Action, std confine.Stdio) (confine.Result, error) {
	return s.run(ctx, s.profile, a, std)
}

// run does a with the limits and the environment of p, whose shape is that of
// the sandbox.
func (s *bwrapSandbox) run(ctx context.Context, p sandboxprofile.Profile, a sandboxprofile.Action, std confine.Stdio) (confine.Result, error) {
	if err := allowedBy(s.profile, a); err != nil {
		return confine.Result{}, err
	}
	s.running.Lock()
	defer s.running.Unlock()
	r, err := s.watched(ctx, p, a, std)
	r.Ceiling = heldBy(s.profile, s.enforced.Backend, a)
	if err != nil {
		s.spoiled.Store(true)
	}
	return r, err
}

// watched does a and undoes what it planted. Actions that only read plant nothing, and
// nothing is planted where a broker makes the changes.
func (s *bwrapSandbox) watched(ctx context.Context, p sandboxprofile.Profile, a sandboxprofile.Action, std confine.Stdio) (confine.Result, error) {
	if s.baseline == nil || !changesFiles(s.enforced.Backend, a) {
		return s.perform(ctx, p, a, std)
	}
	if err := s.guard.Begin(ctx, s.baseline); err != nil {
		return confine.Result{}, err
	}
	r, err := s.perform(ctx, p, a, std)
	planted, settleErr := s.guard.Settle(s.baseline)
	r.Planted = planted
	return r, errors.Join(err, settleErr)
}

// Look implements Watched.
func (s *bwrapSandbox) Look(begins bool) ([]confine.Planted, error) {
	if s.baseline == nil {
		return nil, nil
	}
	left, err := s.guard.Look(s.baseline)
	if err == nil && len(s.covers) > 0 && !s.covered(s.facts) { // also where nothing may be written
		err = errors.New("a hidden or protected file was replaced while it ran, and what is there now is not covered")
	}
	if err != nil || !begins {
		return left, err
	}
	now, err := s.guard.Survey(s.profile)
	for _, m := range now.Facts.Masks {
		if err == nil && m.Hide && !slices.Contains(s.facts.Masks, m) {
			err = fmt.Errorf("%s came while it ran, and is not hidden from it", m.Path)
		}
	}
	return left, err
}

func (s *bwrapSandbox) perform(ctx context.Context, profile sandboxprofile.Profile, a sandboxprofile.Action, std confine.Stdio) (confine.Result, error) {
	if a.Kind != sandboxprofile.Exec {
		run, err := s.fileRun(a)
		if err != nil {
			return confine.Result{}, err
		}
		return s.exchange(ctx, run, profile.Limits, confine.Stdio{Hold: std.Hold}, nil, nil)
	}
	if a.Exec == nil {
		return confine.Result{}, errors.New("confine: an exec action without a program")
	}
	program := *a.Exec
	program.Env = permitted(profile.Env, program)
	if program.Stdin != nil {
		std.Stdin, program.Stdin = bytes.NewReader(program.Stdin), nil
	}
	program.Secrets = nil // the caller has them in std.Files and Env; where they lie is not the sandbox's business
	a.Exec = &program

	over := make(chan struct{}, 1)
	limits := s.room.within(profile.Limits)
	p, err := newPlumbing(std, program.Terminal, std.OutputBound(limits), over)
	if err != nil {
		return confine.Result{}, err
	}
	defer p.close()
	res, err := s.exchange(ctx, wire.Run{Action: a, Limits: s.rlimits(limits), Totals: s.totals(limits), Changes: std.Changes != nil, Refusals: std.Refusals != nil}, limits, std, p, over)
	res.Processes = limits.Pids
	if err == nil {
		p.wait() // every writer is dead: the readers reach end of file
	}
	res.Count(p.n[0].Load(), p.n[1].Load(), p.lost.Load())
	return res, err
}

// exchange sends one action and waits for its end, signalling it when its time,
// its output or its caller's patience is used up.
func (s *bwrapSandbox) exchange(ctx context.Context, run wire.Run, l sandboxprofile.Limits, std confine.Stdio, p *plumbing, over <-chan struct{}) (confine.Result, error) {
	if err := s.group.limit(l); err != nil {
		return confine.Result{}, err
	}
	latch, err := newStartLatch(std.Hold)
	if err != nil {
		return confine.Result{}, err
	}
	defer latch.close()
	run.Held = latch != nil
	if err := s.send(wire.Frame{Run: &run}, latch.behind(p.childFiles())); err != nil {
		return confine.Result{}, fmt.Errorf("confine: start action: %w", err)
	}
	p.closeChildFiles()
	refused := latch.open()
	asks := newAsks(ctx, std, s.cmd.SysProcAttr.Credential == nil, s.send)
	defer asks.end()
	start, wall := time.Now(), newTimer(l.Wall)
	defer wall.Stop()
	starved, rests := s.room.runs(s.cmd.Process.Pid)
	defer rests()
	var (
		cause   = confine.Exited
		stop    = ctx.Done()
		expired = wall.C
		harder  <-chan time.Time
		giveUp  <-chan time.Time
		end     = func(c confine.Cause) { cause, stop, expired, over, starved = c, nil, nil, nil, nil }
		signal  = func(n unix.Signal) { _ = s.send(wire.Frame{Signal: &wire.Signal{Number: int(n)}}, nil) }
		killNow = func() { signal(unix.SIGKILL); s.wake(); giveUp = time.After(killGrace) }
	)
	for {
		select {
		case r := <-s.frames:
			if r.err == nil && r.frame.Opened != nil && p.attach(r.files) {
				continue
			}
			if r.err == nil && r.frame.Ask != nil && asks.take(*r.frame.Ask, r.files) {
				continue
			}
			closeFiles(r.files) // none is expected here
			if r.err != nil || r.frame.Done == nil {
				return s.died(r.err, cause == confine.HostMemory, time.Since(start))
			}
			if r.frame.Done.Spoiled {
				s.spoiled.Store(true)
			}
			if fault := r.frame.Done.Fault; fault != "" {
				s.spoiled.Store(true)
				return confine.Result{}, fmt.Errorf("confine: a fault of the sandbox ended the action: %s", fault)
			}
			if refused != nil {
				return confine.Result{}, refused
			}
			return result(*r.frame.Done, cause), nil
		case <-expired:
			end(confine.TimedOut)
			signal(unix.SIGTERM)
			harder = time.After(termGrace)
		case <-stop:
			end(confine.Cancelled)
			killNow()
		case <-over:
			end(confine.OutputLimit)
			killNow()
		case <-starved: // init would have to wait for memory itself
			end(confine.HostMemory)
			s.killOutside()
			giveUp = time.After(killGrace)
		case <-harder:
			harder = nil
			killNow()
		case <-giveUp:
			s.killOutside()
			s.stop()
			return confine.Result{}, errors.New("confine: the sandbox did not end after SIGKILL; it was torn down")
		}
	}
}

// died explains a sandbox whose init has ended during an action, after some time. forMemory
// says that we have killed it, to have the host's memory back.
func (s *bwrapSandbox) died(err error, forMemory bool, after time.Duration) (confine.Result, error) {
	starved := s.group.outOfMemory()
	s.spoiled.Store(true)
	s.stop()     // and all that it said is there
	if starved { // the kernel has killed init with the rest
		return confine.Result{Cause: confine.MemoryLimit, ExitCode: 128 + int(unix.SIGKILL), Signal: "SIGKILL", Duration: after}, nil
	}
	if forMemory || killedForMemory() > s.killed { // sandboxes go first
		return confine.Result{Cause: confine.HostMemory, ExitCode: 128 + int(unix.SIGKILL), Signal: "SIGKILL", Duration: after}, nil
	}
	words := s.lastWords(err)
	if strings.Contains(words, noThread) { // the programs have left init none of the host's processes
		return confine.Result{Cause: confine.PidsLimit, ExitCode: 128 + int(unix.SIGKILL), Signal: "SIGKILL", Duration: after}, nil
	}
	return confine.Result{}, fmt.Errorf("confine: the sandbox died during the action: %s", words)
}

// newTimer is a timer that never fires for an unlimited duration.
func newTimer(d time.Duration) *time.Timer {
	return time.NewTimer(max(d, 0))
}

func (s *bwrapSandbox) lastWords(err error) string {
	if text := s.stderr.String(); text != "" {
		return text
	}
	if err == nil {
		return "unexpected frame"
	}
	return err.Error()
}

func result(d wire.Done, cause confine.Cause) confine.Result {
	r := confine.Result{Cause: cause, Duration: d.Duration, File: &confine.FileResult{
		Content: d.Content, Size: d.Size, Mode: d.Mode, Truncated: d.Truncated, Created: d.Created,
		SHA256: d.SHA256, Replaced: d.Replaced, Edit: d.Edit, Found: d.Found,
	}, RefusedMore: d.RefusedMore, Gone: d.Gone}
	for _, x := range d.Refused {
		r.Refused = append(r.Refused, confine.Refused(x))
	}
	if d.Errno != 0 {
		errno := unix.Errno(d.Errno)
		r.Cause, r.Errno, r.Op = confine.NotStarted, unix.ErrnoName(errno), d.Op
		r.ExitCode = 126
		if errno == unix.ENOENT && d.Op != confine.OpChdir { // the program may well be there
			r.ExitCode = 127
		}
		if errno == unix.ECANCELED && cause != confine.Exited {
			r.Cause = cause // init gave up because it was told to
		}
		return r
	}
	status := unix.WaitStatus(d.Status)
	if cause == confine.Exited {
		r.Cause = ownCause(d.Exceeded, status)
	}
	if status.Signaled() {
		r.Signal = unix.SignalName(status.Signal())
		r.ExitCode = 128 + int(status.Signal())
	} else {
		r.ExitCode = status.ExitStatus()
	}
	return r
}

// ownCause is why an action ended that was not ended from outside.
func ownCause(over wire.Exceeded, status unix.WaitStatus) confine.Cause {
	switch {
	case over == wire.ExceededProcesses:
		return confine.PidsLimit
	case over == wire.ExceededMemory:
		return confine.MemoryLimit
	case over == wire.ExceededCPU:
		return confine.CPULimit
	case status.Signaled() && status.Signal() == unix.SIGXFSZ:
		return confine.FileSizeLimit
	}
	return confine.Exited
}

// covered reports whether the mounts still lie on the files that have to be covered.
func (s *bwrapSandbox) covered(now sandboxprofile.Facts) bool {
	return slices.Equal(s.covers, coversOf(s.profile, now))
}

// send writes one frame with files beside its first byte.
func (s *bwrapSandbox) send(f wire.Frame, files []*os.File) error {
	b, err := wire.Encode(f)
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
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
		s.inside.close()
		woken, killed := time.AfterFunc(wakeGrace, s.wake), time.AfterFunc(killGrace, s.killOutside)
		defer woken.Stop()
		defer killed.Stop()
		_ = s.cmd.Wait() // how bubblewrap ended says nothing more
		if s.baseline != nil {
			s.guard.Release(s.baseline)
		}
		s.group.remove()
		if s.leave != nil {
			s.leave()
		}
	})
}

// wake continues a process that was stopped from outside (SIGSTOP): a stopped init ends
// nothing.
func (s *bwrapSandbox) wake() {
	for _, pid := range append(proctree.Descendants(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
}

// killOutside ends a sandbox whose init does not.
func (s *bwrapSandbox) killOutside() { _ = s.cmd.Process.Signal(cmp.Or(s.end, unix.SIGKILL)) }

func (s *bwrapSandbox) rlimits(l sandboxprofile.Limits) wire.Rlimits {
	r := rlimits(l)
	if s.others == nil || r.Processes == sandboxprofile.Unlimited {
		return r
	}
	if n := s.others(); n == sandboxprofile.Unlimited {
		r.Processes = n
	} else {
		r.Processes += n
	}
	return r
}

// permitted drops the variables that the profile does not name. PWD stays where it says
// what the program knows anyway.
func permitted(e sandboxprofile.Env, p sandboxprofile.Program) []string {
	if e.All {
		return p.Env
	}
	return slices.DeleteFunc(slices.Clone(p.Env), func(kv string) bool {
		if kv == "PWD="+p.Dir {
			return false
		}
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(e.Names, name)
	})
}

// rlimits are the limits that the kernel enforces on each process. Memory is not among
// them: RLIMIT_DATA and RLIMIT_AS count what is reserved, and sanitizers, Java, Go and
// Node.js reserve more than any machine has. What is used is counted for the whole call.
func rlimits(l sandboxprofile.Limits) wire.Rlimits {
	r := wire.Rlimits{
		CPUSeconds: sandboxprofile.Unlimited,
		Processes:  slack(l.Pids, 32),
		FileSize:   l.FileSize,
		OpenFiles:  l.OpenFiles,
	}
	if int64(l.CPU) != sandboxprofile.Unlimited {
		r.CPUSeconds = backstop(l.CPU)
	}
	return r
}

// backstop is the processor time, in whole seconds as setrlimit(2) wants them, to which
// the kernel holds one process where init holds all of them to limit. It is more than
// twice that. The kernel counts in ticks of its timer, each for the process that runs
// at that moment. For a process that often waits its turn the result can be half or
// double of its use; init counts precisely, has to be first, and explains.
func backstop(limit time.Duration) int64 { return 2*int64(limit/time.Second) + 3 }

// slack is added to the limit of one process where init counts all of them, so that
// init sees gradual growth pass its limit, and explains the end, before the kernel
// refuses more. What is asked for at once beyond that is refused at once.
func slack(limit, least int64) int64 {
	more := max(limit/8, least)
	if limit > sandboxprofile.Unlimited-more {
		return sandboxprofile.Unlimited
	}
	return limit + more
}

// totals are the limits that hold all processes of an action together.
func (s *bwrapSandbox) totals(l sandboxprofile.Limits) wire.Totals {
	return wire.Totals{Processes: l.Pids, Memory: l.Memory, CPU: l.CPU, Kernel: s.group != nil}
}

// fileRun asks init for an operation on a file.
func (s *bwrapSandbox) fileRun(a sandboxprofile.Action) (wire.Run, error) {
	run := wire.Run{Action: a}
	if a.File == nil || a.Kind != sandboxprofile.WriteFile && a.Kind != sandboxprofile.EditFile {
		return run, nil
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	run.Temporary = ".sandgate-" + hex.EncodeToString(b[:])
	if s.baseline == nil {
		return run, nil
	}
	return run, s.baseline.WillMake(filepath.Join(filepath.Dir(a.File.Path), run.Temporary))
}
