package linux_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/internal/barred"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
)

// withoutUserNamespaces runs the rest of a test in a process of its own, as an
// ordinary user of a host that bars user namespaces, for real: bubblewrap
// --disable-userns leaves that process no way to make one. It gives false in the
// outer process, which only reports. Where the host itself bars them, or has no
// bubblewrap, there is no other process.
func withoutUserNamespaces(t *testing.T) bool {
	t.Helper()
	const mark = "SANDGATE_TEST_NO_USERNS"
	var refused *exec.ExitError
	none := errors.As(exec.Command("unshare", "--user", "true").Run(), &refused)
	if inner := os.Getenv(mark) == t.Name(); inner && !none {
		t.Fatalf("the host is not what the test is about: uid %d can make user namespaces", os.Geteuid())
	}
	if _, err := exec.LookPath("bwrap"); none || err != nil {
		return true // a container, in which nobody else makes one either
	}
	cmd := exec.Command("bwrap", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000",
		"--die-with-parent", "--dev-bind", "/", "/", "--", os.Args[0], "-test.run="+barred.Again(t), "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func newLandlock(t *testing.T, o linux.LandlockOptions) *linux.Landlock {
	t.Helper()
	l, err := linux.NewLandlock(o)
	if err != nil {
		t.Fatal(err)
	}
	l.Use(newGuard(t))
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLandlockKeepsEveryClaim(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	confinetest.RunOnHost(t, newLandlock(t, linux.LandlockOptions{}))
}

// TestLandlockKeepsLessInsideOfMore: beside a protected name everything can be made, and
// what hidden names cost is said.
func TestLandlockKeepsLessInsideOfMore(t *testing.T) {
	ws := confinetest.Workspace(t)
	l, p := newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws)
	mkdir(t, ws+"/repo/.git/hooks")
	enforced := func() confine.Enforced {
		box, err := l.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		o := confinetest.ExecIn(t, context.Background(), box, ws+"/repo/.git", nil, "/bin/bash", "-c", "echo x > new && mv new moved && cat moved && rm moved; echo x > hooks/y; ls -A hooks")
		if o.Out != "x\n" || !strings.Contains(o.Err, "hooks/y: Read-only file system") {
			t.Errorf("beside the hooks, and in them: %+v", o)
		}
		return box.Enforced()
	}
	if e := enforced(); strings.Contains(e.Files, "hidden") {
		t.Errorf("without hidden names: %+v", e)
	}
	if err := os.WriteFile(ws+"/repo/.git/.env", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := enforced(); !strings.Contains(e.Files, "read through the broker") || !strings.Contains(e.Files, ws+"/repo/.git") {
		t.Errorf("what enforces does not say that directories are read through the broker: %+v", e)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// oldLandlock is a kernel that knows less.
func oldLandlock(abi int) func() (landlock.Version, error) {
	return func() (landlock.Version, error) { return landlock.Handled(abi) }
}

func noLandlock() (landlock.Version, error) {
	return landlock.Version{}, &confine.Unenforceable{Part: "Landlock", Reason: "the kernel does not offer it", Hint: "a newer kernel"}
}

// TestOldLandlockIsRefused: what an ABI version lacks is named.
func TestOldLandlockIsRefused(t *testing.T) {
	for abi := 1; abi < landlock.MinHostABI; abi++ {
		_, err := linux.NewLandlock(linux.LandlockOptions{ABI: oldLandlock(abi)})
		var cannot *confine.Unenforceable
		if !errors.As(err, &cannot) || cannot.Part != "Landlock" || !strings.Contains(cannot.Reason, "refer") || !strings.Contains(cannot.Hint, "5.19") {
			t.Errorf("ABI %d: %v", abi, err)
		}
	}
}

// TestOldLandlockConfines: what later ABI versions add, the broker and the filters do
// where the kernel's Landlock does not, signals above all.
func TestOldLandlockConfines(t *testing.T) {
	victim := exec.Command("sleep", "600")
	victim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer victim.Wait()
	defer victim.Process.Kill()
	has, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || has < landlock.MinHostABI {
		t.Fatalf("the kernel offers ABI %d: %v", has, errno)
	}
	for abi := landlock.MinHostABI; abi <= min(5, int(has)); abi++ {
		t.Run(fmt.Sprint("ABI-", abi), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			l, p := newLandlock(t, linux.LandlockOptions{ABI: oldLandlock(abi)}), confinetest.Profile(t, ws)
			o := confinetest.Shell(t, l, p, ws, "cat /etc/shadow 2>/dev/null; echo x > /usr/x 2>/dev/null; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit 2>/dev/null; "+
				"echo y > made && mkdir sub && mv made sub && cat sub/made && truncate -s 1 sub/made")
			if o.Out != "y\n" || o.ExitCode != 0 {
				t.Errorf("files: %+v", o)
			}
			const libc = "import ctypes, os, signal, time, fcntl; c = ctypes.CDLL(None, use_errno=True)\ndef sys(*a):\n    if c.syscall(*a) < 0: raise OSError(ctypes.get_errno(), '')\n"
			for _, target := range []int{victim.Process.Pid, os.Getpid()} {
				for act, want := range map[string]string{
					"os.kill(%d, 0)":            "EPERM",
					"os.kill(%d, 9)":            "EPERM",
					"os.kill(-%d, 9)":           "ESRCH",
					"sys(200, %d, 9)":           "EPERM", // tkill
					"sys(234, %[1]d, %[1]d, 9)": "EPERM", // tgkill
					"b = ctypes.create_string_buffer(128); b[8:12] = (-1 & 0xffffffff).to_bytes(4, 'little'); sys(129, %d, 9, b)": "EPERM",  // rt_sigqueueinfo
					"sys(424, os.open('/proc/%d', os.O_RDONLY), 9, 0, 0)":                                                         "ENOSYS", // pidfd_send_signal
					"r, w = os.pipe(); fcntl.fcntl(r, 8, %d)":                                                                     "EPERM",  // F_SETOWN
				} {
					if strings.Contains(act, "-%d") && target != victim.Process.Pid {
						continue
					}
					if got := confinetest.Python(t, l, p, ws, libc+fmt.Sprintf(act, target)); got != want {
						t.Errorf("%s: %s, want %s", fmt.Sprintf(act, target), got, want)
					}
				}
			}
			for _, act := range []string{
				"os.kill(os.getpid(), 0); signal.raise_signal(0) if False else None",
				"import subprocess\np = subprocess.Popen(['sleep', '60']); p.send_signal(15); assert p.wait() == -15",
				"import subprocess\np = subprocess.Popen(['sleep', '60'], start_new_session=True); os.killpg(p.pid, 9); assert p.wait() == -9",
				"import subprocess\np = subprocess.Popen(['sleep', '60']); os.kill(-1, 9); assert p.wait() == -9",
				"import threading\nsignal.signal(signal.SIGUSR1, lambda *a: None); signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)",
			} {
				if got := confinetest.Python(t, l, p, ws, libc+act); got != "ok" {
					t.Errorf("%s: %s", act, got)
				}
			}
		})
	}
	if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process outside was ended: %v", err)
	}
}

// TestBackendsInOrder: bwrap where it works, then Landlock, then, by the operator's
// own word, what is left; and nothing if that was not said.
func TestBackendsInOrder(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	missing := filepath.Join(ws, "bwrap")
	none := linux.LandlockOptions{ABI: noLandlock}
	for _, x := range []struct {
		name    string
		options linux.Options
		backend string
		lacks   []string
	}{
		{"everything works", linux.Options{}, "bwrap", nil},
		{"landlock by name", linux.Options{Backend: "landlock"}, "landlock", nil},
		{"no bubblewrap", linux.Options{Bwrap: missing}, "landlock", nil},
		{"no bubblewrap, by name", linux.Options{Backend: "bwrap", Bwrap: missing}, "", []string{"bubblewrap"}},
		{"no Landlock", linux.Options{Backend: "landlock", Landlock: none}, "", []string{"Landlock"}},
		{"neither", linux.Options{Bwrap: missing, Landlock: none}, "", []string{"bubblewrap", "Landlock"}},
		{"neither, for development", linux.Options{Bwrap: missing, Landlock: none, Unconfined: true}, "none", nil},
		{"for development, and not needed", linux.Options{Unconfined: true}, "bwrap", nil},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			b, err := linux.New(x.options)
			for _, part := range x.lacks {
				var cannot *confine.Unenforceable
				if !errors.As(err, &cannot) || !strings.Contains(err.Error(), part) || cannot.Hint == "" {
					t.Errorf("%v, want %q in it", err, part)
				}
			}
			if x.lacks != nil {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			e, err := b.Try(context.Background())
			if err != nil || e.Backend != x.backend || b.Name() != x.backend {
				t.Errorf("tried %+v, %v; named %s; want %s", e, err, b.Name(), x.backend)
			}
			session := b.Session()
			defer session.Close()
			if o := confinetest.Shell(t, session, p, ws, "echo run"); o.Out != "run\n" {
				t.Errorf("a call: %+v", o)
			}
		})
	}
}

// TestBarredHostsFallBack is the same where bubblewrap is there and can build
// nothing, which only trying tells.
func TestBarredHostsFallBack(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	ws := confinetest.Workspace(t)
	b, err := linux.New(linux.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if o := confinetest.Shell(t, b.Session(), confinetest.Profile(t, ws), ws, "echo run"); o.Out != "run\n" || b.Name() != "landlock" {
		t.Errorf("%+v by %s", o, b.Name())
	}
	devices := confinetest.Profile(t, ws)
	devices.Devices = []string{"/dev/null"}
	_, err = b.Prepare(context.Background(), devices)
	if err == nil || !strings.Contains(err.Error(), "user namespaces") || !strings.Contains(err.Error(), "devices") {
		t.Errorf("a profile that Landlock does not keep: %v", err)
	}
	only, err := linux.New(linux.Options{Backend: "bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	if _, err := only.Try(context.Background()); err == nil || !strings.Contains(err.Error(), "user namespaces") {
		t.Errorf("bwrap by name: %v", err)
	}
	if r := linux.Examine(context.Background(), ""); !r.Ready || r.Chosen != "landlock" || r.Backends[0].Works || r.Backends[0].Remedy == "" {
		t.Errorf("doctor: %+v", r.Backends)
	}
}

// TestUnconfinedSaysWhatHolds: without a sandbox the rest still holds, and each
// axis that nothing holds says so.
func TestUnconfinedSaysWhatHolds(t *testing.T) {
	t.Setenv("SANDGATE_TEST_SECRET", "hunter2")
	fail := func(string) error { return errors.New("no libseccomp") }
	bare := &linux.Filters{
		Base:   func([]string) ([]byte, error) { return nil, fail("") },
		Shared: func(bool) ([]byte, error) { return nil, fail("") },
	}
	for _, x := range []struct {
		name     string
		options  linux.LandlockOptions
		enforced confine.Enforced // but for processes and limits
		seccomp  string
	}{
		{"seccomp is left", linux.LandlockOptions{ABI: noLandlock}, confine.Enforced{Backend: "none", Files: "nothing", Network: "no sockets (seccomp)", SystemCalls: "seccomp filters"}, "2"},
		{"nothing is left", linux.LandlockOptions{ABI: noLandlock, Seccomp: bare}, confine.Enforced{Backend: "none", Files: "nothing", Network: "nothing", SystemCalls: "nothing"}, "0"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			u, err := linux.NewUnconfined(x.options)
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			ws := confinetest.Workspace(t)
			box, err := u.Prepare(context.Background(), confinetest.Profile(t, ws))
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			e := box.Enforced()
			e.Processes, e.Limits = "", ""
			if e != x.enforced {
				t.Errorf("enforced %+v, want %+v", e, x.enforced)
			}
			o := confinetest.ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c",
				"env; ulimit -n; while read -r k v; do case $k in CapEff:|NoNewPrivs:|Seccomp:) echo $k $v;; esac; done < /proc/self/status; (setsid sleep 600 &); (setsid bash -c 'while :; do (:) & done' &)")
			for _, want := range []string{"NoNewPrivs: 1\n", "Seccomp: " + x.seccomp + "\n", "\n256\n", "CapEff: 0000000000000000\n"} {
				if !strings.Contains(o.Out, want) {
					t.Errorf("no %q in %q", want, o.Out)
				}
			}
			if strings.Contains(o.Out, "hunter2") {
				t.Error("the environment is passed on")
			}
			if left := confinetest.WorkingIn(t, ws); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestLandlockAsRoot: tools run as the owner of what they may write, and never
// with a capability.
func TestLandlockAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		// As an ordinary user there is nobody else to become; that the backend then
		// runs as that user is what every other test here shows.
		return
	}
	const who = `import os, re
s = open('made', 'w'); st = os.stat('made')
caps = __import__('ctypes').CDLL(None)
print(os.getuid(), os.getgid(), os.getgroups() if os.getuid() else '', st.st_uid, sum(caps.prctl(23, c) for c in range(40)) if not os.getuid() else '')`
	l := newLandlock(t, linux.LandlockOptions{})
	for uid, want := range map[int]string{1234: "1234 4321 [] 1234", 0: "0 0  0 0"} {
		ws := confinetest.Workspace(t)
		if err := os.Chown(ws, uid, map[int]int{1234: 4321, 0: 0}[uid]); err != nil {
			t.Fatal(err)
		}
		o := confinetest.Exec(t, context.Background(), l, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", who)
		if strings.TrimSpace(o.Out) != want {
			t.Errorf("owner %d: %q %q, want %q", uid, o.Out, o.Err, want)
		}
		o = confinetest.Exec(t, context.Background(), l, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", "import os\nfor f in (lambda: os.setuid(5), lambda: os.chown('/usr', 5, 5), lambda: open('/etc/shadow'), lambda: open('/proc/sys/kernel/core_pattern', 'w')):\n    try: f(); print('done')\n    except OSError as e: print('refused')")
		if strings.TrimSpace(o.Out) != "refused\nrefused\nrefused\nrefused" {
			t.Errorf("owner %d: %q %q", uid, o.Out, o.Err)
		}
	}
	one, two := confinetest.Workspace(t), confinetest.Workspace(t)
	if err := os.Chown(two, 1234, 4321); err != nil {
		t.Fatal(err)
	}
	p := confinetest.Profile(t, one)
	p.Paths[two] = p.Paths[one]
	_, err := l.Prepare(context.Background(), p)
	var cannot *confine.Unenforceable
	if !errors.As(err, &cannot) || cannot.Part != "the owner of files" || cannot.Hint == "" {
		t.Errorf("two owners: %v", err)
	}
}

// TestLandlockLeavesNothing: no process and no directory, when a sandbox is
// closed and when its supervisor is killed.
func TestLandlockLeavesNothing(t *testing.T) {
	const mark = "SANDGATE_TEST_SUPERVISOR"
	if ws := os.Getenv(mark); ws != "" {
		confinetest.Shell(t, newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws), ws,
			"echo x > $TMPDIR/left; (setsid sleep 600 &); pwd; echo $TMPDIR > tmp.new; mv tmp.new tmp; sleep 600")
		return
	}
	temporaryOfItsOwn(t)
	ws := confinetest.Workspace(t)
	l := newLandlock(t, linux.LandlockOptions{})
	box, err := l.Prepare(context.Background(), confinetest.Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	o := confinetest.ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", "mkdir -m 0 $TMPDIR/closed; echo -n $TMPDIR")
	if _, err := os.Stat(o.Out); err != nil {
		t.Fatalf("the private directory: %v", err)
	}
	box.Close()
	if _, err := os.Stat(filepath.Dir(o.Out)); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", o.Out, err)
	}

	supervisor := exec.Command(os.Args[0], "-test.run=^TestLandlockLeavesNothing$")
	supervisor.Env = append(os.Environ(), mark+"="+ws)
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { _, err := os.Stat(ws + "/tmp"); return err == nil })
	if len(confinetest.WorkingIn(t, ws)) == 0 {
		t.Error("the tool is not found in its directory: nothing would be")
	}
	tmp, err := os.ReadFile(ws + "/tmp")
	if err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Process.Kill()
	_ = supervisor.Wait()
	until(t, func() bool { return len(confinetest.WorkingIn(t, ws)) == 0 })
	dir := strings.TrimSpace(string(tmp))
	until(t, func() bool { entries, err := os.ReadDir(dir); return err != nil || len(entries) == 0 })
	fresh := newLandlock(t, linux.LandlockOptions{})
	confinetest.Shell(t, fresh, confinetest.Profile(t, ws), ws, "true")
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("%s is left after the next start: %v", filepath.Dir(dir), err)
	}
}

// until polls: there is nothing to wait on for another process's end.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not happened within 30 seconds")
		}
	}
}

