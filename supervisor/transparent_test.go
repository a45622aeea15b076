package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
)

// TestMain lets this program be a client in a sandbox: a Go program that knows
// nothing of a proxy.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "inside" {
		if err := goClient(os.Args[2]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// goClient fetches a URL without a proxy, and reads a line of HOST:PORT.
func goClient(target string) error {
	if !strings.Contains(target, "://") {
		conn, err := net.DialTimeout("tcp", target, 60*time.Second)
		if err != nil {
			return err
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		fmt.Print(line)
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: nil}, Timeout: 60 * time.Second}).Get(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

// An internet is names with addresses, and servers at addresses.
type internet struct {
	names
	mu     sync.Mutex
	sites  map[string]string // ADDRESS:PORT to where the server really listens
	dialed []string
}

func (n *internet) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names.LookupNetIP(ctx, network, host)
}

// lookups are the names that were looked up so far.
func (n *internet) lookups() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

func (n *internet) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	at, ok := n.sites[address]
	n.mu.Unlock()
	if !ok && strings.HasPrefix(address, "127.") {
		at, ok = address, true
	}
	if !ok {
		return nil, errors.New("nobody is at " + address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, at)
}

// directFixture runs programs without a proxy in sandboxes with an allow-list.
type directFixture struct {
	*fixture
	net *internet
}

func newDirectFixture(t *testing.T, ask bool, allow ...string) *directFixture {
	t.Helper()
	f := newFixture(t, setup{mode: approval.Interactive, profile: func(p *sandboxprofile.Profile) {
		p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{allow}, Ask: ask}
		for _, name := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"} {
			p.Paths[name] = sandboxprofile.Read
		}
	}})
	n := &internet{names: names{table: map[string]string{}}, sites: map[string]string{}}
	f.cfg.Egress = gateway.Config{Resolver: n, Dialer: n}
	return &directFixture{f, n}
}

// site puts a server at a name and a port.
func (f *directFixture) site(name string, port int, server net.Addr) {
	addr := fmt.Sprintf("93.184.216.%d", len(f.net.table)+10)
	if known, ok := f.net.table[name]; ok {
		addr = known
	} else {
		f.net.table[name] = addr
	}
	f.net.sites[fmt.Sprintf("%s:%d", addr, port)] = server.String()
}

// run does one command in a sandbox; questions about the network are for network.
func (f *directFixture) run(t *testing.T, network func(approval.Pending) bool, argv ...string) (text string, v []protocol.Violation) {
	t.Helper()
	stop := f.approvals.Subscribe(func(e approval.Event) {
		if e.Kind == approval.Requested {
			allow := e.Pending.ToolName != "network" || network != nil && network(e.Pending)
			a := approval.Answer{Allow: allow, Approver: "test", Scope: approval.Once}
			if !allow {
				a.Reject = approval.RejectSoft // the call goes on
			}
			f.mustAnswer(t, e.Pending, a)
		}
	})
	defer stop()
	args, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		t.Fatal(err)
	}
	r, e := f.call(context.Background(), "run", string(args))
	if e != nil {
		t.Fatalf("%v %s", e, e.HintText)
	}
	for _, w := range r.Warnings {
		if strings.Contains(w, "proxy") {
			t.Errorf("warning: %s", w)
		}
	}
	for _, c := range r.Content {
		text += string(c.Bytes())
	}
	return text, slices.DeleteFunc(r.Violations, func(v protocol.Violation) bool { return v.Basis != protocol.Observed })
}

// errnoOf is python that connects and prints ok, or the error.
const errnoOf = `
import errno, socket, sys
kinds = {"tcp": (socket.SOCK_STREAM, 0), "udp": (socket.SOCK_DGRAM, 0), "ping": (socket.SOCK_DGRAM, socket.IPPROTO_ICMP), "raw": (socket.SOCK_RAW, socket.IPPROTO_ICMP)}
for what in sys.argv[1:]:
    kind, host, port = what.split("/")
    try:
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, *kinds[kind])
        s.settimeout(10)
        s.connect((host, int(port)))
        if kind == "tcp":
            print(what, s.recv(100).decode().strip() or "EOF")
        else:
            s.send(b"x"); s.recv(1); print(what, "ok")
    except socket.gaierror as e:
        print(what, "EAI", e.errno)
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, str(e)))
`

