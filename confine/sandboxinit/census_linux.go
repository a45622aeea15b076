package sandboxinit

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// The kernel's limits of setrlimit(2) hold each process by itself, and those on
// the number of processes do not hold uid 0 at all. What the processes of an
// action use together is counted here, from /proc, which costs a little and sees
// only what lasts: a cgroup is better where there is one.

// A census counts at an interval that keeps its own cost below a twentieth of one
// processor, and more often when memory, which can grow by gigabytes in a second,
// is half used. The cost is processor time: what the programs take from us by running
// must not buy them time.
const (
	censusInterval = 50 * time.Millisecond
	censusHurry    = 4 * time.Millisecond
	censusShare    = 20
	hurryShare     = 4
)

// How long processes may take to stop, and how often we look whether they have.
const (
	stopPatience = 100 * time.Millisecond
	stopGlance   = time.Millisecond
)

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ is 100 on every
// architecture that Go knows (proc_pid_stat(5), sysconf(_SC_CLK_TCK)).
const clockTick = time.Second / 100

// usage is the use of all processes of an action together.
type usage struct {
	tasks  int64         // processes and threads
	memory int64         // bytes
	least  int64         // of that, what no two processes share
	cpu    time.Duration // of those that live and those that are dead
}

// exceeds names the first of the totals that u is over.
func (u usage) exceeds(t wire.Totals) wire.Exceeded {
	switch {
	case u.tasks > t.Processes:
		return wire.ExceededProcesses
	case u.memory > t.Memory:
		return wire.ExceededMemory
	case u.cpu > t.CPU:
		return wire.ExceededCPU
	}
	return ""
}

// A census counts what one action uses.
type census struct {
	totals  wire.Totals
	tmpfs   []string // directories whose files lie in memory
	queues  *queues  // of sockets, nil where the kernel does not tell
	sockets int64    // at the last count, and as many as there can be where we cannot look
	closed  int64    // of those
	// inSockets is what they held when the kernel was last asked, unaccepted how many it did
	// not report, and askedAt the memory of the host in use then.
	inSockets, unaccepted, askedAt int64
	silent                         int64 // how many the kernel tells nothing of
	// inKernel is the kernel's memory for mappings when they were last counted, and kernelAt what
	// it kept for all processes then.
	inKernel, kernelAt int64
	before             time.Duration // processor time of our dead children when the action began
	stored             int64         // bytes that other actions had left in memory
	proc               procReader
	last               int64         // the memory of the last count
	counted            time.Time     // when that was
	rapid              bool          // it grows so that it would be over the limit at the next count
	due                time.Time     // of the next count where the host's figure is enough until then; zero if not
	stops              bool          // processes may be stopped while they are counted
	patience           time.Duration // how long they may take to stop
	// pids lists the processes of the action, nil if that fails, and segments sums
	// their System V segments.
	pids     func() []string
	segments func(processes int64) int64
	// host is the memory of files, segments and shared mappings of the whole host, in
	// bytes, and hostBefore what that was when the action began.
	host       func() int64
	hostBefore int64
	// hostUsed is all of the host's memory that cannot be had back, and usedBefore what that
	// was when the action began.
	hostUsed   func() int64
	usedBefore int64
	// hostHeld is all the memory of processes of the whole host, and exact the last exact
	// count.
	hostHeld func() int64
	exact    exactCount
}

// An exactCount walks every page table. It need not be repeated while the host holds no
// more memory than what was left of the limit.
type exactCount struct {
	memory int64
	held   int64 // of the host at that time
	at     time.Time
	cost   time.Duration
}

