package board

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// flooded is a world in which one agent and one tool have made as much as they can of all that is listed. Another
// agent came last.
type flooded struct {
	world
	n int
}

func (f *flooded) Sessions(context.Context) (list []protocol.SessionInfo, err error) {
	for i := range f.n {
		list = append(list, protocol.SessionInfo{ID: protocol.SessionID(fmt.Sprint("flood", i)), Agent: "flood", Peer: protocol.Peer{PID: 7}})
	}
	return append(list, protocol.SessionInfo{ID: "other", Agent: "coder", Peer: protocol.Peer{PID: 8}}), nil
}

func (f *flooded) Calls(context.Context) (list []protocol.CallInfo, err error) {
	for i := range min(f.n, 1024) {
		list = append(list, protocol.CallInfo{ID: fmt.Sprint("c", i), SessionID: protocol.SessionID(fmt.Sprint("flood", i)), Agent: "flood", Tool: "shell"})
	}
	return list, nil
}

func (f *flooded) List() (list []Kept, err error) {
	for i := range f.n {
		list = append(list, Kept{Item: "i", Entry: i, Path: fmt.Sprint("/home/me/work/project/.git/hooks/post-checkout", i)})
	}
	return list, nil
}

func (f *flooded) Changed() (list []Changed, err error) {
	for i := range f.n {
		list = append(list, Changed{ID: fmt.Sprint(i), Workspace: "/w", Session: fmt.Sprint("s", i/2), Tool: "shell", What: "make"})
	}
	return list, nil
}

// TestAFloodOnABoard: what an agent or a tool makes ten thousand of costs a board no more than that many times a row, takes
// no more than a thousand rows of a screen, and keeps nobody from finding what is somebody else's.
func TestAFloodOnABoard(t *testing.T) {
	for _, name := range []string{Sessions, Activity, Changes, Quarantine} {
		load := func(n int) (Board, float64) {
			w := &flooded{n: n}
			v := New(w, Stores{Quarantine: w, Changes: w}).View(time.Now)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b, err := v.Load(t.Context(), Look{Name: name})
			if err == nil {
				_, err = v.Load(t.Context(), Look{Name: name, Drawn: b.Version})
			}
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			return b, float64(after.TotalAlloc - before.TotalAlloc)
		}
		_, few := load(1000)
		b, many := load(10_000)
		if many > 15*few {
			t.Errorf("%s: %.0f bytes for 10000, %.0f for 1000", name, many, few)
		}
		for _, s := range b.Sections {
			if len(s.Items) > maxRows+1 {
				t.Errorf("%s: %d rows", name, len(s.Items))
			}
		}
		said := text(b)
		for of := range b.actions() {
			if of.Words == "Undo all of it" {
				questions, _ := of.asks("")
				said += text(questions)
			}
		}
		for _, want := range map[string][]string{Sessions: {"coder, session other", "More sessions of process 7", "9900 of them"}, Changes: {"9900 earlier calls", "calls of session s49 changed in /w"}, Activity: {"24 more are not listed here."}, Quarantine: {"9000 more are not listed here."}}[name] {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}
