package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
)

// received is what an agent got of one call, piece by piece.
type received struct {
	data    map[protocol.Stream][]byte
	omitted map[protocol.Stream]int64
	gapAt   map[protocol.Stream]int // where in data
}

func newReceived() *received {
	return &received{map[protocol.Stream][]byte{}, map[protocol.Stream]int64{}, map[protocol.Stream]int{}}
}

func (r *received) notify(_ protocol.Method, params any) {
	o, ok := toolOutput(params)
	if !ok {
		return // the state of the call
	}
	if o.Omitted > 0 {
		r.omitted[o.Stream] += o.Omitted
		r.gapAt[o.Stream] = len(r.data[o.Stream])
	}
	r.data[o.Stream] = append(r.data[o.Stream], o.Bytes()...)
}

// toolOutput is what a client makes of a notification's params.
func size(list []protocol.Content) (n int) {
	for _, c := range list {
		n += len(c.Text) + len(c.Blob)
	}
	return n
}

func toolOutput(params any) (protocol.ToolOutput, bool) {
	if raw, ok := params.(protocol.RawOutput); ok {
		return raw.ToolOutput(), true
	}
	o, ok := params.(protocol.ToolOutput)
	return o, ok
}

// held says what is wrong with pieces of a stream that was written: they have to be
// its beginning and its end, and as much as is missing has to lie between them.
func held(written, got []byte, gapAt int, missing int64) string {
	switch {
	case int64(len(got))+missing != int64(len(written)):
		return fmt.Sprintf("%d bytes and %d missing, of %d", len(got), missing, len(written))
	case missing == 0 && !bytes.Equal(got, written):
		return "changed"
	case missing > 0 && !(bytes.HasPrefix(written, got[:gapAt]) && bytes.HasSuffix(written, got[gapAt:])):
		return "not its beginning and its end"
	}
	return ""
}

// streamOf is what a program writes one of its streams to.
func streamOf(o *outcome.Output, s protocol.Stream) io.Writer {
	stdio := o.Stdio(nil)
	return map[protocol.Stream]io.Writer{protocol.Stdout: stdio.Stdout, protocol.Stderr: stdio.Stderr}[s]
}

// TestOutputKeepsBothEnds: whatever is written in whatever turns, the result and the
// notifications hold all of it up to the limit, and of more the two ends of each
// stream, and tell what is missing.
func TestOutputKeepsBothEnds(t *testing.T) {
	streams := []protocol.Stream{protocol.Stdout, protocol.Stderr}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 400).Draw(t, "limit")
		written, got := map[protocol.Stream][]byte{}, newReceived()
		keep := rapid.Int64Range(0, limit).Draw(t, "keep")
		o := outcome.New("c", limit, keep, got.notify, nil, nil)
		total := int64(0)
		for i := range rapid.IntRange(0, 40).Draw(t, "writes") {
			s := rapid.SampledFrom(streams).Draw(t, "stream")
			p := []byte(strings.Repeat(string(rune('a'+i%26)), rapid.IntRange(1, 60).Draw(t, "bytes")))
			_, _ = streamOf(o, s).Write(p)
			written[s], total = append(written[s], p...), total+int64(len(p))
		}
		if dropped := o.Finish(); dropped != (total > limit) {
			t.Fatalf("%d bytes within a limit of %d: dropped %v", total, limit, dropped)
		}
		for _, s := range streams {
			if fault := held(written[s], got.data[s], got.gapAt[s], got.omitted[s]); fault != "" {
				t.Fatalf("%s, as notified: %s", s, fault)
			}
		}
		checkContent(t, o.Content(), written, limit)
	})
}

// checkContent holds the content of a result against what was written.
func checkContent(t rapid.TB, content []protocol.Content, written map[protocol.Stream][]byte, limit int64) {
	t.Helper()
	got, gapAt := map[protocol.Stream][]byte{}, map[protocol.Stream]int{}
	omitted, kept, total := int64(0), int64(0), int64(0)
	for _, c := range content {
		if c.Omitted > 0 {
			omitted += c.Omitted
			for s := range written {
				gapAt[s] = len(got[s])
			}
			continue
		}
		got[c.Stream] = append(got[c.Stream], c.Bytes()...)
		kept += int64(len(c.Bytes()))
	}
	for s, w := range written {
		total += int64(len(w))
		if fault := held(w, got[s], gapAt[s], int64(len(w)-len(got[s]))); fault != "" {
			t.Fatalf("%s, in the result: %s", s, fault)
		}
	}
	if kept > limit || kept+omitted != total {
		t.Fatalf("%d bytes kept of %d within a limit of %d, %d told to be left out", kept, total, limit, omitted)
	}
}

