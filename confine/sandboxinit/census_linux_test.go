package sandboxinit

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// stat is a line of /proc/PID/stat with the given name, of a process with three
// threads that has used 4 ticks itself and 38 in its children.
func stat(name string) []byte {
	return []byte("77 (" + name + ") S 1 77 77 0 -1 4194304 1 2 3 4 1 3 30 8 20 0 3 0 5 6 7 8\n")
}

// TestStatNamesDoNotMislead: a process chooses its name, and could write numbers
// into it that hide what it uses.
func TestStatNamesDoNotMislead(t *testing.T) {
	for _, name := range []string{"sh", "", "a b", ") S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 1 ", "((", "x)", "\n"} {
		if s := parseStat(stat(name)); s.threads != 3 || s.cpu != 420*time.Millisecond {
			t.Errorf("%q: %+v", name, s)
		}
	}
	for _, damaged := range []string{"", "77", "77 (sh", "77 (sh) S 1 2 3"} {
		if s := parseStat([]byte(damaged)); s != (processStat{}) {
			t.Errorf("%q: %+v", damaged, s)
		}
	}
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if s := parseStat(own); s.threads < 1 {
		t.Errorf("of this process: %+v", s)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(stat("sh"))
	f.Add([]byte("1 ()))"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s := parseStat(line); s.threads < 0 {
			t.Errorf("%q: %+v", line, s)
		}
	})
}

func TestSumFields(t *testing.T) {
	const table = "Name:\tRssAnon:\nRssAnon:\t     100 kB\nRssFile:\t  7 kB\nRssShmem:\t 20 kB\nVmSwap:\t   3 kB\nPss: x kB\n"
	for _, x := range []struct {
		names []string
		want  int64
	}{
		{[]string{"RssAnon:", "RssShmem:", "VmSwap:"}, 123 << 10},
		{[]string{"Pss:"}, 0},
		{nil, 0},
	} {
		if got := sumFields([]byte(table), x.names); got != x.want {
			t.Errorf("%q: %d, want %d", x.names, got, x.want)
		}
	}
}

// TestRanOut: a program that was killed has run out of processor time if it used its
// total, and not if something else may have killed it, or if it ended by itself.
func TestRanOut(t *testing.T) {
	const killed, alarmed, exited = unix.WaitStatus(unix.SIGKILL), unix.WaitStatus(unix.SIGTERM), unix.WaitStatus(137 << 8)
	used := 2 * time.Second
	for _, x := range []struct {
		status unix.WaitStatus
		total  time.Duration
		want   bool
	}{
		{killed, used - 1, true},
		{unix.WaitStatus(unix.SIGXCPU), used - 1, true},
		{killed, used + time.Second, false},
		{killed, time.Duration(sandboxprofile.Unlimited), false},
		{alarmed, used - 1, false},
		{exited, used - 1, false},
	} {
		c := census{totals: wire.Totals{CPU: x.total}, before: deadCPU() - used}
		if got := c.ranOut(x.status); got != x.want {
			t.Errorf("status %#x with a total of %v: %v", x.status, x.total, got)
		}
	}
}

// TestQueuesAreCounted: what waits in a socket counts once, for the sender, and for the
// receiver when the sender has closed; that of other processes does not.
func TestQueuesAreCounted(t *testing.T) {
	q := newQueues(false)
	if q == nil {
		t.Fatal("no sockets of NETLINK_SOCK_DIAG")
	}
	defer unix.Close(q.fd)
	pair := func() [2]int {
		t.Helper()
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	fill := func(fd int) (n int64) {
		for range 5 {
			if k, err := unix.Write(fd, make([]byte, 16<<10)); err == nil {
				n += int64(k)
			}
		}
		return n
	}
	inodes := func(fds ...int) map[uint64]bool {
		set := map[uint64]bool{}
		for _, fd := range fds {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				t.Fatal(err)
			}
			set[st.Ino] = true
		}
		return set
	}
	a, b := pair(), pair()
	sent := fill(a[0])
	fill(b[0])
	near := func(what string, got int64) {
		t.Helper()
		if got < sent || got > 3*sent {
			t.Errorf("%s: %d bytes, %d were sent", what, got, sent)
		}
	}
	held := func(fds ...int) int64 {
		n, _, _ := q.held(inodes(fds...))
		return n
	}
	near("both ends", held(a[0], a[1]))
	unix.Close(a[0])
	near("the sender has closed", held(a[1]))
	if got := held(b[1]); got != 0 {
		t.Errorf("a receiver whose sender is another's: %d", got)
	}
	if got, _, _ := (*queues)(nil).held(inodes(b[0])); got != 0 {
		t.Errorf("where the kernel does not tell: %d", got)
	}
}

func FuzzQueues(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		messages(b, func(m []byte) {
			unixQueue(m)
			inetQueue(m)
		})
		unixQueue(b)
		inetQueue(b)
	})
}

