package httpgate

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// TestNeededHardRejectionIsQuiet: the calls that a hard rejection ends are not asked about
// any more, and the connection stays, so that the next message is the next question.
func TestNeededHardRejectionIsQuiet(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = 0 })
	s := b.session("coder")
	for _, answer := range []string{`{"approved": false}`, `{"approved": false, "mode": "reject_hard", "feedback": "Wrong approach"}`} {
		c := b.needed()
		for round := range 3 {
			results := make(chan []protocol.BatchOutcome, 1)
			go func() {
				r, err := s.Batch(context.WithoutCancel(t.Context()), "",
					protocol.BatchCall{Tool: "shell", Args: json.RawMessage(`{"command":"echo 1"}`)},
					protocol.BatchCall{Tool: "shell", Args: json.RawMessage(`{"command":"echo 2"}`)},
					protocol.BatchCall{Tool: "shell", Args: json.RawMessage(`{"command":"echo 3"}`)})
				if err != nil {
					t.Error(err)
				}
				results <- r
			}()
			if m := receive(t, c); m["arguments"].(map[string]any)["command"] != "echo 1" {
				t.Fatalf("round %d: asked %v", round, m)
			}
			b.pending(3)
			send(t, c, answer)
			for i, r := range <-results {
				if r.Error == nil || r.Error.Code != protocol.CodeDenied {
					t.Errorf("call %d: %+v", i, r)
				}
			}
			ended := b.call(s, "echo after")
			if m := receive(t, c); m["arguments"].(map[string]any)["command"] != "echo after" {
				t.Fatalf("round %d: after a hard rejection comes %v", round, m)
			}
			send(t, c, `{"approved": true}`)
			if o := <-ended; o.text != "after\n" {
				t.Errorf("%+v", o)
			}
		}
		c.CloseNow()
	}
}

// TestBatchRemainingAsGiven: arguments in either shape come out as they went in.
func TestBatchRemainingAsGiven(t *testing.T) {
	b := newBench(t, nil)
	s, c := b.session("coder"), b.needed()
	b.call(s, "echo 1", client.WithGroup("turn-1",
		protocol.BatchItem{Tool: "bash", Arguments: json.RawMessage(`"{\"command\": \"npm build\"}"`)},
		protocol.BatchItem{Tool: "write", Arguments: json.RawMessage(`{"path":"a b"}`)},
		protocol.BatchItem{Tool: "done"}))
	m := receive(t, c)
	want := `[{"arguments":"{\"command\": \"npm build\"}","tool":"bash"},{"arguments":"{\"path\":\"a b\"}","tool":"write"},{"arguments":"","tool":"done"}]`
	if got, _ := json.Marshal(m["batch_remaining"]); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	send(t, c, `{"approved": false}`)
}

// open opens a session with everything that a runtime can say about one.
func (b *bench) open(p protocol.SessionOpen) *client.Session {
	b.t.Helper()
	a, err := client.DialAgent(b.t.Context(), b.agent)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { a.Close() })
	s, err := a.OpenSession(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// listenFor opens a stream that a header narrows.
func (b *bench) listenFor(path string, header http.Header) (*eventReader, int) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), "GET", "http://"+b.hosts[0]+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header = header.Clone()
	r.Header.Set("Authorization", "Bearer "+b.cfg.Token)
	res, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return newEventReader(b.t, res.Body), res.StatusCode
}

// TestBridgesSayWhoAsks: agent, session and what the runtime says of them are in the
// events of every bridge, without the secrets in them.
func TestBridgesSayWhoAsks(t *testing.T) {
	b := newBench(t, nil)
	permissions, spoken, c := b.listen(permission), b.listen(messages), b.needed(idsProtocol)
	s := b.open(protocol.SessionOpen{Agent: "coder", Name: "chat-17", Metadata: json.RawMessage(`{"conversation":"c-9","api_key":"sk-live-000"}`)})
	ended := b.call(s, "echo hi", client.WithMetadata(map[string]any{"run_id": "r-1", "note": "\x1b[2J", "password": "hunter2"}))
	check := func(name string, m map[string]any) {
		t.Helper()
		session, _ := json.Marshal(m["session_metadata"])
		call, _ := json.Marshal(m["metadata"])
		if m["agent"] != "coder" || m["session_name"] != "chat-17" || !strings.Contains(string(session), `"conversation":"c-9"`) || !strings.Contains(string(call), `"run_id":"r-1"`) {
			t.Errorf("%s: %v", name, m)
		}
		if text := string(session) + string(call); strings.Contains(text, "sk-live-000") || strings.Contains(text, "hunter2") {
			t.Errorf("%s tells a secret: %s", name, text)
		}
	}
	e := permissions.next()
	check("tool_permission", e)
	check("approval_needed", receive(t, c))
	function := spoken.next()["tool_calls"].([]any)[0].(map[string]any)["function"].(map[string]any)
	check("client.requestApproval", object(t, function["arguments"].(string)))
	if status, body := b.post(permission, map[string]any{"permission_id": e["permission_id"], "behavior": "deny"}); status != 200 {
		t.Error(status, body)
	}
	<-ended
	check("the end of tool_permission", permissions.next())
}