// TestCutsKeepTextText: no cut makes bytes of a text by halving a character.
func TestCutsKeepTextText(t *testing.T) {
	for limit := range int64(40) {
		o := outcome.New("c", 40+limit, outcome.MaxKept, func(protocol.Method, any) {}, nil, nil)
		for range 50 {
			_, _ = streamOf(o, protocol.Stdout).Write([]byte("a\u20ac\U0001F600"))
		}
		for _, c := range o.Content() {
			if c.Type != protocol.ContentText || !utf8.ValidString(c.Text) {
				t.Errorf("within %d bytes: %q %q", 40+limit, c.Text, c.Blob)
			}
		}
	}
}

// TestLongOutputIsShortenedForTheMessage: what would be too long for a message when
// it is escaped has both its ends in the result.
func TestLongOutputIsShortenedForTheMessage(t *testing.T) {
	o := outcome.New("c", 10<<20, outcome.MaxKept, func(protocol.Method, any) {}, nil, nil)
	_, _ = streamOf(o, protocol.Stdout).Write([]byte("first\n"))
	_, _ = streamOf(o, protocol.Stdout).Write(make([]byte, 8<<20))
	_, _ = streamOf(o, protocol.Stdout).Write([]byte("last\n"))
	r := callResult(&call{output: o, proposal: tools.Proposal{Plan: tools.Plan{Action: sandboxprofile.Action{Kind: sandboxprofile.Exec}}}}, nil)
	if len(r.Content) != 3 || !strings.HasPrefix(r.Content[0].Text, "first\n") || !strings.HasSuffix(r.Content[2].Text, "last\n") {
		t.Fatalf("%d pieces", len(r.Content))
	}
	if got := size(r.Content[:1]) + size(r.Content[2:]); !r.Truncated || int64(got)+r.Content[1].Omitted != 8<<20+11 {
		t.Errorf("%d bytes, %d left out, truncated %v", got, r.Content[1].Omitted, r.Truncated)
	}
	if line, err := protocol.EncodeResult(protocol.StringID("1"), r); err != nil || server.TooLong(r) || len(line) > protocol.MaxMessage || !bytes.Contains(line, []byte("last")) {
		t.Errorf("a message of %d bytes, %v", len(line), err)
	}
}

// TestMoreThanAResultHolds: of a generous limit no more is kept than a result can have,
// and all of it is handed on.
func TestMoreThanAResultHolds(t *testing.T) {
	got := newReceived()
	o := outcome.New("c", 1<<30, outcome.MaxKept, got.notify, nil, nil)
	written := 0
	write := func(s string) {
		_, _ = streamOf(o, protocol.Stdout).Write([]byte(s))
		written += len(s)
	}
	write("first\n")
	for range 20 {
		write(strings.Repeat("x", 1<<20))
	}
	write("last\n")
	if o.Finish() {
		t.Error("some was dropped")
	}
	if n := len(got.data[protocol.Stdout]); n != written || len(got.omitted) > 0 {
		t.Errorf("%d bytes of %d were handed on, omitted %v", n, written, got.omitted)
	}
	if n := o.Size(); n > outcome.MaxKept {
		t.Errorf("%d bytes are kept", n)
	}
	r := callResult(&call{output: o, proposal: tools.Proposal{Plan: tools.Plan{Action: sandboxprofile.Action{Kind: sandboxprofile.Exec}}}}, nil)
	first, last, omitted := ends(r)
	if first != "first\n" || last != "xlast\n" || !r.Truncated || int(omitted)+size(r.Content)-len(gapText(r)) != written {
		t.Errorf("%q to %q, %d left out, truncated %v", first, last, omitted, r.Truncated)
	}
}

// sh runs a line of shell through the whole path.
func (f *fixture) sh(t *testing.T, line string, notify outcome.Notify) (protocol.CallResult, *protocol.Error) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"argv": []string{"/bin/bash", "-c", line}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c1", Tool: "run", Args: args}, notify)
	if err == nil {
		return r, nil
	}
	e := failure.Wire(err)
	if e.Result == nil {
		t.Fatal(e)
	}
	return *e.Result, e
}

// ends is the first and last bytes of the output in a result, and how much is left
// out between them.
func ends(r protocol.CallResult) (first, last string, omitted int64) {
	const n = 6
	for _, c := range r.Content {
		b := c.Bytes()
		if c.Omitted > 0 {
			omitted += c.Omitted
			continue
		}
		if first == "" {
			first = string(b[:min(n, len(b))])
		}
		last = string(b[max(0, len(b)-n):])
	}
	return first, last, omitted
}