func newCensus(t wire.Totals, tmpfs []string, q *queues, s *shared) *census {
	c := &census{patience: stopPatience, totals: t, tmpfs: tmpfs, queues: q, pids: processes, segments: segments, proc: procReader{buf: make([]byte, 4096)}, host: hostShared}
	c.hostHeld = func() int64 { // swapped pages are held, too
		table := c.proc.read("/proc/meminfo")
		return sumFields(table, []string{"AnonPages:", "Shmem:", "SwapTotal:"}) - sumFields(table, []string{"SwapFree:"})
	}
	c.hostUsed = func() int64 {
		table := c.proc.read("/proc/meminfo")
		return sumFields(table, []string{"MemTotal:", "Shmem:"}) - sumFields(table, []string{"MemFree:", "Buffers:", "Cached:", "SReclaimable:"})
	}
	if s != nil { // the host's /proc shows everybody's, and nobody in here can make a segment
		c.pids, c.segments = s.processes, func(int64) int64 { return 0 }
	}
	// A warm sandbox with segments in it serves no other action: none is there before.
	c.before, c.stored, c.hostBefore, c.usedBefore, c.counted = deadCPU(), c.files(), c.host(), c.hostUsed(), time.Now()
	c.askedAt, c.kernelAt = c.usedBefore, c.hostKernel()
	c.exact = exactCount{held: c.hostHeld(), at: c.counted, cost: censusHurry}
	return c
}

// take counts once. It returns what is exceeded, and when to count again.
func (c *census) take() (wire.Exceeded, time.Duration) {
	if now := time.Now(); now.Before(c.due) && c.recentMemory() >= 0 {
		return "", min(c.due.Sub(now), censusHurry)
	}
	start := threadCPU()
	pids, resume := c.pids(), func() {}
	halt := func() { pids, resume = c.stop(pids) }
	if c.rapid {
		halt()
		halt = nil
	}
	before := c.sockets
	u := c.count(pids, halt)
	cost, pause, share := threadCPU()-start, c.unfilled(u.memory), time.Duration(censusShare)
	if u.memory > c.totals.Memory/2 || c.sockets*queueMost > c.totals.Memory/2 {
		pause, share = censusHurry, hurryShare
	}
	pause = max(pause, share*cost)
	most := max(c.pace(u.memory, pause), u.memory+(c.sockets-before)*queueMost)
	if c.rapid = u.memory <= c.totals.Memory && most > c.totals.Memory; c.rapid {
		pause = max(censusHurry, cost)
	}
	c.due = time.Time{}
	if u.memory > c.totals.Memory && u.least <= c.totals.Memory {
		if u.memory = c.recentMemory(); u.memory < 0 {
			u.memory = c.countExactly(pids, u.least)
			pause = max(pause, c.exact.cost)
		}
		c.due = time.Now().Add(pause) // until then the host's figure is enough
		pause = censusHurry
	}
	over := u.exceeds(c.totals)
	if over == "" {
		resume()
	}
	return over, pause
}

// unfilled is how long programs need at least for half of what is left of the limit.
func (c *census) unfilled(memory int64) time.Duration {
	const rate = 3 << 20 // bytes that a processor fills in a millisecond
	left := (c.totals.Memory - memory) / int64(2*rate*runtime.NumCPU())
	return min(max(time.Duration(left)*time.Millisecond, censusHurry), censusInterval)
}

// countExactly makes an exact count. If the host grows by what was left of the limit, the
// processes are stopped for it, and go on if it was not they who grew.
func (c *census) countExactly(pids []string, least int64) int64 {
	start, resume := threadCPU(), func() {}
	for stopped, whole := c.outgrown() || c.mayHoldUp(c.shown(pids)), false; !whole; stopped = true {
		if stopped {
			pids, resume = c.stop(pids)
		}
		next := exactCount{held: c.hostHeld(), at: time.Now()}
		next.memory, whole = c.exactMemory(pids, func() bool { return stopped || !c.outgrown() })
		if next.cost = threadCPU() - start; whole {
			next.memory = max(next.memory, least) // what forks meanwhile has a share that we do not see
			c.exact = next
		}
	}
	if c.exact.memory <= c.totals.Memory {
		resume()
	}
	return c.exact.memory
}

