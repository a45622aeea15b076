package confinetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// insidePort is the one that withPort exposes.
const insidePort = 8000

func withPort(t *testing.T, ws string) sandboxprofile.Profile {
	p := Profile(t, ws)
	p.Network.Expose = []string{fmt.Sprintf("0:%d", insidePort)}
	return p
}

// server listens at a port and greets every client.
func server(port int) string {
	return fmt.Sprintf(`
import socket
s = socket.create_server(('0.0.0.0', %d))
print('up', flush=True)
while True:
    c = s.accept()[0]
    c.sendall(b'from inside')
    c.close()`, port)
}

// whileServing calls f while a server runs in box.
func whileServing(t *testing.T, box confine.Sandbox, ws string, port int, f func()) {
	t.Helper()
	r, w := io.Pipe()
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	go func() {
		_, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/usr/bin/python3", Argv: []string{"python3", "-c", server(port)}, Dir: ws,
		}}, confine.Stdio{Stdout: w, Stderr: w})
		w.Close()
		ended <- err
	}()
	b := make([]byte, 3)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "up\n" {
		rest, _ := io.ReadAll(r)
		t.Errorf("the server does not serve: %v, %q", err, string(b)+string(rest))
	} else {
		f()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func greeting(conn net.Conn, err error) string {
	if err != nil {
		return errnoOf(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(60 * time.Second))
	b, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func prepared(t *testing.T, c confine.Confiner, p sandboxprofile.Profile) confine.Sandbox {
	t.Helper()
	box, err := c.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

// noWayIn: a server of the sandbox's is not the host's, while the same with the host's
// network is.
func noWayIn(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	port, stop := listen(t)
	stop()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	whileServing(t, prepared(t, c, Profile(t, ws)), ws, port, func() {
		if got := greeting(net.Dial("tcp", address)); got != "ECONNREFUSED" {
			t.Errorf("from the host: %q", got)
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatalf("the port of the host is held: %v", err)
		}
		l.Close()
	})
	for port, want := range map[int]string{80: "EACCES", 1023: "EACCES", 1024: "ok"} {
		if got := Python(t, c, Profile(t, ws), ws, fmt.Sprintf("socket.socket().bind(('127.0.0.1', %d))", port)); got != want {
			t.Errorf("listen on port %d inside: %s, want %s", port, got, want)
		}
	}
	if _, err := prepared(t, c, Profile(t, ws)).(confine.Exposed).Entrance(); err == nil {
		t.Error("there is an entrance")
	}
	hostServes(t, c, ws, port)
}

func hostServes(t *testing.T, c confine.Confiner, ws string, port int) {
	t.Helper()
	open := Profile(t, ws)
	open.Network.Mode = sandboxprofile.NetworkHost
	whileServing(t, prepared(t, c, open), ws, port, func() {
		if got := greeting(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))); got != "from inside" {
			t.Errorf("the same with the host's network: %q", got)
		}
	})
}

// exposedPort: one door leads to the server, and no other does.
func exposedPort(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box := prepared(t, c, withPort(t, ws))
	enter, err := box.(confine.Exposed).Entrance()
	if err != nil {
		t.Fatal(err)
	}
	dial := func(port uint16) string {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return greeting(enter(ctx, port))
	}
	whileServing(t, box, ws, insidePort, func() {
		if got := dial(insidePort); got != "from inside" {
			t.Errorf("by the entrance: %q", got)
		}
		if got := greeting(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", insidePort))); got != "ECONNREFUSED" {
			t.Errorf("past the entrance: %q", got)
		}
		if got := dial(insidePort + 1); !strings.Contains(got, "not exposed") {
			t.Errorf("another port: %q", got)
		}
	})
	whileServing(t, box, ws, insidePort+1, func() {
		if got := dial(insidePort); got != "ECONNREFUSED" {
			t.Errorf("with nothing there: %q", got)
		}
		if got := dial(insidePort + 1); !strings.Contains(got, "not exposed") {
			t.Errorf("another port, with a server: %q", got)
		}
	})
}
