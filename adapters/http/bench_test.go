package httpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
	"github.com/sandgate/sandgate/tools/shell"
	"github.com/sandgate/sandgate/ui/web"
)

// The page shows commands in colours, by a package whose clock stops by itself, later.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

// A bench is a supervisor over real sandboxes and sockets, and a server beside it.
type bench struct {
	*Server
	t         *testing.T
	ws        string
	agent     string // socket
	operator  string // socket
	approvals *approval.Controller
	http      *http.Client
	stop      func()
}

// change has a test change the server before it answers.
func newBench(t *testing.T, change func(*Server)) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "http") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{t: t, ws: confinetest.Workspace(t), agent: dir + "/a", operator: dir + "/o"}
	log, _, err := audit.Open(dir+"/audit.jsonl", audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	box, err := linux.NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	b.approvals = approval.NewController(approval.Options{Timeout: time.Minute})
	sup, err := supervisor.New(supervisor.Config{
		Version: "test", Tools: b.tools(), Approvals: b.approvals, Log: log, Operator: sandboxprofile.Top(), Confiner: box,
	})
	if err != nil {
		t.Fatal(err)
	}
	operators := b.serve(sup)
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	token, err := Token(filepath.Join(dir, "state", "token"))
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context) (*client.Approver, error) { return client.DialApprover(ctx, b.operator) }
	b.Server = New(Config{Listener: l, Token: token, Approver: dial, Page: web.Files(), Live: web.Live(web.Options{Dial: dial})})
	if change != nil {
		change(b.Server)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx) }()
	transport := &http.Transport{}
	b.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		b.stop()
		operators()
		sup.Close()
		box.Close()
		log.Close()
	})
	return b
}

func (b *bench) tools() *tools.Registry {
	profile := confinetest.Profile(b.t, b.ws)
	paths := tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: b.ws, Write: true, WriteApproval: true}}, Hide: profile.Hide, Protect: profile.Protect}
	sh, err := shell.New(shell.Config{
		Default: shell.Default{Allowed: true, Approval: true}, Rules: []shell.Rule{{Pattern: "echo"}}, Paths: paths, Profile: profile, Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := tools.NewRegistry(append(files.New(files.Config{Paths: paths, Profile: profile}), sh)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// serve opens both sockets until stop.
func (b *bench) serve(sup *supervisor.Supervisor) (stop func()) {
	server := server.New(sup, server.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for path, serve := range map[string]func(context.Context, net.Listener) error{b.agent: server.ServeAgent, b.operator: server.ServeOperator} {
		l, err := unixsock.Listen(path, unixsock.Options{})
		if err != nil {
			b.t.Fatal(err)
		}
		wg.Go(func() { serve(ctx, l) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// session opens one of an agent that ends with the test.
func (b *bench) session(agent string) *client.Session {
	b.t.Helper()
	a, err := client.DialAgent(b.t.Context(), b.agent)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { a.Close() })
	s, err := a.OpenSession(b.t.Context(), protocol.SessionOpen{Agent: agent})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// An outcome is what became of a call.
type outcome struct {
	text string
	err  *protocol.Error
}

// call makes a call of shell; its end comes on the channel.
func (b *bench) call(s *client.Session, command string, o ...client.CallOption) <-chan outcome {
	return b.callTool(s, "shell", map[string]any{"command": command}, o...)
}

func (b *bench) callTool(s *client.Session, tool protocol.ToolName, args map[string]any, o ...client.CallOption) <-chan outcome {
	return b.callIn(b.t.Context(), s, tool, args, o...)
}

// callIn is callTool for a call that its agent withdraws when ctx ends.
func (b *bench) callIn(ctx context.Context, s *client.Session, tool protocol.ToolName, args map[string]any, o ...client.CallOption) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		r, err := s.Call(ctx, tool, args, o...)
		var text strings.Builder
		for _, c := range r.Content {
			text.WriteString(c.Text)
		}
		e, _ := err.(*protocol.Error)
		ended <- outcome{text.String(), e}
	}()
	return ended
}

// pending waits until n requests wait.
func (b *bench) pending(n int) []approval.Pending {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if list := b.approvals.Pending(); len(list) == n {
			return list
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%d requests wait, want %d", len(b.approvals.Pending()), n)
		}
	}
}

// A req is one request of a test; what is empty is as a well-behaved program has it.
type req struct {
	method, path, body string
	header             map[string]string // Host too; "" removes one
}

// do sends a request and reads its answer.
func (b *bench) do(q req) (status int, body string, header http.Header) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), q.method, "http://"+b.hosts[0]+q.path, strings.NewReader(q.body))
	if err != nil {
		b.t.Fatal(err)
	}
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Host = b.hostFor(q.path)
	for k, v := range q.header {
		if k == "Host" {
			r.Host = v
		} else if v != "" {
			r.Header.Set(k, v)
		} else {
			r.Header.Del(k)
		}
	}
	res, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

// code is the code of an error in a body.
func code(body string) string {
	var e struct{ Error struct{ Code string } }
	_ = json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&e)
	return e.Error.Code
}

// signIn opens the page: its headers for what comes after.
func (b *bench) signIn() map[string]string {
	b.t.Helper()
	status, body, header := b.do(req{"POST", "/v1/login", `{"ticket":"` + b.ticketOf(b.Link()) + `"}`, map[string]string{"Origin": b.origin()}})
	if status != 200 {
		b.t.Fatal(status, body)
	}
	var got struct{ Key string }
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		b.t.Fatal(err)
	}
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	return map[string]string{"Origin": b.origin(), "Cookie": cookie, PageKey: got.Key}
}

func (b *bench) ticketOf(link string) string {
	_, ticket, _ := strings.Cut(link, "#ticket=")
	return ticket
}

// hostFor is the name under which a route is to be had: the page's, or that of programs.
func (b *bench) hostFor(path string) string {
	for _, r := range b.routes[path] {
		if r.who == program {
			return b.hosts[0]
		}
	}
	return b.page
}

func (b *bench) origin() string { return "http://" + b.page }

func (b *bench) bearer() map[string]string {
	return map[string]string{"Authorization": "Bearer " + b.cfg.Token}
}
