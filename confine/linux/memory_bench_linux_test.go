package linux_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// memoryBombs hold as much memory as they can get, each in another way, for as long as
// they are let. python has ctypes, mmap, os and socket, libc, and mib.
var memoryBombs = []struct{ name, python string }{
	{"Heap", "x = [b'x' * mib for _ in range(4000)]"},
	{"Populated", "libc.mmap(None, 4000 * mib, 3, 0x8022, -1, 0)"}, // MAP_POPULATE, at one stroke
	{"HugePages", "m = mmap.mmap(-1, 4000 * mib, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(14)\nfor i in range(0, 4000 * mib, 1 << 21): m[i] = 1"},
	{"ManyProcesses", "for _ in range(20):\n    if os.fork() == 0: x = b'x' * (200 * mib); hold()"},
	{"CopiesOfOne", "x = bytearray(200 * mib)\nfor _ in range(20):\n    if os.fork() == 0:\n        for i in range(0, len(x), 4096): x[i] = 1\n        hold()"},
	{"HiddenProcesses", "for _ in range(20):\n    if os.fork() == 0: libc.prctl(4, 0, 0, 0, 0); x = b'x' * (200 * mib); hold()"},
	{"FilesInTmp", "for i in range(4000): open(f'/tmp/{i}', 'wb').write(b'x' * mib)"},
	{"AllocatedInTmp", "f = open('/tmp/x', 'wb'); os.posix_fallocate(f.fileno(), 0, 900 * mib)"},
	{"SharedMemory", "for i in range(4000): open(f'/dev/shm/{i}', 'wb').write(b'x' * mib)"},
	{"MemoryFiles", "fds = [os.memfd_create('x') for _ in range(50)]\nfor i in range(4000): os.write(fds[i % 50], b'x' * mib)"},
	{"AllocatedMemoryFiles", "fds = [os.memfd_create('x') for _ in range(8)]\nfor fd in fds: os.posix_fallocate(fd, 0, 500 * mib)"},
	{"MemoryFilesInFlight", "pairs = []\nfor _ in range(200):\n    a, b = socket.socketpair(); fd = os.memfd_create('x'); os.write(fd, b'x' * (16 * mib))\n    socket.send_fds(a, [b'x'], [fd]); os.close(fd); pairs.append((a, b))"},
	{"MemoryFilesMappedInPart", "m = []\nfor _ in range(200):\n    fd = os.memfd_create('x'); os.write(fd, b'x' * (16 * mib)); m.append(mmap.mmap(fd, 4096)); os.close(fd)"},
	{"MemoryFilesOfHiddenProcesses", "libc.prctl(4, 0, 0, 0, 0)\nfds = [os.memfd_create('x') for _ in range(200)]\nfor fd in fds: os.write(fd, b'x' * (16 * mib))"},
	{"SharedMappings", "m = [mmap.mmap(-1, mib) for _ in range(4000)]\nfor x in m: x.write(b'x' * mib)"},
	{"DroppedMappings", "m = [mmap.mmap(-1, 16 * mib) for _ in range(200)]\nfor x in m:\n    x.write(b'x' * (16 * mib)); x.madvise(mmap.MADV_DONTNEED)"},
	{"MappingsOfTheDead", "m = [mmap.mmap(-1, 16 * mib) for _ in range(200)]\nfor x in m:\n    if os.fork() == 0: x.write(b'x' * (16 * mib)); os._exit(0)\n    os.wait()"},
	{"Segments", "libc.shmat.restype = ctypes.c_void_p\nfor _ in range(200):\n    a = ctypes.c_void_p(libc.shmat(libc.shmget(0, 16 * mib, 0o1600), None, 0))\n    ctypes.memset(a, 1, 16 * mib); libc.shmdt(a)"},
	{"Pipes", "import fcntl\nfor _ in range(60):\n    if os.fork() == 0:\n        for _ in range(120):\n            r, w = os.pipe(); os.set_blocking(w, False)\n            try:\n                fcntl.fcntl(w, 1031, mib)\n            except OSError: pass\n            try:\n                while os.write(w, b'x' * 65536): pass\n            except OSError: pass\n        hold()"},
	{"Sockets", "for _ in range(60):\n    if os.fork() == 0:\n        pairs = []\n        for _ in range(120):\n            a, b = socket.socketpair(); a.setblocking(False); a.setsockopt(1, 7, 1 << 20); pairs.append((a, b))\n            try:\n                while a.send(b'x' * 65536): pass\n            except OSError: pass\n        hold()"},
}

const memoryPrelude = `import ctypes, mmap, os, socket, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
mib = 1 << 20
def hold():
    time.sleep(20); os._exit(0)
try:
`

// BenchmarkMemoryHeld lets off programs that hold as much memory as they get, under a limit
// of 256 MiB, and tells by the figures of the host's cgroups how much that was at most, and
// for how long it was more than 300 MiB.
func BenchmarkMemoryHeld(b *testing.B) {
	held := accountMemory(b)
	for _, c := range memoryConfiners(b) {
		for _, x := range memoryBombs {
			b.Run(c.Name()+"/"+x.name, func(b *testing.B) {
				peak, over, causes := int64(0), time.Duration(0), ""
				for b.Loop() {
					f, o := letOff(b, c, x.python, held)
					peak, over, causes = max(peak, f.peak), max(over, f.over), fmt.Sprintf("%v %.80q %.200q", o.Cause, o.Out, o.Err)
				}
				b.ReportMetric(float64(peak>>20), "MiB-at-most")
				b.ReportMetric(float64(over.Milliseconds()), "ms-over-300-MiB")
				b.Log(causes)
			})
		}
	}
}

