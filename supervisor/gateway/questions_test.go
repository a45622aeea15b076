package gateway

import (
	"testing"
	"time"
)

// TestQuestionsComeBack: what a program may ask comes back with time, at its rate, and never more than there was.
func TestQuestionsComeBack(t *testing.T) {
	for eachMinute, want := range map[int][]int{1: {MaxQuestions, 0, 1, 3, MaxQuestions}, MaxQuestions: {MaxQuestions, 0, MaxQuestions, MaxQuestions, MaxQuestions}} {
		var c Questions
		now := time.Now()
		for i, wait := range []time.Duration{0, time.Second, time.Minute, 3 * time.Minute, 100 * 24 * time.Hour} {
			now = now.Add(wait)
			got := 0
			for may := true; may && got <= MaxQuestions; {
				if may, _ = c.Take("", now, eachMinute); may {
					got++
				}
			}
			if got != want[i] {
				t.Errorf("%d each minute, after %v: %d, want %d", eachMinute, wait, got, want[i])
			}
		}
	}
}
