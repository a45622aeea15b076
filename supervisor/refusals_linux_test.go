package supervisor

import (
	"fmt"
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
	// A list that ends says how much more there was, and what lies outside fills no place in it.
	const flood = "mkdir -p n/.git/hooks; for i in {1..200}; do : > /usr/refused$i; done 2>/dev/null; for i in {1..%d}; do : > n/.git/hooks/h$i; done 2>/dev/null; true"
	for n, more := range map[int]string{20: "", 21: "the list ends here: more was refused (1)", 30: "the list ends here: more was refused (10)", 100: "the list ends here: more was refused (80)"} {
		got, e := shellCall(t, f, fmt.Sprintf(flood, n))
		if e != nil || len(got) < 20 {
			t.Fatalf("%d: %v, %+v", n, e, got)
		}
		rest := ""
		for i, v := range got {
			switch {
			case i < 20 && v.Path != fmt.Sprintf("%s/n/.git/hooks/h%d", f.ws, i+1):
				t.Errorf("%d: %d is %+v", n, i, v)
			case i >= 20:
				rest += v.Reason
			}
		}
		if rest != more {
			t.Errorf("%d: %q, want %q", n, rest, more)
		}
	}
}
