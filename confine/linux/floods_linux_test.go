package linux_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// forks has n processes do something each until the file "over" is there.
func forks(n int, statement string) string {
	return "exec('kids = []\\nfor i in range(" + strconv.Itoa(n) + "):\\n pid = os.fork()\\n if pid == 0:\\n  while not os.path.exists(\"over\"):\\n   try:\\n    " +
		strings.ReplaceAll(statement, "'", `\'`) + "\\n   except OSError: pass\\n  os._exit(0)\\n kids.append(pid)', g)"
}

// TestOthersGoOnInAFlood: whatever the programs of one sandbox ask its broker for, those
// of another that share the queue for names, and the others in the sandbox itself, are
// served meanwhile, and nothing is left of it. How long they wait is in the log: a test
// has no clock that it could hold them to.
func TestOthersGoOnInAFlood(t *testing.T) {
	for i, x := range []struct{ name, before, flood string }{
		{"of calls with the longest paths", "os.mkdir('d'); os.symlink('d', 'l')", forks(6, "os.mkdir(\"l/\" + \"./\" * 2000 + \"x\"); os.rmdir(\"d/x\")")},
		{"of processes that die in the middle", "pass", forks(4, "p = os.fork()\\n    if p == 0: threading.Thread(target=lambda: [os.mkdir(\"m\"), os.rmdir(\"m\")], daemon=True).start(); os._exit(0)\\n    os.waitpid(p, 0)")},
		{"of memory that goes away", "libc.mmap.restype = ctypes.c_void_p", forks(2, "a = libc.mmap(None, 4096, 3, 0x22, -1, 0); ctypes.memmove(a, b\"gone\", 5); th = threading.Thread(target=lambda: libc.munmap(ctypes.c_void_p(a), 4096)); th.start(); libc.mkdir(ctypes.c_void_p(a), 0o755); libc.rmdir(b\"gone\"); th.join()")},
		{"of nothing", "pass", forks(1, "time.sleep(0.001)")},
		{"of calls that fail", "pass", forks(6, "os.open(\"/usr/x\", os.O_CREAT|os.O_WRONLY)")},
		{"of FIFOs that nobody opens", "os.mkfifo('p')", forks(50, "os.open(\"p\", os.O_RDONLY)")},
		{"of programs that cannot be read", "open('closed', 'wb').write(open('/bin/mkdir', 'rb').read()); os.chmod('closed', 0o111)", forks(3, "subprocess.run([\"./closed\", \"made\"], stderr=subprocess.DEVNULL)")},
		{"of sockets", "pass", forks(6, "[socket.socket(socket.AF_UNIX) for _ in range(200)]")},
		{"of names of a file that is written all the time", "open('large', 'w').close(); f = os.open('large', os.O_RDWR); big = bytes(128 << 20)",
			forks(2, "os.pwrite(f, big, 0) if i == 0 else (os.chmod(\"large\", 0o600), os.rename(\"large\", \"renamed\"), os.rename(\"renamed\", \"large\"))")},
		{"of large directories that would be repositories", "os.mkdir('big'); [open('big/%d' % i, 'w').close() for i in range(1000)]", forks(2, "os.rename(\"big\", \".git\"); os.rename(\".git\", \"big\")")},
	} {
		if i >= 3 && *flipEach == 0 {
			break // these are for the night
		}
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			l, ws, p := brokered(t)
			p.Limits.Pids, p.Limits.OpenFiles, p.Limits.CPU, p.Limits.Wall = 2048, 2048, time.Hour, time.Hour
			beside := confinetest.Workspace(t)
			q := confinetest.Profile(t, beside)
			flood, other := converse(t, l, p, ws), converse(t, l, q, beside)
			flood.gets(x.before, "ok")
			descriptors := func() int { // -1 if that is not ours to see
				list, err := os.ReadDir("/proc/" + flood.init() + "/fd")
				if err != nil {
					return -1
				}
				return len(list)
			}
			had := descriptors()
			flood.gets(x.flood, "ok")
			const probe = "waits = []\nfor i in range(30):\n    at = time.monotonic(); os.close(os.open('probe', os.O_CREAT|os.O_EXCL|os.O_WRONLY)); os.unlink('probe'); waits.append((time.monotonic() - at) / 2 * 1000); time.sleep(0.001)\nr = ' '.join('%.2f' % w for w in sorted(waits))"
			for name, k := range map[string]*talk{"inside": flood, "in another": other} {
				waits := strings.Fields(k.does(probe))
				if len(waits) != 30 {
					t.Errorf("%s: %v", name, waits)
					continue
				}
				t.Logf("%s: a call took %s ms in the middle, %s at most", name, waits[15], waits[29])
			}
			flood.gets("open('over', 'w').close()\nif os.path.exists('p'): os.close(os.open('p', os.O_RDWR))\nfor k in kids: os.kill(k, 9); os.waitpid(k, 0)", "ok")
			if now := descriptors(); now > had+16 && x.name != "of sockets" && !strings.Contains(x.name, "FIFO") {
				t.Errorf("init had %d descriptors and has %d", had, now)
			}
			flood.gets("os.mkdir('still'); os.rmdir('still')", "ok")
			flood.end()
			other.end()
			for _, dir := range []string{ws, beside} {
				if left := confinetest.WorkingIn(t, dir); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				names := tree(t, dir)
				if i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, "/.sandgate-") }); i >= 0 {
					t.Errorf("left: %s", names[i])
				}
			}
		})
	}
}