// mayHoldUp says that a process has page tables for more than it holds, as of reading what nothing
// was written to. One that holds little of much has them too, and loses a moment. The exact count waits for the lock of each process's memory
// (mmap_lock), and mprotect(2) of such a mapping holds that for seconds: others would grow.
func (c *census) mayHoldUp(dirs []string) bool {
	const usual, entries = 16 << 20, 512 // in a page of them
	return slices.ContainsFunc(dirs, func(dir string) bool {
		status := c.proc.read(dir + "/status")
		return sumFields(status, []string{"VmPTE:"}) > usual+sumFields(status, []string{"VmRSS:"})/entries
	})
}

// outgrown says that since the last exact count the host has grown by half of what was left
// of the limit. A busy machine may let us look again only when they have taken the rest.
func (c *census) outgrown() bool {
	return c.mostMemory() > c.totals.Memory-(c.totals.Memory-c.exact.memory)/2
}

// pace is the memory expected after a pause, if growth goes on as since the last count.
func (c *census) pace(memory int64, pause time.Duration) int64 {
	now := time.Now()
	grown := float64(memory-c.last) * float64(pause) / float64(max(now.Sub(c.counted), 1))
	c.last, c.counted = memory, now
	return memory + int64(grown)
}

// recentMemory is mostMemory; -1 if that is not known, outgrown, or of too long ago.
func (c *census) recentMemory() int64 {
	if time.Since(c.exact.at) > censusShare*c.exact.cost || c.outgrown() {
		return -1
	}
	return c.mostMemory()
}

// mostMemory is the most that can be in use by the last exact count and what the host has
// grown by since then; -1 if that is not known.
func (c *census) mostMemory() int64 {
	held := c.hostHeld()
	if held <= 0 || c.exact.at.IsZero() {
		return -1
	}
	return c.exact.memory + max(held-c.exact.held, 0)
}

