package server

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateConversations = flag.Bool("update-conversations", false, "rewrite what the server says in protocol/testdata/conversations")

// TestConversations plays the recorded conversations against a server. A file
// has lines that a client sends ("agent> ...") and the line that the server
// answers for each that follows ("agent< ...").
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("../../protocol/testdata/conversations/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(recorded))
			if *updateConversations {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(recorded), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("line %d:\n got %s\nwant %s", i+1, line, want[i])
				}
			}
		})
	}
}

// play sends the client's lines, and returns the file with what the server said.
func play(t *testing.T, recorded string) string {
	ts := startServer(t, Config{Version: "v0"})
	wires := map[string]*wire{"agent": ts.dial(ts.agent), "operator": ts.dial(ts.operator)}
	n := normalizer{}
	var out, answers []string
	for line := range strings.Lines(recorded) {
		line = strings.TrimSuffix(line, "\n")
		if who, _, found := strings.Cut(line, "<"); found && wires[who] != nil {
			answer, err := wires[who].read.ReadMessage()
			if err != nil {
				t.Fatalf("after %s: %v", strings.Join(out, "\n"), err)
			}
			answers = append(answers, who+"< "+n.normalize(string(answer)))
			continue
		}
		out, answers = append(append(out, inOrder(answers)...), line), nil
		if who, said, found := strings.Cut(line, "> "); found && wires[who] != nil {
			wires[who].send(n.denormalize(said))
		}
	}
	return strings.Join(append(out, inOrder(answers)...), "\n") + "\n"
}

// inOrder gives lines that may come in any order one order: notifications as
// they came, then responses by their text.
func inOrder(lines []string) []string {
	isResponse := func(l string) bool { return strings.Contains(l, `< {"jsonrpc":"2.0","id":`) }
	slices.SortStableFunc(lines, func(a, b string) int {
		switch {
		case isResponse(a) && isResponse(b):
			return strings.Compare(a, b)
		case isResponse(a):
			return 1
		case isResponse(b):
			return -1
		}
		return 0
	})
	return lines
}

// A normalizer replaces what differs from run to run: made-up ids, times and
// this process's credentials.
type normalizer struct{ real map[string]string }

var (
	madeUpID = regexp.MustCompile(`\b(req|dec)-[a-z0-9]+-(\d+)`)
	aTime    = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
)

func (n *normalizer) normalize(s string) string {
	if n.real == nil {
		n.real = map[string]string{}
	}
	s = madeUpID.ReplaceAllStringFunc(s, func(id string) string {
		m := madeUpID.FindStringSubmatch(id)
		short := m[1] + "-" + m[2]
		n.real[short] = id
		return short
	})
	s = aTime.ReplaceAllString(s, `"2026-01-01T00:00:00Z"`)
	own := fmt.Sprintf("uid %d, gid %d, pid %d", os.Getuid(), os.Getgid(), os.Getpid())
	return strings.ReplaceAll(s, own, "uid 1000, gid 1000, pid 4242")
}

func (n *normalizer) denormalize(s string) string {
	for short, id := range n.real {
		s = strings.ReplaceAll(s, `"`+short+`"`, `"`+id+`"`)
	}
	return s
}
