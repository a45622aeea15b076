package mcp

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// wire is v as the client reads it.
func wire(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestResults(t *testing.T) {
	text := func(s string) any { return map[string]any{"type": "text", "text": s} }
	for name, c := range map[string]struct {
		result  protocol.CallResult
		content []any
		failed  bool
	}{
		"nothing": {content: []any{}},
		"text":    {result: protocol.CallResult{Content: []protocol.Content{protocol.NewContent("", []byte("x"))}}, content: []any{text("x")}},
		"a stream": {
			result:  protocol.CallResult{Content: []protocol.Content{protocol.NewContent(protocol.Stderr, []byte("x"))}},
			content: []any{map[string]any{"type": "text", "text": "x", "_meta": map[string]any{metaStream: "stderr"}}},
		},
		"an image": {
			result:  protocol.CallResult{Content: []protocol.Content{{Type: protocol.ContentBlob, Blob: []byte("P"), MIMEType: "image/png"}}},
			content: []any{map[string]any{"type": "image", "data": "UA==", "mimeType": "image/png"}},
		},
		"a sound": {
			result:  protocol.CallResult{Content: []protocol.Content{{Type: protocol.ContentBlob, Blob: []byte("P"), MIMEType: "audio/wav"}}},
			content: []any{map[string]any{"type": "audio", "data": "UA==", "mimeType": "audio/wav"}},
		},
		"other bytes": {
			result: protocol.CallResult{Content: []protocol.Content{{Type: protocol.ContentBlob, Blob: []byte{0xff}}}},
			content: []any{map[string]any{"type": "resource", "resource": map[string]any{
				"uri": "sandgate:content/0", "mimeType": "application/octet-stream", "blob": "/w=="}}},
		},
		"a failure": {result: protocol.CallResult{ExitCode: 3}, content: []any{text("sandgate: exit status 3")}, failed: true},
		"a signal":  {result: protocol.CallResult{ExitCode: 137, Signal: "SIGKILL"}, content: []any{text("sandgate: ended by SIGKILL")}, failed: true},
		"what the model has to know": {
			result:  protocol.CallResult{Truncated: true, Violations: []protocol.Violation{{Reason: "a is not granted", Hint: "use b"}}},
			content: []any{text("sandgate: a is not granted; use b\nsandgate: the output is not complete")},
		},
	} {
		got := wire(t, resultOf(c.result))
		if diff := cmp.Diff(c.content, got["content"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if failed := got["isError"] == true; failed != c.failed {
			t.Errorf("%s: isError is %v", name, failed)
		}
	}
}

// TestStructuredResults: MCP has objects and nothing else.
func TestStructuredResults(t *testing.T) {
	for raw, want := range map[string]any{`{"a":1}`: map[string]any{"a": 1.0}, `[1]`: nil, `7`: nil, ``: nil} {
		if got := wire(t, resultOf(protocol.CallResult{Structured: json.RawMessage(raw)}))["structuredContent"]; !cmp.Equal(got, want) {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	e := protocol.Errorf(protocol.CodeDenied, "no").WithHint("try b")
	e.Decision = &protocol.Decision{Action: approval.Denied, Feedback: "not today", Interrupt: true}
	e.Result = &protocol.CallResult{Content: []protocol.Content{protocol.NewContent("", []byte("so far"))}}
	got := wire(t, refusalOf(e))
	want := []any{
		map[string]any{"type": "text", "text": "so far"},
		map[string]any{"type": "text", "text": "sandgate: denied: no\nhint: try b\nfeedback: not today\nEnd your turn now, and wait for the user."},
	}
	if diff := cmp.Diff(want, got["content"]); diff != "" || got["isError"] != true {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"error": map[string]any{"code": "denied", "message": "no", "hint": "try b"}}, got["structuredContent"]); diff != "" {
		t.Error(diff)
	}
}