// stop stops the processes of the action, and lists them anew. To walk their page tables
// takes a tenth of a second, and much longer on a busy processor: meanwhile they would grow.
// A program can see that it was stopped, so that this is for one that has most likely used
// up its limit.
//
// Each is stopped by its number. A signal to all of them at once also reaches a child that a
// fork(2) under way is about to make (kernel/fork.c): nothing would know to continue that
// one.
func (c *census) stop(pids []string) (all []string, resume func()) {
	var stopped []int
	seen := map[string]bool{}
	until := time.Now().Add(c.patience)
	for again := c.stops; again; pids = c.pids() { // what is stopped forks no more, so that this ends
		again = false
		for _, pid := range pids {
			n, err := strconv.Atoi(pid)
			s := c.proc.stat(pid)
			if err == nil && !seen[pid] && !s.stopped && unix.Kill(n, unix.SIGSTOP) == nil {
				stopped = append(stopped, n)
			}
			// A fork(2) under way is finished first, which takes tens of milliseconds for a large
			// process on a busy processor. Until then it runs, and so does its child after that.
			again = again || !seen[pid] || s.runs && time.Now().Before(until)
			seen[pid] = true
		}
		if again {
			time.Sleep(stopGlance)
		}
	}
	return pids, func() {
		for _, pid := range slices.Backward(stopped) { // children first: no parent sees one that is stopped
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// crowd counts the processes that a failed program leaves. Between two counts a
// program can start so many that the kernel refuses it one more (RLIMIT_NPROC), and
// die of that before it is killed for it.
func (c *census) crowd() wire.Exceeded {
	if c.count(c.pids(), nil).tasks > c.totals.Processes {
		return wire.ExceededProcesses
	}
	return ""
}

// count is cheap, and counts a page that two processes share twice. It has the processes
// stopped by halt, which may be nil, if so many sockets are new that they can be filled
// while it looks at them.
func (c *census) count(pids []string, halt func()) usage {
	if pids == nil {
		return usage{tasks: math.MaxInt64} // we are what must count; not to be able to is no reason to go on
	}
	u, dirs := usage{cpu: c.cpuOfDead()}, make([]string, len(pids))
	for i, pid := range pids {
		s := c.proc.stat(pid)
		u.tasks += s.threads
		u.cpu += s.cpu
		dirs[i] = shown(pid, s)
	}
	own, largest, objects := int64(0), int64(0), c.objects(dirs, halt)-c.stored
	shared := objects
	for _, dir := range dirs {
		status := c.proc.read(dir + "/status")
		mine := sumFields(status, ofOne)
		own, largest = own+mine, max(largest, mine)
		shared += sumFields(status, []string{"RssShmem:"})
	}
	kept := c.keptByKernel(dirs, halt)
	u.memory, u.least = own+kept+c.withUnseen(dirs, own, shared, halt), objects+kept+largest
	return u
}

// mappingSize is the kernel's memory for a mapping, with its share of their tree, a name (PR_SET_VMA) and a policy (mbind(2)).
const mappingSize = 640

// hostKernel is the memory of the host that its kernel keeps of things and cannot give back.
func (c *census) hostKernel() int64 { return c.proc.sum("/proc/meminfo", "SUnreclaim:") }

// keptByKernel sums the kernel's memory for mappings, including untouched ones: a process may
// have 65,530 of them, and a fork as many. No figure of a process tells how many, and to count
// them takes long, so that they are counted when the host's kernel has come to keep a quarter of
// the limit more, and while they are much of it.
func (c *census) keptByKernel(dirs []string, halt func()) int64 {
	now := c.hostKernel()
	if now-c.kernelAt <= c.totals.Memory/4 && c.inKernel <= c.totals.Memory/8 {
		c.kernelAt = min(c.kernelAt, now)
		return c.inKernel
	}
	if halt != nil && c.mayHoldUp(dirs) {
		halt()
	}
	c.inKernel, c.kernelAt = 0, now
	for _, dir := range dirs {
		if c.inKernel > c.totals.Memory {
			break
		}
		c.inKernel += mappingSize * linesOf(dir+"/maps", (c.totals.Memory-c.inKernel)/mappingSize)
		c.inKernel += behindDescriptors(dir, c.totals.Memory-c.inKernel)
	}
	return c.inKernel
}

const (
	// describedSize is the kernel's memory for what a descriptor has a line of in fdinfo: a lock of its file, what an
	// epoll waits for, a watch of inotify with the inode that it holds.
	describedSize = 256
	// watcherMost is what the unread events of an instance of inotify hold: fs.inotify.max_queued_events of the longest names.
	watcherMost = 8 << 20
)

// behindDescriptors sums what the kernel keeps behind the descriptors of a process beyond their size: until it is more
// than most.
func behindDescriptors(dir string, most int64) (total int64) {
	d, err := os.Open(dir + "/fdinfo")
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if total > most {
			break
		}
		total += behindDescriptor(dir+"/fdinfo/"+name, most-total)
	}
	return total
}

func behindDescriptor(path string, most int64) (total int64) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	const first = 4 // pos, flags, mnt_id, ino
	n, watches := int64(-first), false
	for lines := bufio.NewScanner(f); n*describedSize <= most && lines.Scan(); n++ {
		watches = watches || bytes.HasPrefix(lines.Bytes(), []byte("inotify "))
		if waiting, ok := bytes.CutPrefix(lines.Bytes(), []byte("scm_fds:")); ok { // each may be such an instance
			total += min(number(bytes.TrimSpace(waiting)), 1<<20) * watcherMost
		}
	}
	if watches {
		total += watcherMost
	}
	return total + max(n, 0)*describedSize
}

// linesOf counts the lines of a file, until there are more than most.
func linesOf(path string, most int64) (n int64) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); n <= most && lines.Scan(); {
		n++
	}
	return n
}

// ofOne is what a process holds for itself. Page tables are: reading a byte of every 2 MiB
// of a mapping makes 4 KiB of them and no page (proc_pid_status(5)).
var ofOne = []string{"RssAnon:", "VmSwap:", "VmPTE:"}

// shown are the directories of procfs that show what processes hold.
func (c *census) shown(pids []string) []string {
	dirs := make([]string, len(pids))
	for i, pid := range pids {
		dirs[i] = shown(pid, c.proc.stat(pid))
	}
	return dirs
}

