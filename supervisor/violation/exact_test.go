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
	got := p.Exact(refused, 0)
	if len(got) != 2 || got[0].Path != refused[0].Path || got[1].Path != refused[1].Path || got[0].Basis != protocol.Observed {
		t.Errorf("observed: %+v", got)
	}
	text := []byte("bash: .git/hooks/pre-commit: Read-only file system\ncp: cannot create regular file '/usr/lib/x.pyc': Permission denied\n" +
		"tool: /usr/lib/never: Permission denied\n")
	inferred := p.Infer(text, "/w")
	if len(inferred) != 3 {
		t.Fatalf("inferred: %+v", inferred)
	}
	confirmed := p.Confirmed(inferred, refused, "/w")
	if len(confirmed) != 1 || confirmed[0].Path != "/usr/lib/x.pyc" || confirmed[0].Right != protocol.RightWrite || confirmed[0].Basis != protocol.Observed {
		t.Errorf("confirmed: %+v", confirmed)
	}
}

// TestOneComplaintDoesNotHideAnother: what was refused of one file says nothing of another
// with the same last name.
func TestOneComplaintDoesNotHideAnother(t *testing.T) {
	p := Policy{Operator: sp.Top(), Profile: sp.Profile{
		Paths:   map[string]sp.Rights{"/w": sp.Read | sp.Write, "/usr": sp.Read},
		Protect: []string{".git/config"},
	}}
	protected, outside := Change{Path: "/w/sub/.git/config"}, Change{Path: "/usr/x/config", Outside: true}
	complaint := func(path string, right protocol.Right) protocol.Violation {
		return p.File(path, right, protocol.Inferred)
	}
	for _, x := range []struct {
		complaint protocol.Violation
		refused   []Change
		want      string
	}{
		{complaint("/root/config", protocol.RightRead), []Change{protected}, "/root/config"},
		{complaint("/w/.git/config", protocol.RightRead), []Change{protected}, ""}, // from sub: it is what Exact has
		{complaint("/usr/x/config", protocol.RightWrite), []Change{protected, outside}, outside.Path},
		{complaint("/link/config", protocol.RightWrite), []Change{protected, outside}, outside.Path},
		{complaint("/w/.git/config", protocol.RightWrite), []Change{outside, protected}, ""},
		{complaint("/usr/x/other", protocol.RightWrite), []Change{protected, outside}, ""},
	} {
		got := ""
		for _, v := range p.Confirmed([]protocol.Violation{x.complaint}, x.refused, "/w") {
			got += v.Path
		}
		if got != x.want {
			t.Errorf("%s %s: %q, want %q", x.complaint.Right, x.complaint.Path, got, x.want)
		}
	}
}