// TestTheKernelHoldsMemory: in a cgroup no program holds more than its limit and a little,
// for any time that matters, with both backends.
func TestTheKernelHoldsMemory(t *testing.T) {
	box, err := memoryConfiners(t)[0].Prepare(context.Background(), confinetest.Profile(t, confinetest.Workspace(t)))
	if err != nil {
		t.Fatal(err)
	}
	limits := box.Enforced().Limits
	box.Close()
	if !strings.Contains(limits, "cgroup") {
		t.Skipf("uid %d has no cgroup v2 directory on this machine in which it may make cgroups\nhint: `scripts/vm --all cgroups` boots one that has it", os.Geteuid())
	}
	held := accountMemory(t)
	for _, c := range memoryConfiners(t) {
		for _, x := range memoryBombs {
			t.Run(c.Name()+"/"+x.name, func(t *testing.T) {
				f, o := letOff(t, c, x.python, held)
				if f.over > 100*time.Millisecond {
					t.Errorf("it held more than 300 MiB for %v", f.over)
				}
				t.Logf("%d MiB at most, %v over 300 MiB; %v %.80q %.200q", f.peak>>20, f.over, o.Cause, o.Out, o.Err)
			})
		}
	}
}

func memoryConfiners(tb testing.TB) []confine.Confiner {
	tb.Helper()
	w, err := linux.NewBwrap("")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.Close() })
	l, err := linux.NewLandlock(linux.LandlockOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return []confine.Confiner{w, l}
}

// letOff runs one of memoryBombs under a limit of 256 MiB, and watches.
func letOff(tb testing.TB, c confine.Confiner, python string, held func() int64) (heldMemory, confinetest.Outcome) {
	tb.Helper()
	ws := confinetest.Workspace(tb)
	p := confinetest.Profile(tb, ws)
	p.Limits.Memory, p.Limits.Scratch, p.Limits.FileSize = 256<<20, 1<<30, 4<<30
	p.Limits.Wall /= 4 // of 20 s: what no limit ends holds on, and is watched for as long
	stop := make(chan struct{})
	figures := make(chan heldMemory)
	go func() { figures <- watchMemory(held, stop) }()
	o := confinetest.Exec(tb, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c",
		memoryPrelude+"    "+strings.ReplaceAll(python, "\n", "\n    ")+"\nexcept (OSError, MemoryError) as e: print(e, flush=True)\nhold()")
	close(stop)
	return <-figures, o
}

type heldMemory struct {
	peak int64
	over time.Duration // the longest time without a break
}

func watchMemory(held func() int64, stop chan struct{}) heldMemory {
	var f heldMemory
	before, since := held(), time.Time{}
	for {
		now := held() - before
		f.peak = max(f.peak, now)
		switch {
		case now <= 300<<20:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		default:
			f.over = max(f.over, time.Since(since))
		}
		select {
		case <-stop:
			return f
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// accountMemory gives what tells how much memory is held in the cgroup of this process that
// the kernel cannot take back. With cgroups of version 1 it moves to one of its own, without
// limits.
func accountMemory(b testing.TB) (held func() int64) {
	if self, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		_, own, _ := strings.Cut("\n"+string(self), "\n0::")
		dir := filepath.Join("/sys/fs/cgroup", strings.TrimSpace(own[:max(strings.IndexByte(own, '\n'), 0)]))
		if filepath.Base(dir) == fmt.Sprintf("sandgate-%d-supervisor", os.Getpid()) {
			dir = filepath.Dir(dir) // where the sandboxes have theirs
		}
		if _, err := os.Stat(dir + "/memory.stat"); err == nil {
			return func() int64 { return sumStat(dir, "anon", "shmem", "kernel", "sock") }
		}
	}
	const parent = "/sys/fs/cgroup/memory"
	dir, pid := filepath.Join(parent, fmt.Sprintf("sandgate-test-%d", os.Getpid())), fmt.Append(nil, os.Getpid())
	if os.Mkdir(dir, 0o755) != nil {
		b.Skipf("uid %d may not make a cgroup with the memory controller on this machine", os.Geteuid())
	}
	b.Cleanup(func() {
		_ = os.WriteFile(parent+"/cgroup.procs", pid, 0o644)
		_ = unix.Rmdir(dir)
	})
	if err := os.WriteFile(dir+"/cgroup.procs", pid, 0o644); err != nil {
		b.Fatal(err)
	}
	return func() int64 {
		kernel, _ := os.ReadFile(dir + "/memory.kmem.usage_in_bytes")
		n, _ := strconv.ParseInt(strings.TrimSpace(string(kernel)), 10, 64)
		return sumStat(dir, "total_rss", "total_shmem") + n
	}
}

// sumStat adds fields of a cgroup's memory.stat.
func sumStat(dir string, fields ...string) (total int64) {
	stat, _ := os.ReadFile(dir + "/memory.stat")
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && slices.Contains(fields, name) {
			total += n
		}
	}
	return total
}