// shown is the directory of procfs that shows what a process holds.
func shown(pid string, s processStat) string {
	if s.ended && s.threads > 1 {
		return proctree.Shown(pid)
	}
	return "/proc/" + pid
}

// exactMemory shares out the pages that several processes map, as after a fork
// (proportional set size). It walks every page table, so it is asked for only
// when the cheap sum is over the limit. A process that does not let us look counts
// as before.
//
// It is given up, and not whole, when there is no more patience.
func (c *census) exactMemory(pids []string, patient func() bool) (memory int64, whole bool) {
	dirs := c.shown(pids)
	own, shared := int64(0), c.objects(dirs, nil)-c.stored
	for _, dir := range dirs {
		if !patient() {
			return 0, false
		}
		rollup := c.proc.read(dir + "/smaps_rollup")
		mine, ours := sumFields(rollup, []string{"Pss_Anon:", "SwapPss:"}), sumFields(rollup, []string{"Pss_Shmem:"})
		if mine+ours == 0 {
			mine, ours = c.proc.sum(dir+"/status", "RssAnon:", "VmSwap:"), c.proc.sum(dir+"/status", "RssShmem:")
		}
		mine += c.proc.sum(dir+"/status", "VmPTE:")
		if own, shared = own+mine, shared+ours; own > c.totals.Memory {
			return own, true // it costs more the more there is
		}
	}
	return own + c.inKernel + c.withUnseen(dirs, own, shared, nil), true
}

// withUnseen is shared memory with what no process shows: pages of a shared mapping
// that were taken out of its tables (madvise(2), MADV_DONTNEED) are still held, and so
// is a memory file that is mapped in part, or that only waits in a socket to be received.
// How much that is only the host knows, for everybody together. So it is as much as the
// host's has grown, but no more than the processes can hold unseen.
func (c *census) withUnseen(dirs []string, own, shared int64, halt func()) int64 {
	if hidden := c.closed + max(c.silent-fewSilent, 0); hidden > 0 {
		grown := c.hostUsed() - c.usedBefore - own - shared // less than that if others have given back some
		shared += max(min(hidden*closedMost, grown), c.closed*queueMost+(hidden-c.closed)*silentLeast)
	}
	grown := c.host() - c.hostBefore
	if grown <= shared || own+grown <= c.totals.Memory/2 {
		return shared // and not looked at, which costs more than all the rest
	}
	if halt != nil && c.mayHoldUp(dirs) {
		halt()
	}
	return shared + min(grown-shared, unseen(dirs))
}

// objects sums memory that needs no process to map it: files in memory, System V
// segments, memory files (memfd_create(2)) that a process holds open, and what waits in
// its sockets. What is mapped of it counts again with the process.
func (c *census) objects(dirs []string, halt func()) int64 {
	total := c.segments(int64(len(dirs))) + c.files()
	seen, sockets := map[uint64]bool{}, map[uint64]bool{}
	closed, waiting, open := int64(0), int64(0), int64(0)
	for _, dir := range dirs {
		held, sent, n, ok := memoryFiles(dir, seen, sockets)
		if !ok {
			n = c.descriptors(dir)
			closed += n
		}
		total, waiting, open = total+held+n*descriptorSize, waiting+sent, open+n
		if total-c.stored > c.totals.Memory {
			break // enough, and there may be millions more
		}
		if halt != nil && ((int64(len(sockets))+closed-c.sockets)*queueMost > c.totals.Memory/2 || open > manyDescriptors) {
			halt()
			halt = nil
		}
	}
	if len(sockets) == 0 || c.worthAsking(int64(len(sockets))) {
		c.inSockets, c.unaccepted, c.silent = c.queues.held(sockets)
	}
	c.sockets, c.closed = int64(len(sockets))+closed, closed
	return total + c.inSockets + (waiting+c.unaccepted)*queueMost // each may be a full one
}

