package confinetest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A bomb is a program that uses more than its limit of something, and its twin the
// same program with less.
type bomb struct {
	name   string
	limits func(*sandboxprofile.Limits)
	// python is run with N set to over or under.
	python      string
	over, under string
	cause       confine.Cause
	// refused is the program's output when the kernel was faster.
	refused string
}

const mib = 1 << 20

// cpu is a limit that an interpreter which only starts keeps to.
func cpu(d time.Duration) func(*sandboxprofile.Limits) {
	return func(l *sandboxprofile.Limits) { l.CPU = patience * d }
}

func memory(n int64) func(*sandboxprofile.Limits) {
	return func(l *sandboxprofile.Limits) { l.Memory = n; l.Scratch = 1 << 30 }
}

// fillSocket sends as much as there is room for.
const fillSocket = "def fill(s):\n    s.setblocking(False)\n    try:\n        while s.send(b'x' * 65536): pass\n    except OSError: pass\n"

// bombs are things that programs of models do by mistake, and attackers on purpose.
// Each holds what it has until it is ended.
var bombs = []bomb{
	{"Processes", func(l *sandboxprofile.Limits) { l.Pids = 40 },
		"for _ in range(N):\n    if os.fork() == 0: hold(); os._exit(0)\nhold()",
		"2000", "20", confine.PidsLimit, "Resource temporarily unavailable"},
	{"Threads", func(l *sandboxprofile.Limits) { l.Pids = 40 },
		"import threading\nfor _ in range(N): threading.Thread(target=hold, daemon=True).start()\nhold()",
		"2000", "20", confine.PidsLimit, "can't start new thread"},
	{"Memory", memory(256 * mib),
		"x = []\nfor _ in range(N): x.append(b'x' * mib)\nhold()",
		"2000", "100", confine.MemoryLimit, "MemoryError"},
	{"MemoryOfManyProcesses", memory(256 * mib),
		"for _ in range(N):\n    if os.fork() == 0: x = b'x' * (50 * mib); hold(); os._exit(0)\nhold()",
		"8", "2", confine.MemoryLimit, ""},
	{"MemoryOfHiddenProcesses", memory(256 * mib),
		"for _ in range(N):\n    if os.fork() == 0: libc.prctl(4, 0, 0, 0, 0); x = b'x' * (50 * mib); hold(); os._exit(0)\nhold()",
		"8", "2", confine.MemoryLimit, ""},
	{"FilesInTmp", memory(128 * mib),
		"for i in range(N): open(f'/tmp/{i}', 'wb').write(b'x' * mib)\nhold()",
		"400", "50", confine.MemoryLimit, ""},
	// The kernel keeps an inode and a name of each, though they hold nothing.
	{"EmptyFilesInTmp", memory(64 * mib),
		"import tempfile\nos.chdir(tempfile.mkdtemp())\nfor i in range(N * 1000): os.mknod(f'{i}')\nhold()",
		"400", "10", confine.MemoryLimit, ""},
	{"LinksInTmp", memory(64 * mib),
		"import tempfile\nos.chdir(tempfile.mkdtemp())\nfor i in range(N * 1000): os.symlink('x', f'{i}')\nhold()",
		"400", "10", confine.MemoryLimit, ""},
	{"SharedMemory", memory(128 * mib),
		"for i in range(N): open(f'/dev/shm/{i}', 'wb').write(b'x' * mib)\nhold()",
		"400", "50", confine.MemoryLimit, ""},
	{"MemoryFiles", memory(128 * mib),
		"fds = [os.memfd_create('x') for _ in range(8)]\nfor i in range(N): os.write(fds[i % 8], b'x' * mib)\nhold()",
		"400", "50", confine.MemoryLimit, ""},
	{"SharedMappings", memory(128 * mib),
		"import mmap\nm = [mmap.mmap(-1, mib) for _ in range(N)]\nfor x in m: x.write(b'x' * mib)\nhold()",
		"400", "50", confine.MemoryLimit, ""},
	{"MemoryFilesInFlight", memory(256 * mib),
		"import socket\npairs = []\nfor _ in range(N):\n    a, b = socket.socketpair(); fd = os.memfd_create('x'); os.write(fd, b'x' * (16 * mib))\n" +
			"    socket.send_fds(a, [b'x'], [fd]); os.close(fd); pairs.append((a, b))\nhold()",
		"75", "8", confine.MemoryLimit, ""},
	{"Segments", memory(128 * mib),
		"libc.shmat.restype = ctypes.c_void_p\nfor _ in range(N):\n" +
			"    a = ctypes.c_void_p(libc.shmat(libc.shmget(0, 16 * mib, 0o1600), None, 0))\n" +
			"    ctypes.memset(a, 1, 16 * mib); libc.shmdt(a)\nhold()",
		"20", "2", confine.MemoryLimit, ""},
	// What no process shows: its pages are out of every table, and held all the same.
	{"DroppedMappings", memory(256 * mib),
		"import mmap\nm = [mmap.mmap(-1, 16 * mib) for _ in range(N)]\nfor x in m:\n    x.write(b'x' * (16 * mib)); x.madvise(mmap.MADV_DONTNEED)\nhold()",
		"75", "8", confine.MemoryLimit, ""},
	{"MappingsOfTheDead", memory(256 * mib),
		"import mmap\nm = [mmap.mmap(-1, 16 * mib) for _ in range(N)]\nfor x in m:\n    if os.fork() == 0: x.write(b'x' * (16 * mib)); os._exit(0)\n    os.wait()\nhold()",
		"75", "8", confine.MemoryLimit, ""},
	{"MemoryFilesMappedInPart", memory(256 * mib),
		"import mmap\nm = []\nfor _ in range(N):\n    fd = os.memfd_create('x'); os.write(fd, b'x' * (16 * mib)); m.append(mmap.mmap(fd, 4096)); os.close(fd)\nfor x in m: x.madvise(mmap.MADV_DONTNEED)\nhold()",
		"75", "8", confine.MemoryLimit, ""},
	{"MemoryFilesOfHiddenProcesses", memory(256 * mib),
		"libc.prctl(4, 0, 0, 0, 0)\nfds = [os.memfd_create('x') for _ in range(N)]\nfor fd in fds: os.write(fd, b'x' * (16 * mib))\nhold()",
		"75", "8", confine.MemoryLimit, ""},
	// Buffers of the kernel: the first sender lives, the second has closed.
	{"Sockets", memory(256 * mib),
		"import socket\npairs = []\ndef fill():\n    a, b = socket.socketpair(); a.setblocking(False)\n    try:\n        while a.send(b'x' * 65536): pass\n    except OSError: pass\n    return a, b\n" +
			"for _ in range(N):\n    if os.fork() == 0:\n        pairs = [fill() for _ in range(100)]; hold(); os._exit(0)\nhold()",
		"50", "2", confine.MemoryLimit, ""},
	{"SocketsOfTheClosed", memory(256 * mib),
		"import socket\ndef fill():\n    a, b = socket.socketpair(); a.setblocking(False)\n    try:\n        while a.send(b'x' * 65536): pass\n    except OSError: pass\n    a.close(); return b\n" +
			"for _ in range(N):\n    if os.fork() == 0:\n        queues = [fill() for _ in range(200)]; hold(); os._exit(0)\nhold()",
		"40", "1", confine.MemoryLimit, ""},
	// Of connections with an end that has no owner: it was closed, or never accepted.
	{"ConnectionsOfTheClosed", memory(256 * mib), "import socket\n" + fillSocket +
		"l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64); kept = []\n" +
		"for _ in range(N):\n    c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * mib); c.connect(l.getsockname()); kept.append(l.accept()[0])\n    fill(c); c.close()\nhold()",
		"400", "8", confine.MemoryLimit, ""},
	{"ConnectionsThatNobodyAccepts", memory(256 * mib), "import socket\n" + fillSocket +
		"kept = []\nfor _ in range(N):\n    l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64); kept.append(l)\n" +
		"    for _ in range(20):\n        c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * mib); c.connect(l.getsockname()); fill(c); c.close()\nhold()",
		"40", "1", confine.MemoryLimit, ""},
	{"QueuesThatNobodyAccepts", memory(256 * mib), "import socket\n" + fillSocket +
		"kept = []\nfor i in range(N):\n    l = socket.socket(socket.AF_UNIX); l.bind(f's{N}-{i}'); l.listen(64); kept.append(l)\n" +
		"    for _ in range(60):\n        c = socket.socket(socket.AF_UNIX); c.connect(f's{N}-{i}'); fill(c); c.close()\nhold()",
		"60", "1", confine.MemoryLimit, ""},
	{"SocketsInFlight", memory(128 * mib), "import socket\n" + fillSocket +
		"kept = []\nfor _ in range(N):\n    a, b = socket.socketpair(); kept += [a, b]\n    for _ in range(20):\n        c, d = socket.socketpair(); fill(c); fill(d); socket.send_fds(a, [b'x'], [c.fileno(), d.fileno()]); c.close(); d.close()\nhold()",
		"12", "1", confine.MemoryLimit, "Too many references"},
	{"DescriptorsOfNoFiles", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 64*mib, 4000 },
		"for _ in range(N):\n    if os.fork() == 0: x = [os.eventfd(0) for _ in range(3900)]; hold(); os._exit(0)\nhold()",
		"40", "2", confine.MemoryLimit, ""},
	// What the kernel keeps behind descriptors, and no figure of a process shows.
	{"Pipes", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 256*mib, 4000 },
		"import fcntl\ndef full():\n    r, w = os.pipe(); os.set_blocking(w, False)\n    try:\n        while os.write(w, b'x' * 4096): pass\n    except OSError: pass\n    os.close(w); return r\n" +
			"for _ in range(N):\n    if os.fork() == 0: x = [full() for _ in range(3900)]; hold(); os._exit(0)\nhold()",
		"20", "1", confine.MemoryLimit, ""},
	{"Connections", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 64*mib, 4000 },
		"import socket\nfor _ in range(N):\n    if os.fork() == 0:\n        l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64); x = []\n" +
			"        for _ in range(1900): c = socket.socket(); c.connect(l.getsockname()); x.append((c, l.accept()[0]))\n        hold(); os._exit(0)\nhold()",
		"6", "1", confine.MemoryLimit, ""},
	{"WatchersThatNobodyReads", memory(64 * mib),
		"files = [f'{c}' * 250 for c in 'ab']\nfor f in files: open(f, 'w').close()\nx = [libc.inotify_init() for _ in range(N)]\nassert min(x) >= 0 and all(libc.inotify_add_watch(fd, b'.', 4) > 0 for fd in x)\n" +
			"for i in range(16000): os.utime(files[i % 2])\nhold()",
		"14", "2", confine.MemoryLimit, ""},
	{"Locks", memory(64 * mib),
		"import fcntl\nx = [open(f'{i}', 'w') for i in range(N)]\nfor f in x:\n    for i in range(3000): fcntl.lockf(f, fcntl.LOCK_EX, 1, 2 * i)\nhold()",
		"200", "5", confine.MemoryLimit, ""},
	{"EventsWaitedFor", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 64*mib, 4000 },
		"import select\nx = [os.eventfd(0) for _ in range(3000)]\nkept = []\nfor _ in range(N):\n    e = select.epoll(); kept.append(e)\n    for fd in x: e.register(fd, 0)\nhold()",
		"150", "5", confine.MemoryLimit, ""},
	{"FiltersOfSockets", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 64*mib, 4000 },
		"import socket, struct\ncode = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0) * 4000)\nfilter = struct.pack('HxxxxxxP', 4000, ctypes.addressof(code))\nx = []\n" +
			"for _ in range(N):\n    s, t = socket.socketpair(); s.setsockopt(1, 26, filter); x += [s, t]\nhold()",
		"1500", "20", confine.MemoryLimit, ""},
	{"QuestionsThatNobodyReads", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 128*mib, 4000 },
		"import socket, struct\nx = []\nfor i in range(N):\n    s = socket.socket(16, 3, 0); s.setblocking(False); x.append(s)\n    try:\n        for _ in range(600): s.send(struct.pack('IHHII', 32, 18, 1, 0, 0) + struct.pack('BxHiII', 0, 0, 1, 0, 0))\n    except OSError: pass\nhold()",
		"3500", "20", confine.MemoryLimit, ""},
	{"ConnectionsThatWereReset", func(l *sandboxprofile.Limits) { l.Memory, l.OpenFiles = 128*mib, 4000 }, "import socket, struct\n" + fillSocket +
		"l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64); kept = []\n" +
		"for _ in range(N):\n    c = socket.socket(); c.connect(l.getsockname()); kept.append(l.accept()[0])\n    fill(c); time.sleep(0.002); fill(c); c.setsockopt(1, 13, struct.pack('ii', 1, 0)); c.close()\nhold()",
		"1500", "8", confine.MemoryLimit, ""},
	{"EmptyMessages", memory(64 * mib),
		"libc.msgsnd.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\nm = ctypes.c_long(1)\nfor _ in range(N):\n    q = libc.msgget(0, 0o600)\n    while libc.msgsnd(q, ctypes.byref(m), 0, 0o4000) == 0: pass\nhold()",
		"150", "5", confine.MemoryLimit, ""},
	{"Undos", func(l *sandboxprofile.Limits) { l.Memory, l.Pids = 256*mib, 250 },
		"import struct\nsets = [libc.semget(0, 32000, 0o600) for _ in range(20)]\nassert min(sets) >= 0\nop = ctypes.create_string_buffer(struct.pack('Hhh', 0, 1, 0x1000))\n" +
			"for _ in range(N):\n    if os.fork() == 0: [libc.semop(s, op, 1) for s in sets]; hold(); os._exit(0)\nhold()",
		"240", "2", confine.MemoryLimit, ""},
	// What the first thread's directory of /proc shows no more, and what no directory shows.
	{"MemoryBehindADeadThread", memory(256 * mib),
		"import threading, platform\ndef grow():\n    x = b'x' * (N * mib); hold(); os._exit(0)\nthreading.Thread(target=grow).start()\n" +
			"libc.syscall(93 if platform.machine() == 'aarch64' else 60, 0)",
		"600", "50", confine.MemoryLimit, ""},
	{"SocketsOfTheUnreadable", memory(256 * mib),
		"import shutil\nname = f'unreadable{N}'; shutil.copy(os.path.realpath(sys.executable), name); os.chmod(name, 0o111); os.environ['PYTHONHOME'] = '/usr'\n" +
			"code = '''\nimport ctypes, os, socket, time\nassert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0 # it is not dumpable\n" +
			"def fill():\n    a, b = socket.socketpair()\n    for s in (a, b):\n        s.setblocking(False)\n        try:\n            while s.send(b'x' * 65536): pass\n        except OSError: pass\n    return a, b\n" +
			"for _ in range(%d):\n    if os.fork() == 0:\n        pairs = [fill() for _ in range(100)]; time.sleep(%s); os._exit(0)\ntime.sleep(%s)\n''' % (N, HOLD, HOLD)\n" +
			"os.execv('./' + name, [name, '-c', code])",
		"50", "1", confine.MemoryLimit, ""},
	{"PageTables", memory(256 * mib),
		"libc.mmap.restype = ctypes.c_void_p\nn = N * 256\np = libc.mmap(None, ctypes.c_size_t(n * 2 * mib), 1, 0x4022, -1, ctypes.c_long(0))\n" +
			"libc.madvise(ctypes.c_void_p(p), ctypes.c_size_t(n * 2 * mib), 15)\nfor i in range(n): ctypes.string_at(p + i * 2 * mib, 1)\nhold()",
		"800", "20", confine.MemoryLimit, ""},
	// The kernel's memory for untouched mappings, of which each fork makes as many.
	{"Mappings", memory(256 * mib),
		"libc.mmap.restype = ctypes.c_void_p\np = libc.mmap(None, ctypes.c_size_t(1 << 29), 0, 0x4022, -1, ctypes.c_long(0))\n" +
			"for i in range(0, 1 << 17, 2):\n    if libc.mprotect(ctypes.c_void_p(p + i * 4096), ctypes.c_size_t(4096), 1): break\n" +
			"for _ in range(N):\n    if os.fork() == 0: hold(); os._exit(0)\nhold()",
		"60", "2", confine.MemoryLimit, ""},
	{"Semaphores", memory(256 * mib),
		"for _ in range(N):\n    if libc.semget(0, 32000, 0o600) < 0: raise OSError\nhold()",
		"400", "20", confine.MemoryLimit, ""},
	{"CPU", cpu(time.Second),
		"import time, signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nend = time.process_time() + N\nwhile time.process_time() < end: pass",
		"600", "0.1", confine.CPULimit, ""},
	{"CPUBelowAShell", cpu(time.Second), // a shell turns its child's death into an exit status
		"status = os.system(f'{sys.executable} -c \"import time\\nwhile time.process_time() < {N}: pass\"')\nsys.exit(os.waitstatus_to_exitcode(status))",
		"600", "0.1", confine.CPULimit, ""},
	{"CPUOfManyProcesses", cpu(400 * time.Millisecond),
		"import time\ndef burn(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n" +
			"pids = []\nfor _ in range(8):\n    pid = os.fork()\n    if pid == 0: burn(N); os._exit(0)\n    pids.append(pid)\nfor p in pids: os.waitpid(p, 0)",
		"0.3 * PATIENCE", "0.005", confine.CPULimit, ""},
	{"CPUOfTheDead", cpu(400 * time.Millisecond),
		"import time\ndef burn(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n" +
			"for _ in range(N):\n    pid = os.fork()\n    if pid == 0: burn(0.02); os._exit(0)\n    os.waitpid(pid, 0)",
		"2000", "2", confine.CPULimit, ""},
	{"FileSize", func(l *sandboxprofile.Limits) { l.FileSize = mib },
		"import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('big', 'wb').write(b'x' * N)",
		"(2 << 20)", "1000", confine.FileSizeLimit, ""},
	{"TmpSize", func(l *sandboxprofile.Limits) { l.Scratch = 8 * mib },
		"for d in ('/tmp', '/home/tool', '/dev/shm'):\n    for i in range(N): open(f'{d}/{i}', 'wb').write(b'x' * mib)",
		"20", "4", "", "No space left on device"},
	{"Descriptors", func(l *sandboxprofile.Limits) { l.OpenFiles = 100 },
		"x = [os.open('/dev/null', 0) for _ in range(N)]",
		"200", "50", "", "Too many open files"},
	{"OutputOnStdout", func(l *sandboxprofile.Limits) { l.Output = 100_000 },
		"for _ in range(N): os.write(1, b'x' * 1000)",
		"1 << 30", "50", confine.OutputLimit, ""},
	{"OutputOnStderr", func(l *sandboxprofile.Limits) { l.Output = 100_000 },
		"for _ in range(N): os.write(2, b'x' * 1000)",
		"1 << 30", "50", confine.OutputLimit, ""},
	{"OutputOnBoth", func(l *sandboxprofile.Limits) { l.Output = 100_000 },
		"for i in range(N): os.write(1 + i % 2, b'x' * 1000)",
		"1 << 30", "50", confine.OutputLimit, ""},
}

