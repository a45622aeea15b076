package confine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
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
	l, err := confine.NewLandlock(confine.LandlockOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	w, err := confine.NewBwrap("")
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	ws := confinetest.Workspace(b)
	p := confinetest.Profile(b, ws)
	p.Limits.Memory, p.Limits.Scratch, p.Limits.Wall, p.Limits.FileSize = 256<<20, 1<<30, 5*time.Second, 4<<30
	for _, c := range []confine.Confiner{w, l} {
		for _, x := range memoryBombs {
			b.Run(c.Name()+"/"+x.name, func(b *testing.B) {
				peak, over, causes := int64(0), time.Duration(0), ""
				for b.Loop() {
					stop := make(chan struct{})
					figures := make(chan heldMemory)
					go func() { figures <- watchMemory(held, stop) }()
					o := confinetest.Exec(b, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c",
						memoryPrelude+"    "+strings.ReplaceAll(x.python, "\n", "\n    ")+"\nexcept (OSError, MemoryError) as e: print(e, flush=True)\nhold()")
					close(stop)
					f := <-figures
					peak, over, causes = max(peak, f.peak), max(over, f.over), fmt.Sprintf("%v %.80q %.200q", o.Cause, o.Out, o.Err)
				}
				b.ReportMetric(float64(peak>>20), "MiB-at-most")
				b.ReportMetric(float64(over.Milliseconds()), "ms-over-300-MiB")
				b.Log(causes)
			})
		}
	}
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

// accountMemory moves this process to a cgroup of its own without limits, and gives what
// tells how much memory is held in it that the kernel cannot take back.
func accountMemory(b *testing.B) (held func() int64) {
	for _, x := range []struct {
		parent string
		fields []string
	}{
		{"/sys/fs/cgroup/memory", []string{"total_rss", "total_shmem"}},
		{"/sys/fs/cgroup", []string{"anon", "shmem", "kernel", "sock"}},
	} {
		dir := filepath.Join(x.parent, fmt.Sprintf("sandgate-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		back := filepath.Join(x.parent, "cgroup.procs")
		b.Cleanup(func() {
			_ = os.WriteFile(back, fmt.Append(nil, os.Getpid()), 0o644)
			_ = unix.Rmdir(dir)
		})
		if _, err := os.Stat(dir + "/memory.stat"); err != nil || os.WriteFile(dir+"/cgroup.procs", fmt.Append(nil, os.Getpid()), 0o644) != nil {
			continue
		}
		return func() int64 {
			stat, _ := os.ReadFile(dir + "/memory.stat")
			total := int64(0)
			for line := range strings.Lines(string(stat)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				for _, f := range x.fields {
					if n, err := strconv.ParseInt(value, 10, 64); err == nil && name == f {
						total += n
					}
				}
			}
			kernel, _ := os.ReadFile(dir + "/memory.kmem.usage_in_bytes")
			n, _ := strconv.ParseInt(strings.TrimSpace(string(kernel)), 10, 64)
			return total + n
		}
	}
	b.Skipf("uid %d may not make a cgroup with the memory controller on this machine", os.Geteuid())
	return nil
}
