package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// offering is a fixture whose tools are offered one service of this machine, under
// the name svc, and may not ask for others.
func offering(t *testing.T, service net.Addr) *networkFixture {
	t.Helper()
	f := newFixture(t, setup{mode: approval.Interactive, profile: func(p *sandboxprofile.Profile) {
		p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"svc=" + service.String()}}}
	}})
	writeFile(t, f.ws+"/fetch.py", fmt.Sprintf(fetch, confine.EgressPort))
	return &networkFixture{f, nil}
}

// TestToolsReachServicesByName: through a real sandbox, the one port that is
// listed, and not the one beside it, under neither name nor address.
func TestToolsReachServicesByName(t *testing.T) {
	greet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })
	offered, beside := httptest.NewServer(greet), httptest.NewServer(greet)
	defer offered.Close()
	defer beside.Close()
	f := offering(t, offered.Listener.Addr())
	port := func(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }
	text, v := f.get(t, fmt.Sprintf("http://svc:%d/", port(offered)), nil)
	if !strings.Contains(text, "hello from svc") || len(v) != 0 {
		t.Errorf("the service: %q, %v", text, v)
	}
	for _, url := range []string{
		fmt.Sprintf("http://svc:%d/", port(beside)),
		fmt.Sprintf("http://127.0.0.1:%d/", port(beside)),
		fmt.Sprintf("http://127.0.0.1:%d/", port(offered)),
	} {
		if text, v := f.get(t, url, nil); !strings.HasPrefix(text, "403 ") || len(v) != 1 {
			t.Errorf("%s: %q, %v", url, text, v)
		}
	}
	events := f.connections(t)
	if len(events) != 4 || events[0].Decision != egress.Allow || events[0].Host != "svc" || events[1].Reason != egress.ReasonUnlisted {
		t.Errorf("the log holds %+v", events)
	}
}

// listens opens a port inside, proves it from inside, and keeps it open until it
// is told to end.
const listens = `
import socket
s = socket.create_server(("0.0.0.0", %d))
socket.create_connection(("127.0.0.1", %[1]d)).close()
with open("listening", "w") as f: f.write("yes\n")
open("end").readline()
`

// TestPortsInsideAreNotReachedFromOutside: nothing on the host connects to what a
// tool listens on, although the tool itself does.
func TestPortsInsideAreNotReachedFromOutside(t *testing.T) {
	for _, mode := range []sandboxprofile.NetworkMode{sandboxprofile.NetworkNone, sandboxprofile.NetworkProxied} {
		f := newFixture(t, setup{profile: func(p *sandboxprofile.Profile) {
			p.Network.Mode = mode
			if mode == sandboxprofile.NetworkProxied {
				p.Network.Allow = [][]string{{"a.example.org"}}
			}
		}})
		port := freePort(t)
		writeFile(t, f.ws+"/listen.py", fmt.Sprintf(listens, port))
		listening, end := pipe(t, f.ws, "listening"), pipe(t, f.ws, "end")
		f.say(t, approval.Answer{Allow: true})
		ended := make(chan error, 1)
		go func() {
			args, _ := json.Marshal(map[string]any{"argv": []string{"python3", "listen.py"}})
			if _, e := f.call(context.Background(), "run", string(args)); e != nil {
				ended <- e
			}
			close(ended)
		}()
		if line, err := bufio.NewReader(listening).ReadString('\n'); err != nil {
			t.Fatalf("%v: the tool says %q, %v", mode, line, err)
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v: connecting to the tool's port: %v, %v", mode, conn, err)
		}
		fmt.Fprintln(end, "now")
		if err := <-ended; err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// pipe makes a named pipe that a tool talks through. Reading it fails in the end.
func pipe(t *testing.T, dir, name string) *os.File {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return f
}

// freePort is a port on which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
