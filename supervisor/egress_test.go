package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/manifest"
)

// names resolves the hosts of a test; asked counts every name that it heard.
type names struct {
	table map[string]string
	asked []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.asked = append(n.asked, host)
	addr, ok := n.table[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(addr)}, nil
}

// here dials the test's server whatever address it is given: the address itself
// has been checked by then, and belongs to nobody on this machine.
type here struct{ addr string }

func (h here) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, h.addr)
}

const fetch = `
import os, sys, urllib.request, urllib.error
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:%d"}))
try:
    print(opener.open(sys.argv[1], timeout=10).read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
`

type networkFixture struct {
	*fixture
	names *names
}

func newNetworkFixture(t *testing.T, ask bool, allow ...string) *networkFixture {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) }))
	t.Cleanup(server.Close)
	f := newFixture(t, setup{mode: approval.Interactive, profile: func(p *sandboxprofile.Profile) {
		p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{allow}, Ask: ask}
	}})
	n := &names{table: map[string]string{"allowed.example.com": "93.184.216.34", "asked.example.com": "93.184.216.35", "inner.example.com": "127.0.0.1"}}
	f.cfg.Egress = gateway.Config{Resolver: n, Dialer: here{server.Listener.Addr().String()}}
	writeFile(t, f.ws+"/fetch.py", fmt.Sprintf(fetch, confine.EgressPort))
	return &networkFixture{f, n}
}

// get runs the client inside the sandbox; questions about anything but the
// network are answered yes.
func (f *networkFixture) get(t *testing.T, url string, network func(approval.Pending) bool) (text string, violations []string) {
	t.Helper()
	stop := f.approvals.Subscribe(func(e approval.Event) {
		if e.Kind != approval.Requested {
			return
		}
		a := approval.Answer{Allow: e.Pending.ToolName != "network" || network != nil && network(e.Pending), Approver: "test", Scope: approval.Once}
		if !a.Allow {
			a.Reject = approval.RejectSoft // the call goes on
		}
		f.mustAnswer(t, e.Pending, a)
	})
	defer stop()
	return f.fetch(t, url)
}

// fetch runs the client inside the sandbox. Somebody else answers.
func (f *networkFixture) fetch(t *testing.T, url string) (text string, violations []string) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"argv": []string{"python3", "fetch.py", url}})
	if err != nil {
		t.Fatal(err)
	}
	r, e := f.call(context.Background(), "run", string(args))
	if e != nil {
		t.Fatalf("%v %s", e, e.HintText)
	}
	for _, c := range r.Content {
		text += string(c.Bytes())
	}
	for _, v := range r.Violations {
		violations = append(violations, v.Reason)
	}
	return text, violations
}

func (f *networkFixture) connections(t *testing.T) []egress.Event {
	t.Helper()
	var events []egress.Event
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != audit.KindConnection {
			continue
		}
		var event struct {
			Host     string `json:"host"`
			Decision string `json:"decision"`
			Reason   string `json:"reason"`
		}
		if err := json.Unmarshal(e.Data, &event); err != nil {
			t.Fatal(err)
		}
		x := egress.Event{Host: event.Host, Reason: egress.Reason(event.Reason)}
		if event.Decision == "allow" {
			x.Decision = egress.Allow
		}
		events = append(events, x)
	}
	return events
}

// TestToolsReachOnlyListedHosts goes the whole way: a program in a real sandbox,
// the socket in its network namespace, the rules, a real server.
func TestToolsReachOnlyListedHosts(t *testing.T) {
	f := newNetworkFixture(t, false, "allowed.example.com", "inner.example.com")
	if text, v := f.get(t, "http://allowed.example.com/", nil); !strings.Contains(text, "hello from allowed.example.com") || len(v) != 0 {
		t.Errorf("an allowed host: %q, %v", text, v)
	}
	text, v := f.get(t, "http://other.example.com/", nil)
	if !strings.HasPrefix(text, "403 ") || len(v) != 1 || !strings.Contains(v[0], "other.example.com:80 refused: unlisted") {
		t.Errorf("another host: %q, %v", text, v)
	}
	if text, v := f.get(t, "http://inner.example.com/", nil); !strings.HasPrefix(text, "403 ") || len(v) != 1 || !strings.Contains(v[0], "127.0.0.1, which only a rule for the address can allow: loopback") {
		t.Errorf("a name that leads to loopback: %q, %v", text, v)
	}
	for _, name := range f.names.asked {
		if strings.Contains(name, "other") {
			t.Error("a denied name was resolved, which tells it to the outside")
		}
	}
	events := f.connections(t)
	if len(events) != 3 || events[0].Decision != egress.Allow || events[1].Reason != egress.ReasonUnlisted || events[2].Reason != egress.ReasonAddress {
		t.Errorf("the log holds %+v", events)
	}
}