// TestRecentCountsAreNotRepeated: while the host holds no more than half of what was left of
// the limit, page tables are not walked again; and not for long.
func TestRecentCountsAreNotRepeated(t *testing.T) {
	held := int64(1000)
	c := census{totals: wire.Totals{Memory: 100}, hostHeld: func() int64 { return held }}
	if got := c.recentMemory(); got != -1 {
		t.Errorf("before any: %d", got)
	}
	c.exact = exactCount{memory: 60, held: held, at: time.Now(), cost: time.Hour}
	for _, x := range []struct{ grown, want int64 }{{0, 60}, {20, 80}, {21, -1}, {-500, 60}} {
		held = 1000 + x.grown
		if got := c.recentMemory(); got != x.want {
			t.Errorf("grown by %d: %d, want %d", x.grown, got, x.want)
		}
	}
	held = 0
	if got := c.recentMemory(); got != -1 {
		t.Errorf("a host that does not tell: %d", got)
	}
	held, c.exact.cost, c.exact.at = 1000, 0, time.Now().Add(-time.Second)
	if got := c.recentMemory(); got != -1 {
		t.Errorf("long ago: %d", got)
	}
}

// TestStoppedForACount: programs are stopped while their page tables are walked only if the
// host has grown by half of what was left of the limit, go on if they are within it, and stay
// stopped if they were before.
func TestStoppedForACount(t *testing.T) {
	start := func() string {
		p := exec.Command("/usr/bin/sleep", "60")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
		return strconv.Itoa(p.Process.Pid)
	}
	runs, stopped := start(), start()
	pids := []string{runs, stopped}
	reader := procReader{buf: make([]byte, 4096)}
	becomes := func(pid string, want bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); reader.stat(pid).stopped != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("stopped: %v, want %v", !want, want)
			}
		}
	}
	n, _ := strconv.Atoi(stopped)
	_ = unix.Kill(n, unix.SIGSTOP)
	becomes(stopped, true)

	grown := int64(0)
	c := newCensus(wire.Totals{Memory: 1 << 30}, nil, nil, nil)
	lists := 0
	c.pids, c.host, c.stops = func() []string { lists++; return pids }, func() int64 { return 0 }, true
	c.hostHeld = func() int64 { return 1<<40 + grown }
	c.exact = exactCount{held: 1 << 40, at: time.Now(), cost: time.Hour}
	grown = 1 << 28
	c.countExactly(pids, 0)
	if lists != 0 {
		t.Fatal("stopped for nothing")
	}
	grown = 3 << 28
	c.exact.cost = time.Hour
	if got := c.countExactly(pids, 5); got < 5 || got > 1<<30 || lists == 0 {
		t.Fatalf("%d bytes, listed %d times", got, lists)
	}
	becomes(runs, false)
	becomes(stopped, true)

	c.totals.Memory, grown = 10, 4<<30
	if got := c.countExactly(pids, 11); got < 11 {
		t.Fatalf("%d bytes: there is at least the largest of them", got)
	}
	becomes(runs, true) // and is killed by who counts
}

// TestNewSocketsAreNotFilledMeanwhile: a program that has opened more sockets than can be
// looked at before they are full is stopped for it, once.
func TestNewSocketsAreNotFilledMeanwhile(t *testing.T) {
	c := newCensus(wire.Totals{Memory: 8 * queueMost}, nil, nil, nil)
	own := []string{strconv.Itoa(os.Getpid())}
	halts := func() (n int) {
		c.count(own, func() { n++ })
		return n
	}
	halts() // what the test has
	if halts() != 0 {
		t.Fatal("stopped for sockets that are not new")
	}
	for range 4 {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	if n := halts(); n != 1 {
		t.Errorf("stopped %d times for 8 new sockets", n)
	}
	if halts() != 0 {
		t.Error("stopped again")
	}
}

// TestCountsComeBeforeTheLimit: the next count is before all processors together could have
// filled what is left, and no later than it would be without a limit.
func TestCountsComeBeforeTheLimit(t *testing.T) {
	const second = 3 << 30 // bytes of one processor
	for _, x := range []struct {
		left int64
		want time.Duration
	}{{-1, censusHurry}, {0, censusHurry}, {second / 50 * int64(runtime.NumCPU()), 10 * time.Millisecond}, {math.MaxInt64, censusInterval}} {
		c := census{totals: wire.Totals{Memory: x.left}}
		if got := c.unfilled(0); got < x.want-time.Millisecond || got > x.want {
			t.Errorf("%d bytes left: %v, want %v", x.left, got, x.want)
		}
	}
}

// startForking starts a program that may be stopped, and what counts it and all below it.
func startForking(t *testing.T, python string) (*exec.Cmd, *census) {
	t.Helper()
	p := exec.Command("/usr/bin/python3", "-c", python)
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-p.Process.Pid, unix.SIGKILL) })
	c := newCensus(wire.Totals{Memory: 1 << 30}, nil, nil, nil)
	c.stops = true
	c.pids = func() []string {
		pids := []string{strconv.Itoa(p.Process.Pid)}
		for _, pid := range proctree.Descendants(p.Process.Pid) {
			pids = append(pids, strconv.Itoa(pid))
		}
		return pids
	}
	return p, c
}