// TestBridgesShowWhatACallStarts: whoever answers over a bridge has the text of the files
// that the call starts, and what it can do.
func TestBridgesShowWhatACallStarts(t *testing.T) {
	b := newBench(t, nil)
	if err := os.WriteFile(b.ws+"/deploy.sh", []byte("#!/bin/sh\necho of the script\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	permissions, spoken, c := b.listen(permission), b.listen(messages), b.needed(idsProtocol)
	s := b.session("coder")
	ended := b.call(s, "./deploy.sh")
	check := func(name string, m map[string]any) {
		t.Helper()
		shown, _ := m["presentation"].(map[string]any)
		details, _ := m["details"].(map[string]any)
		if content, _ := shown["content"].(string); !strings.Contains(content, "│ echo of the script") || details["class"] == nil || details["network"] == nil || details["directory"] != b.ws {
			t.Errorf("%s: %v", name, m)
		}
	}
	e := permissions.next()
	check("tool_permission", e)
	check("approval_needed", receive(t, c))
	function := spoken.next()["tool_calls"].([]any)[0].(map[string]any)["function"].(map[string]any)
	check("client.requestApproval", object(t, function["arguments"].(string)))
	if status, body := b.post(permission, map[string]any{"permission_id": e["permission_id"], "behavior": "allow"}); status != 200 {
		t.Error(status, body)
	}
	if o := <-ended; o.text != "of the script\n" {
		t.Errorf("%+v", o)
	}
}

// TestStreamsOfOneSessionOrAgent: a stream can be narrowed, and then has nothing of others.
func TestStreamsOfOneSessionOrAgent(t *testing.T) {
	b := newBench(t, nil)
	first, second, other := b.session("a1"), b.session("a1"), b.session("a2")
	ofSession, _ := b.listenFor(permission, http.Header{SessionHeader: {string(second.SessionID)}})
	ofAgent, _ := b.listenFor(permission, http.Header{AgentHeader: {"a2"}})
	c, _, err := websocket.Dial(t.Context(), "ws://"+b.hosts[0]+"/v1/approval_needed", &websocket.DialOptions{
		HTTPClient: b.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + b.cfg.Token}, AgentHeader: {"a2"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseNow() })
	var ends []<-chan outcome
	for i, s := range []*client.Session{first, second, other} {
		ends = append(ends, b.call(s, []string{"echo first", "echo second", "echo other"}[i]))
		b.pending(i + 1)
	}
	if e := ofSession.next(); e["input"].(map[string]any)["command"] != "echo second" {
		t.Errorf("the session's stream has %v", e)
	}
	if e := ofAgent.next(); e["input"].(map[string]any)["command"] != "echo other" || e["agent"] != "a2" {
		t.Errorf("the agent's stream has %v", e)
	}
	if m := receive(t, c); m["arguments"].(map[string]any)["command"] != "echo other" {
		t.Errorf("the agent's WebSocket has %v", m)
	}
	for _, p := range b.pending(3) {
		if _, err := b.approvals.Answer(p.ID, answerAllow()); err != nil {
			t.Fatal(err)
		}
	}
	for _, ended := range ends {
		<-ended
	}
	if e := ofSession.next(); e["type"] != "tool_permission_resolved" || e["conversation_id"] != string(second.SessionID) {
		t.Errorf("the session's stream has %v", e)
	}
	for name, h := range map[string]http.Header{"empty": {AgentHeader: {""}}, "twice": {SessionHeader: {"s-1", "s-2"}}} {
		if _, status := b.listenFor(permission, h); status != 400 {
			t.Errorf("%s: %d, want 400", name, status)
		}
	}
	b.stop() // so that no stream outlives the test
}

// TestWordsWithoutAnID: words that name a tool are for the one request of it that waits,
// and for none where that is not certain.
func TestWordsWithoutAnID(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = 0 })
	s, other := b.session("a1"), b.session("a2")
	say := func(text string, want int) {
		t.Helper()
		if status, body := b.post(messages, message{Role: "user", Content: text}); status != want {
			t.Errorf("%q: %d %s, want %d", text, status, body, want)
		}
	}
	say("approve_once shell", 422) // nothing waits
	first := b.call(s, "echo first")
	b.pending(1)
	for _, no := range []string{"approve_once", "approve_once write_file", "@a2, approve_once shell", "do not approve_once shell", "approve shell", "approve_once shell?"} {
		say(no, 422)
	}
	if status, body := b.post(messages, message{Role: "tool", Content: "approve_once shell"}); status != 422 {
		t.Errorf("a result without an id: %d %s", status, body)
	}
	b.pending(1)
	say("@a1, approve_once shell", 200)
	if o := <-first; o.text != "first\n" {
		t.Errorf("%+v", o)
	}

	first = b.call(s, "echo first")
	b.pending(1)
	second := b.call(other, "echo second")
	b.pending(2)
	say("approve_once shell", 422) // which?
	say("@a2, deny shell", 200)
	if o := <-second; codeOf(o.err) != protocol.CodeDenied {
		t.Errorf("%+v", o)
	}
	say("approve shell for session", 200)
	if o := <-first; o.text != "first\n" {
		t.Errorf("%+v", o)
	}
	write := b.callTool(s, "write_file", map[string]any{"path": "x.txt", "content": "x"})
	ask := b.call(s, "echo asked")
	b.pending(2)
	say("approve_once write_file", 200) // one of each tool
	say("deny shell", 200)
	if o := <-write; o.err != nil {
		t.Error(o.err)
	}
	if o := <-ask; codeOf(o.err) != protocol.CodeDenied {
		t.Errorf("%+v", o)
	}
}

