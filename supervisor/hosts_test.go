package supervisor

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
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
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

const (
	apiHost    = "api.example.com"
	beyondHost = "beyond.example.com" // allowed, without a credential
	hostSecret = "hunter2-hunter22-hunter222"
)

// A secureSite is an HTTPS server of the world outside, with an authority of its own.
// It takes requests with the secret, and a git repository with the secret as password.
type secureSite struct {
	*httptest.Server
	roots []byte // of its authority, as PEM

	mu   sync.Mutex
	seen []string // heads of requests
}

func newSecureSite(t *testing.T) *secureSite {
	t.Helper()
	s := &secureSite{}
	mux := http.NewServeMux()
	mux.HandleFunc("/whoami", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "welcome %v, you sent %s", r.Header.Get("Authorization") == "Bearer "+hostSecret, r.Header.Get("Authorization"))
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, n, err)
	})
	mux.Handle("/git/", gitOver(t))
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header))
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	s.TLS, s.roots = certified(t, apiHost, beyondHost)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *secureSite) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// certified is what a server of the names has, and the authority behind it.
func certified(t *testing.T, names ...string) (*tls.Config, []byte) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world's authority"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, signer := sign(ca, ca, nil)
	leaf, key := sign(&x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, signer)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: key}}},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}

// gitOver serves a repository by git's own program, to those who have the secret.
func gitOver(t *testing.T) http.Handler {
	t.Helper()
	root, work := t.TempDir(), t.TempDir()
	git := func(dir string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git(work, "init", "-q")
	writeFile(t, work+"/README", "cloned over TLS\n")
	git(work, "add", ".")
	git(work, "commit", "-q", "-m", "first")
	git(root, "clone", "-q", "--bare", work, "git/repo.git")
	backend := &cgi.Handler{Path: git(root, "--exec-path") + "/git-http-backend", Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != hostSecret {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
}

// coversHost holds a host against rules as the proxy does.
func coversHost(rules []string, host string) bool {
	t, err := hostrule.CredentialHost(host)
	return err == nil && slices.ContainsFunc(rules, func(rule string) bool {
		r, err := hostrule.Parse(rule)
		return err == nil && r.Matches(t)
	})
}

// A hostFixture has tools with a credential for apiHost.
type hostFixture struct {
	*networkFixture
	site    *secureSite
	pending []approval.Pending
}

func newHostFixture(t *testing.T, site *secureSite, change ...func(*setup)) *hostFixture {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	writeFile(t, key, hostSecret+"\n")
	proxy := fmt.Sprintf("http://127.0.0.1:%d", confine.EgressPort)
	env := []string{"HOME=/home/tool", "HTTPS_PROXY=" + proxy, "HTTP_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy}
	o := setup{mode: approval.Interactive, env: env,
		credentials: tools.Credentials{Rule: "shell.credentials", Covers: coversHost,
			List: []sandboxprofile.Secret{{Name: "API_KEY", File: key, Host: apiHost + ":443"}}},
		profile: func(p *sandboxprofile.Profile) {
			p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{apiHost, beyondHost}}}
			p.Env.Names = append(p.Env.Names, "HTTPS_PROXY", "HTTP_PROXY", "http_proxy", "https_proxy", "API_KEY")
			p.Limits.Wall, p.Limits.OpenFiles = time.Minute, 1024
			p.Paths["/etc/hosts"], p.Paths["/etc/resolv.conf"] = sandboxprofile.Read, sandboxprofile.Read // git asks for its own name
		}}
	for _, c := range change {
		c(&o)
	}
	f := newFixture(t, o)
	f.cfg.Egress = gateway.Config{
		Resolver: &names{table: map[string]string{apiHost: "93.184.216.34", beyondHost: "93.184.216.35"}},
		Dialer:   here{site.Listener.Addr().String()}, Roots: site.roots,
	}
	h := &hostFixture{networkFixture: &networkFixture{f, nil}, site: site}
	h.answer(t, func(p approval.Pending) {
		if p.ToolName == gateway.ToolCredential {
			return
		}
		h.pending = append(h.pending, p)
		h.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	return h
}

// bash runs a script with the tool run, and gives all that came of it.
func (f *hostFixture) bash(t *testing.T, script string) (protocol.CallResult, string) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"argv": []string{"bash", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	r, e := f.call(context.Background(), "run", string(args))
	if e != nil {
		t.Fatalf("%v %s", e, e.HintText)
	}
	text := ""
	for _, c := range r.Content {
		text += string(c.Bytes())
	}
	return r, text
}

// TestTheUseOfACredentialIsAskedAbout: a command that the sandbox alone let run, or that a rule lets run and that starts what
// calls may change, uses no credential before somebody has allowed that, and no answer is a no. A command that a person or a
// rule has allowed by its own words uses it.
func TestTheUseOfACredentialIsAskedAbout(t *testing.T) {
	site := newSecureSite(t)
	const curl = `curl -sS -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami`
	fixtureOf := func(mode approval.Mode) *hostFixture {
		f := newHostFixture(t, site, func(o *setup) {
			o.mode, o.writes, o.unasked = mode, true, "curl; sh t.sh"
			o.fallback = &shell.Default{Allowed: true, Approval: true, Confined: true}
		})
		writeFile(t, f.ws+"/t.sh", curl)
		writeFile(t, f.ws+"/c.py", "import os\nfor i in range(2): os.system('"+strings.ReplaceAll(curl, `"`, `\"`)+"')\n")
		return f
	}
	f := fixtureOf(approval.Interactive)
	var asked []approval.Pending
	var answer approval.Answer
	stop := f.approvals.Subscribe(func(e approval.Event) {
		if e.Kind == approval.Requested && e.Pending.ToolName == gateway.ToolCredential {
			asked = append(asked, e.Pending)
			f.mustAnswer(t, e.Pending, answer)
		}
	})
	defer stop()
	no := approval.Answer{Approver: "test", Reject: approval.RejectSoft}
	yes := approval.Answer{Allow: true, Approver: "test", Scope: approval.Once}
	session := approval.Answer{Allow: true, Approver: "test", Scope: approval.Session}
	taken := func() (n int) {
		for _, head := range site.requests() {
			n += strings.Count(head, hostSecret)
		}
		return n
	}
	welcome := "welcome true, you sent Bearer " + strings.Repeat("*", len(hostSecret))
	const refused = "API_KEY is not used: no one has allowed it for this command"
	for _, x := range []struct {
		name, line string
		answer     approval.Answer
		want       string
		asked      int
	}{
		{"a rule for its words", curl, no, welcome, 0},
		{"the sandbox alone", "python3 c.py", no, refused, 2},
		{"a rule for a script that calls may change", "sh t.sh", no, refused, 1},
		{"allowed once, and used twice", "python3 c.py", yes, welcome + welcome, 1},
		{"another call", "python3 c.py", no, refused, 2},
		{"allowed for the session", "python3 c.py", session, welcome + welcome, 1},
		{"another call of the session", "python3 c.py", no, welcome + welcome, 0},
	} {
		asked, answer = nil, x.answer
		before := taken()
		r, e := f.call(context.Background(), "shell", command(x.line))
		if e != nil || !strings.Contains(strings.ReplaceAll(allTexts(r), "\n", ""), x.want) || len(asked) != x.asked {
			t.Errorf("%s: asked %d times, %v, %s", x.name, len(asked), e, allTexts(r))
		}
		if (taken() == before) != (x.want == refused) {
			t.Errorf("%s: the host took the secret %d times", x.name, taken()-before)
		}
		if told := slices.ContainsFunc(r.Violations, func(v protocol.Violation) bool { return strings.Contains(v.Hint, "allow the use of the credential") }); told != (x.want == refused) {
			t.Errorf("%s: %+v", x.name, r.Violations)
		}
		if len(asked) > 0 && asked[0].Description != "Use the credential API_KEY at "+apiHost+":443" {
			t.Errorf("%s: asked %q", x.name, asked[0].Description)
		}
	}
	asked = nil
	if _, text := f.bash(t, curl); text != welcome || asked != nil { // the tool run asks by itself
		t.Errorf("a command that a person allowed: %q, asked %v", text, asked)
	}
	strict := fixtureOf(approval.Strict)
	if r, e := strict.call(context.Background(), "shell", command("python3 c.py")); e != nil || !strings.Contains(allTexts(r), refused) {
		t.Errorf("where nobody is asked: %v, %s", e, allTexts(r))
	}
	if r, e := strict.call(context.Background(), "shell", command(curl)); e != nil || !strings.Contains(allTexts(r), welcome) {
		t.Errorf("where nobody is asked, by a rule: %v, %s", e, allTexts(r))
	}
}

const tokenClient = `package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
	req, _ := http.NewRequest("GET", "https://` + apiHost + `/whoami", nil)
	req.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil { fmt.Println(err); os.Exit(1) }
	b, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Proto, string(b))
}
`

// TestRealClientsUseHostsSecrets: curl, git, Python and Go, as they are, in a real sandbox:
// each trusts the session's authority through its variable, and the host takes the
// secret that none of them has.
func TestRealClientsUseHostsSecrets(t *testing.T) {
	site := newSecureSite(t)
	f := newHostFixture(t, site)
	source := t.TempDir() + "/main.go"
	writeFile(t, source, tokenClient)
	build := exec.Command("go", "build", "-o", f.ws+"/goclient", source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	welcome := "welcome true, you sent Bearer " + strings.Repeat("*", len(hostSecret))
	for _, c := range []struct{ name, script, want string }{
		{"curl", `curl -sS -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami`, welcome},
		{"curl, twice over one connection", `curl -sS -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami https://` + apiHost + `/whoami`, welcome + welcome},
		{"curl, HTTP/2 wanted", `curl -sS --http2 -w '%{http_version}' -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami`, welcome + "1.1"},
		{"curl, SOCKS", `curl -sS --proxy socks5h://127.0.0.1:3128 -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami`, welcome},
		{"curl without a proxy", `env -u HTTPS_PROXY -u https_proxy curl -sS -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami`, welcome},
		{"curl, a large body", `head -c 5000000 /dev/zero | curl -sS -T - https://` + apiHost + `/upload`, "5000000 <nil>"},
		{"git, password in the URL", `git clone -q "https://user:$API_KEY@` + apiHost + `/git/repo.git" one 2>&1 && cat one/README`, "cloned over TLS"},
		{"git, a header", `git -c "http.extraHeader=Authorization: Basic $(printf 'user:%s' "$API_KEY" | base64 -w0)" clone -q https://` + apiHost + `/git/repo.git two 2>&1 && cat two/README`, "cloned over TLS"},
		{"Python", `python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request("https://` + apiHost + `/whoami", headers={"Authorization": "Bearer " + os.environ["API_KEY"]})).read().decode())'`, welcome},
		{"Go", `./goclient`, "HTTP/1.1 " + welcome},
	} {
		r, text := f.bash(t, c.script)
		if !strings.Contains(text, c.want) || len(r.Violations) != 0 {
			t.Errorf("%s: %q, %+v; want %q", c.name, text, r.Violations, c.want)
		}
	}
	for _, e := range f.connections(t) {
		if e.Decision != egress.Allow {
			t.Errorf("the log holds %+v", e)
		}
	}
}

// rummage looks for the secret where a program can look: the environment and memory of
// every process that it sees, its own after a request included, and every file that is
// its own. What it finds is left in the workspace, for the test to read.
const rummage = `
import glob, os, urllib.request as u
key = os.environ["API_KEY"]
print(u.urlopen(u.Request("https://` + apiHost + `/whoami", headers={"Authorization": "Bearer " + key})).read().decode())
out = open("found", "wb")
for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/dev/sandgate*"):
    try: out.write(open(name, "rb").read())
    except OSError: pass
for top in ("/tmp", "/home", "/dev/shm", "/run"):
    for root, _, names in os.walk(top):
        for name in names:
            try: out.write(open(os.path.join(root, name), "rb").read())
            except OSError: pass
with open("/proc/self/mem", "rb", 0) as mem:
    for line in open("/proc/self/maps"):
        span, mode = line.split()[:2]
        if mode[0] != "r": continue
        low, high = (int(x, 16) for x in span.split("-"))
        try:
            mem.seek(low)
            out.write(mem.read(high - low))
        except (OSError, ValueError, OverflowError): pass
`

// TestNobodySeesAHostsSecret: not the program, in its memory, its environment or any
// file; not the approver; not the log, the result or an error. What programs are given of
// the session's authority has no key in it.
func TestNobodySeesAHostsSecret(t *testing.T) {
	site := newSecureSite(t)
	f := newHostFixture(t, site)
	writeFile(t, f.ws+"/rummage.py", rummage)
	r, text := f.bash(t, "python3 rummage.py && env && ls -l "+sandboxprofile.TrustBundle)
	if !strings.Contains(text, "welcome true") || !strings.Contains(text, "-r--r--r--") {
		t.Fatalf("%q", text)
	}
	for _, name := range tools.TrustVariables() {
		if !strings.Contains(text, name+"="+sandboxprofile.TrustBundle+"\n") {
			t.Errorf("%s is not set: %q", name, text)
		}
	}
	found := readBytes(t, f.ws+"/found")
	if !bytes.Contains(found, []byte("sandgate-credential-")) || !bytes.Contains(found, []byte("BEGIN CERTIFICATE")) {
		t.Fatal("the search does not find what is there")
	}
	result, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(f.pending)
	if err != nil || len(f.pending) == 0 {
		t.Fatalf("nobody was asked: %v", err)
	}
	f.mu.Lock()
	x := f.sessions[f.session]
	f.mu.Unlock()
	a, err := x.network.Authority(sandboxprofile.Profile{Network: sandboxprofile.Network{Terminated: []string{apiHost + ":443"}}}, f.cfg.Egress)
	if err != nil || bytes.Contains(a.Bundle, []byte("PRIVATE")) || bytes.Count(a.Bundle, []byte("BEGIN")) != 2 || !bytes.Contains(found, a.Bundle) {
		t.Errorf("programs trust %s, %v", a.Bundle, err)
	}
	for where, content := range map[string][]byte{
		"the sandbox": found, "the output": []byte(text), "the result": result, "the prompt": asked, "the log": readBytes(t, f.logPath),
	} {
		if bytes.Contains(content, []byte(hostSecret)) {
			t.Errorf("the secret is in %s", where)
		}
	}
	if seen := site.requests(); len(seen) != 1 || !strings.Contains(seen[0], hostSecret) {
		t.Errorf("the host saw %q", seen)
	}
}

func readBytes(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestApproversAreToldWhereTLSEnds: in the prompt, in the entry of the decision, and in
// the plan itself, by whose digest the approval is bound.
func TestApproversAreToldWhereTLSEnds(t *testing.T) {
	site := newSecureSite(t)
	f := newHostFixture(t, site)
	f.bash(t, "true")
	if len(f.pending) != 1 {
		t.Fatalf("%d questions", len(f.pending))
	}
	const says = "sandgate terminates TLS to " + apiHost + ":443"
	details := f.pending[0].Details
	if !strings.Contains(details["warnings"], says) || !strings.Contains(fmt.Sprint(details), "TLS ending at sandgate: "+apiHost+":443") {
		t.Errorf("the prompt says %v", details)
	}
	if log := string(readBytes(t, f.logPath)); !strings.Contains(log, says) && !strings.Contains(log, `"terminated":["`+apiHost+`:443"]`) {
		t.Errorf("the log says nothing of it: %s", log)
	}
	proposal, err := f.cfg.Tools.Plan(tools.Call{Tool: "run", Args: map[string]any{"argv": []any{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	opaque := proposal.Plan
	opaque.Profile.Network.Terminated = nil
	if !slices.Equal(proposal.Plan.Profile.Network.Terminated, []string{apiHost + ":443"}) || opaque.Digest() == proposal.Plan.Digest() {
		t.Errorf("the plan: %+v", proposal.Plan.Profile.Network)
	}
}

// TestHostsPlaceholdersElsewhereAreAlarms: over clear HTTP to another allowed host, and to
// the host itself. Inside the TLS of another host nobody sees it; it is worth nothing there.
func TestHostsPlaceholdersElsewhereAreAlarms(t *testing.T) {
	site := newSecureSite(t)
	f := newHostFixture(t, site)
	for _, url := range []string{"http://" + beyondHost + "/", "http://" + apiHost + "/", "http://" + apiHost + ":443/"} {
		r, text := f.bash(t, `curl -sS -H "X: $API_KEY" `+url)
		if !strings.Contains(text, "refused (credential)") || len(r.Violations) != 1 || !strings.Contains(r.Violations[0].Hint, "its own service or host only") {
			t.Errorf("%s: %q, %+v", url, text, r.Violations)
		}
	}
	if seen := site.requests(); len(seen) != 0 {
		t.Errorf("somebody saw %q", seen)
	}
	if _, text := f.bash(t, `curl -sS -H "Authorization: Bearer $API_KEY" https://`+beyondHost+`/whoami`); !strings.Contains(text, "welcome false") || !strings.Contains(text, "sandgate-credential-") {
		t.Errorf("inside the TLS of another host: %q", text)
	}
	for i, e := range f.connections(t) {
		if alarm := e.Reason == egress.ReasonCredential; alarm != (i < 3) {
			t.Errorf("the log holds %+v", e)
		}
	}
}

// TestBadCertificatesGetNoSecret: the host's own, which our side does not trust, and ours,
// which a program does not trust. Each is told apart in the log and in the result.
func TestBadCertificatesGetNoSecret(t *testing.T) {
	site := newSecureSite(t)
	f := newHostFixture(t, site)
	call := `curl -sS -H "Authorization: Bearer $API_KEY" https://` + apiHost + `/whoami; echo "status $?"`
	_, another := certified(t, apiHost)
	writeFile(t, filepath.Join(f.ws, "another.pem"), string(another))
	r, text := f.bash(t, "CURL_CA_BUNDLE=another.pem "+call)
	if !strings.Contains(text, "status 60") || len(r.Violations) != 1 ||
		!strings.Contains(r.Violations[0].Reason, "handshake") || !strings.Contains(r.Violations[0].Hint, "SSL_CERT_FILE") {
		t.Errorf("a program that trusts somebody else: %q, %+v", text, r.Violations)
	}
	good := f.cfg.Egress.Roots
	_, f.cfg.Egress.Roots = certified(t, apiHost)
	f.mu.Lock()
	f.sessions[f.session].network = gateway.Session{}
	f.mu.Unlock()
	r, text = f.bash(t, call)
	if !strings.Contains(text, "refused (certificate)") || len(r.Violations) != 1 || !strings.Contains(r.Violations[0].Hint, "nothing was sent") {
		t.Errorf("a host that nobody vouches for: %q, %+v", text, r.Violations)
	}
	if seen := site.requests(); len(seen) != 0 {
		t.Errorf("the host saw %q", seen)
	}
	f.cfg.Egress.Roots = good
	if r, text := f.bash(t, call); !strings.Contains(text, "welcome true") || len(r.Violations) != 0 {
		t.Errorf("the twin: %q, %+v", text, r.Violations)
	}
	var reasons []egress.Reason
	for _, e := range f.connections(t) {
		reasons = append(reasons, e.Reason)
	}
	if !slices.Equal(reasons, []egress.Reason{egress.ReasonHandshake, egress.ReasonCertificate, ""}) {
		t.Errorf("the log holds %q", reasons)
	}
}