// greeter says hello to whoever connects, and closes.
func greeter(t *testing.T, words string) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, words)
			conn.Close()
		}
	}()
	return l.Addr()
}

func webServer(t *testing.T) net.Addr {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr()
}

// TestProgramsWithoutAProxyReachWhatIsListed: clients that know of no proxy, each
// with a name that is listed, and its twin with one that is not, which the violation
// names.
func TestProgramsWithoutAProxyReachWhatIsListed(t *testing.T) {
	f := newDirectFixture(t, false, "web.example.com", "line.example.com:7000", "*.wide.example.com:7001", "192.0.2.7:7002", "[2001:db8::7]:7003")
	f.site("web.example.com", 80, webServer(t))
	f.site("line.example.com", 7000, greeter(t, "a line"))
	f.site("a.wide.example.com", 7001, greeter(t, "a wide line"))
	f.net.sites["192.0.2.7:7002"] = greeter(t, "a literal").String()
	f.net.sites["[2001:db8::7]:7003"] = greeter(t, "a longer literal").String()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.ws+"/client", self, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, f.ws+"/connect.py", errnoOf)
	goProgram := func(target string) []string { return []string{"./client", "inside", target} }
	curl := func(url string) []string { return []string{"curl", "-sS", "--noproxy", "*", "-m", "10", url} }
	python := func(what string) []string { return []string{"python3", "connect.py", what} }
	for _, x := range []struct {
		argv     []string
		want     string
		violated string // the host
	}{
		{goProgram("http://web.example.com/"), "hello from web.example.com", ""},
		{goProgram("http://no.example.com/"), "no such host", "no.example.com"},
		{goProgram("line.example.com:7000"), "a line", ""},
		{goProgram("line.example.org:7000"), "no such host", "line.example.org"},
		{curl("http://web.example.com/x"), "hello from web.example.com", ""},
		{curl("http://web.example.org/x"), "Could not resolve host", "web.example.org"},
		{python("tcp/line.example.com/7000"), "a line", ""},
		{python("tcp/a.wide.example.com/7001"), "a wide line", ""},
		{python("tcp/192.0.2.7/7002"), "a literal", ""},
		{python("tcp/2001:db8::7/7003"), "a longer literal", ""},
		{python("tcp/wide.example.com/7001"), "EAI -2", "wide.example.com"},
		{python("tcp/line.example.com/7001"), "ECONNRESET", "line.example.com"}, // a socket listens there, for other names
		{python("tcp/line.example.com/7009"), "ECONNREFUSED", ""},               // a port that no rule names
		{python("tcp/192.0.2.8/7002"), "ENETUNREACH", ""},
		{python("tcp/192.0.2.7/7001"), "ECONNRESET", "192.0.2.7"},
		{python("tcp/2001:db8::8/7003"), "ENETUNREACH", ""},
		{python("udp/line.example.com/7000"), "ECONNREFUSED", ""},
		{python("udp/192.0.2.7/7002"), "ECONNREFUSED", ""},
		{python("udp/192.0.2.8/7002"), "ENETUNREACH", ""},
		{python("ping/192.0.2.7/0"), "EACCES", ""},
		{python("raw/192.0.2.7/0"), "EPERM", ""},
	} {
		text, v := f.run(t, nil, x.argv...)
		if !strings.Contains(text, x.want) {
			t.Errorf("%v: %q, want %q", x.argv, text, x.want)
		}
		var hosts []string
		for _, v := range v {
			hosts = append(hosts, v.Host)
		}
		if strings.Join(hosts, " ") != x.violated {
			t.Errorf("%v: violations name %q, want %q", x.argv, hosts, x.violated)
		}
	}
	for _, name := range f.net.lookups() {
		if !strings.HasPrefix(name, "web.example.com.") && !strings.HasPrefix(name, "line.example.com.") && !strings.HasPrefix(name, "a.wide.example.com.") {
			t.Errorf("%q was looked up outside", name)
		}
	}
}