// TestWordsForWhatHasJustCome: nobody can have read a request that has only just come, so
// words without its id were meant for another.
func TestWordsForWhatHasJustCome(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = time.Hour })
	s := b.session("a1")
	ended := b.call(s, "echo hi")
	p := b.pending(1)[0]
	if status, body := b.post(messages, message{Role: "user", Content: "approve_once shell"}); status != 422 || !strings.Contains(body, "only just now") {
		t.Errorf("%d %s", status, body)
	}
	b.pending(1)
	if status, body := b.post(messages, message{Role: "user", Content: "approve_once shell", ToolCallID: "approval_" + p.ID}); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if o := <-ended; o.text != "hi\n" {
		t.Errorf("%+v", o)
	}
}

// TestWordsForWhatHasEnded: words without an id that come after another request of that tool
// has ended, by whatever hand, allow nothing: they were written for that one. They can deny,
// and with the id they allow.
func TestWordsForWhatHasEnded(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = 500 * time.Millisecond }) // lately is half a minute then
	s := b.session("a1")
	words := func(m message, want int, said string) {
		t.Helper()
		time.Sleep(b.stood)
		if status, body := b.post(messages, m); status != want || !strings.Contains(body, said) {
			t.Errorf("%v: %d %s, want %d %q", m, status, body, want, said)
		}
	}
	allow := message{Role: "user", Content: "approve_once shell"}
	first := b.call(s, "echo first")
	b.pending(1)
	words(allow, 200, "")
	if o := <-first; o.text != "first\n" {
		t.Errorf("%+v", o)
	}
	second := b.call(s, "echo second")
	p := b.pending(1)[0]
	words(allow, 422, "ended just now")
	b.pending(1)
	words(message{Role: "user", Content: allow.Content, ToolCallID: idPrefix + p.ID}, 200, "")
	if o := <-second; o.text != "second\n" {
		t.Errorf("%+v", o)
	}
	third := b.call(s, "echo third")
	b.pending(1)
	words(message{Role: "user", Content: "deny shell"}, 200, "")
	if o := <-third; codeOf(o.err) != protocol.CodeDenied {
		t.Errorf("%+v", o)
	}
}
