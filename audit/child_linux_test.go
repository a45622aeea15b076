package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Tests that need another process run the test binary again; childEnv says as what.
const childEnv = "SANDGATE_AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	mode, ok := os.LookupEnv(childEnv)
	if !ok {
		os.Exit(m.Run())
	}
	path := os.Args[1]
	children := map[string]func(string) error{
		"decide": childDecide, "append": childAppend, "flood": childFlood, "full": childFull, "limit": childLimit,
	}
	if err := children[mode](path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(t *testing.T, mode, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", path)
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

// childDecide decides a call and then waits to be killed.
func childDecide(path string) error {
	l, _, err := Open(path, Options{})
	if err != nil {
		return err
	}
	if _, err := l.Append(context.Background(), decision("victim")); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestInterruptedByKill: a call whose process lives is not called interrupted; one
// whose process was killed is, even before anybody has waited for the process.
func TestInterruptedByKill(t *testing.T) {
	path := logPath(t)
	cmd := child(t, "decide", path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path, Options{}))

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The child is a zombie now: dead, and still in the process table.
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	l, r := openAny(t, path, Options{})
	if len(r.Interrupted) != 1 || r.Interrupted[0].Call != "victim" {
		t.Errorf("interrupted %+v, want the call of the killed process", r.Interrupted)
	}
	mustClose(t, l)
	_ = cmd.Wait() // it was killed
	mustOpen(t, path, Options{})
	mustVerify(t, path)
}

const appendsPerChild = 100

func childAppend(path string) error {
	l, _, err := Open(path, Options{})
	if err != nil {
		return err
	}
	for i := range appendsPerChild {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		for _, rec := range []Record{decision(id), end(id)} {
			if _, err := l.Append(context.Background(), rec); err != nil {
				return err
			}
		}
	}
	return l.Close()
}

func TestSeveralProcesses(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	var wg sync.WaitGroup
	for range 3 {
		cmd := child(t, "append", path)
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("child: %v", err)
			}
		})
	}
	for i := range appendsPerChild {
		mustAppend(t, l, decision(fmt.Sprint(i)))
		mustAppend(t, l, end(fmt.Sprint(i)))
	}
	wg.Wait()
	mustClose(t, l)
	if r := mustVerify(t, path); r.Entries != 4*2*appendsPerChild || len(r.Open) != 0 {
		t.Errorf("%d entries, %d open; want %d, 0", r.Entries, len(r.Open), 4*2*appendsPerChild)
	}
}

// childFlood appends from several goroutines, small entries and large ones, and
// prints the number and hash of each that Append has returned.
func childFlood(path string) error {
	l, _, err := Open(path, Options{})
	if err != nil {
		return err
	}
	large := make([]string, 8)
	for i := range large {
		large[i] = strings.Repeat("x", maxString)
	}
	errs := make(chan error)
	for g := range 4 {
		go func() {
			for i := 0; ; i++ {
				rec := decision(fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i))
				if i%8 == 7 {
					rec.Data = large
				}
				e, err := l.Append(context.Background(), rec)
				if err != nil {
					errs <- err
					return
				}
				fmt.Printf("%d %s\n", e.Seq, e.Hash) // one write(2), so lines stay whole
			}
		}()
	}
	return <-errs
}

// TestKillInMidAppend: after a SIGKILL at any moment the log opens and verifies,
// everything that Append had returned is in it, and the calls are told as interrupted.
func TestKillInMidAppend(t *testing.T) {
	path := logPath(t)
	rounds := 15
	if testing.Short() {
		rounds = 3
	}
	torn := 0
	for round := range rounds {
		acked := killAfter(t, path, 5+5*round)
		l, r := openAny(t, path, Options{})
		mustClose(t, l)
		if r.Torn != nil {
			torn++
		}
		if len(r.Interrupted) < len(acked) {
			t.Errorf("round %d: %d calls interrupted, %d had been decided", round, len(r.Interrupted), len(acked))
		}
		mustVerify(t, path)
		hashes := map[uint64]string{}
		for e, err := range Query(path, Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			hashes[e.Seq] = e.Hash
		}
		for seq, hash := range acked {
			if hashes[seq] != hash {
				t.Errorf("round %d: entry %d was acknowledged with %s, the log has %q", round, seq, hash, hashes[seq])
			}
		}
	}
	t.Logf("%d of %d kills left a torn line", torn, rounds)
}