// prelude is before every bomb. A twin holds nothing, so that it ends by itself.
const prelude = `import ctypes, os, sys, time
libc = ctypes.CDLL(None)
mib = 1 << 20
PATIENCE = %PATIENCE
N = %N
HOLD = 60 if %OVER else 0.15
def hold():
    time.sleep(HOLD)
`

func (b bomb) program(over bool) string {
	n, flag := b.under, "False"
	if over {
		n, flag = b.over, "True"
	}
	return strings.NewReplacer("%N", n, "%OVER", flag, "%PATIENCE", strconv.Itoa(int(patience))).Replace(prelude) + b.python
}

// bombsEnd lets off each bomb, and then its twin in a sandbox of the same confiner:
// what the first did must not harm the second.
func bombsEnd(t *testing.T, c confine.Confiner) { letOff(t, c, bombs) }

func letOff(t *testing.T, c confine.Confiner, bombs []bomb) {
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			ws := Workspace(t)
			p := Profile(t, ws)
			p.Limits.Wall = patience * 60 * time.Second
			b.limits(&p.Limits)
			o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", b.program(true)) // what nothing ends exits by itself after a minute
			ended := b.cause != "" && o.Cause == b.cause
			refused := b.refused != "" && o.Cause == confine.Exited && o.ExitCode != 0 && strings.Contains(o.Err, b.refused)
			if !ended && !refused {
				t.Errorf("%+v %.300q, want cause %q or %q", o.Result, o.Err, b.cause, b.refused)
			}
			o = Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", b.program(false))
			if o.Cause != confine.Exited || o.ExitCode != 0 {
				t.Errorf("within the limit: %+v %.300q", o.Result, o.Err)
			}
		})
	}
}

