package supervisor

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
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
		err := wireError(endError(cancelled, confine.Result{Cause: cause}, limits))
		if err == nil || err.Code != want.code || err.Message != want.message {
			t.Errorf("%s: %+v, want %+v", cause, err, want)
		} else if err.HintText == "" && cause != confine.Cancelled {
			t.Errorf("%s: no hint", cause)
		}
	}
	for _, cause := range []confine.Cause{confine.Exited, confine.NotStarted} {
		if err := endError(cancelled, confine.Result{Cause: cause}, limits); err != nil {
			t.Errorf("%s: %v", cause, err)
		}
	}
}

// TestStreamsInTurnsStayBounded: a program that writes a byte to each stream in turn
// makes no more pieces than there may be, and each stream keeps all of its bytes.
func TestStreamsInTurnsStayBounded(t *testing.T) {
	o := newOutput("c", 1<<20, maxKept, func(protocol.Method, any) {}, nil, nil)
	for range 3 * maxPieces {
		o.add(protocol.Stdout, []byte("o"))
		o.add(protocol.Stderr, []byte("e"))
	}
	if n := len(o.content()); n != maxPieces {
		t.Errorf("%d pieces, want %d", n, maxPieces)
	}
	for s, b := range map[protocol.Stream]string{protocol.Stdout: "o", protocol.Stderr: "e"} {
		if got := string(o.bytes(s)); got != strings.Repeat(b, 3*maxPieces) {
			t.Errorf("%s: %d bytes", s, len(got))
		}
	}
}

// TestEscaping: no byte takes more room in a message than is counted for it.
func TestEscaping(t *testing.T) {
	for b := range utf8.RuneSelf {
		line, err := protocol.EncodeNotification("m", string(rune(b)))
		if err != nil {
			t.Fatal(err)
		}
		const around = len(`{"jsonrpc":"2.0","method":"m","params":""}`)
		if got := len(line) - around; got > 1+int(escaping[b]) {
			t.Errorf("%q takes %d bytes", rune(b), got)
		}
	}
}

// TestAnswersFitIntoAMessage: what a program wrote is left out of an answer that it
// would make too long, of an error as of a result, and the rest arrives.
func TestAnswersFitIntoAMessage(t *testing.T) {
	id := protocol.StringID("1")
	for name, x := range map[string]struct {
		content protocol.Content
		kept    bool
	}{
		"text":               {protocol.NewContent(protocol.Stdout, bytes.Repeat([]byte("x"), 10<<20)), true},
		"lines":              {protocol.NewContent(protocol.Stdout, bytes.Repeat([]byte("y\n"), 4<<20)), true},
		"nothing but lines":  {protocol.NewContent(protocol.Stdout, bytes.Repeat([]byte("\n"), 10<<20)), false},
		"control characters": {protocol.NewContent(protocol.Stdout, make([]byte, 10<<20)), false},
		"bytes":              {protocol.NewContent(protocol.Stdout, bytes.Repeat([]byte{0xff}, 10<<20)), true},
		"more bytes":         {protocol.NewContent(protocol.Stdout, bytes.Repeat([]byte{0xff}, 15<<20)), false},
	} {
		r := protocol.CallResult{Content: []protocol.Content{x.content}, ExitCode: 7}
		result, err := encodeReply(id, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		failure, err := encodeReply(id, nil, &protocol.Error{Code: protocol.CodeLimitExceeded, Message: "m", Result: &r})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range [][]byte{result, failure} {
			if len(line) > protocol.MaxMessage {
				t.Errorf("%s: a message of %d bytes", name, len(line))
			}
			if kept := len(line) > 1<<20; kept != x.kept || !bytes.Contains(line, []byte(`"exit_code":7`)) {
				t.Errorf("%s: %d bytes, want the output kept: %v", name, len(line), x.kept)
			}
		}
	}
}