// exhausting asks a broker for what takes memory, and in between for what may not be.
const exhausting = `
import os, sys, threading
print(os.getppid(), flush=True); sys.stdin.readline()
os.mkdir('big'); [open('big/%d' % i, 'w').close() for i in range(300)]
for i in range(60): os.mkfifo('p%d' % i)
def wait(i):
    try: os.open('p%d' % i, os.O_RDONLY)
    except OSError as e: print('failed', e.errno, flush=True)
for i in range(60): threading.Thread(target=wait, args=(i,), daemon=True).start()
for i in range(20):
    try: os.rename('big', '.git2'); os.rename('.git2', 'big'); os.rename('big', 'sub/.git')
    except OSError: pass
    for act in sys.argv[1:]:
        try: exec(act, {'os': os}); print('done', act, flush=True)
        except OSError: pass
os._exit(0)
`

// TestFaultsInTheBrokerOpenNothing: a broker that runs out of descriptors, of memory or of
// room fails the call, or ends with its sandbox. What may not change does not.
func TestFaultsInTheBrokerOpenNothing(t *testing.T) {
	l, ws, p := brokered(t)
	outside := confinetest.Workspace(t)
	mkdir(t, ws+"/.git/hooks")
	put(t, ws+"/.git/hooks/pre-commit", "hook")
	put(t, ws+"/.git/config", "[core]\n\tbare = false\n")
	put(t, ws+"/.env", "TOPSECRET")
	put(t, outside+"/file", "content")
	for _, name := range []string{ws, ws + "/.git", ws + "/.git/hooks", ws + "/.git/hooks/pre-commit", ws + "/.git/config", ws + "/.env", outside, outside + "/file"} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	closed := func() string {
		return identities(t, outside) + identities(t, ws+"/.git/hooks") + identities(t, ws+"/.env")
	}
	before := closed()
	attempts := []string{
		"open('" + outside + "/file', 'w')", "os.unlink('" + outside + "/file')", "open('.git/hooks/pre-commit', 'w')", "open('.git/hooks/new', 'w')",
		"os.rename('.git/hooks/pre-commit', 'x')", "os.chmod('.git/hooks/pre-commit', 0o700)", "os.link('.env', 'shown')", "r = open('.env').read()",
		"r = open('.env', 'r+').read()", "os.symlink('x', '.bashrc')", "os.rename('.git', 'git')", "os.utime('" + outside + "/file', (1, 1))",
	}
	try := func(k *talk) {
		t.Helper()
		for _, act := range attempts {
			if got := k.does(act); got == "ok" || strings.Contains(got, "SECRET") {
				t.Errorf("%s: %s", act, got)
			}
		}
		if after := closed(); after != before {
			t.Fatalf("before\n%s\nafter\n%s", before, after)
		}
	}
	limit := func(pid, resource int, n uint64) {
		t.Helper()
		var was unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &was); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(n, was.Max), Max: was.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("descriptors", func(t *testing.T) {
		k := converse(t, l, p, ws)
		init, err := strconv.Atoi(k.init())
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for n := uint64(8); n < 40; n++ { // below, poll(2) itself fails
			limit(init, unix.RLIMIT_NOFILE, n)
			try(k)
			if got := k.does("os.close(os.open('new', os.O_CREAT|os.O_WRONLY))"); got != "ok" {
				failed++
			}
			limit(init, unix.RLIMIT_NOFILE, 1024)
		}
		if failed == 0 {
			t.Error("no call has failed, so this proves nothing")
		}
		k.gets("open('new', 'w').close(); os.unlink('new'); os.mkdir('d'); os.rmdir('d')", "ok")
	})
	t.Run("size of files", func(t *testing.T) {
		k := converse(t, l, p, ws)
		init, _ := strconv.Atoi(k.init())
		limit(init, unix.RLIMIT_FSIZE, 0)
		try(k)
		k.gets("open('.git/config.lock', 'w').write('[core]\\n\\tbare = false\\n'); os.rename('.git/config.lock', '.git/config')", "EFBIG")
		if b, err := os.ReadFile(ws + "/.git/config"); err != nil || string(b) != "[core]\n\tbare = false\n" {
			t.Errorf("the configuration: %q, %v", b, err)
		}
		k.gets("r = [n for n in os.listdir('.git') if n.startswith('.sandgate-')]", "[]")
	})
	t.Run("memory", func(t *testing.T) {
		box, err := l.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		in, say := io.Pipe()
		hear, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
				Path: "/usr/bin/python3", Argv: append([]string{"python3", "-I", "-c", exhausting}, attempts...), Dir: ws, Env: []string{"HOME=/home/tool", "PATH=/usr/bin:/bin"},
			}}, confine.Stdio{Stdin: in, Stdout: out, Stderr: out})
			out.Close()
			in.Close()
			ended <- err
		}()
		said := bufio.NewReader(hear)
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		init, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		limit(init, unix.RLIMIT_AS, 1)
		if _, err := io.WriteString(say, "go\n"); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(said)
		err = <-ended
		if strings.Contains(string(rest), "done") || strings.Contains(string(rest), "SECRET") {
			t.Errorf("%s", rest)
		}
		if err == nil && !strings.Contains(string(rest), "failed") {
			t.Errorf("no call has failed, so this proves nothing: %s", rest)
		}
		t.Logf("it ended with %.80v", err)
		if after := closed(); after != before {
			t.Fatalf("before\n%s\nafter\n%s", before, after)
		}
		until(t, func() bool { return len(confinetest.WorkingIn(t, ws)) == 0 })
	})
	t.Run("room", func(t *testing.T) {
		if err := unix.Mount("none", ws+"/.git", "tmpfs", 0, "size=16k,mode=777"); err != nil {
			t.Skipf("only root can make a small file system: %v", err)
		}
		defer unix.Unmount(ws+"/.git", unix.MNT_DETACH)
		put(t, ws+"/.git/config", "[core]\n\tbare = false\n")
		if err := os.Chmod(ws+"/.git/config", 0o666); err != nil {
			t.Fatal(err)
		}
		k := converse(t, l, p, ws)
		k.gets("open('.git/config.lock', 'w').write('[core]\\n\\tbare = true\\n'); exec('f = open(\".git/fill\", \"wb\", 0)\\ntry:\\n while True: f.write(b\"x\" * 4096)\\nexcept OSError: pass\\nf.close()', g); os.rename('.git/config.lock', '.git/config')", "ENOSPC")
		k.gets("r = sorted(os.listdir('.git')), open('.git/config').read()", "(['config', 'config.lock', 'fill'], '[core]\\n\\tbare = false\\n')")
		k.gets("os.unlink('.git/fill'); os.rename('.git/config.lock', '.git/config'); r = open('.git/config').read() == '[core]\\n\\tbare = true\\n'", "True")
		k.end()
	})
}