// reserved asks for much more memory and file space than the limits, and uses little of
// it, as sanitizers and language runtimes do: a reservation is not use. Its twin uses
// it.
func reserved(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	p.Limits.Memory, p.Limits.Wall, p.Limits.FileSize = 256*mib, patience*60*time.Second, sandboxprofile.Unlimited
	const reserve = `
import mmap, os, threading, sys
m = [mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) for _ in range(4)]
for x in m: x[1 << 39] = 1
f = os.memfd_create('heap'); os.ftruncate(f, 1 << 40)
s = open('sparse', 'wb'); s.truncate(20 << 30)
used = [b'x' * (1 << 20) for _ in range(int(sys.argv[1]))]
import time; time.sleep(0.3 if len(used) < 100 else 60)
`
	if o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", reserve, "10"); o.Cause != confine.Exited || o.ExitCode != 0 {
		t.Errorf("reserved 4 TiB and used 10 MiB, with a limit of 256 MiB: %+v %q", o.Result, o.Err)
	}
	if o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", reserve, "1000"); o.Cause != confine.MemoryLimit {
		t.Errorf("used 1000 MiB of what was reserved, with a limit of 256 MiB: %+v %q", o.Result, o.Err)
	}
}

// sharedOnce forks a process that holds much: the pages that its children share
// with it are used once.
func sharedOnce(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	p := Profile(t, ws)
	p.Limits.Memory = 256 * mib
	const share = `
import os, time
x = b'x' * (100 << 20)
pids = []
for _ in range(8):
    pid = os.fork()
    if pid == 0: time.sleep(0.3); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
`
	if o := Exec(t, context.Background(), c, p, ws, nil, "/usr/bin/python3", "-c", share); o.Cause != confine.Exited || o.ExitCode != 0 {
		t.Errorf("100 MiB that nine processes share, with a limit of 256 MiB: %+v %q", o.Result, o.Err)
	}
}