// TestWhatIsAcceptedCountsNoMore: connections that nobody has accepted count while they wait, and
// not after.
func TestWhatIsAcceptedCountsNoMore(t *testing.T) {
	c := newCensus(wire.Totals{Memory: 64 * queueMost}, nil, newQueues(false), nil)
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const connections = 20
	for range connections {
		x, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
	}
	own := []string{strconv.Itoa(os.Getpid())}
	c.askedAt = 0 // the host has less than it had
	if c.count(own, nil); c.unaccepted < connections {
		t.Fatalf("%d wait to be accepted, %d are counted", connections, c.unaccepted)
	}
	for range connections {
		x, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
	}
	if c.count(own, nil); c.unaccepted != 0 {
		t.Errorf("nobody waits, %d are counted", c.unaccepted)
	}
}

// TestWhoMayHoldUpACount: a process with page tables of what it has only read is stopped before
// a count waits for the lock of its memory; one that holds what it maps is not.
func TestWhoMayHoldUpACount(t *testing.T) {
	for _, x := range []struct {
		flags      int
		size, held int64
		want       bool
	}{{unix.MAP_PRIVATE, 16 << 30, 0, true}, {unix.MAP_PRIVATE, 16 << 30, 64 << 20, true}, {unix.MAP_PRIVATE | unix.MAP_POPULATE, 64 << 20, 64 << 20, false}} {
		prot := unix.PROT_READ
		if !x.want {
			prot |= unix.PROT_WRITE
		}
		const populateRead = 22 // MADV_POPULATE_READ: of the one page of zeroes
		p, c := startForking(t, fmt.Sprintf(`import ctypes, time
held = b'x' * %d
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; size = ctypes.c_size_t(%d)
p = ctypes.c_void_p(libc.mmap(None, size, %d, %d, -1, ctypes.c_long(0)))
libc.madvise(p, size, 15); libc.madvise(p, size, %d)
time.sleep(60)`, x.held, x.size, prot, x.flags|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, populateRead))
		deadline := time.Now().Add(30 * time.Second)
		for c.proc.sum(fmt.Sprintf("/proc/%d/status", p.Process.Pid), "VmPTE:") < x.size/512 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if got := c.mayHoldUp(c.shown(c.pids())); got != x.want {
			t.Errorf("%d bytes mapped, %d held: %v", x.size, x.held, got)
		}
	}
}

// TestNobodyIsBornWhileStopped: a large process that forks when it is told to stop does so
// first, and its child is stopped too.
func TestNobodyIsBornWhileStopped(t *testing.T) {
	p, c := startForking(t, "import os\nx = b'x' * (400 << 20)\nwhile True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()")
	c.patience = 30 * time.Second // a fork on a busy machine may take longer than a count waits
	for c.proc.sum("/proc/"+strconv.Itoa(p.Process.Pid)+"/status", "RssAnon:") < 400<<20 {
		time.Sleep(time.Millisecond)
	}
	for range 40 {
		time.Sleep(5 * time.Millisecond)
		pids, resume := c.stop(c.pids())
		time.Sleep(20 * time.Millisecond)
		if now := c.pids(); !slices.Equal(now, pids) {
			t.Fatalf("%v, of which %v were stopped", now, pids)
		}
		resume()
	}
	_ = p.Process.Kill()
	_ = p.Wait()
}

// TestNobodyStaysStopped: whatever forks while it is stopped and continued, over and over,
// goes on.
func TestNobodyStaysStopped(t *testing.T) {
	const churn = "import os, time\nx = b'x' * (50 << 20)\nend = time.time() + 1.5\n" +
		"for _ in range(3): os.fork()\n" +
		"while time.time() < end:\n    if os.fork() == 0: os._exit(0)\n    os.wait()\n" +
		"try:\n    while True: os.wait()\nexcept OSError: pass"
	p, c := startForking(t, churn)
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	for rounds := 0; ; rounds++ {
		select {
		case err := <-ended:
			if t.Logf("stopped %d times", rounds); err != nil || rounds < 10 {
				t.Error(err)
			}
			return
		default:
			_, resume := c.stop(c.pids())
			resume()
			time.Sleep(time.Millisecond)
		}
	}
}