// worthAsking says that sockets may hold more than when the kernel was asked last: there are so
// many that they are filled at once, or the host has less memory than it had.
func (c *census) worthAsking(sockets int64) bool {
	used := c.hostUsed()
	if sockets*queueMost <= c.totals.Memory/8 && used-c.askedAt <= c.totals.Memory/8 && c.inSockets+c.unaccepted == 0 {
		c.askedAt = min(c.askedAt, used)
		return false
	}
	c.askedAt = used
	return true
}

// closedMost is the most that a socket holds of which nothing is known but that it can be
// there: programs can have twice the net.core.wmem_max of Linux in one, and many hosts have more.
const closedMost = 16 << 20

// fewSilent is how many sockets a program has of which the kernel tells nothing, as most do before they connect: for these
// it does not answer for what others take of the host.
const fewSilent = 16

// silentLeast is what each of the others counts in any case: the room for what it receives (tcp_rmem) of Linux.
const silentLeast = 128 << 10

// descriptors is how many descriptors a process can have that cannot be examined: one that
// runs a program that may not be read (execve(2)). A process that has ended has none.
func (c *census) descriptors(dir string) int64 {
	for line := range bytes.Lines(c.proc.read(dir + "/status")) {
		if size, ok := bytes.CutPrefix(line, []byte("FDSize:")); ok {
			return number(bytes.TrimSpace(size))
		}
	}
	return 0
}

// files sums the files in memory, also empty ones: the kernel keeps an inode and a name of each.
func (c *census) files() int64 {
	total := int64(0)
	for _, dir := range c.tmpfs {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err == nil {
			total += int64(fs.Blocks-fs.Bfree)*fs.Bsize + int64(fs.Files-fs.Ffree)*sandboxprofile.InodeSize
		}
	}
	return total
}

// cpuOfDead is the processor time of the action's processes that init has reaped.
func (c *census) cpuOfDead() time.Duration { return deadCPU() - c.before }

// ranOut says that a program which was killed between two counts was so for its
// processor time: RLIMIT_CPU is far above the total, so that whom the kernel killed
// for it has used that up.
func (c *census) ranOut(status unix.WaitStatus) bool {
	killed := status.Signaled() && (status.Signal() == unix.SIGKILL || status.Signal() == unix.SIGXCPU)
	return killed && c.totals.CPU != time.Duration(sandboxprofile.Unlimited) && c.cpuOfDead() > c.totals.CPU
}

// deadCPU is the processor time of all the children that we have waited for, and
// of those that they had waited for (getrusage(2)). A process that ignores SIGCHLD
// waits for none: what its children used is lost when they end.
func deadCPU() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// threadCPU is the processor time of this thread.
func threadCPU() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// processes lists those of the sandbox but init; nil is an error.
func processes() []string {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	pids := names[:0]
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' && name != "1" {
			pids = append(pids, name)
		}
	}
	return pids
}

// semaphoreSize is the kernel's memory for a semaphore (struct sem, aligned to a cache line). The others are of a message
// (struct msg_msg), of what a process has to undo of a set (struct sem_undo), and of an object itself.
const semaphoreSize, messageSize, undoSize, objectSize = 64, 64, 64, 512

// segments sums what System V objects of this ipc namespace hold (sysvipc(7)): the resident
// and swapped bytes of segments, the last two columns of their table, the bytes of messages,
// and the semaphores, of which one call makes 32,000. Messages may hold nothing, and each process can have what
// is to be undone of each set of semaphores (SEM_UNDO).
func segments(processes int64) int64 {
	total := int64(0)
	for _, t := range []struct {
		name string
		each func(fields []string) int64
	}{
		{"shm", func(f []string) int64 { return decimal(f[len(f)-2]) + decimal(f[len(f)-1]) + objectSize }},
		{"msg", func(f []string) int64 { return decimal(f[3]) + decimal(f[4])*messageSize + objectSize }},
		{"sem", func(f []string) int64 {
			return decimal(f[3])*(semaphoreSize+2*processes) + undoSize*processes + objectSize
		}},
	} {
		table, _ := os.ReadFile("/proc/sysvipc/" + t.name) // there is none without System V
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) > 4 && f[0] != "key" {
				total += t.each(f)
			}
		}
	}
	return total
}