// TestGitClonesWithoutAProxy: the git protocol has no proxy support at all.
func TestGitClonesWithoutAProxy(t *testing.T) {
	root := t.TempDir()
	git(t, root, "init", "-q", "-b", "main", "work")
	writeFile(t, root+"/work/file", "from the repository\n")
	git(t, root+"/work", "add", "file")
	git(t, root+"/work", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "one")
	git(t, root, "clone", "-q", "--bare", "work", "repo.git")
	daemon := gitDaemon(t, root)

	f := newDirectFixture(t, false, "git.example.com:9418")
	f.site("git.example.com", 9418, daemon)
	f.site("git.example.org", 9418, daemon)
	clone := func(host string) (string, []protocol.Violation) {
		return f.run(t, nil, "sh", "-c", "rm -rf /tmp/c; git clone -q git://"+host+"/repo.git /tmp/c && cat /tmp/c/file")
	}
	if text, v := clone("git.example.com"); !strings.Contains(text, "from the repository") || len(v) != 0 {
		t.Errorf("a listed host: %q, %v", text, v)
	}
	if text, v := clone("git.example.org"); !strings.Contains(text, "unable to look up git.example.org") || len(v) != 1 || v[0].Host != "git.example.org" {
		t.Errorf("another host: %q, %+v", text, v)
	}
	// A transport of one's own, as ssh is one.
	writeFile(t, f.ws+"/transport", "#!/usr/bin/python3\n"+transport)
	if err := os.Chmod(f.ws+"/transport", 0o755); err != nil {
		t.Fatal(err)
	}
	text, v := f.run(t, nil, "sh", "-c", "rm -rf /tmp/c; GIT_SSH_VARIANT=ssh GIT_SSH="+f.ws+"/transport git clone -q ssh://git.example.com:9418/repo.git /tmp/c && cat /tmp/c/file")
	if !strings.Contains(text, "from the repository") || len(v) != 0 {
		t.Errorf("over a transport: %q, %v", text, v)
	}
}

// transport is called as ssh is: [-p PORT] HOST COMMAND. It speaks plain TCP.
const transport = `
import os, re, socket, sys, threading
args = [a for a in sys.argv[1:]]
if "-G" in args: sys.exit(1)
port = int(args[args.index("-p") + 1])
host, command = args[-2], args[-1]
service, path = re.match(r"(git-[a-z-]+) '?([^']*)'?", command).groups()
s = socket.create_connection((host, port))
line = ("%s %s\0host=%s\0" % (service, path, host)).encode()
s.sendall(b"%04x" % (len(line) + 4) + line)
def up():
    while True:
        b = os.read(0, 65536)
        if not b: break
        s.sendall(b)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while True:
    b = s.recv(65536)
    if not b: break
    os.write(1, b)
`

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// gitDaemon serves every repository below root.
func gitDaemon(t *testing.T, root string) net.Addr {
	t.Helper()
	port := freePort(t)
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	// Not through git, which would be killed and leave it.
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(where)), "git-daemon"), "--reuseaddr", "--export-all", "--base-path="+root, "--listen=127.0.0.1", fmt.Sprintf("--port=%d", port), root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr.String())
		if err == nil {
			conn.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatal("git daemon does not listen: ", err)
		}
	}
}

