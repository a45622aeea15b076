package violation

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
	sp "github.com/sandgate/sandgate/sandboxprofile"
)

func TestExactSaysWhatWasRefused(t *testing.T) {
	p := Policy{Operator: sp.Top(), Profile: sp.Profile{
		Paths:   map[string]sp.Rights{"/w": sp.Read | sp.Write, "/usr": sp.Read},
		Protect: []string{".git/hooks"}, Hide: []string{".env"},
	}}
	refused := []Change{
		{Path: "/w/sub/.git/hooks/pre-commit"},
		{Path: "/w/.env"},
		{Path: "/usr/lib/x.pyc", Outside: true},
	}
	got := p.Exact(refused)
	if len(got) != 2 || got[0].Path != refused[0].Path || got[1].Path != refused[1].Path || got[0].Basis != protocol.Observed {
		t.Errorf("observed: %+v", got)
	}
	text := []byte("bash: .git/hooks/pre-commit: Read-only file system\ncp: cannot create regular file '/usr/lib/x.pyc': Permission denied\n" +
		"tool: /usr/lib/never: Permission denied\n")
	inferred := p.Infer(text, "/w")
	if len(inferred) != 3 {
		t.Fatalf("inferred: %+v", inferred)
	}
	confirmed := p.Confirmed(inferred, refused)
	if len(confirmed) != 1 || confirmed[0].Path != "/usr/lib/x.pyc" || confirmed[0].Right != protocol.RightWrite || confirmed[0].Basis != protocol.Observed {
		t.Errorf("confirmed: %+v", confirmed)
	}
}
