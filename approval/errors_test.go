package approval

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a person reads when something is refused.
func TestErrorTexts(t *testing.T) {
	d := Decision{Reason: "rejected by uid 1000: use yarn"}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&DeniedError{Decision: d}, "denied: rejected by uid 1000: use yarn"},
		{&Blocked{Reason: "outside every root"}, "blocked: outside every root"},
		{&NotPendingError{ID: "req-a-1"}, `approval: no request "req-a-1" is pending`},
		{&AnsweredError{ID: "req-a-1", Decision: d}, `approval: request "req-a-1" is already decided: rejected by uid 1000: use yarn`},
		{&InvalidAnswerError{"req-a-1", "scope", "no such scope"}, `approval: answer to "req-a-1": scope: no such scope`},
		{NewController(Options{}).Forget("dec-a-1"), `approval: forget "dec-a-1": no remembered answer has this id`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

func TestRememberedListsTheOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController(Options{DenyCache: time.Second})
		for _, scope := range []Scope{Global, Agent, Session} {
			for _, path := range []string{"a", "b"} {
				time.Sleep(time.Minute)
				call := writeCall().with(func(c *Call) { c.Request.Payload = map[string]any{"path": path, "at": string(scope)} })
				askAndAnswer(t, c, call, Answer{Scope: scope}).denied(t)
			}
		}
		list, err := c.Remembered()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list {
			got = append(got, m.Payload)
			if m.Key.Effect != Deny || m.ToolName != "write_file" {
				t.Errorf("%+v", m)
			}
		}
		want := []string{
			`{"at":"session","path":"a"}`, `{"at":"session","path":"b"}`,
			`{"at":"global","path":"a"}`, `{"at":"global","path":"b"}`,
			`{"at":"agent","path":"a"}`, `{"at":"agent","path":"b"}`,
		}
		if len(got) != len(want) {
			t.Fatalf("%v", got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%d: %s, want %s", i, got[i], want[i])
			}
		}
	})
}