// killAfter runs childFlood, kills it after n acknowledged entries, and returns
// all that it acknowledged.
func killAfter(t *testing.T, path string, n int) map[uint64]string {
	t.Helper()
	cmd := child(t, "flood", path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[uint64]string{}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var seq uint64
		var hash string
		if _, err := fmt.Sscan(lines.Text(), &seq, &hash); err != nil || len(hash) != len(ZeroHash) {
			t.Fatalf("child says %q: %v", lines.Text(), err)
		}
		acked[seq] = hash
		if len(acked) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("child: %v, want it killed", err)
	}
	return acked
}

// childFull runs in mount and user namespaces of its own: path is on a file
// system of 256 KiB that fills up and is emptied, then becomes read-only and
// writable again.
func childFull(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	path, ballast := dir+"/audit.jsonl", dir+"/ballast"
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil {
		return err
	}
	l, _, err := Open(path, Options{})
	if err != nil {
		return err
	}
	if err := fillUp(l, path, unix.ENOSPC, func() error { return os.Remove(ballast) }); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	return readOnly(dir, path)
}

func readOnly(dir, path string) error {
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("remount read-only: %w", err)
	}
	_, _, err := Open(path, Options{})
	if !errors.Is(err, unix.EROFS) || !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("Open on a read-only file system: %v, want EROFS", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
		return fmt.Errorf("remount writable: %w", err)
	}
	l, r, err := Open(path, Options{})
	if err != nil || !r.Clean() {
		return fmt.Errorf("Open once it is writable again: %+v, %v", r, err)
	}
	_, err = l.Append(context.Background(), end("last"))
	return errors.Join(err, l.Close())
}

// fillUp appends to l until that fails, which must be with want, checks that the
// log is sound and holds just what was acknowledged, makes room, and checks that
// appending works again.
func fillUp(l *Log, path string, want error, makeRoom func() error) error {
	n := uint64(0)
	var err error
	for ; err == nil; n++ {
		rec := decision(fmt.Sprint(n))
		rec.Data = strings.Repeat("x", 1000+int(n))
		_, err = l.Append(context.Background(), rec)
	}
	n-- // the one that failed
	if !errors.Is(err, want) || !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("append %d: %v, want %v", n, err, want)
	}
	for range 3 { // a failure is not the last word, and does no harm when repeated
		if _, err := l.Append(context.Background(), Record{Kind: KindDecision, Data: strings.Repeat("y", 8000)}); !errors.Is(err, want) {
			return fmt.Errorf("append again: %v, want %v", err, want)
		}
	}
	if r, err := VerifyFile(path); err != nil || r.Entries != n {
		return fmt.Errorf("the log has %d entries, %v; want the %d that were acknowledged", r.Entries, err, n)
	}
	if err := makeRoom(); err != nil {
		return err
	}
	if _, err := l.Append(context.Background(), decision("after")); err != nil {
		return fmt.Errorf("append once there is room: %w", err)
	}
	r, err := VerifyFile(path)
	if err == nil && r.Entries != n+1 {
		err = fmt.Errorf("%d entries, want %d", r.Entries, n+1)
	}
	return err
}

// TestFullAndReadOnlyDisk uses real file systems, in namespaces of their own so
// that neither root nor an ordinary user changes anything on the host.
func TestFullAndReadOnlyDisk(t *testing.T) {
	cmd := child(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if errors.Is(err, unix.EPERM) && os.Geteuid() == 0 { // user namespaces are barred; root needs none
		cmd = child(t, "full", t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
		err = cmd.Run()
	}
	if errors.Is(err, unix.EPERM) {
		t.Skip("this host bars user namespaces for ordinary users; TestFileSizeLimit covers a write that fails half way")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// childLimit lowers RLIMIT_FSIZE, under which a write stops in the middle of a
// line and the next one fails with EFBIG.
func childLimit(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	l, _, err := Open(path, Options{})
	if err != nil {
		return err
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 64 << 10, Max: old.Max}); err != nil {
		return err
	}
	err = fillUp(l, path, unix.EFBIG, func() error { return unix.Setrlimit(unix.RLIMIT_FSIZE, &old) })
	return errors.Join(err, l.Close())
}

func TestFileSizeLimit(t *testing.T) {
	path := logPath(t)
	if err := child(t, "limit", path).Run(); err != nil {
		t.Fatal(err)
	}
	l, r := openAny(t, path, Options{})
	mustClose(t, l)
	if r.Torn != nil {
		t.Errorf("the failed write left %+v", r.Torn)
	}
}
