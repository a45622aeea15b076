package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/loopback"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools/tasks"
	"golang.org/x/sys/unix"
)

// unusedPort is a port of this machine that nobody listens on, at either address.
func unusedPort(t testing.TB) int {
	t.Helper()
	ls, err := loopback.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range ls {
		l.Close()
	}
	return ls[0].Addr().(*net.TCPAddr).Port
}

func exposing(t *testing.T, ports ...string) *fixture {
	t.Helper()
	return newFixture(t, setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) {
		p.Network.Expose = ports
	}})
}

// pythonServer serves the workspace. It says "up" when it listens.
const pythonServer = `python3 -c '
import http.server, socketserver
socketserver.TCPServer.allow_reuse_address = True
s = socketserver.TCPServer(("127.0.0.1", %d), http.server.SimpleHTTPRequestHandler)
print("up", flush=True)
s.serve_forever()'`

func get(url string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 60 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// refusedAt checks that nobody listens at a port of this machine.
func refusedAt(t *testing.T, port int) {
	t.Helper()
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT) {
			t.Errorf("port %d of %s: %v, want ECONNREFUSED", port, host, err)
		}
	}
}

// comingIn are the connections from the host that the log has.
func (f *fixture) comingIn(t *testing.T) []egress.Event {
	t.Helper()
	var events []egress.Event
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != audit.KindConnection {
			continue
		}
		var x struct {
			egress.Event
			Decision string `json:"decision"`
		}
		if err := json.Unmarshal(e.Data, &x); err != nil {
			t.Fatal(err)
		}
		if x.Event.Direction == egress.In {
			if x.Decision == "allow" {
				x.Event.Decision = egress.Allow
			}
			events = append(events, x.Event)
		}
	}
	return events
}

// TestAnExposedServerIsReachedFromTheHost: a task's server, which another program of
// this machine opens, and its twin without expose, which nobody can.
func TestAnExposedServerIsReachedFromTheHost(t *testing.T) {
	port := unusedPort(t)
	f := exposing(t, fmt.Sprintf("%d:8000", port))
	writeFile(t, f.ws+"/page.html", "from inside")
	i := f.start(t, map[string]any{"command": fmt.Sprintf(pythonServer, 8000)})
	f.read(t, i.TaskID, "up")
	want := []protocol.ExposedPort{{Port: 8000, Address: fmt.Sprintf("127.0.0.1:%d", port)}}
	if !slices.Equal(i.Exposed, want) {
		t.Errorf("the start says %v, want %v", i.Exposed, want)
	}
	for _, host := range hosts(t) {
		if text, err := get("http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/page.html"); text != "from inside" || err != nil {
			t.Errorf("by %s: %q, %v", host, text, err)
		}
	}
	list, e := f.call(context.Background(), tasks.List, `{}`)
	if e != nil {
		t.Fatal(e)
	}
	if tasks := decodeAs[protocol.TaskList](t, list).Tasks; len(tasks) != 1 || !slices.Equal(tasks[0].Exposed, want) {
		t.Errorf("list_tasks: %+v", tasks)
	}
	if text := string(list.Content[0].Bytes()); !strings.Contains(text, "port 8000 is at "+want[0].Address) {
		t.Errorf("list_tasks in words: %q", text)
	}
	f.kill(t, i.TaskID)
	refusedAt(t, port)
	events := f.comingIn(t)
	if len(events) != len(hosts(t)) {
		t.Fatalf("%d connections are in the log: %+v", len(events), events)
	}
	for _, e := range events {
		if e.Session != string(f.session) || e.Call != "c1" || e.Port != 8000 || int(e.Address.Port()) != port || !e.Peer.Addr().IsLoopback() || e.Peer.Port() == 0 ||
			e.Up == 0 || e.Down == 0 || e.Duration <= 0 || e.Decision != egress.Allow || e.Protocol != egress.ProtocolTCP || e.User != strconv.Itoa(os.Geteuid()) {
			t.Errorf("recorded as %+v", e)
		}
	}

	f = newFixture(t, setup{mode: approval.ApproveAll})
	i = f.start(t, map[string]any{"command": fmt.Sprintf(pythonServer, port)})
	f.read(t, i.TaskID, "up")
	refusedAt(t, port)
	if len(i.Exposed) != 0 {
		t.Errorf("the twin says %v", i.Exposed)
	}
}

