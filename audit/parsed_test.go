package audit

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// oneByOne is parseLines without its processors.
func oneByOne(r io.Reader) (list []parsed, err error) {
	lines := newLineReader(r)
	for {
		line, err := lines.read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		p := parsed{line: line}
		p.parse()
		list = append(list, p)
	}
}

// TestLinesParsedTogetherAreInOrder: many processors give what one gives, also of a
// damaged log, of one that cannot be read to its end, and to a caller that has enough.
func TestLinesParsedTogetherAreInOrder(t *testing.T) {
	log, _ := makeLog(t, someEntries(linesAtOnce+5*batchLines)...)
	broken := errors.New("broken")
	before := runtime.NumGoroutine()
	rapid.Check(t, func(t *rapid.T) {
		some := bytes.Clone(log[:rapid.IntRange(0, len(log)).Draw(t, "size")])
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			if len(some) > 0 {
				some[rapid.IntRange(0, len(some)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("\n\"x")).Draw(t, "byte")
			}
		}
		open := func() io.Reader { return bytes.NewReader(some) }
		if rapid.Bool().Draw(t, "ends badly") {
			open = func() io.Reader { return io.MultiReader(bytes.NewReader(some), iotest.ErrReader(broken)) }
		}
		want, wantErr := oneByOne(open())
		enough := rapid.IntRange(1, len(want)+2).Draw(t, "enough")
		n := 0
		for p, err := range parseLines(open()) {
			switch {
			case err != nil:
				if !errors.Is(err, wantErr) || n != len(want) {
					t.Fatalf("after %d of %d lines: %v, want %v", n, len(want), err, wantErr)
				}
				wantErr = nil
			case n >= len(want) || !reflect.DeepEqual(*p, want[n]):
				t.Fatalf("line %d is %+v", n, p)
			default:
				n++
			}
			if n == enough {
				return
			}
		}
		if n != len(want) || wantErr != nil {
			t.Fatalf("%d lines of %d, and not %v", n, len(want), wantErr)
		}
	})
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