// TestSwappedDirectoriesAreNotGranted is another call that exchanges a directory
// for a link while rules are made, over and over: a rule follows its path.
func TestSwappedDirectoriesAreNotGranted(t *testing.T) {
	ws, outside := confinetest.Workspace(t), confinetest.Workspace(t)
	mkdir(t, ws+"/a/.env") // hidden, so that what lies beside it has rules of its own
	mkdir(t, ws+"/a/src")
	mkdir(t, outside+"/src")
	if err := os.WriteFile(outside+"/src/secret", []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../"+filepath.Base(outside), ws+"/link"); err != nil {
		t.Fatal(err)
	}
	l := newLandlock(t, linux.LandlockOptions{})
	stop := exchange(ws+"/a", ws+"/link", func() { // a link that a call seems to have made goes into the quarantine
		for _, name := range []string{"/a", "/link"} {
			_ = os.Symlink("../"+filepath.Base(outside), ws+name) // where the other one stands it fails
		}
	})
	built, refused := 0, 0
	for start := time.Now(); racing(start, 3*time.Second, built > 0 && refused > 0); {
		box, err := l.Prepare(context.Background(), confinetest.Profile(t, ws))
		if err != nil {
			refused++
			continue
		}
		built++
		o := confinetest.ExecIn(t, context.Background(), box, "/", nil, "/bin/bash", "-c",
			"cat "+ws+"/a/src/secret "+ws+"/link/src/secret "+outside+"/src/secret; : > "+outside+"/src/planted")
		box.Close()
		if strings.Contains(o.Out, "hunter2") {
			t.Fatalf("a directory outside was granted, after %d sandboxes and %d refusals", built, refused)
		}
	}
	stop()
	if _, err := os.Lstat(outside + "/src/planted"); err == nil {
		t.Error("a file was written outside")
	}
	t.Logf("%d built, %d refused", built, refused)
	if built == 0 || refused == 0 {
		t.Errorf("%d built, %d refused: the race was not run", built, refused)
	}
}

