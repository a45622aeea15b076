//go:build unix

package unixsock

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("UNIXSOCK_TEST_ACTIVATED") != "" {
		os.Exit(activatedChild())
	}
	goleak.VerifyTestMain(m)
}

// echoOnce answers one connection, and fails the test if nobody comes.
func echoOnce(t *testing.T, l net.Listener) <-chan Peer {
	t.Helper()
	peers := make(chan Peer, 1)
	go func() {
		defer close(peers)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		p, err := PeerOf(c)
		if err != nil {
			t.Error(err)
		}
		io.Copy(c, c)
		peers <- p
	}()
	return peers
}

func talk(t *testing.T, path string) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	c.(*net.UnixConn).CloseWrite()
	if b, err := io.ReadAll(c); string(b) != "hi" || err != nil {
		t.Fatalf("got %q, %v", b, err)
	}
}

func TestListenMakesAPrivateSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, AgentSocket)
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, path: 0o600 | fs.ModeSocket} {
		if fi, err := os.Lstat(p); err != nil || fi.Mode() != want {
			t.Errorf("%s: mode %v, %v, want %v", p, fi.Mode(), err, want)
		}
	}
	if l.Addr().String() != path {
		t.Errorf("address %s", l.Addr())
	}
	peers := echoOnce(t, l)
	talk(t, path)
	if p := <-peers; p != (Peer{os.Geteuid(), os.Getegid(), os.Getpid()}) {
		t.Errorf("peer %v", p)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSecondListenerIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Listen(path, Options{})
	var pe *PathError
	if !errors.Is(err, ErrInUse) || !errors.As(err, &pe) || !strings.Contains(pe.Hint(), strconv.Itoa(os.Getpid())) {
		t.Fatalf("got %v", err)
	}
	peers := echoOnce(t, first)
	// The second one's probe counts as a connection; take it out of the queue.
	<-peers
	peers = echoOnce(t, first)
	talk(t, path)
	<-peers
}

func TestOnlyOneOfManyListenersWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale(t, path)
	var wg sync.WaitGroup
	won := make(chan *Listener, 16)
	for range cap(won) {
		wg.Go(func() {
			l, err := Listen(path, Options{})
			if err == nil {
				won <- l
			} else if !errors.Is(err, ErrInUse) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d listeners on one path", len(won))
	}
	(<-won).Close()
}

// stale leaves a socket at path that nobody listens on.
func stale(t *testing.T, path string) {
	t.Helper()
	u, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	u.SetUnlinkOnClose(false)
	u.Close()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale(t, path)
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peers := echoOnce(t, l)
	talk(t, path)
	<-peers
}

func TestWhatIsNoSocketStays(t *testing.T) {
	dir := t.TempDir()
	make := map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"link":      func(p string) error { return os.Symlink("nowhere", p) },
		"pipe":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
	}
	for name, create := range make {
		path := filepath.Join(dir, name)
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		if l, err := Listen(path, Options{}); err == nil {
			l.Close()
			t.Errorf("%s: listening", name)
		} else if !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: replaced", name)
		}
	}
}

func TestUnsafeDirectoryIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		mode fs.FileMode
		good bool
	}{
		"private":          {0o700, true},
		"readable":         {0o755, true},
		"sticky":           {0o777 | fs.ModeSticky, true},
		"group writable":   {0o770, false},
		"world writable":   {0o777, false},
		"others may write": {0o702, false},
	} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, tt.mode)); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(filepath.Join(dir, "s"), Options{})
		if err == nil {
			l.Close()
		}
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "could replace the socket") {
			t.Errorf("%s: refused for another reason: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "f")
	os.WriteFile(file, nil, 0o600)
	if _, err := Listen(filepath.Join(file, "s"), Options{}); err == nil {
		t.Error("a socket in a file")
	}
}

func TestDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make one")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(filepath.Join(dir, "s"), Options{}); err == nil || !strings.Contains(err.Error(), "belongs to uid 12345") {
		t.Errorf("got %v", err)
	}
	if err := os.Chown(dir, 0, -1); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(filepath.Join(dir, "s"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestLongPaths(t *testing.T) {
	dir := t.TempDir()
	for len(dir) < maxPath-12 {
		dir = filepath.Join(dir, "0123456"[:min(7, maxPath-11-len(dir))])
	}
	path := filepath.Join(dir, strings.Repeat("s", maxPath-len(dir)-1))
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatalf("%d bytes: %v", len(path), err)
	}
	peers := echoOnce(t, l)
	talk(t, path)
	<-peers
	l.Close()
	if _, err := Listen(path+"s", Options{}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("one byte more: %v", err)
	}
}

func TestCloseLeavesASuccessorsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	second, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	peers := echoOnce(t, second)
	talk(t, path)
	<-peers
}

func TestGroupSocket(t *testing.T) {
	gid := os.Getegid()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, Options{Group: &gid})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if fi, err := os.Lstat(path); err != nil || fi.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestAdmit(t *testing.T) {
	me, group := os.Geteuid(), 7
	for _, tt := range []struct {
		o    Options
		uid  int
		good bool
	}{
		{Options{}, me, true},
		{Options{}, 0, true},
		{Options{}, me + 1, false},
		{Options{Group: &group}, me + 1, true},
	} {
		if err := tt.o.admit(Peer{UID: tt.uid}); (err == nil) != tt.good {
			t.Errorf("uid %d, %+v: %v", tt.uid, tt.o, err)
		}
	}
}

