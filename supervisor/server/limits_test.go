package server

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol"
)

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
