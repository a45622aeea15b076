package client_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/client"
)

// TestForModelOnATranscript: a whole conversation with an approval in it.
func TestForModelOnATranscript(t *testing.T) {
	read := func(name string) (list []json.RawMessage) {
		t.Helper()
		b, err := os.ReadFile("testdata/messages/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	got, err := client.ForModel(read("delete_files.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(t, read("delete_files.golden.json")), plain(t, got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func plain(t *testing.T, list []json.RawMessage) []any {
	t.Helper()
	var out []any
	b, err := json.Marshal(list)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestForModel(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"text beside the request stays": {
			`[{"role":"assistant","content":"I need your leave.","name":"a1","tool_calls":[{"id":"approval_1","function":{"name":"client.requestApproval"}}]}]`,
			`[{"role":"assistant","content":"I need your leave.","name":"a1"}]`},
		"other calls stay": {
			`[{"role":"assistant","content":null,"tool_calls":[{"id":"approval_1","function":{"name":"client.requestApproval"}},{"id":"t","function":{"name":"shell"}}]}]`,
			`[{"role":"assistant","content":null,"tool_calls":[{"id":"t","function":{"name":"shell"}}]}]`},
		"the result of any client function goes": {
			`[{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"client.pickFile"}}]},{"role":"tool","tool_call_id":"x","content":"a"},{"role":"tool","tool_call_id":"y","content":"b"}]`,
			`[{"role":"tool","tool_call_id":"y","content":"b"}]`},
		"an answer without its request goes": {`[{"role":"tool","tool_call_id":"approval_9","content":"deny"}]`, `[]`},
		"a person's words stay":              {`[{"role":"user","content":"deny approval_9","tool_call_id":"approval_9"}]`, `[{"role":"user","content":"deny approval_9","tool_call_id":"approval_9"}]`},
		"a name that only contains it":       {`[{"role":"assistant","tool_calls":[{"id":"t","function":{"name":"my.client.x"}}]}]`, `[{"role":"assistant","tool_calls":[{"id":"t","function":{"name":"my.client.x"}}]}]`},
		"content in parts":                   {`[{"role":"assistant","content":[{"type":"text","text":"x"}],"tool_calls":[{"id":"approval_1","function":{"name":"client.requestApproval"}}]}]`, `[{"role":"assistant","content":[{"type":"text","text":"x"}]}]`},
		"nothing":                            {`[]`, `[]`},
	} {
		var in []json.RawMessage
		if err := json.Unmarshal([]byte(c.in), &in); err != nil {
			t.Fatal(err)
		}
		got, err := client.ForModel(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want []any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, plain(t, got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if _, err := client.ForModel([]json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`[]`)}); err == nil || !strings.Contains(err.Error(), "message 1") {
		t.Errorf("%v; want the message that is none", err)
	}
}

// Whatever stands in a conversation, nothing about approvals is left, filtering twice
// changes nothing more, and no message of another kind is lost.
func TestForModelLeavesNothingOfApprovals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		call := rapid.Custom(func(rt *rapid.T) map[string]any {
			return map[string]any{
				"id":       rapid.SampledFrom([]string{"approval_1", "t1", "t2"}).Draw(rt, "id"),
				"function": map[string]any{"name": rapid.SampledFrom([]string{"client.requestApproval", "client.x", "shell"}).Draw(rt, "name")},
			}
		})
		message := rapid.Custom(func(rt *rapid.T) map[string]any {
			m := map[string]any{"role": rapid.SampledFrom([]string{"user", "assistant", "tool", "system"}).Draw(rt, "role"), "content": rapid.SampledFrom([]string{"", "text"}).Draw(rt, "content")}
			switch m["role"] {
			case "assistant":
				m["tool_calls"] = rapid.SliceOfN(call, 0, 3).Draw(rt, "calls")
			case "tool":
				m["tool_call_id"] = rapid.SampledFrom([]string{"approval_1", "t1"}).Draw(rt, "of")
			}
			return m
		})
		var in []json.RawMessage
		others := 0
		for _, m := range rapid.SliceOfN(message, 0, 8).Draw(rt, "messages") {
			if m["role"] == "user" || m["role"] == "system" {
				others++
			}
			b, err := json.Marshal(m)
			if err != nil {
				rt.Fatal(err)
			}
			in = append(in, b)
		}
		once, err := client.ForModel(in)
		if err != nil {
			rt.Fatal(err)
		}
		twice, err := client.ForModel(once)
		if err != nil {
			rt.Fatal(err)
		}
		for _, m := range once {
			if strings.Contains(string(m), "client.") || strings.Contains(string(m), `"tool_call_id":"approval_`) {
				rt.Errorf("left: %s", m)
			}
			if strings.Contains(string(m), `"role":"user"`) || strings.Contains(string(m), `"role":"system"`) {
				others--
			}
		}
		if others != 0 || len(twice) != len(once) {
			rt.Errorf("%d messages of others are lost; %d after filtering once, %d after twice", others, len(once), len(twice))
		}
	})
}