var update = flag.Bool("update", false, "rewrite the table of claims in docs/backends.md")

// TestBackendsDocument holds the table of docs/backends.md against the suite.
func TestBackendsDocument(t *testing.T) {
	const file, begin, end = "../../docs/backends.md", "<!-- claims -->\n", "<!-- /claims -->"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	want := confinetest.Table()
	held := map[string]int{}
	for line := range strings.Lines(want) {
		if f := strings.Split(line, " | "); len(f) == 3 {
			word, _, _ := strings.Cut(strings.TrimRight(f[2], " |\n"), ":")
			held[word]++
		}
	}
	sum := fmt.Sprintf("Of the %d claims `landlock` holds %d there as bubblewrap does, %d more strictly, and %d not",
		held["held"]+held["stricter"]+held["not held"], held["held"], held["stricter"], held["not held"])
	if !strings.Contains(strings.ReplaceAll(after, "\n", " "), sum) {
		t.Errorf("%s does not say: %s", file, sum)
	}
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("the table is not that of the suite; run with -update. It has to be\n%s", want)
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLandlockWaysOut tries what is known to get around a path rule, on files of
// the tool's own user that everybody may write, and beside it the same in the
// workspace.
func TestLandlockWaysOut(t *testing.T) {
	ws, outside, listed := confinetest.Workspace(t), confinetest.Workspace(t), confinetest.Workspace(t)
	l, p := newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, ws)
	p.Paths[listed] = sandboxprofile.Read
	for _, dir := range []string{ws, outside, listed} {
		if err := os.WriteFile(dir+"/own", []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, act := range []string{
		"os.truncate('%[1]s/own', 0)", "open('%[1]s/own', 'a')", "os.open('%[1]s/new', os.O_CREAT|os.O_WRONLY)",
		"os.open('%[1]s', os.O_TMPFILE|os.O_WRONLY)", "os.mkdir('%[1]s/dir')", "os.symlink('x', '%[1]s/link')", "os.mkfifo('%[1]s/fifo')",
		"os.link('%[1]s/own', '%[2]s/hard')", "os.rename('%[1]s/own', '%[2]s/moved')", "os.rename('%[2]s/moved', '%[1]s/own')",
		"os.chdir('%[1]s'); open('own', 'a')", "fd = os.open('%[1]s/own', os.O_PATH); open(f'/proc/self/fd/{fd}', 'a')",
		"fd = os.open('%[1]s', os.O_PATH); os.open('own', os.O_WRONLY, dir_fd=fd)", "os.unlink('%[1]s/own')",
	} {
		for _, dir := range []string{outside, listed} {
			if got := confinetest.Python(t, l, p, ws, fmt.Sprintf(act, dir, ws)); got != "EACCES" && got != "EXDEV" && got != "ENOENT" {
				t.Errorf("%s: %s", fmt.Sprintf(act, dir, ws), got)
			}
		}
		if got := confinetest.Python(t, l, p, ws, fmt.Sprintf(act, ws, ws)); got != "ok" {
			t.Errorf("the same in the workspace: %s: %s", fmt.Sprintf(act, ws, ws), got)
		}
	}
	const libc = "import ctypes, time; l = ctypes.CDLL(None, use_errno=True)\n"
	const raise = "\nif r < 0: raise OSError(ctypes.get_errno(), '')"
	for act, want := range map[string]string{
		"r = l.inotify_add_watch(l.inotify_init(), b'" + outside + "', 0xfff)": "EACCES",
		"r = l.inotify_add_watch(l.inotify_init(), b'/tmp', 0xfff)":            "EACCES",
		"r = l.inotify_add_watch(l.inotify_init(), b'/proc/1', 0xfff)":         "EACCES",
		"r = l.inotify_add_watch(l.inotify_init(), b'" + listed + "', 0xfff)":  "ok",
		"r = l.inotify_add_watch(0, b'" + listed + "', 0xfff)":                 "EINVAL",
		"r = min(l.inotify_init() for _ in range(20))":                         "EMFILE",
		// Under another number, under one that another has by then, in a child, in a socket's queue.
		"r = min(((f := l.inotify_init()) < 0 and -1) or (os.dup2(f, 50 + i), os.close(f), 0)[2] for i in range(20))":                                                         "EMFILE",
		"r = min(((f := l.inotify_init()) < 0 and -1) or (os.fork() or time.sleep(5), os.close(f), 0)[2] for i in range(20))":                                                 "EMFILE",
		"import socket; a, b = socket.socketpair(); r = min(((f := l.inotify_init()) < 0 and -1) or (socket.send_fds(a, [b'x'], [f]), os.close(f), 0)[2] for i in range(20))": "EMFILE",
		"r = min(((f := l.inotify_init()) < 0 and -1) or (os.close(f), 0)[1] for i in range(100))":                                                                            "ok",
		"r = l.ioctl(os.open('" + listed + "/own', 0), 0x40086602, ctypes.byref(ctypes.c_long(0)))":                                                                           "ENOTTY", // FS_IOC_SETFLAGS
		"r = l.ioctl(os.open('" + listed + "/own', 0), 0x40806685, 0)":                                                                                                        "ENOTTY", // FS_IOC_ENABLE_VERITY
		"r = l.unshare(0x10000000)":                                     "EPERM",
		"r = l.ptrace(16, os.getppid(), 0, 0)":                          "EPERM",
		"r = l.mq_open(b'/x', 0o102, 0o600, 0)":                         "EPERM",
		fmt.Sprintf("r = l.syscall(%d, 1, 0)", unix.SYS_IO_URING_SETUP): "EPERM", // io_uring_setup
		"r = l.killpg(os.getpgid(os.getppid()), 0)":                     "EPERM",
		fmt.Sprintf("r = l.syscall(%d, 0, -3, 0)", unix.SYS_KEYCTL):     "EPERM", // keyctl
		"r = l.eventfd(0, 0)":                                           "ok",
	} {
		if got := confinetest.Python(t, l, p, ws, libc+act+raise); got != want {
			t.Errorf("%s: %s, want %s", act, got, want)
		}
	}
	if b, err := os.ReadFile(outside + "/own"); err != nil || string(b) != "x" {
		t.Errorf("the file outside: %q, %v", b, err)
	}
}