// hosts are the addresses of loopback that this machine has.
func hosts(t *testing.T) []string {
	t.Helper()
	list := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		l.Close()
		list = append(list, "::1")
	}
	return list
}

func (f *fixture) kill(t *testing.T, id protocol.TaskID) {
	t.Helper()
	if _, e := f.call(context.Background(), tasks.Kill, fmt.Sprintf(`{"task_id": %q}`, id)); e != nil {
		t.Fatal(e)
	}
}

// TestAForegroundServerIsReached: a Go server that listens on ::1 alone, in a call that
// the agent waits for. Where it is comes with the state "running".
func TestAForegroundServerIsReached(t *testing.T) {
	f := exposing(t, "0:9000")
	buildServer(t, f.ws)
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	notify := func(_ protocol.Method, params any) {
		if s, ok := params.(protocol.ToolState); ok && s.State == protocol.Running && len(s.Exposed) == 1 {
			go func() {
				text, err := getSoon("http://" + s.Exposed[0].Address + "/stop")
				answers <- answer{text, err}
			}()
		}
	}
	r, err := f.Call(context.Background(), self, protocol.ToolsCall{
		SessionID: f.session, CallID: "c1", Tool: "run", Args: json.RawMessage(`{"argv": ["./server", "[::1]:9000"]}`),
	}, notify)
	if err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.text != "served\n" || a.err != nil {
		t.Errorf("%+v", a)
	}
	if len(r.Exposed) != 1 || r.Exposed[0].Port != 9000 {
		t.Fatalf("the result says %+v", r.Exposed)
	}
	_, port, err := net.SplitHostPort(r.Exposed[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(port)
	refusedAt(t, n)
	if !slices.ContainsFunc(f.comingIn(t), func(e egress.Event) bool {
		return int(e.Address.Port()) == n && e.Decision == egress.Allow && e.Down > 0
	}) {
		t.Errorf("the log has %+v", f.comingIn(t))
	}
}

// getSoon asks until the server inside listens.
func getSoon(url string) (text string, err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if text, err = get(url); err == nil {
			return text, nil
		}
	}
	return text, err
}

// buildServer puts a server into dir. It answers /stop and ends.
func buildServer(t *testing.T, dir string) {
	t.Helper()
	buildProgram(t, dir, "server", `package main
import ("fmt"; "net"; "net/http"; "os"; "context")
func main() {
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil { panic(err) }
	var s http.Server
	done := make(chan bool)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "served"); if r.URL.Path == "/stop" { go func() { s.Shutdown(context.Background()); close(done) }() } })
	s.Serve(l)
	<-done
}
`)
}

// TestATakenPortIsRefusedBeforeTheToolRuns says whose it is and what would help.
func TestATakenPortIsRefusedBeforeTheToolRuns(t *testing.T) {
	const touch = `{"argv": ["/usr/bin/touch", "ran"]}`
	port := unusedPort(t)
	f := exposing(t, fmt.Sprintf("%d:8000", port))
	ran := func() bool { _, err := os.Stat(f.ws + "/ran"); return err == nil }

	for _, host := range hosts(t) {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		_, e := f.call(context.Background(), "run", touch)
		l.Close()
		if e == nil || e.Code != protocol.CodeSandboxUnavailable || !strings.Contains(e.Message, "taken by another program") || !strings.Contains(e.HintText, `"0:8000"`) || ran() {
			t.Errorf("taken at %s: %+v, ran %v", host, e, ran())
		}
	}
	task := f.start(t, map[string]any{"command": "read line; touch ended"})
	for what, want := range map[string]string{tasks.Start: "exposed for the task " + string(task.TaskID)} {
		_, e := f.call(context.Background(), what, `{"command": "touch ran"}`)
		if e == nil || e.Code != protocol.CodeSandboxUnavailable || !strings.Contains(e.Message, want) || !strings.Contains(e.HintText, "kill_task") || ran() {
			t.Errorf("%s in the same session: %+v, ran %v", what, e, ran())
		}
	}
	opened, err := f.OpenSession(self, protocol.SessionOpen{Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Call(context.Background(), self, protocol.ToolsCall{SessionID: opened.SessionID, CallID: "c9", Tool: "run", Args: json.RawMessage(touch)}, nil)
	var e *protocol.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "exposed for another session") || strings.Contains(e.Message+e.HintText, string(task.TaskID)) || ran() {
		t.Errorf("another session: %+v, ran %v", e, ran())
	}

	// A call beside the task goes without the port, and says so.
	r, e := f.call(context.Background(), "run", touch)
	if e != nil || !ran() || len(r.Exposed) != 0 || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "not for this one") }) {
		t.Errorf("a call beside the task: %v, %+v", e, r)
	}
	f.kill(t, task.TaskID)
	if r, e := f.call(context.Background(), "run", touch); e != nil || len(r.Exposed) != 1 {
		t.Errorf("after it: %v, %+v", e, r)
	}
}

