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
			content: []any{text("sandgate: a is not granted; use b\nsandgate: the output is incomplete")},
		},
	} {
		got := wire(t, resultOf("x", c.result))
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
		if got := wire(t, resultOf("x", protocol.CallResult{Structured: json.RawMessage(raw)}))["structuredContent"]; !cmp.Equal(got, want) {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// TestContentAndStructureSayTheSame: some clients show their model the one alone, and
// some the other.
func TestContentAndStructureSayTheSame(t *testing.T) {
	text := func(s string) protocol.Content { return protocol.NewContent("", []byte(s)) }
	image := protocol.Content{Type: protocol.ContentBlob, Blob: []byte("P"), MIMEType: "image/png"}
	for name, c := range map[string]struct {
		tool       protocol.ToolName
		content    []protocol.Content
		structured string
		exit       int
		texts      []string
		want       map[string]any // nil: no structured content
	}{
		"a file's text": {"read_file", []protocol.Content{text("line\n")}, `{"size":5}`, 0,
			[]string{"line\n", `{"size":5}`}, map[string]any{"size": 5.0, "text": "line\n"}},
		"a failure": {"read_file", []protocol.Content{text("no such file")}, `{"errno":"ENOENT"}`, 1,
			[]string{"no such file", "sandgate: exit status 1", `{"errno":"ENOENT"}`},
			map[string]any{"errno": "ENOENT", "text": "no such file\nsandgate: exit status 1"}},
		"a search says the same in both": {"grep", []protocol.Content{text("a:1:x\n")}, `{"lines":["x"]}`, 0,
			[]string{"a:1:x\n"}, map[string]any{"lines": []any{"x"}}},
		"a search with a note": {"grep", []protocol.Content{text(""), text("sandgate: there is more\n")}, `{"lines":[]}`, 0,
			[]string{"", "sandgate: there is more\n"}, map[string]any{"lines": []any{}, "text": "sandgate: there is more\n"}},
		"a text that is the structure": {"x", []protocol.Content{text("{\n \"a\": 1\n}")}, `{"a":1}`, 0,
			[]string{"{\n \"a\": 1\n}"}, map[string]any{"a": 1.0}},
		"a server's own text": {"x", []protocol.Content{text("said")}, `{"text":"own"}`, 0,
			[]string{"said", `{"text":"own"}`}, map[string]any{"text": "own", "sandgate_text": "said"}},
		"a structure without a text": {"x", nil, `{"a":1}`, 0, []string{`{"a":1}`}, map[string]any{"a": 1.0}},
		"an image":                   {"x", []protocol.Content{image}, `{"a":1}`, 0, []string{`{"a":1}`}, nil},
	} {
		got := wire(t, resultOf(c.tool, protocol.CallResult{Content: c.content, Structured: json.RawMessage(c.structured), ExitCode: c.exit}))
		var texts []string
		for _, piece := range got["content"].([]any) {
			if s, ok := piece.(map[string]any)["text"].(string); ok {
				texts = append(texts, s)
			}
		}
		if diff := cmp.Diff(c.texts, texts); diff != "" {
			t.Errorf("%s: content: %s", name, diff)
		}
		structured, _ := got["structuredContent"].(map[string]any)
		if diff := cmp.Diff(c.want, structured); diff != "" {
			t.Errorf("%s: structured content: %s", name, diff)
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
	if diff := cmp.Diff(map[string]any{"text": "so far", "error": map[string]any{
		"code": "denied", "message": "no", "hint": "try b", "feedback": "not today", "end_turn": true,
	}}, got["structuredContent"]); diff != "" {
		t.Error(diff)
	}
}