// TestWhatIsInsideIsHeldToTheName: the address that stands for one host is no way to
// another behind the same server, neither by SNI nor by the Host of a request.
func TestWhatIsInsideIsHeldToTheName(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })
	secure := httptest.NewUnstartedServer(hello)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of the connections that are refused
	secure.StartTLS()
	defer secure.Close()
	f := newDirectFixture(t, false, "web.example.com")
	f.site("web.example.com", 443, secure.Listener.Addr())
	f.site("web.example.com", 80, webServer(t))
	curl := `curl -sSk --noproxy "*" -m 10 `
	front := `a=$(python3 -c 'import socket; print(socket.gethostbyname("web.example.com"))'); `
	for _, x := range []struct {
		script, want string
		refused      bool
	}{
		{curl + "https://web.example.com/", "hello from web.example.com", false},
		{front + curl + "--resolve evil.example.com:443:$a https://evil.example.com/", "unrecognized name", true},
		{front + curl + "https://$a/", "unrecognized name", true}, // no SNI at all
		{curl + "http://web.example.com/", "hello from web.example.com", false},
		{curl + "-H 'Host: evil.example.com' http://web.example.com/", "refused (mismatch)", true},
	} {
		text, v := f.run(t, nil, "sh", "-c", x.script)
		if !strings.Contains(text, x.want) {
			t.Errorf("%s: %q, want %q", x.script, text, x.want)
		}
		if x.refused != (len(v) == 1 && strings.Contains(v[0].Reason, "web.example.com") && strings.Contains(v[0].Reason, "mismatch")) {
			t.Errorf("%s: violations %+v", x.script, v)
		}
	}
}

// TestNamesAreAskedForOverTCPToo: what does not fit a datagram, or a client that
// prefers it.
func TestNamesAreAskedForOverTCPToo(t *testing.T) {
	f := newDirectFixture(t, false, "line.example.com:7000")
	f.site("line.example.com", 7000, greeter(t, "a line"))
	writeFile(t, f.ws+"/connect.py", errnoOf)
	text, v := f.run(t, nil, "sh", "-c", "RES_OPTIONS=use-vc python3 connect.py tcp/line.example.com/7000 tcp/no.example.com/7000")
	if text != "tcp/line.example.com/7000 a line\ntcp/no.example.com/7000 EAI -2\n" || len(v) != 1 || v[0].Host != "no.example.com" {
		t.Errorf("got %q, %+v", text, v)
	}
	text, _ = f.run(t, nil, "python3", "-c", `
import socket
s = socket.create_connection(("127.0.0.1", 53)); s.sendall(b"\xff\xff" + b"x" * 100); print("long", s.recv(10))
s = socket.create_connection(("127.0.0.1", 53)); s.sendall(b"\x00\x05abc"); s.shutdown(1); print("torn", s.recv(10))
`)
	if !strings.Contains(text, "long b''") || !strings.Contains(text, "torn b''") {
		t.Errorf("hostile frames: %q", text)
	}
}

// TestServicesAreReachedWithoutAProxy: by name, on the one port, which stays free on
// the sandbox's own loopback.
func TestServicesAreReachedWithoutAProxy(t *testing.T) {
	offered, beside := greeter(t, "the database").(*net.TCPAddr), greeter(t, "another").(*net.TCPAddr)
	f := newDirectFixture(t, false, "db="+offered.String())
	writeFile(t, f.ws+"/connect.py", errnoOf)
	text, v := f.run(t, nil, "python3", "connect.py", fmt.Sprintf("tcp/db/%d", offered.Port))
	if !strings.Contains(text, "the database") || len(v) != 0 {
		t.Errorf("the service: %q, %v", text, v)
	}
	text, _ = f.run(t, nil, "python3", "connect.py",
		fmt.Sprintf("tcp/db/%d", beside.Port), fmt.Sprintf("tcp/127.0.0.1/%d", offered.Port), fmt.Sprintf("tcp/127.0.0.1/%d", beside.Port))
	if strings.Count(text, "ECONNREFUSED") != 3 {
		t.Errorf("beside the service: %q", text)
	}
	text, _ = f.run(t, nil, "python3", "-c", fmt.Sprintf(`
import socket, threading
s = socket.create_server(("127.0.0.1", %d))
threading.Thread(target=lambda: s.accept()[0].sendall(b"my own")).start()
print(socket.create_connection(("127.0.0.1", %[1]d)).recv(100), socket.create_connection(("db", %[1]d)).recv(100))
`, offered.Port))
	if !strings.Contains(text, "my own") || !strings.Contains(text, "the database") {
		t.Errorf("a port of the tool's own beside the service's: %q", text)
	}
}

