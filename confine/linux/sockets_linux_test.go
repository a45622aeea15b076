package linux

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func exposingSandbox(t *testing.T) *bwrapSandbox {
	t.Helper()
	b, err := NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	box, err := b.Prepare(context.Background(), sandboxprofile.Profile{
		Paths:   map[string]sandboxprofile.Rights{"/usr": sandboxprofile.Read | sandboxprofile.Execute},
		Network: sandboxprofile.Network{Expose: []string{"0:8000"}}, Limits: sandboxprofile.NoLimits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box.(*bwrapSandbox)
}

// TestOnlyFreshSocketsOfTheSandboxAreConnected: an init that a tool had taken over could
// send anything. What is not a new TCP socket of its own network is refused.
func TestOnlyFreshSocketsOfTheSandboxAreConnected(t *testing.T) {
	s := exposingSandbox(t)
	inside := func(ipv6 bool) int {
		f, err := s.sockets.socket(context.Background(), ipv6)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	outside := func(family, kind, protocol int) int {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	listening := inside(false)
	if err := errors.Join(unix.Bind(listening, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(listening, 1)); err != nil {
		t.Fatal(err)
	}
	connected := inside(false)
	at, err := unix.Getsockname(listening)
	if err == nil {
		err = unix.Connect(connected, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	other := exposingSandbox(t)
	foreign, err := other.sockets.socket(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	for _, c := range []struct {
		what string
		fd   int
		want string // in the error; "" for none
	}{
		{"a fresh one", inside(false), ""},
		{"another that is listening", listening, "something else"},
		{"another that is connected", connected, "connected"},
		{"of the other family", inside(true), "something else"},
		{"the host's", outside(unix.AF_INET, unix.SOCK_STREAM, 0), "another network"},
		{"another sandbox's", int(foreign.Fd()), "another network"},
		{"UDP", outside(unix.AF_INET, unix.SOCK_DGRAM, 0), "something else"},
		{"Unix", outside(unix.AF_UNIX, unix.SOCK_STREAM, 0), "something else"},
		{"a file", int(file.Fd()), "something else"},
	} {
		err := s.sockets.check(c.fd, unix.AF_INET)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if err := s.sockets.check(inside(true), unix.AF_INET6); err != nil {
		t.Errorf("a fresh one of IPv6: %v", err)
	}
}

// TestAnswersToNobodyAreClosed: those that come late, and those that nobody asked for.
func TestAnswersToNobodyAreClosed(t *testing.T) {
	k := newSockets(sandboxprofile.Network{Expose: []string{"0:1"}}, nil, nil)
	made := func(id uint64) (received, *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return received{frame: wire.Frame{Made: &wire.Made{ID: id}}, files: []*os.File{w}}, r
	}
	closed := func(r *os.File) bool { // end of file: no writer is left
		raw, err := r.SyscallConn()
		n := -1
		if err == nil {
			err = raw.Read(func(fd uintptr) bool { // EAGAIN while there is a writer
				n, err = unix.Read(int(fd), make([]byte, 1))
				return true
			})
		}
		return err == nil && n == 0
	}
	for name, abandonFirst := range map[string]bool{"late": true, "at the last moment": false} {
		answer := make(chan received, 1)
		id := k.expect(answer)
		r, pipe := made(id)
		if abandonFirst {
			k.abandon(id, answer)
		}
		if !k.deliver(r) {
			t.Errorf("%s: an answer that was asked for is refused", name)
		}
		if !abandonFirst {
			if closed(pipe) {
				t.Errorf("%s: closed before it is given up", name)
			}
			k.abandon(id, answer)
		}
		if !closed(pipe) {
			t.Errorf("%s: the descriptor is left open", name)
		}
		again, _ := made(id)
		if k.deliver(again) {
			t.Errorf("%s: answered twice", name)
		}
	}
	if len(k.waiting) != 0 {
		t.Errorf("%d questions are left", len(k.waiting))
	}
	if unasked, _ := made(99); k.deliver(unasked) || (*sockets)(nil).deliver(unasked) {
		t.Error("an answer that nobody asked for is taken")
	}
}

// TestEnteringEndsWithItsTime: a server whose queue is full does not answer. Whoever
// waits gives up in time, and a closed sandbox lets nobody wait.
func TestEnteringEndsWithItsTime(t *testing.T) {
	s := exposingSandbox(t)
	enter, err := s.Entrance()
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.sockets.socket(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: 8000, Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	var kept []net.Conn
	defer func() {
		for _, c := range kept {
			c.Close()
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		conn, err := enter(ctx, 8000)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("with %d in the queue: %v", len(kept), err)
		}
		kept = append(kept, conn)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if conn, err := enter(context.Background(), 8001); err == nil {
			conn.Close()
			t.Error("entered at a port that is not exposed")
		}
	})
	waiting.Wait()
	s.Close()
	if conn, err := enter(context.Background(), 8000); err == nil {
		conn.Close()
		t.Error("entered a sandbox that is closed")
	}
}