// TestAProgramThatWritesAGibibyte ends by itself: its status is exact, both ends of
// its output are there, and everything between them is counted.
func TestAProgramThatWritesAGibibyte(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) { p.Limits.Output = 10 << 20 }})
	got := newReceived()
	start := time.Now()
	r, e := f.sh(t, "echo first; head -c 1G /dev/zero; echo last; exit 3", got.notify)
	if e != nil {
		t.Fatal(e)
	}
	const written = 1<<30 + 11
	first, last, omitted := ends(r)
	if first != "first\n" || last != "\x00last\n" || r.ExitCode != 3 || r.Signal != "" || !r.Truncated || r.StdoutBytes != written {
		t.Errorf("%q to %q, status %d, %d bytes, truncated %v", first, last, r.ExitCode, r.StdoutBytes, r.Truncated)
	}
	if kept := int64(size(r.Content) - len(gapText(r))); kept+omitted != written {
		t.Errorf("%d bytes and %d left out of %d", kept, omitted, written)
	}
	if n := int64(len(got.data[protocol.Stdout])); n > 11<<20 || n+got.omitted[protocol.Stdout] != written {
		t.Errorf("%d bytes were notified and %d omitted", n, got.omitted[protocol.Stdout])
	}
	t.Logf("%v", time.Since(start))
}

// gapText is the text in place of what is left out.
func gapText(r protocol.CallResult) string {
	for _, c := range r.Content {
		if c.Omitted > 0 {
			return c.Text
		}
	}
	return ""
}

// TestOutputOfProgramsThatDoNotBehave: each ends with its own status, and what it
// wrote is told.
func TestOutputOfProgramsThatDoNotBehave(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) { p.Limits.Output = 10000 }})
	for _, c := range []struct {
		name, line  string
		first, last string
		code        int
		signal      string
		truncated   bool
		failure     protocol.Code
	}{
		{name: "nothing", line: "exit 7", code: 7},
		{name: "closes its output and runs on", line: "exec >&- 2>&-; read -t 0.2 < <(sleep 9); echo done > on; exit 7", code: 7},
		{name: "a child holds the output", line: "sleep 60 & echo here", first: "here\n", last: "here\n"},
		{name: "just the limit", line: "head -c 10000 /dev/zero | tr '\\0' x", first: "xxxxxx", last: "xxxxxx"},
		{name: "one byte more", line: "printf a; head -c 9999 /dev/zero | tr '\\0' x; printf b", first: "axxxxx", last: "xxxxxb", truncated: true},
		{name: "more, and a signal", line: "printf first; head -c 100000 /dev/zero; printf last; kill -SEGV $$", first: "first\x00", last: "\x00\x00last", code: 139, signal: "SIGSEGV", truncated: true},
		{name: "no end", line: "printf first; exec yes", first: "firsty", last: "y\ny\ny\n", code: 137, signal: "SIGKILL", truncated: true, failure: protocol.CodeLimitExceeded},
	} {
		r, e := f.sh(t, c.line, nil)
		first, last, omitted := ends(r)
		if e != nil && e.Code != c.failure || e == nil && c.failure != "" {
			t.Errorf("%s: %v", c.name, e)
		}
		if first != c.first || strings.TrimRight(last, "\n") != strings.TrimRight(c.last, "\n") && c.failure == "" || r.ExitCode != c.code || r.Signal != c.signal || r.Truncated != c.truncated {
			t.Errorf("%s: %q to %q, status %d %s, truncated %v", c.name, first, last, r.ExitCode, r.Signal, r.Truncated)
		}
		if (omitted > 0) != c.truncated || c.failure == "" && r.Content != nil && omitted+int64(size(r.Content)-len(gapText(r))) != r.StdoutBytes {
			t.Errorf("%s: %d of %d bytes left out, %d pieces", c.name, omitted, r.StdoutBytes, len(r.Content))
		}
	}
	if b, err := os.ReadFile(f.ws + "/on"); err != nil || string(b) != "done\n" {
		t.Errorf("what the program did after it had closed its output: %q, %v", b, err)
	}
}

// TestOrderOfStreams: what a program writes in turns, a pause between them, comes in
// that order, while it still runs.
func TestOrderOfStreams(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	var order []string
	marker := f.ws + "/go"
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Each piece is written when the one before it has arrived: the agent removes a file.
	line := "for i in 1 2 3; do echo out$i; while [ -e go ]; do :; done; echo err$i >&2; while [ ! -e go ]; do :; done; done"
	r, e := f.sh(t, line, func(_ protocol.Method, params any) {
		o, ok := toolOutput(params)
		if !ok {
			return
		}
		order = append(order, strings.TrimSpace(string(o.Bytes())))
		if o.Stream == protocol.Stdout {
			os.Remove(marker)
		} else if err := os.WriteFile(marker, nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	const want = "out1 err1 out2 err2 out3 err3"
	if got := strings.Join(order, " "); e != nil || got != want {
		t.Errorf("notified: %s, %v", got, e)
	}
	var text []string
	for _, c := range r.Content {
		text = append(text, strings.TrimSpace(c.Text))
	}
	if got := strings.Join(text, " "); got != want {
		t.Errorf("in the result: %s", got)
	}
}
