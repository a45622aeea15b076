package shell

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A corpusCase is one line of testdata/cases.jsonl.
type corpusCase struct {
	ID      string       `json:"id"`
	Kind    string       `json:"kind"`
	Default Default      `json:"default"`
	Rules   []Rule       `json:"rules"`
	Command string       `json:"command"`
	Shell   string       `json:"shell"`
	Want    tools.Effect `json:"want"`
	Why     string       `json:"why"`
}

func readCases(t testing.TB, name string) []corpusCase {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []corpusCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c corpusCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v: %s", name, err, lines.Bytes())
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Fatalf("%s holds no cases", name)
	}
	return cases
}

func mustPolicy(t testing.TB, d Default, rules []Rule) *Policy {
	t.Helper()
	p, err := NewPolicy(d, rules, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCorpus holds the rules against known ways around such rules, none of which
// may be allowed, and against everyday commands, all of which must be.
func TestCorpus(t *testing.T) {
	for _, name := range []string{"testdata/cases.jsonl"} {
		for _, c := range readCases(t, name) {
			t.Run(c.ID, func(t *testing.T) {
				d := mustPolicy(t, c.Default, c.Rules).Decide(c.Command, c.Shell)
				if d.Effect > c.Want || c.Kind == "benign" && d.Effect != tools.Allow {
					t.Errorf("%q: %v, want %v (%s)\n%+v", c.Command, d.Effect, c.Want, c.Why, d.Parts)
				}
			})
		}
	}
}

// TestCorpusUnderBalanced: with shell.default: confined none of the everyday commands asks,
// and none of them does because of its own rules either.
func TestCorpusUnderBalanced(t *testing.T) {
	benign := 0
	for _, c := range readCases(t, "testdata/cases.jsonl") {
		if c.Kind != "benign" {
			continue
		}
		benign++
		tool := &Tool{Config: Config{Default: Default{Allowed: true, Approval: true, Confined: true}}}
		for _, rules := range [][]Rule{nil, c.Rules} {
			d, class := tool.settled(mustPolicy(t, tool.Default, rules).Decide(c.Command, c.Shell))
			if d.Effect != tools.Allow || class == sandboxprofile.Unclassified {
				t.Errorf("%s %q: %v, class %v: %+v", c.ID, c.Command, d.Effect, class, d.Parts)
			}
		}
	}
	if benign < 30 {
		t.Errorf("%d everyday commands are no sample", benign)
	}
}