// decimal is a column of a table of the kernel's.
func decimal(s string) int64 { return number([]byte(s)) }

// descriptorSize is what the kernel keeps of a descriptor at least. A program can have as many as
// open_files and pids allow, 16 million with the defaults, of which none is a file of memory. One
// that a fork shares counts again: nothing tells.
const descriptorSize = 1 << 10

const (
	// socketSize is what the kernel keeps of a socket that holds nothing: one of TCP is the largest.
	socketSize = 4 << 10
	// pipeSize is a pipe with the two pages that each can be filled with, also when its user's other pipes hold
	// fs.pipe-user-pages-soft. It counts from the start: nothing tells how much is in it.
	pipeSize = 9 << 10
	pipeBit  = 1 << 63 // of its inode in the list of those seen: another file system's
)

// manyDescriptors take a tenth of a second to look at. Nobody who has more grows meanwhile.
const manyDescriptors = 1 << 16

// memoryFiles sums the memory files among the descriptors of the process in dir that are not
// seen yet, by inode, and what is kept at least of pipes and sockets. It notes the sockets, and counts
// the descriptors, also those that wait in sockets. It reports false if it cannot look.
func memoryFiles(dir string, seen, sockets map[uint64]bool) (total, waiting, open int64, ok bool) {
	d, err := os.Open(dir + "/fd")
	if err != nil {
		return 0, 0, 0, false
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return 0, 0, 0, false
	}
	open = int64(len(names))
	var link [64]byte
	for _, name := range names {
		n, err := unix.Readlinkat(int(d.Fd()), name, link[:])
		if err == unix.ENOENT { // closed since
			continue
		}
		if err != nil {
			return total, waiting, open, false
		}
		if ino, ok := bytes.CutPrefix(link[:n], []byte("socket:[")); ok {
			if id := uint64(number(bytes.TrimSuffix(ino, []byte("]")))); !sockets[id] {
				sockets[id] = true
				total += socketSize
				waiting += descriptorsIn(dir, name)
			}
			continue
		}
		if ino, ok := bytes.CutPrefix(link[:n], []byte("pipe:[")); ok {
			if id := pipeBit | uint64(number(bytes.TrimSuffix(ino, []byte("]")))); !seen[id] {
				seen[id] = true
				total += pipeSize
			}
			continue
		}
		if !bytes.HasPrefix(link[:n], []byte("/memfd:")) {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(d.Fd()), name, &st, 0); err == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			total += st.Blocks * 512
		}
	}
	return total, waiting, open, true
}

// descriptorsIn is how many descriptors wait in a socket to be received (unix(7), SCM_RIGHTS).
func descriptorsIn(dir, name string) int64 {
	info, err := os.ReadFile(dir + "/fdinfo/" + name)
	_, waiting, said := bytes.Cut(info, []byte("scm_fds:"))
	if err != nil || !said {
		return 0
	}
	return number(bytes.TrimSpace(firstLine(waiting)))
}

// hostShared is sharedram of sysinfo(2).
func hostShared() int64 {
	var i unix.Sysinfo_t
	if err := unix.Sysinfo(&i); err != nil {
		return 0
	}
	return int64(i.Sharedram) * int64(max(i.Unit, 1))
}

// unseen is how much shared memory the processes can hold that neither their resident
// size nor their descriptors show. What cannot be looked at can be any.
func unseen(dirs []string) int64 {
	open, mapped, sizes := map[uint64]bool{}, map[uint64]bool{}, map[uint64]int64{}
	for _, dir := range dirs {
		if !openMemoryFiles(dir, open) || !sharedMappings(dir, mapped, sizes) {
			if _, err := os.Stat(dir); err != nil {
				continue // it has ended
			}
			return math.MaxInt64 / 2
		}
	}
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	for ino := range mapped {
		if !open[ino] { // its size is not that of the mapping
			return math.MaxInt64 / 2
		}
	}
	return total
}

