package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
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
	many := strings.Repeat("asked ", 2*maxBeside)
	for _, x := range []struct {
		name, hosts string
		deny, task  bool
		asked       []string
		reached     int
	}{
		{"one host, often", many, false, false, []string{first}, 2 * maxBeside},
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
