package outcome

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// TestEveryLimitIsExplained: a call that did not end by itself has a code, a
// message that names the limit, and a hint of what to do.
func TestEveryLimitIsExplained(t *testing.T) {
	limits := sandboxprofile.Limits{Wall: time.Minute, CPU: 2 * time.Second, Memory: 1001, Pids: 1002, FileSize: 1003, Output: 1004}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for cause, want := range map[confine.Cause]struct {
		code    protocol.Code
		message string
	}{
		confine.TimedOut:      {protocol.CodeTimedOut, "timed out after 1m0s; everything it had started was killed"},
		confine.CPULimit:      {protocol.CodeLimitExceeded, "used up its 2s of processor time, that of all its processes together, and was killed"},
		confine.MemoryLimit:   {protocol.CodeLimitExceeded, "used more than 1001 bytes of memory, files in /tmp and shared memory included, and was killed"},
		confine.PidsLimit:     {protocol.CodeLimitExceeded, "had more than 1002 processes and threads and was killed"},
		confine.FileSizeLimit: {protocol.CodeLimitExceeded, "wrote a file larger than 1003 bytes and was killed"},
		confine.OutputLimit:   {protocol.CodeLimitExceeded, "wrote more than 1004 bytes of output and was killed"},
		confine.Cancelled:     {protocol.CodeCancelled, "context canceled"},
	} {
		err := failure.Wire(EndError(cancelled, confine.Result{Cause: cause}, limits))
		if err == nil || err.Code != want.code || err.Message != want.message {
			t.Errorf("%s: %+v, want %+v", cause, err, want)
		} else if err.HintText == "" && cause != confine.Cancelled {
			t.Errorf("%s: no hint", cause)
		}
	}
	for _, cause := range []confine.Cause{confine.Exited, confine.NotStarted} {
		if err := EndError(cancelled, confine.Result{Cause: cause}, limits); err != nil {
			t.Errorf("%s: %v", cause, err)
		}
	}
}

// TestStreamsInTurnsStayBounded: a program that writes a byte to each stream in turn
// makes no more pieces than there may be, and each stream keeps all of its bytes.
func TestStreamsInTurnsStayBounded(t *testing.T) {
	o := New("c", 1<<20, MaxKept, func(protocol.Method, any) {}, nil, nil)
	for range 3 * maxPieces {
		o.add(protocol.Stdout, []byte("o"))
		o.add(protocol.Stderr, []byte("e"))
	}
	if n := len(o.Content()); n != maxPieces {
		t.Errorf("%d pieces, want %d", n, maxPieces)
	}
	for s, b := range map[protocol.Stream]string{protocol.Stdout: "o", protocol.Stderr: "e"} {
		if got := string(o.bytes(s)); got != strings.Repeat(b, 3*maxPieces) {
			t.Errorf("%s: %d bytes", s, len(got))
		}
	}
}

// TestTheTailOfALongStreamIsKept: of a stream that is longer than what is looked through, its end is.
func TestTheTailOfALongStreamIsKept(t *testing.T) {
	var o tail
	for range 1000 {
		_, _ = o.Write([]byte(strings.Repeat("x", 1000) + "\n"))
	}
	_, _ = o.Write([]byte("the end"))
	if got := string(o.bytes()); len(got) != maxTail || !strings.HasSuffix(got, "x\nthe end") {
		t.Errorf("got %d bytes ending in %q", len(got), got[max(0, len(got)-20):])
	}
	_, _ = o.Write([]byte(strings.Repeat("y", 5*maxTail)))
	if got := string(o.bytes()); len(got) != maxTail || strings.Trim(got, "y") != "" || cap(o.b) > 16*maxTail {
		t.Errorf("got %d bytes, capacity %d", len(got), cap(o.b))
	}
}
