package guard

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A step is one thing that happens to a guard, at a time in ms.
type step struct {
	At, Begun      int64
	Do             string
	Request, Sight string
	Act            Act
	Repeated, Want bool
	Meant          bool
}

// do carries a step out; what says nothing is true.
func (s step) do(g *Guard) bool {
	at, begun := time.Duration(s.At)*time.Millisecond, time.Duration(s.Begun)*time.Millisecond
	switch s.Do {
	case "look":
		g.Look(at, s.Request, s.Sight)
	case "moved":
		g.Moved(at)
	case "ended":
		g.Ended(at)
	case "text":
		g.TextGone(at)
	case "key":
		g.Key(at, begun, s.Meant)
	case "wrote":
		g.Wrote(at)
	case "ready":
		return g.Ready(at)
	case "release":
		return g.Release(at, begun, s.Act)
	case "answer":
		return g.Answer(at, begun, s.Repeated)
	default:
		panic("no step: " + s.Do)
	}
	return true
}

// TestVectors walks what the page is held to as well.
func TestVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name  string
		Steps []step
	}
	if err := json.Unmarshal(b, &vectors); err != nil || len(vectors) < 10 {
		t.Fatal(err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			var g Guard
			for i, s := range v.Steps {
				asks := s.Do == "ready" || s.Do == "release" || s.Do == "answer"
				if got := s.do(&g); asks && got != s.Want {
					t.Fatalf("step %d, %+v: %v", i, s, got)
				}
			}
		})
	}
}

// TestNoAnswerToWhatHasNotStood: whatever happens, an act that counts began when its very
// sight had stood untouched for Settle, no other request within Other, and nobody holds.
func TestNoAnswerToWhatHasNotStood(t *testing.T) {
	counted := 0
	rapid.Check(t, func(t *rapid.T) {
		var g Guard
		var now, touched, other int64
		other = -10000
		var request, sight string
		held := false
		first, last, spoilt := int64(-10000), int64(-10000), false // keys of one act, and whether one meant nothing
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			// Some wait as people do who read: without them hardly an act counts.
			now += rapid.OneOf(rapid.Int64Range(0, 900), rapid.Int64Range(1500, 3000)).Draw(t, "later")
			s := step{At: now, Do: rapid.SampledFrom([]string{"look", "look", "moved", "ended", "text", "key", "wrote", "release", "answer", "answer", "answer"}).Draw(t, "do")}
			s.Begun = now - rapid.Int64Range(0, 300).Draw(t, "held for")
			switch s.Do {
			case "look":
				s.Request, s.Sight = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "request"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "sight")
				if s.Request != request || s.Sight != sight {
					touched = now
				}
				if request != "" && s.Request != request {
					other = now
				}
				request, sight = s.Request, s.Sight
			case "moved":
				touched = now
			case "ended", "text":
				touched, held = now, true
			case "key":
				s.Meant = rapid.Bool().Draw(t, "meant")
			case "release":
				s.Act = rapid.SampledFrom([]Act{Click, Escape, Enter}).Draw(t, "act")
			case "answer":
				s.Repeated = rapid.Bool().Draw(t, "repeated")
			}
			if s.Do == "key" {
				if now-last >= Pause.Milliseconds() {
					first, spoilt = now, false
				}
				last, spoilt = now, spoilt || !s.Meant
			}
			got := s.do(&g)
			switch {
			case s.Do == "release" && got:
				touched, held = now, false
			case s.Do == "answer" && got:
				counted++
				// Since another stood here: one that came back itself is no other.
				swapped := g.before != request && s.Begun < other+Other.Milliseconds()
				if request == "" || held || s.Repeated || s.Begun < touched+Settle.Milliseconds() || swapped ||
					now-last < Pause.Milliseconds() && (spoilt || first < touched) {
					t.Fatalf("at %d, begun %d: touched %d, other %d, request %q, held %v", now, s.Begun, touched, other, request, held)
				}
			}
		}
	})
	if counted == 0 {
		t.Error("no act ever counted")
	}
}