// TestDoorsCloseWithTheirCall: however it ends, nobody listens afterwards, and who was
// connected is cut off.
func TestDoorsCloseWithTheirCall(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *fixture, protocol.TaskID){
		"kill_task":     func(t *testing.T, f *fixture, id protocol.TaskID) { f.kill(t, id) },
		"session.close": func(_ *testing.T, f *fixture, _ protocol.TaskID) { f.CloseSession(f.session) },
		"stop":          func(_ *testing.T, f *fixture, _ protocol.TaskID) { f.Close() },
		"crash": func(t *testing.T, f *fixture, id protocol.TaskID) {
			if _, e := f.call(context.Background(), tasks.Input, fmt.Sprintf(`{"task_id": %q, "input": "x\n"}`, id)); e != nil {
				t.Fatal(e)
			}
			f.read(t, id, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := sockets(t)
			port := unusedPort(t)
			f := exposing(t, fmt.Sprintf("%d:8000", port))
			i := f.start(t, map[string]any{"command": `python3 -c '
import os, socket, sys
s = socket.create_server(("127.0.0.1", 8000))
print("up", flush=True)
c = s.accept()[0]
c.sendall(b"hello")
sys.stdin.readline()
os.abort()'`})
			f.read(t, i.TaskID, "up")
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			end(t, f, i.TaskID)
			refusedAt(t, port)
			conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection goes on: %d bytes, %v", n, err)
			}
			f.Close()
			conn.Close()
			soon(t, "sockets are left", func() bool { return sockets(t) <= before })
		})
	}
}

func soon(t *testing.T, wrong string, good func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !good(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(wrong)
		}
	}
}

// descriptors are where those of this process lead.
func descriptors(t *testing.T) (leads []string) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		to, _ := os.Readlink("/proc/self/fd/" + n.Name()) // the one of the directory is closed by now
		leads = append(leads, to)
	}
	return leads
}

// sockets counts them but for the warden's, which is its confiner's and outlives the supervisor.
func sockets(t *testing.T) (n int) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil && kind != unix.SOCK_SEQPACKET {
			n++
		}
	}
	return n
}

// TestAToolCannotMoveTheDoor: what listens on the host beside the exposed port is not
// reached through it, whatever the tool does to its own network, and a port inside that
// is not listed stays closed while one beside it is open.
func TestAToolCannotMoveTheDoor(t *testing.T) {
	host, err := net.Listen("tcp", "127.0.0.1:0") // a service of the host, on the port that is exposed inside
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	go func() {
		for {
			c, err := host.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "the host's own")
			c.Close()
		}
	}()
	inside, port := host.Addr().(*net.TCPAddr).Port, unusedPort(t)
	f := exposing(t, fmt.Sprintf("%d:%d", port, inside))
	i := f.start(t, map[string]any{"command": "echo up; read line; touch ended"}) // nothing listens inside
	f.read(t, i.TaskID, "up")
	if b, err := heardAt(fmt.Sprintf("127.0.0.1:%d", port)); b != "" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("with nothing inside: %q, %v", b, err)
	}
	direct, err := net.Dial("tcp", host.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if b, _ := io.ReadAll(direct); string(b) != "the host's own" {
		t.Errorf("the twin, directly: %q", b)
	}
	f.kill(t, i.TaskID)
	events := f.comingIn(t)
	if len(events) != 1 || events[0].Reason != egress.ReasonUnreachable || events[0].Up+events[0].Down != 0 {
		t.Errorf("recorded %+v", events)
	}
}

