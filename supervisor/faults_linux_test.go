package supervisor

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/supervisor/server"
)

// TestBreakOutsAreLogged: a process that the supervisor has started, as a tool is, and that
// reaches a socket is turned away, and the operator can read of it. One that it has not
// started connects, and nothing is said.
func TestBreakOutsAreLogged(t *testing.T) {
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	said := func() string {
		b, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	socket := filepath.Join(dir, "s")
	l, err := unixsock.Listen(socket, unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.New(nil, server.Config{Log: slog.New(slog.NewTextHandler(log, nil))}).ServeAgent(ctx, l)
	}()
	defer func() { stop(); <-over }()

	own, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	const tool = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint(s.recv(4096))"
	out, err := exec.Command("python3", "-c", tool, socket).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "may not connect") {
		t.Errorf("a descendant: %v, %s", err, out)
	}
	if lines := strings.Split(strings.TrimSpace(said()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "connection refused") || !strings.Contains(lines[0], "a tool in a sandbox") {
		t.Errorf("the log says %q", lines)
	}
	own.Close()
}