// TestUnknownHostsAreAskedAbout: the question names the host, and the answer
// holds; nobody's answer is a refusal.
func TestUnknownHostsAreAskedAbout(t *testing.T) {
	for _, allow := range []bool{true, false} {
		f := newNetworkFixture(t, true, "allowed.example.com")
		var shown approval.Pending
		text, v := f.get(t, "http://asked.example.com/", func(p approval.Pending) bool { shown = p; return allow })
		if shown.Payload["host"] != "asked.example.com" || !strings.Contains(shown.Description, "asked.example.com:80") {
			t.Errorf("the question: %+v", shown)
		}
		if got := strings.Contains(text, "hello from asked.example.com"); got != allow || (len(v) == 0) != allow {
			t.Errorf("answered %v: %q, %v", allow, text, v)
		}
	}
}

// TestAProgramAsksForHostsAFewTimesOnly: what a program names by itself is a bounded number of questions. The
// twin: hosts that an answer covers ask nobody, and are as many as the program likes.
func TestAProgramAsksForHostsAFewTimesOnly(t *testing.T) {
	f := newNetworkFixture(t, true)
	for i := range 40 {
		f.names.table[fmt.Sprintf("h%d.example.com", i)] = "93.184.216.34"
		f.names.table[fmt.Sprintf("h%d.cdn.example.com", i)] = "93.184.216.34"
	}
	writeFile(t, f.ws+"/fetch.py", fmt.Sprintf(`
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:%d"}))
for i in range(40):
    try: print(opener.open(sys.argv[1] %% i, timeout=10).read().decode())
    except Exception as e: print(e.code, e.read().decode())
`, confine.EgressPort))
	for _, x := range []struct {
		url            string
		asked, refused int
	}{{"http://h%d.example.com/", gateway.MaxQuestions, 40 - gateway.MaxQuestions}, {"http://h%d.cdn.example.com/", 1, 0}} {
		asked := 0
		stop := f.approvals.Subscribe(func(e approval.Event) {
			if e.Kind != approval.Requested {
				return
			}
			a := approval.Answer{Allow: true, Approver: "test", Scope: approval.Once}
			if e.Pending.ToolName == "network" {
				asked++
				a.Allow, a.Reject = false, approval.RejectSoft
				if strings.Contains(e.Pending.Description, ".cdn.") {
					a = approval.Answer{Allow: true, Approver: "test", Scope: approval.Session, Pattern: &approval.Pattern{Kind: approval.Host, Value: "*.cdn.example.com:80"}}
				}
			}
			f.mustAnswer(t, e.Pending, a)
		})
		text, _ := f.fetch(t, x.url)
		stop()
		if got := strings.Count(text, "the program has caused 16 questions"); asked != x.asked || got != x.refused {
			t.Errorf("%s: %d questions, want %d; %d refused without one, want %d: %s", x.url, asked, x.asked, got, x.refused, text)
		}
	}
}

// TestARememberedHostCoversThoseBelow: an answer for the names below a domain holds
// for them, on that port, for every later call of the session; a sibling of the domain,
// the domain itself and another port are new questions, and an address that names may
// not lead to stays refused.
func TestARememberedHostCoversThoseBelow(t *testing.T) {
	f := newNetworkFixture(t, true, "allowed.example.com")
	maps.Copy(f.names.table, map[string]string{
		"a.cdn.example.com": "93.184.216.40", "b.cdn.example.com": "93.184.216.41", "deep.c.cdn.example.com": "93.184.216.42",
		"cdn.example.com": "93.184.216.43", "a.cdn2.example.com": "93.184.216.44", "inner.cdn.example.com": "127.0.0.1",
	})
	below := &approval.Pattern{Kind: approval.Host, Value: "*.cdn.example.com:80"}
	var asked []string
	f.answer(t, func(p approval.Pending) {
		switch a := (approval.Answer{Allow: true, Approver: "test"}); {
		case p.ToolName != "network":
			f.mustAnswer(t, p, a)
		case p.Payload["host"] == "a.cdn.example.com" && p.Payload["port"] == 80:
			for _, wide := range []approval.Pattern{
				{Kind: approval.Host, Value: "*.com:80"}, {Kind: approval.Host, Value: "*.cdn2.example.com:80"},
				{Kind: approval.Host, Value: "*.cdn.example.com:443"}, {Kind: approval.WholeTool, Value: "network"},
			} {
				a.Scope, a.Pattern = approval.Session, &wide
				var invalid *approval.InvalidAnswerError
				if _, err := f.approvals.Answer(p.ID, a); !errors.As(err, &invalid) || invalid.Field != "pattern" {
					t.Errorf("an answer for %v: %v, want the pattern refused", wide, err)
				}
			}
			asked = append(asked, p.Description)
			a.Pattern = below
			f.mustAnswer(t, p, a)
		default:
			asked = append(asked, p.Description)
			f.mustAnswer(t, p, approval.Answer{Approver: "test", Reject: approval.RejectSoft})
		}
	})
	for _, x := range []struct {
		host, asked string // asked is "" where nobody is
		reached     bool
	}{
		{"a.cdn.example.com", "Connect to a.cdn.example.com:80", true},
		{"a.cdn.example.com", "", true},
		{"b.cdn.example.com", "", true},
		{"deep.c.cdn.example.com", "", true},
		{"inner.cdn.example.com", "", false},
		{"cdn.example.com", "Connect to cdn.example.com:80", false},
		{"a.cdn2.example.com", "Connect to a.cdn2.example.com:80", false},
		{"b.cdn.example.com:8080", "Connect to b.cdn.example.com:8080", false},
	} {
		asked = nil
		text, v := f.fetch(t, "http://"+x.host+"/")
		if got := strings.Contains(text, "hello from "+x.host); got != x.reached || (len(v) == 0) != x.reached {
			t.Errorf("%s: %q, %v", x.host, text, v)
		}
		if got := strings.Join(asked, ", "); got != x.asked {
			t.Errorf("%s: asked %q, want %q", x.host, got, x.asked)
		}
	}
	remembered := 0
	for _, answer := range f.entries(t, audit.KindAnswer) {
		if strings.Contains(answer, "remembered_allow") && strings.Contains(answer, `"approver":"test"`) {
			remembered++
		}
	}
	if remembered != 4 {
		t.Errorf("%d connections are in the log as allowed by what was remembered, want 4", remembered)
	}
}