// TestOneQuestionForManyConnections: a name that is on no list is asked about once,
// however many connections wait, before anything is looked up.
func TestOneQuestionForManyConnections(t *testing.T) {
	for _, allow := range []bool{true, false} {
		f := newDirectFixture(t, true, "web.example.com")
		f.site("asked.example.com", 80, webServer(t))
		var mu sync.Mutex
		var questions []string
		early := 0
		writeFile(t, f.ws+"/many.py", `
import http.client, threading, collections
seen, ready = collections.Counter(), threading.Barrier(50)
def get():
    ready.wait()
    try:
        c = http.client.HTTPConnection("asked.example.com", timeout=20)
        c.request("GET", "/")
        seen[c.getresponse().read().decode()[:28]] += 1
    except Exception as e:
        seen[repr(e)] += 1
ts = [threading.Thread(target=get) for _ in range(50)]
[t.start() for t in ts]; [t.join() for t in ts]
print(seen)
`)
		text, v := f.run(t, func(p approval.Pending) bool {
			time.Sleep(2 * time.Second) // all fifty are there by then
			mu.Lock()
			defer mu.Unlock()
			questions = append(questions, fmt.Sprint(p.Payload["host"], p.Payload["port"]))
			early += len(f.net.lookups())
			return allow
		}, "python3", "many.py")
		want := "'hello from asked.example.com': 50"
		if !allow {
			want = "'sandgate: refused (denied): ': 50"
		}
		if !strings.Contains(text, want) || allow && len(v) != 0 || !allow && len(v) != 1 {
			t.Errorf("answered %v: %q, %v", allow, text, v)
		}
		if len(questions) != 1 || questions[0] != "asked.example.com 80" && questions[0] != "asked.example.com80" || early != 0 {
			t.Errorf("answered %v: questions %q, %d lookups before the answer", allow, questions, early)
		}
	}
}

