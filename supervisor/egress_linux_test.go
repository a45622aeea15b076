package supervisor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools/tasks"
)

// TestOnceIsForTheCall: a host that a person allows once is one question for the call that waits, however often it
// connects. The twins: another host, the next call, a denial that comes meanwhile, and a task that goes on by itself.
func TestOnceIsForTheCall(t *testing.T) {
	f := newNetworkFixture(t, true)
	f.names.table["second.example.com"] = "93.184.216.36"
	writeFile(t, f.ws+"/fetch.py", fmt.Sprintf(`
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:%d"}))
for host in sys.argv[1].split():
    try: print(opener.open("http://%%s.example.com/" %% host, timeout=10).read().decode())
    except Exception as e: print(e.code)
`, confine.EgressPort))
	var asked []string
	deny := false
	f.answer(t, func(p approval.Pending) {
		if p.ToolName == "network" {
			asked = append(asked, strings.TrimPrefix(p.Description, "Connect to "))
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
		if deny && len(asked) == 2 {
			rules, err := approval.NewRules(approval.Rule{Effect: approval.Deny, Tool: "network"})
			if err != nil {
				t.Error(err)
			}
			f.approvals.SetRules(rules)
		}
	})
	const first, second, reached = "asked.example.com:80", "second.example.com:80", "hello from asked.example.com"
	many := strings.Repeat("asked ", 2*gateway.MaxQuestions)
	for _, x := range []struct {
		name, hosts string
		deny, task  bool
		asked       []string
		reached     int
	}{
		{"one host, often", many, false, false, []string{first}, 2 * gateway.MaxQuestions},
		{"the next call, and another host", "asked second asked", false, false, []string{first, second}, 2},
		{"a task", "asked asked", false, true, []string{first, first}, 2},
		{"a denial meanwhile", "asked second asked", true, false, []string{first, second}, 1},
	} {
		asked, deny = nil, x.deny
		run := form{tool: "run", args: fmt.Sprintf(`{"argv": ["python3", "fetch.py", %q]}`, x.hosts)}
		if x.task {
			run = form{tool: tasks.Start, args: fmt.Sprintf(`{"command": "python3 fetch.py '%s'"}`, x.hosts)}
		}
		text, e := f.outputOf(t, run)
		if e != nil || !slices.Equal(asked, x.asked) || strings.Count(text, reached) != x.reached {
			t.Errorf("%s: %v, asked about %q, %q", x.name, e, asked, text)
		}
	}
}

// TestOnceIsNotForMore: a host that was allowed once is asked about again by the second run of a call, which reaches a
// path more; and where a person limits how often an answer may be used, connections count.
func TestOnceIsNotForMore(t *testing.T) {
	f := newNetworkFixture(t, true)
	t.Cleanup(f.approvals.Attach())
	outside := filepath.Join(confinetest.Workspace(t), "secret")
	writeFile(t, outside, "theirs")
	writeFile(t, f.ws+"/fetch.py", fmt.Sprintf(`
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:%d"}))
for i in range(int(sys.argv[2])):
    print(opener.open("http://asked.example.com/", timeout=10).read().decode())
print(open(sys.argv[1]).read())
`, confine.EgressPort))
	for _, x := range []struct {
		file   string
		times  int
		answer approval.Answer
		want   []string
	}{
		{outside, 3, approval.Answer{}, []string{"network", "path", "network"}},
		{"fetch.py", 4, approval.Answer{Scope: approval.Session, Uses: 1}, []string{"network", "network"}},
	} {
		var asked []string
		stop := f.approvals.Subscribe(func(e approval.Event) {
			if e.Kind != approval.Requested {
				return
			}
			a := approval.Answer{Allow: true, Approver: "test"}
			if e.Pending.ToolName != "run" {
				asked = append(asked, e.Pending.ToolName)
			}
			if e.Pending.ToolName == "network" {
				a.Scope, a.Uses = x.answer.Scope, x.answer.Uses
			}
			f.mustAnswer(t, e.Pending, a)
		})
		text, e := f.outputOf(t, form{tool: "run", args: fmt.Sprintf(`{"argv": ["python3", "fetch.py", %q, "%d"]}`, x.file, x.times)})
		stop()
		if e != nil || !slices.Equal(asked, x.want) {
			t.Errorf("%s: %v, asked about %q, want %q: %q", x.file, e, asked, x.want, text)
		}
	}
}
