package supervisor

import (
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// TestSubjectOfACommand: people read the line that was asked for, and not the shell that runs it.
func TestSubjectOfACommand(t *testing.T) {
	for want, argv := range map[string][]string{
		"echo hi > new.txt":    {"bash", "--norc", "--noprofile", "-c", "--", "echo hi > new.txt"},
		"python3 -c 'print()'": {"python3", "-c", "print()"},
	} {
		c := &call{proposal: tools.Proposal{Plan: tools.Plan{Action: sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{Argv: argv}}}}}
		if got := c.subject(); got != want {
			t.Errorf("%q: %q, want %q", argv, got, want)
		}
	}
}
