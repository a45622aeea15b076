package supervisor

import (
	"context"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// nobodys forgets to say who carries a plan out.
type nobodys struct{ *shell.Tool }

func (n nobodys) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := n.Tool.Plan(c)
	if strings.Contains(c.String("command"), "nobody") {
		p.Plan.Kind = ""
	}
	return p, err
}

// TestAPlanOfNoKindIsNotCarriedOut: the zero Kind is nobody.
func TestAPlanOfNoKindIsNotCarriedOut(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll, shell: func(s *shell.Tool) tools.Tool { return nobodys{s} }})
	before := workspaceOf(t, f.ws)
	if _, e := f.call(context.Background(), "shell", command("touch nobody")); e == nil || e.Code != protocol.CodeSandboxFailed || !strings.Contains(e.Message, "nobody carries out") {
		t.Errorf("a plan of no kind: %v", e)
	}
	if after := workspaceOf(t, f.ws); after != before {
		t.Errorf("it ran: %s", after)
	}
	if r, e := f.call(context.Background(), "shell", command("touch somebody && ls")); e != nil || !strings.Contains(textOf(r), "somebody") {
		t.Errorf("its twin: %v, %+v", e, r)
	}
}

// TestKindIsPartOfWhatIsApproved: what was approved for one hand is not carried out by another.
func TestKindIsPartOfWhatIsApproved(t *testing.T) {
	seen := map[string]tools.Kind{}
	for _, kind := range []tools.Kind{"", tools.Sandboxed, tools.ByAgent, tools.OnTask, tools.ByServer} {
		digest := tools.Plan{Tool: "x", Kind: kind}.Digest()
		if other, ok := seen[digest]; ok {
			t.Errorf("%q and %q have one digest", kind, other)
		}
		seen[digest] = kind
		if (acts[kind] != nil) != (kind != "") {
			t.Errorf("kind %q: carried out: %v", kind, acts[kind] != nil)
		}
	}
}