// A stranger can reach a socket only if its mode was changed behind our back;
// even then it is turned away, and reported.
func TestStrangerIsTurnedAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir, err := os.MkdirTemp("", "unixsock")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	refused := make(chan Peer, 1)
	l, err := Listen(path, Options{Refused: func(p Peer, _ error) { refused <- p }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, p := range []string{dir, path} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	peers := echoOnce(t, l)
	cmd := exec.Command("bash", "-c", "exec 2>&1; python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(len(s.recv(1)))' "+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "0" {
		t.Fatalf("stranger: %s, %v", out, err)
	}
	if p := <-refused; p.UID != 65534 || p.PID == 0 {
		t.Errorf("refused %v", p)
	}
	talk(t, path)
	<-peers
}

func TestRuntimeDir(t *testing.T) {
	xdg, tmp := t.TempDir(), t.TempDir()
	file := filepath.Join(tmp, "file")
	os.WriteFile(file, nil, 0o600)
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_RUNTIME_DIR", xdg)
	if got := RuntimeDir(); got != filepath.Join(xdg, "sandgate") {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{"", "relative", filepath.Join(xdg, "missing"), file} {
		t.Setenv("XDG_RUNTIME_DIR", bad)
		got := RuntimeDir()
		uid := strconv.Itoa(os.Geteuid())
		if got != filepath.Join(tmp, "sandgate-"+uid) && got != "/run/user/"+uid+"/sandgate" {
			t.Errorf("with %q: %s", bad, got)
		}
	}
}

func TestDefaultPathWantsADirectoryOfOurOwn(t *testing.T) {
	xdg := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", xdg)
	dir := filepath.Join(xdg, "sandgate")
	check := func(good bool, what string) {
		t.Helper()
		if _, err := DefaultPath(AgentSocket); (err == nil) != good {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(true, "missing")
	os.Mkdir(dir, 0o755)
	check(false, "open to others")
	if _, err := Listen(filepath.Join(dir, AgentSocket), Options{}); err == nil {
		t.Error("listening in an open default directory")
	}
	os.Chmod(dir, 0o700)
	check(true, "private")
	os.Remove(dir)
	os.Symlink(t.TempDir(), dir)
	check(false, "a link")
}

func TestPeerOfNeedsAUnixSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := PeerOf(a); err == nil {
		t.Error("credentials of a pipe")
	}
}

func TestActivationNames(t *testing.T) {
	wanted := []string{"agent", "operator"}
	for _, tt := range []struct {
		env  activationEnv
		want string
		good bool
	}{
		{activationEnv{"7", "2", "agent:operator"}, "agent operator", true},
		{activationEnv{"7", "1", "operator"}, "operator", true},
		{activationEnv{"8", "2", "agent:operator"}, "", true},
		{activationEnv{"", "", ""}, "", true},
		{activationEnv{"7", "0", ""}, "", true},
		{activationEnv{"7", "x", "agent"}, "", false},
		{activationEnv{"7", "-1", ""}, "", false},
		{activationEnv{"7", "2", "agent"}, "", false},
		{activationEnv{"7", "2", "agent:agent"}, "", false},
		{activationEnv{"7", "1", "sandgate.socket"}, "", false},
		{activationEnv{"7", "1", ""}, "", false},
	} {
		got, err := tt.env.parse(7, wanted)
		if (err == nil) != tt.good || strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: got %q, %v", tt.env, got, err)
		}
	}
}

// TestActivated hands sockets to a child the way systemd does.
func TestActivated(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *os.File {
		u, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		f, err := u.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { u.Close(); f.Close() })
		return f
	}
	agent, operator := open("agent"), open("operator")
	notes, err := os.Create(filepath.Join(dir, "notes"))
	if err != nil {
		t.Fatal(err)
	}
	defer notes.Close()
	for name, tt := range map[string]struct {
		second *os.File
		want   string
	}{
		"two sockets":       {operator, "agent operator\n"},
		"a file among them": {notes, "not a listening socket"},
	} {
		t.Run(name, func(t *testing.T) {
			// The shell knows its own pid, which LISTEN_PID must name, and exec keeps it.
			cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
			cmd.Env = append(os.Environ(), "UNIXSOCK_TEST_ACTIVATED=1", "LISTEN_FDS=2", "LISTEN_FDNAMES=agent:operator")
			cmd.ExtraFiles = []*os.File{agent, tt.second}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("got %s, %v", out, err)
			}
		})
	}
}

func activatedChild() int {
	ls, err := Activated(Options{}, "agent", "operator")
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 0
	}
	if ls["agent"] == nil || ls["operator"] == nil || os.Getenv("LISTEN_FDS") != "" {
		return 1
	}
	os.Stdout.WriteString("agent operator\n")
	if again, err := Activated(Options{}, "agent", "operator"); len(again) != 0 || err != nil {
		return 2
	}
	return 0
}

// TestWriteNow: what is written is what the socket takes, in order, and nothing waits.
func TestWriteNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data := []byte(strings.Repeat("0123456789", 1<<20))
	written := 0
	for {
		n := WriteNow(c, data[written:])
		if n == 0 {
			break
		}
		written += n
	}
	if written == 0 || written == len(data) {
		t.Fatalf("%d of %d bytes were written to a peer that reads nothing", written, len(data))
	}
	got := make([]byte, written)
	if _, err := io.ReadFull(peer, got); err != nil || string(got) != string(data[:written]) {
		t.Errorf("the peer read something else: %v", err)
	}
	if n := WriteNow(c, []byte("more")); n != 4 {
		t.Errorf("%d bytes were written to a peer that has read", n)
	}
	peer.Close()
	if n := WriteNow(c, []byte("x")); n != 0 {
		t.Errorf("%d bytes were written to nobody", n)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if n := WriteNow(a, []byte("x")); n != 0 {
		t.Errorf("%d bytes were written to what is no socket", n)
	}
}
