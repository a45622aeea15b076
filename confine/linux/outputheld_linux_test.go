package linux_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestOutputEndsWithTheCall: a program sends its output streams through a socket to somebody who
// holds on to them, writes to them, or both. Its call ends with it all the same, and has all
// that it wrote and nothing else that matters. So does one on a terminal. The twin is a stream
// that is read slowly: nothing of it is lost.
func TestOutputEndsWithTheCall(t *testing.T) {
	const send = `
import array, socket, sys
s = socket.socket(fileno=3)
s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2]))])
sys.stdout.write('a' * 200000); sys.stdout.flush()
sys.stderr.write('err')
`
	for name, c := range map[string]confine.Confiner{"bwrap": newBwrap(t), "landlock": newLandlock(t, linux.LandlockOptions{})} {
		t.Run(name, func(t *testing.T) {
			ws := confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			p.Limits.Output = sandboxprofile.Unlimited
			run := func(std confine.Stdio, terminal *sandboxprofile.Terminal, floods bool) {
				t.Helper()
				box, err := c.Prepare(context.Background(), p)
				if err != nil {
					t.Fatal(err)
				}
				defer box.Close()
				ours, release := holds(t, floods)
				defer release()
				std.Files = []*os.File{ours}
				done := make(chan error, 1)
				go func() {
					r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
						Path: "/usr/bin/python3", Argv: []string{"python3", "-c", send}, Dir: ws, Env: []string{"PATH=/usr/bin:/bin"}, Terminal: terminal,
					}}, std)
					if err == nil && r.ExitCode != 0 {
						err = fmt.Errorf("%+v", r)
					}
					done <- err
				}()
				select {
				case err := <-done:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(45 * time.Second):
					t.Error("the call waits for whoever has its output")
				}
			}
			own := strings.Repeat("a", 200_000)
			for _, floods := range []bool{false, true} {
				var out, errOut bytes.Buffer
				run(confine.Stdio{Stdin: strings.NewReader(strings.Repeat("unread", 1<<20)), Stdout: &out, Stderr: &errOut}, nil, floods)
				if got := strings.ReplaceAll(out.String(), "f", ""); got != own || strings.ReplaceAll(errOut.String(), "f", "") != "err" {
					t.Errorf("floods %v: %d bytes and %q of the program's own", floods, len(got), errOut.String())
				}
			}
			var screen bytes.Buffer
			run(confine.Stdio{Stdout: &screen}, &sandboxprofile.Terminal{Rows: 24, Columns: 80}, false)
			if n := strings.Count(screen.String(), "a"); n != len(own) {
				t.Errorf("a terminal: %d bytes", n)
			}
			var slow slowWriter
			run(confine.Stdio{Stdout: &slow}, nil, false)
			if slow.n != len(own) {
				t.Errorf("read slowly: %d bytes", slow.n)
			}
		})
	}
}

// holds gives a socket for a program, keeps what that sends, and with floods writes to it. The
// result lets go of it.
func holds(t *testing.T, floods bool) (theirs *os.File, release func()) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(os.NewFile(uintptr(fds[0]), "ours"))
	if err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	var busy sync.WaitGroup
	got := make(chan struct{})
	busy.Go(func() {
		defer close(got)
		oob := make([]byte, 256)
		_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), oob)
		if err != nil {
			return
		}
		msgs, _ := unix.ParseSocketControlMessage(oob[:n])
		for _, m := range msgs {
			rights, _ := unix.ParseUnixRights(&m)
			for _, fd := range rights {
				held = append(held, os.NewFile(uintptr(fd), "held"))
			}
		}
		for _, f := range held {
			if floods {
				busy.Go(func() {
					for {
						if _, err := f.Write(bytes.Repeat([]byte("f"), 4096)); err != nil {
							return
						}
					}
				})
			}
		}
	})
	return os.NewFile(uintptr(fds[1]), "theirs"), func() {
		<-got
		if len(held) != 3 {
			t.Errorf("%d descriptors came, want 3", len(held))
		}
		for _, f := range held {
			f.Close()
		}
		conn.Close()
		busy.Wait()
	}
}

type slowWriter struct{ n int }

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(3 * time.Second / 4)
	w.n += len(b)
	return len(b), nil
}
