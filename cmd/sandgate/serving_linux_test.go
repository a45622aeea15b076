package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// A serving is `sandgate serve` as it is: its sockets, its port, its sandboxes.
type serving struct {
	t               *testing.T
	dir, ws         string
	agent, operator string
	address         string // of the web page
	stderr          *lockedBuffer
	stop            func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newServing starts one with a configuration, whose workspace is ws, and with the page on
// a free port or on a given one.
func newServing(t *testing.T, config string, address ...string) *serving {
	t.Helper()
	dir, err := os.MkdirTemp("", "srv") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{t: t, dir: dir, ws: dir + "/ws", agent: dir + "/a.sock", operator: dir + "/o.sock", stderr: &lockedBuffer{}}
	for name, sub := range map[string]string{"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_RUNTIME_DIR": "rt"} {
		t.Setenv(name, filepath.Join(dir, sub))
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(s.ws, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/sandgate.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	root := root(newApp(strings.NewReader(""), &bytes.Buffer{}, s.stderr))
	root.SetArgs([]string{"serve", "--config", dir + "/sandgate.yaml", "--socket", s.agent, "--operator-socket", s.operator, "--http", append(address, "127.0.0.1:0")[0]})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		s.stop()
		os.RemoveAll(dir)
	})
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.stderr.String(), "sandgate: ready"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(s.stderr.String())
		}
	}
	s.address = regexp.MustCompile(`web page   on (\S+) `).FindStringSubmatch(s.stderr.String())[1]
	return s
}

// link is what `sandgate approve --web` prints.
func (s *serving) link() string {
	s.t.Helper()
	var out, errs bytes.Buffer
	if code := execute(newApp(strings.NewReader(""), &out, &errs), []string{"approve", "--web", "--operator-socket", s.operator}); code != 0 {
		s.t.Fatalf("exit %d: %s", code, errs.String())
	}
	return strings.TrimSpace(out.String())
}

// session opens one of an agent that ends with the test.
func (s *serving) session(agent string) *client.Session {
	s.t.Helper()
	a, err := client.DialAgent(s.t.Context(), s.agent)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { a.Close() })
	opened, err := a.OpenSession(s.t.Context(), protocol.SessionOpen{Agent: agent})
	if err != nil {
		s.t.Fatal(err)
	}
	return opened
}

// ended is what became of a call.
type ended struct {
	result protocol.CallResult
	err    error
}

// call makes a call whose end comes on the channel.
func call(ctx context.Context, s *client.Session, tool protocol.ToolName, args map[string]any, o ...client.CallOption) <-chan ended {
	ch := make(chan ended, 1)
	go func() {
		r, err := s.Call(ctx, tool, args, o...)
		ch <- ended{r, err}
	}()
	return ch
}
