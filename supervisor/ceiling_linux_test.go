package supervisor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// TestAnAnswerIsForWhatTheProgramReaches: what was allowed without network is asked about
// again with it; where the network is as it was, it is not.
func TestAnAnswerIsForWhatTheProgramReaches(t *testing.T) {
	host := func(p *sandboxprofile.Profile) { p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkHost} }
	f := newFixture(t, setup{fallback: careful, profile: host})
	with := sandboxprofile.Top()
	without := with
	without.Network = sandboxprofile.Network{}
	f.cfg.Operator = without
	f.answer(t, func(p approval.Pending) {
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
	})
	for _, x := range []form{line("touch made"), argv("touch", "made")} {
		if _, e := f.outputOf(t, x); e != nil {
			t.Fatalf("%v: %v", x, e)
		}
		for _, now := range []struct {
			operator sandboxprofile.Profile
			want     tools.Effect
		}{{without, tools.Allow}, {with, tools.Ask}, {without, tools.Allow}} {
			f.cfg.Operator = now.operator
			r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "check", Tool: protocol.ToolName(x.tool), Args: json.RawMessage(x.args)})
			if err != nil || string(r.Decision) != now.want.String() {
				t.Errorf("%v with network %v: %v, %v; want %v", x, now.operator.Network.Mode, r.Decision, err, now.want)
			}
		}
	}
}