// openMemoryFiles adds the inodes of the memory files that a process has open. It
// reports false if descriptors wait in one of its sockets (the line scm_fds of its
// fdinfo), or it cannot be looked at.
func openMemoryFiles(dir string, open map[uint64]bool) bool {
	d, err := os.Open(dir + "/fd")
	if err != nil {
		return false
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false
	}
	var link [64]byte
	for _, name := range names {
		n, err := unix.Readlinkat(int(d.Fd()), name, link[:])
		switch {
		case err == unix.ENOENT: // closed since
		case err != nil:
			return false
		case bytes.HasPrefix(link[:n], []byte("/memfd:")):
			var st unix.Stat_t
			if unix.Fstatat(int(d.Fd()), name, &st, 0) == nil {
				open[st.Ino] = true
			}
		case bytes.HasPrefix(link[:n], []byte("socket:")):
			if descriptorsIn(dir, name) > 0 {
				return false
			}
		}
	}
	return true
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return line
}

// sharedMappings adds what a process maps of shared anonymous memory, by inode, the most
// of any process, and the inodes of memory files that it maps (proc_pid_maps(5)).
func sharedMappings(dir string, files map[uint64]bool, sizes map[uint64]int64) bool {
	f, err := os.Open(dir + "/maps")
	if err != nil {
		return false
	}
	defer f.Close()
	mine := map[uint64]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // address, permissions, offset, device, inode, path
		if len(fields) < 6 {
			continue
		}
		ino, err := strconv.ParseUint(fields[4], 10, 64)
		from, to, ok := strings.Cut(fields[0], "-")
		switch {
		case err != nil || !ok:
		case strings.HasPrefix(fields[5], "/memfd:"):
			files[ino] = true
		case fields[5] == "/dev/zero" && len(fields) > 6: // "/dev/zero (deleted)": nobody opened it
			low, _ := strconv.ParseUint(from, 16, 64)
			high, _ := strconv.ParseUint(to, 16, 64)
			mine[ino] += int64(high - low)
		}
	}
	for ino, size := range mine {
		sizes[ino] = max(sizes[ino], size)
	}
	return lines.Err() == nil
}

// A procReader reads small files of /proc. One that has gone with its process is
// empty.
type procReader struct{ buf []byte }

func (r procReader) read(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, _ := readFull(fd, r.buf)
	return r.buf[:n]
}

// A processStat has the fields of /proc/PID/stat that we need.
type processStat struct {
	threads int64
	stopped bool
	ended   bool          // the first thread has; others may live
	runs    bool          // or waits for a processor
	cpu     time.Duration // its own, and that of the children it waited for
}

func (r procReader) stat(pid string) processStat { return parseStat(r.read("/proc/" + pid + "/stat")) }

// parseStat reads the fields by their numbers in proc_pid_stat(5). The second, the
// name, is the process's own choice and may hold blanks and parentheses; it ends
// with the last parenthesis.
func parseStat(line []byte) processStat {
	_, numbers, ok := cutLast(line, ')')
	f := bytes.Fields(numbers)
	const first = 3 // the number of f[0]
	if !ok || len(f) <= 20-first {
		return processStat{}
	}
	ticks := int64(0)
	for i := 14; i <= 17; i++ { // utime, stime, cutime, cstime
		ticks += number(f[i-first])
	}
	return processStat{threads: number(f[20-first]), stopped: f[0][0] == 'T', ended: f[0][0] == 'Z', runs: f[0][0] == 'R', cpu: time.Duration(ticks) * clockTick}
}

func cutLast(b []byte, sep byte) (before, after []byte, found bool) {
	if i := bytes.LastIndexByte(b, sep); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}

// sum adds the named fields of a file of lines such as "RssAnon:  123 kB", in bytes.
func (r procReader) sum(path string, names ...string) int64 { return sumFields(r.read(path), names) }

func sumFields(table []byte, names []string) int64 {
	total := int64(0)
	for line := range bytes.Lines(table) {
		for _, name := range names {
			if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
				total += number(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))) << 10
			}
		}
	}
	return total
}

// number is a count in a file of /proc; anything else is zero.
func number(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