// TestARememberedHostIsNotForASecret: a host that was allowed for calls within the workspace
// is asked about again by a tool that holds a secret, with a pattern or without; what is said
// then is for that tool. The twin, another tool without one, is not asked.
func TestARememberedHostIsNotForASecret(t *testing.T) {
	for _, pattern := range []*approval.Pattern{nil, {Kind: approval.Host, Value: "*.example.com:80"}} {
		f := newNetworkFixture(t, true, "allowed.example.com")
		var list []tools.Tool
		for name, secrets := range map[string][]manifest.Secret{
			"first": nil, "second": nil, "wide": nil, "user": nil, "holder": {{Name: "TOKEN", File: secretFile(t, "s3cr3t"), Env: true}}, "other": {{Name: "TOKEN", File: secretFile(t, "other"), Env: true}},
		} {
			spec := manifest.Spec{Name: name, Command: []string{"python3", "fetch.py", "http://asked.example.com/"}, Secrets: secrets}
			profile := confinetest.Profile(t, f.ws)
			profile.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"allowed.example.com"}}, Ask: true}
			profile.Env.Names = append(profile.Env.Names, spec.EnvNames()...)
			if name == "wide" { // it reads more than the tools for which somebody said yes
				profile.Paths[t.TempDir()] = sandboxprofile.Read
			}
			paths := tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.ws}}, Cwd: f.ws}
			c := manifest.Config{Spec: spec, Dir: f.ws, Profile: profile, Environ: []string{"PATH=/usr/bin:/bin"}, Paths: paths, AllPaths: paths}
			if name == "user" { // it has one used for it, and does not see it
				c.Credentials = tools.Credentials{Rule: "tools.user.credentials", Covers: coversHost, List: []sandboxprofile.Secret{{Name: "KEY", File: secretFile(t, "a long secret"), Host: "allowed.example.com:443"}}}
			}
			tool, err := manifest.New(c)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, tool)
		}
		var err error
		if f.cfg.Tools, err = tools.NewRegistry(list...); err != nil {
			t.Fatal(err)
		}
		asked := 0
		f.answer(t, func(p approval.Pending) {
			a := approval.Answer{Allow: true, Approver: "test"}
			if p.ToolName == "network" {
				if asked++; asked == 1 {
					a.Pattern = pattern
				}
				if covers := p.Details["remembered"]; !strings.HasPrefix(strings.Replace(covers, ",", "", 1), "a remembered answer covers this host for every call") {
					t.Errorf("what a remembered answer covers is not shown: %q", covers)
				}
				a.Scope = approval.Session
			}
			f.mustAnswer(t, p, a)
		})
		for _, x := range []struct {
			tool  string
			asked int
		}{{"first", 1}, {"second", 0}, {"holder", 1}, {"holder", 0}, {"other", 1}, {"user", 1}, {"user", 0}, {"first", 0}, {"wide", 1}, {"wide", 0}, {"first", 0}} {
			before := asked
			r, e := f.call(context.Background(), x.tool, "{}")
			if e != nil || !strings.Contains(textOf(r), "hello from asked.example.com") || asked-before != x.asked {
				t.Errorf("%v, %s: asked %d times, want %d: %v %q", pattern, x.tool, asked-before, x.asked, e, textOf(r))
			}
		}
	}
}

// TestProgramsThatIgnoreTheProxyReachNothing: the namespace has no other way out.
func TestProgramsThatIgnoreTheProxyReachNothing(t *testing.T) {
	f := newNetworkFixture(t, false, "allowed.example.com")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.say(t, approval.Answer{Allow: true})
	act := fmt.Sprintf(`{"argv": ["bash", "-c", "for a in 127.0.0.1/%d 203.0.113.7/80; do (exec 3<>/dev/tcp/$a) 2>&1; done; exit 0"]}`, l.Addr().(*net.TCPAddr).Port)
	r, e := f.call(context.Background(), "run", act)
	if e != nil {
		t.Fatal(e)
	}
	text := string(r.Content[0].Bytes())
	if !strings.Contains(text, "Connection refused") || !strings.Contains(text, "Network is unreachable") {
		t.Errorf("got %q", text)
	}
}
