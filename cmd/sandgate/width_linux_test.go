package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/ui/guard"
)

// joined is what stands on a screen without blanks, margins and line breaks.
func (x *screen) joined() string {
	return strings.NewReplacer(" ", "", "\n", "", "│", "", "|", "", "┆", "").Replace(x.text())
}

// TestSwapsOnJoinedCharacters: characters that terminals measure in two ways push nothing
// off the screen, and begin no line where ours do. What is seen then is what runs.
func TestSwapsOnJoinedCharacters(t *testing.T) {
	t.Setenv("LC_ALL", "C.utf8")
	s := newServing(t, pageConfig)
	p := &person{serving: s, t: t}
	agent := s.session("coder")
	const forged = "shell: Execute: ls -l"
	for mode, keys := range map[string][]string{"": {"y"}, "--plain ": {"y", "Enter"}} {
		x := newScreenOf(t, "", "sandgate approve "+mode+"--operator-socket "+s.operator+"; true", 80, 30)
		for i, filler := range []string{strings.Repeat("का", 34), strings.Repeat("👍🏽", 20), strings.Repeat("ᄀ", 40), strings.Repeat("x", 79)} {
			end := fmt.Sprintf("all-of-it-%d-", i)
			asked := call(t.Context(), agent, "shell", map[string]any{"command": "echo '" + filler + "' " + forged + " ;echo " + end})
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(x.joined(), ";echo"+end); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("its end is not on the screen:\n%s", x.text())
				}
			}
			for line := range strings.SplitSeq(x.tmux("capture-pane", "-p"), "\n") {
				if strings.HasPrefix(line, forged) {
					t.Errorf("a line of the agent's begins where ours do:\n%s", x.text())
				}
			}
			time.Sleep(guard.Other + burst)
			x.tmux(append([]string{"send-keys"}, keys...)...)
			if out, refusal := p.ran(asked); refusal != nil || !strings.Contains(out, end) {
				t.Errorf("%q %v", out, refusal)
			}
		}
		x.tmux("kill-server")
	}
}
