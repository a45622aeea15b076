package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
)

// crowd opens many tunnels through the proxy of its sandbox, waits until all of them
// stand or were refused, and for a line of input. Then each carries its own bytes.
const crowd = `package main
import ("bufio"; "fmt"; "io"; "net"; "os"; "strconv"; "strings"; "sync"; "sync/atomic"; "time")
func main() {
	n, _ := strconv.Atoi(os.Args[2])
	var open, whole, refused atomic.Int64
	var settled, all sync.WaitGroup
	settled.Add(n)
	start := make(chan bool)
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			once := sync.OnceFunc(settled.Done)
			defer once()
			conn, err := net.Dial("tcp", os.Args[1])
			if err != nil { refused.Add(1); return }
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(2*time.Minute))
			fmt.Fprintf(conn, "CONNECT allowed.example.com:7000 HTTP/1.1\r\n\r\n")
			r := bufio.NewReader(conn)
			status, err := r.ReadString('\n')
			if err != nil || !strings.Contains(status, " 200 ") { refused.Add(1); return }
			r.ReadString('\n')
			open.Add(1)
			once()
			<-start
			want := strings.Repeat(fmt.Sprintf("\x00%d.", i), 1000)
			go func() { io.WriteString(conn, want); conn.(*net.TCPConn).CloseWrite() }()
			if got, err := io.ReadAll(r); err == nil && string(got) == want { whole.Add(1) }
		}()
	}
	settled.Wait()
	fmt.Println("open", open.Load(), "refused", refused.Load())
	bufio.NewReader(os.Stdin).ReadString('\n')
	close(start)
	all.Wait()
	fmt.Println("whole", whole.Load())
}
`

// buildProgram puts a static program into dir.
func buildProgram(t *testing.T, dir, name, source string) {
	t.Helper()
	src := t.TempDir()
	writeFile(t, src+"/go.mod", "module "+name+"\ngo 1.24\n")
	writeFile(t, src+"/main.go", source)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), ".")
	cmd.Dir, cmd.Env = src, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func raiseOpenFiles(t *testing.T, n uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max < n {
		t.Fatalf("this test opens %d files, and the hard limit is %d (ulimit -Hn)", n, l.Max)
	}
	l.Cur = max(l.Cur, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
}

// echoServer answers with what it gets, until the test ends.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				io.Copy(conn, conn)
				conn.(*net.TCPConn).CloseWrite()
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l.Addr().String()
}

// TestAThousandConnectionsOfOneSandbox: all through the one socket that leads out of it,
// at once. Each carries its own bytes and is in the log; another session does not wait;
// nothing is left of them. With fewer allowed at once the rest are closed, and the call
// goes on.
func TestAThousandConnectionsOfOneSandbox(t *testing.T) {
	const n = 1000
	raiseOpenFiles(t, 6*n)
	for _, limit := range []int{n, 100} {
		t.Run(fmt.Sprintf("%d at once", limit), func(t *testing.T) {
			f := newFixture(t, setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) {
				p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"allowed.example.com:7000"}}}
				p.Limits.OpenFiles = 4 * n
			}})
			f.cfg.Egress = gateway.Config{
				Resolver: &lockedNames{names: names{table: map[string]string{"allowed.example.com": "93.184.216.34"}}},
				Dialer:   here{echoServer(t)}, Limits: egress.Limits{Connections: limit},
			}
			buildProgram(t, f.ws, "crowd", crowd)
			goroutines, files, memory := runtime.NumGoroutine(), len(descriptors(t)), inUse()

			i := f.start(t, map[string]any{"command": fmt.Sprintf("./crowd 127.0.0.1:%d %d", confine.EgressPort, n)})
			text, _ := f.read(t, i.TaskID, "\n")
			if want := fmt.Sprintf("open %d refused %d\n", limit, n-limit); text != want {
				t.Fatalf("inside: %q, want %q", text, want)
			}
			if used := inUse() - memory; used > int64(limit)*100<<10 {
				t.Errorf("each of %d connections holds %d KiB", limit, used/int64(limit)>>10)
			}
			f.otherSessionRuns(t)
			if _, e := f.call(context.Background(), "task_input", fmt.Sprintf(`{"task_id": %q, "input": "go\n"}`, i.TaskID)); e != nil {
				t.Fatal(e)
			}
			if text, o := f.read(t, i.TaskID, ""); !strings.HasSuffix(text, fmt.Sprintf("whole %d\n", limit)) || o.ExitCode == nil || *o.ExitCode != 0 {
				t.Errorf("inside: %q, %+v", text, o)
			}
			allowed, refused := f.counted(t)
			if allowed != limit || refused != n-limit {
				t.Errorf("the log has %d connections that were carried and %d that were too many", allowed, refused)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			soon(t, "something is left", func() bool {
				runtime.GC()
				return runtime.NumGoroutine() <= goroutines+1 && len(descriptors(t)) <= files+4
			})
		})
	}
}

type lockedNames struct {
	names
	mu sync.Mutex
}

func (n *lockedNames) LookupNetIP(ctx context.Context, network, host string) (addrs []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names.LookupNetIP(ctx, network, host)
}

// inUse is the memory of this process, the supervisor, that is in use.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func (f *fixture) otherSessionRuns(t *testing.T) {
	t.Helper()
	opened, err := f.OpenSession(self, protocol.SessionOpen{Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: opened.SessionID, CallID: "c9", Tool: "run", Args: json.RawMessage(`{"argv": ["echo", "well"]}`)}, nil)
	if err != nil || string(r.Content[0].Bytes()) != "well\n" {
		t.Errorf("another session: %+v, %v", r, err)
	}
}

// counted are the connections in the log that were carried whole, and that were one too
// many.
func (f *fixture) counted(t *testing.T) (allowed, refused int) {
	t.Helper()
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != audit.KindConnection {
			continue
		}
		var x struct {
			Session, Call, Host, Address, Decision, Reason string
			Port                                           int
			Up, Down, Duration                             int64
		}
		if err := json.Unmarshal(e.Data, &x); err != nil {
			t.Fatal(err)
		}
		switch {
		case x.Reason == string(egress.ReasonLimit) && x.Decision == "deny":
			refused++
		case x.Session == string(f.session) && x.Call == "c1" && x.Host == "allowed.example.com" && x.Port == 7000 && x.Address == "93.184.216.34:7000" &&
			x.Up > 0 && x.Up == x.Down && x.Duration > 0 && x.Decision == "allow" && x.Reason == "":
			allowed++
		default:
			t.Errorf("recorded: %s", e.Data)
		}
	}
	return allowed, refused
}