// TestACallCannotTakeAnotherCallsPlace: what a program inside tries in order to stand
// between another one and the hosts that it means.
func TestAProgramCannotStandInForAHost(t *testing.T) {
	f := newDirectFixture(t, false, "line.example.com:7000", "*.wide.example.com:7001", "web.example.com")
	f.site("line.example.com", 7000, greeter(t, "the real line"))
	f.site("a.wide.example.com", 7001, greeter(t, "the real wide line"))
	writeFile(t, f.ws+"/steal.py", `
import errno, fcntl, socket, struct
def tried(what, act):
    try:
        act(); print(what, "done")
    except OSError as e:
        print(what, errno.errorcode[e.errno])
line, wide = socket.gethostbyname("line.example.com"), socket.gethostbyname("a.wide.example.com")
def bind(host, port, kind=socket.SOCK_STREAM, family=socket.AF_INET):
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((host, port))
    if kind == socket.SOCK_STREAM: s.listen()
    held.append(s)
held = []
tried("line", lambda: bind(line, 7000))
tried("line-any", lambda: bind("0.0.0.0", 7000))
tried("line-any6", lambda: bind("::", 7000, family=socket.AF_INET6))
tried("wide", lambda: bind(wide, 7001))
tried("wide-any", lambda: bind("0.0.0.0", 7001))
tried("names", lambda: bind("127.0.0.1", 53, socket.SOCK_DGRAM))
tried("low", lambda: bind(line, 80))
tried("own", lambda: bind(line, 7005))
tried("address", lambda: fcntl.ioctl(socket.socket(), 0x8916, struct.pack("16sHH4s8x", b"lo:9", 2, 0, bytes([192, 0, 2, 9]))))
def route():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    attr = struct.pack("HH4s", 8, 1, bytes([192, 0, 2, 0])) + struct.pack("HHi", 8, 4, 1)
    body = struct.pack("BBBBBBBBI", 2, 24, 0, 0, 255, 4, 254, 2, 0) + attr
    s.send(struct.pack("IHHII", 16 + len(body), 24, 0x605, 1, 0) + body)
    code = struct.unpack("i", s.recv(4096)[16:20])[0]
    if code: raise OSError(-code, "netlink")
tried("route", route)
tried("sysctl", lambda: open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w").write("0"))
print("read", socket.create_connection((line, 7000)).recv(100), socket.create_connection((wide, 7001)).recv(100))
`)
	text, _ := f.run(t, nil, "python3", "steal.py")
	for _, want := range []string{
		"line EADDRINUSE", "line-any EADDRINUSE", "line-any6 EADDRINUSE", "wide EADDRINUSE", "wide-any EADDRINUSE",
		"names EACCES", "low EACCES", "own done", "address EPERM", "route EPERM", "sysctl EROFS",
		"the real line", "the real wide line",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text, _ = f.run(t, nil, "sh", "-c", "unshare -Urn true; grep Cap /proc/self/status /proc/1/status")
	if !strings.Contains(text, "unshare failed: Operation not permitted") || strings.Count(text, "0000000000000000") != 10 {
		t.Errorf("namespaces and capabilities: %s", text)
	}
}

// TestAnAddressMeansNothingToTheNextCall: an address that one call was given for a
// name leads nowhere in the next, which has asked for nothing yet; nor does anything
// that the first left behind reach the second's log.
func TestAnAddressMeansNothingToTheNextCall(t *testing.T) {
	f := newDirectFixture(t, false, "*.wide.example.com:7001")
	f.site("a.wide.example.com", 7001, greeter(t, "hello a"))
	writeFile(t, f.ws+"/connect.py", errnoOf)
	text, v := f.run(t, nil, "sh", "-c", `python3 -c 'import socket; print(socket.gethostbyname("a.wide.example.com"))' | tee address; python3 connect.py tcp/$(cat address)/7001`)
	if !strings.Contains(text, "hello a") || len(v) != 0 {
		t.Fatalf("in its own call: %q, %v", text, v)
	}
	text, v = f.run(t, nil, "sh", "-c", `python3 connect.py tcp/$(cat address)/7001`)
	if !strings.Contains(text, "ECONNRESET") || len(v) != 1 || !strings.HasPrefix(v[0].Host, "198.1") {
		t.Errorf("in the next: %q, %+v", text, v)
	}
}

// TestSessionsDoNotShareNames: two sessions at once, each with a name that the other's
// call is not given, and both with addresses from the same range.
func TestSessionsDoNotShareNames(t *testing.T) {
	f := newDirectFixture(t, false, "*.wide.example.com:7001")
	writeFile(t, f.ws+"/all.py", `
import socket, sys
names = ["%s%d.wide.example.com" % (sys.argv[1], i) for i in range(40)]
addrs = [socket.gethostbyname(n) for n in names]
for n, a in zip(names, addrs):
    got = socket.create_connection((a, 7001)).recv(100).decode().strip()
    if got != n: print("asked for", n, "and got", got)
print("distinct", len(set(addrs)))
`)
	for _, who := range []string{"x", "y"} {
		for i := range 40 {
			name := fmt.Sprintf("%s%d.wide.example.com", who, i)
			f.site(name, 7001, greeter(t, name))
		}
	}
	other, err := f.OpenSession(self, protocol.SessionOpen{Agent: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	f.say(t, approval.Answer{Allow: true})
	var calls sync.WaitGroup
	for who, session := range map[string]protocol.SessionID{"x": f.session, "y": other.SessionID} {
		calls.Go(func() {
			args, _ := json.Marshal(map[string]any{"argv": []string{"python3", "all.py", who}})
			r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: session, CallID: protocol.CallID("c-" + who), Tool: "run", Args: args}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if text := string(r.Content[0].Bytes()); text != "distinct 40\n" {
				t.Errorf("%s: %s", who, text)
			}
		})
	}
	calls.Wait()
}

// TestASandboxHasItsOwnNameFiles: the host's name servers and names are not shown
// where there is an allow-list, and are where there is none.
func TestASandboxHasItsOwnNameFiles(t *testing.T) {
	for _, x := range []struct {
		mode sandboxprofile.NetworkMode
		own  bool
		tree bool
	}{{sandboxprofile.NetworkProxied, true, false}, {sandboxprofile.NetworkProxied, true, true}, {sandboxprofile.NetworkNone, false, false}} {
		f := newFixture(t, setup{profile: func(p *sandboxprofile.Profile) {
			p.Network.Mode = x.mode
			if x.mode == sandboxprofile.NetworkProxied {
				p.Network.Allow = [][]string{{"web.example.com"}}
			}
			if x.tree {
				p.Paths["/etc"] = sandboxprofile.Read
			} else {
				p.Paths["/etc/resolv.conf"], p.Paths["/etc/hosts"] = sandboxprofile.Read, sandboxprofile.Read
			}
		}})
		f.say(t, approval.Answer{Allow: true})
		r, e := f.call(context.Background(), "run", `{"argv": ["sh", "-c", "cat /etc/resolv.conf; grep -c . /etc/hosts; echo x > /etc/hosts"]}`)
		if e != nil {
			t.Fatal(e)
		}
		text := texts(r)
		if own := strings.Contains(text[protocol.Stdout], "nameserver 127.0.0.1\n2\n"); own != x.own {
			t.Errorf("%+v: %s", x, text)
		}
		if errText := text[protocol.Stderr]; !strings.Contains(errText, "Read-only file system") && !strings.Contains(errText, "Permission denied") {
			t.Errorf("%+v: written: %s", x, errText)
		}
	}
}

// TestWithoutItsAddressesThereIsTheProxy: a list that asks for more than a sandbox is
// given leaves the proxy, and the result says what is missing.
func TestWithoutItsAddressesThereIsTheProxy(t *testing.T) {
	for many, warned := range map[int]bool{10: false, 200: true} {
		rules := []string{"web.example.com"}
		for i := range many {
			rules = append(rules, fmt.Sprintf("other.example.com:%d", 2000+i))
		}
		f := newDirectFixture(t, false, rules...)
		f.site("web.example.com", 80, webServer(t))
		f.say(t, approval.Answer{Allow: true})
		get := func(proxy string) (string, string) {
			args, err := json.Marshal(map[string]any{"argv": []string{"curl", "-sS", "-m", "10", "--proxy", proxy, "http://web.example.com/"}})
			if err != nil {
				t.Fatal(err)
			}
			r, e := f.call(context.Background(), "run", string(args))
			if e != nil {
				t.Fatal(e)
			}
			text := texts(r)
			return text[protocol.Stdout] + text[protocol.Stderr], strings.Join(r.Warnings, " ")
		}
		text, warnings := get(fmt.Sprintf("http://127.0.0.1:%d", confine.EgressPort))
		if text != "hello from web.example.com" {
			t.Errorf("%d rules, through the proxy: %q", many, text)
		}
		if strings.Contains(warnings, "Only programs that use the proxy variables reach the listed hosts: egress: the rules need 2") != warned {
			t.Errorf("%d rules: warnings %q", many, warnings)
		}
		if text, _ := get(""); strings.Contains(text, "hello from") == warned {
			t.Errorf("%d rules, without the proxy: %q", many, text)
		}
	}
}
