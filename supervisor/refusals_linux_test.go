package supervisor

import (
	"slices"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestRefusalsAreExactWhereABrokerIs: a program is reported for what it was refused to
// change, whatever it prints and wherever it has gone, and for nothing that it did not try.
func TestRefusalsAreExactWhereABrokerIs(t *testing.T) {
	l, err := linux.NewLandlock(linux.LandlockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := newFixture(t, setup{mode: approval.ApproveAll, confiner: func(confine.Confiner) confine.Confiner { return l }})
	hook := f.ws + "/n/.git/hooks/pre-commit"
	for _, c := range []struct {
		name, line string
		want       []string
	}{
		{"what is withheld, without a word", "mkdir -p n/.git/hooks; cd n; { echo x > .git/hooks/pre-commit; } 2>/dev/null; true", []string{"observed file write " + hook}},
		{"and in words that mean another path", "cd n; echo x > .git/hooks/pre-commit", []string{"observed file write " + hook}},
		{"what lies outside, and a program complains of", "cd n; touch /usr/refused", []string{"observed file write /usr/refused"}},
		{"and what it does without", "cd n; touch /usr/refused 2>/dev/null; true", nil},
		{"a name that is only printed", "echo \"touch: cannot touch '/usr/never': Read-only file system\" >&2", nil},
		{"one of a protected name", "echo 'bash: .git/hooks/never: Read-only file system' >&2", nil},
		{"what is granted", "cd n; echo x > pre-commit; cat pre-commit", nil},
	} {
		if got, e := shellCall(t, f, c.line); e != nil || !slices.Equal(kinds(got), c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.name, kinds(got), e, c.want)
		}
	}
}