// heardAt is what a peer hears that says nothing. A reset can come before its connect has
// returned.
func heardAt(addr string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	b, err := io.ReadAll(conn)
	return string(b), err
}

// TestManyConnectionsComeIn: at once, and each gets its own bytes.
func TestManyConnectionsComeIn(t *testing.T) {
	const n = 200
	port := unusedPort(t)
	f := exposing(t, fmt.Sprintf("%d:8000", port))
	buildServer(t, f.ws)
	i := f.start(t, map[string]any{"command": "./server 127.0.0.1:8000"})
	if _, err := getSoon(fmt.Sprintf("http://127.0.0.1:%d/", port)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if text, err := get(fmt.Sprintf("http://127.0.0.1:%d/", port)); text != "served\n" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	all.Wait()
	f.kill(t, i.TaskID)
	carried := 0 // who closes first, and how, is between the two
	for _, e := range f.comingIn(t) {
		if e.Decision == egress.Allow && e.Up > 0 && e.Down > 0 {
			carried++
		}
	}
	if carried < n {
		t.Errorf("%d of %d are in the log", carried, n)
	}
}

// TestTheOperatorHasToListAPort: the tool's own list is not enough.
func TestTheOperatorHasToListAPort(t *testing.T) {
	port := unusedPort(t)
	for _, c := range []struct {
		operator []string
		want     int
	}{{nil, 0}, {[]string{"1:1"}, 0}, {[]string{fmt.Sprintf("%d:8000", port)}, 1}, {[]string{sandboxprofile.All}, 1}} {
		f := newFixture(t, setup{mode: approval.ApproveAll,
			profile:  func(p *sandboxprofile.Profile) { p.Network.Expose = []string{fmt.Sprintf("%d:8000", port)} },
			operator: func(p *sandboxprofile.Profile) { p.Network = sandboxprofile.Network{Expose: c.operator} },
		})
		r, e := f.call(context.Background(), "run", `{"argv": ["true"]}`)
		if e != nil || len(r.Exposed) != c.want {
			t.Errorf("operator %v: %v, %+v", c.operator, e, r.Exposed)
		}
		f.Close()
	}
}

// TestAPortIsExposedBesideAnAllowList: the way in and the way out of one sandbox, each in
// the log as what it is. The proxy's own port is no way in.
func TestAPortIsExposedBesideAnAllowList(t *testing.T) {
	port := unusedPort(t)
	network := func(expose string) func(*sandboxprofile.Profile) {
		return func(p *sandboxprofile.Profile) {
			p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"allowed.example.com:7000"}}, Expose: []string{expose}}
		}
	}
	f := newFixture(t, setup{mode: approval.ApproveAll, profile: network(fmt.Sprintf("%d:8000", port))})
	f.cfg.Egress = gateway.Config{
		Resolver: &lockedNames{names: names{table: map[string]string{"allowed.example.com": "93.184.216.34"}}}, Dialer: here{echoServer(t)},
	}
	buildProgram(t, f.ws, "crowd", crowd)
	i := f.start(t, map[string]any{"command": fmt.Sprintf("echo go | ./crowd 127.0.0.1:%d 3; "+pythonServer, confine.EgressPort, 8000)})
	f.read(t, i.TaskID, "up")
	if _, err := get(fmt.Sprintf("http://127.0.0.1:%d/", port)); err != nil {
		t.Error(err)
	}
	f.kill(t, i.TaskID)
	if in := f.comingIn(t); len(in) != 1 || in[0].Down == 0 || in[0].Host != "" {
		t.Errorf("coming in: %+v", in)
	}
	out := 0
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == audit.KindConnection && strings.Contains(string(e.Data), `"host":"allowed.example.com"`) && !strings.Contains(string(e.Data), `"direction"`) {
			out++
		}
	}
	if out != 3 {
		t.Errorf("%d connections went out, want 3", out)
	}

	f = newFixture(t, setup{mode: approval.ApproveAll, profile: network(fmt.Sprintf("0:%d", confine.EgressPort))})
	_, e := f.call(context.Background(), "run", `{"argv": ["true"]}`)
	if e == nil || e.Code != protocol.CodeSandboxUnavailable || !strings.Contains(e.Message, "egress proxy's") {
		t.Errorf("the proxy's port: %+v", e)
	}
}
