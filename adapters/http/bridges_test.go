package httpgate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// An eventReader reads a stream of server-sent events.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
}

// listen opens a stream.
func (b *bench) listen(path string) *eventReader {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), "GET", "http://"+b.hosts[0]+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.cfg.Token)
	res, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	return newEventReader(b.t, res.Body)
}

func newEventReader(t *testing.T, body io.Reader) *eventReader {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	return &eventReader{t, lines}
}

// next is the next event.
func (e *eventReader) next() map[string]any {
	e.t.Helper()
	for e.lines.Scan() {
		if data, ok := strings.CutPrefix(e.lines.Text(), "data: "); ok {
			return object(e.t, data)
		}
	}
	e.t.Fatal("the stream has ended: ", e.lines.Err())
	return nil
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// post sends one JSON value with the token.
func (b *bench) post(path string, v any) (int, string) {
	b.t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text, _ := b.do(req{"POST", path, string(body), b.bearer()})
	return status, strings.TrimSpace(text)
}

const permission, messages = "/v1/agent/tool_permission", "/v1/messages"

// TestALongRequestHoldsUpNoOther: while one request is put into words, others are as well, and each request's end comes
// after it.
func TestALongRequestHoldsUpNoOther(t *testing.T) {
	long := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s := newSaying(ctx, func(e client.Event) any {
		if e.Approval.ID == "long" && e.Kind == client.Requested {
			<-long
		}
		return string(e.Approval.ID) + " " + string(e.Kind)
	})
	events := make(chan client.Event)
	next := func() any {
		m := <-s.done
		s.end()
		return m
	}
	event := func(kind client.EventKind, id protocol.ApprovalID) {
		s.begin(client.Event{Kind: kind, Approval: protocol.Approval{ID: id}})
	}
	event(client.Requested, "long")
	event(client.Resolved, "long")
	event(client.Requested, "short")
	if got := next(); got != "short approval.requested" {
		t.Errorf("%v", got)
	}
	for s.room(events) != nil { // no more than so many at once
		event(client.Requested, protocol.ApprovalID(fmt.Sprint("more-", s.under)))
	}
	if s.under != maxSaid {
		t.Errorf("%d under way", s.under)
	}
	for range maxSaid - 2 {
		if got := next(); !strings.HasPrefix(got.(string), "more-") {
			t.Errorf("%v", got)
		}
	}
	close(long)
	for _, want := range []string{"long approval.requested", "long approval.resolved"} {
		if got := next(); got != want {
			t.Errorf("%v, not %s", got, want)
		}
	}
	event(client.Requested, "unread")
	cancel()
	s.running.Wait()
}

// TestPermissionBridge: each request is an event, each answer goes where it says, and an
// end is told to whoever shows a prompt.
func TestPermissionBridge(t *testing.T) {
	b := newBench(t, nil)
	s := b.session("coder")
	events := b.listen(permission)
	for name, c := range map[string]struct {
		answer map[string]any
		text   string
		code   protocol.Code
		check  func(*protocol.Error) bool
	}{
		"allow":       {map[string]any{"behavior": "allow", "cwd": "/root/projects/WWW"}, "hi\n", "", nil},
		"other input": {map[string]any{"behavior": "allow", "updated_input": map[string]any{"command": "echo edited"}}, "edited\n", "", nil},
		"deny": {map[string]any{"behavior": "deny", "message": "Permission denied by user."}, "", protocol.CodeDenied, func(e *protocol.Error) bool {
			return e.Decision.Feedback == "Permission denied by user." && !e.Decision.Interrupt
		}},
		"deny, and be done": {map[string]any{"behavior": "deny", "interrupt": true}, "", protocol.CodeDenied, func(e *protocol.Error) bool { return e.Decision.Interrupt }},
	} {
		t.Run(name, func(t *testing.T) {
			ended := b.call(s, "echo hi")
			e := events.next()
			if e["type"] != "tool_permission" || e["tool_name"] != "shell" || e["conversation_id"] != string(s.SessionID) || e["cwd"] != b.ws {
				t.Errorf("event %v", e)
			}
			if input := e["input"].(map[string]any); input["command"] != "echo hi" {
				t.Errorf("input %v", input)
			}
			if _, ok := e["blocked_path"]; !ok || e["permission_suggestions"] == nil {
				t.Errorf("event %v", e)
			}
			c.answer["permission_id"], c.answer["conversation_id"] = e["permission_id"], e["conversation_id"]
			if status, body := b.post(permission, c.answer); status != 200 || body != `{"ok":true}` {
				t.Errorf("%d %s", status, body)
			}
			o := <-ended
			if o.text != c.text || codeOf(o.err) != c.code || c.check != nil && !c.check(o.err) {
				t.Errorf("%q %+v", o.text, o.err)
			}
			end := events.next()
			if end["type"] != "tool_permission_resolved" || end["permission_id"] != e["permission_id"] || end["behavior"] != c.answer["behavior"] {
				t.Errorf("end %v", end)
			}
			if status, body := b.post(permission, c.answer); status != 404 && status != 409 {
				t.Errorf("answered twice: %d %s", status, body)
			}
		})
	}
	ended := b.callTool(s, "write_file", map[string]any{"path": "x.txt", "content": "x"})
	e := events.next()
	if e["blocked_path"] != b.ws+"/x.txt" {
		t.Errorf("event %v", e)
	}
	id := e["permission_id"]
	for name, c := range map[string]struct {
		answer map[string]any
		status int
	}{
		"another conversation": {map[string]any{"permission_id": id, "behavior": "allow", "conversation_id": "s-other"}, 404},
		"no such request":      {map[string]any{"permission_id": "req-none", "behavior": "allow"}, 404},
		"no request is named":  {map[string]any{"behavior": "allow", "conversation_id": "s-other"}, 400},
		"no behaviour":         {map[string]any{"permission_id": id}, 400},
		"another behaviour":    {map[string]any{"permission_id": id, "behavior": "ask"}, 400},
		"another member":       {map[string]any{"permission_id": id, "behavior": "allow", "always": true}, 400},
		"a scope of none":      {map[string]any{"permission_id": id, "behavior": "allow", "scope": "forever"}, 400},
	} {
		if status, body := b.post(permission, c.answer); status != c.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	b.pending(1)
	if status, body := b.post(permission, map[string]any{"permission_id": id, "behavior": "allow", "scope": "session"}); status != 200 {
		t.Error(status, body)
	}
	if o := <-ended; o.err != nil {
		t.Error(o.err)
	}
	if o := <-b.callTool(s, "write_file", map[string]any{"path": "x.txt", "content": "x"}); o.err != nil { // remembered
		t.Error(o.err)
	}
}

// TestPermissionPatterns: what is suggested can be sent back, and holds.
func TestPermissionPatterns(t *testing.T) {
	b := newBench(t, nil)
	s, events := b.session("coder"), b.listen(permission)
	ended := b.call(s, "sort -o a.txt /dev/null")
	e := events.next()
	list := e["permission_suggestions"].([]any)
	if len(list) == 0 {
		t.Fatalf("nothing is suggested: %v", e)
	}
	first := list[0].(map[string]any)
	status, body := b.post(permission, map[string]any{"permission_id": e["permission_id"], "behavior": "allow", "scope": "session",
		"pattern": map[string]any{"kind": first["kind"], "value": first["value"]}})
	if status != 200 {
		t.Fatal(status, body)
	}
	if o := <-ended; o.err != nil {
		t.Error(o.err)
	}
	if o := <-b.call(s, "sort -o a.txt /dev/null /dev/null"); o.err != nil {
		t.Errorf("%s: %v", first["text"], o.err)
	}
}

// needed opens the WebSocket bridge as a program.
func (b *bench) needed(protocols ...string) *websocket.Conn {
	b.t.Helper()
	c, _, err := websocket.Dial(b.t.Context(), "ws://"+b.hosts[0]+"/v1/approval_needed", &websocket.DialOptions{
		HTTPClient: b.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + b.cfg.Token}}, Subprotocols: protocols})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.CloseNow() })
	return c
}

func receive(t *testing.T, c *websocket.Conn) map[string]any {
	t.Helper()
	_, text, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return object(t, string(text))
}

func send(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// closed wants the connection to end with a code.
func closed(t *testing.T, c *websocket.Conn, code websocket.StatusCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, text, err := c.Read(ctx)
	if websocket.CloseStatus(err) != code {
		t.Errorf("%s %v, want the code %d", text, err, code)
	}
}

// TestNeededBridge: requests come one at a time and are answered without naming them; a
// hard rejection ends the batch, and is what a rejection is if it does not say.
func TestNeededBridge(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = 0 })
	s := b.session("coder")
	c := b.needed()
	batch := func() <-chan []protocol.BatchOutcome {
		ch := make(chan []protocol.BatchOutcome, 1)
		go func() {
			results, err := s.Batch(t.Context(), "", protocol.BatchCall{Tool: "shell", Args: json.RawMessage(`{"command":"echo 1"}`)},
				protocol.BatchCall{Tool: "write_file", Args: json.RawMessage(`{"path":"a b.txt","content":"x"}`)},
				protocol.BatchCall{Tool: "shell", Args: json.RawMessage(`{"command":"echo 3"}`)})
			if err != nil {
				t.Error(err)
			}
			ch <- results
		}()
		return ch
	}
	results := batch()
	m := receive(t, c)
	want := `[{"arguments":"{\"path\":\"a b.txt\",\"content\":\"x\"}","tool":"write_file"},{"arguments":"{\"command\":\"echo 3\"}","tool":"shell"}]`
	if got, _ := json.Marshal(m["batch_remaining"]); m["type"] != "approval_needed" || m["tool"] != "shell" || string(got) != want {
		t.Errorf("%v; remaining %s", m, got)
	}
	if args := m["arguments"].(map[string]any); args["command"] != "echo 1" {
		t.Errorf("%v", m)
	}
	send(t, c, `{"approved": true, "scope": "session"}`)
	if m = receive(t, c); m["tool"] != "write_file" {
		t.Errorf("%v", m)
	}
	send(t, c, `{"approved": false, "mode": "reject_soft", "feedback": "Don't write that file"}`)
	if m = receive(t, c); m["arguments"].(map[string]any)["command"] != "echo 3" || m["batch_remaining"] != nil {
		t.Errorf("%v", m)
	}
	send(t, c, `{"approved": true, "scope": "once"}`)
	got := <-results
	if got[0].Error != nil || got[1].Error == nil || got[1].Error.Decision.Feedback != "Don't write that file" || got[2].Error != nil {
		t.Errorf("%+v", got)
	}

	results = batch() // "echo 1" is remembered
	if m = receive(t, c); m["tool"] != "write_file" {
		t.Errorf("%v", m)
	}
	send(t, c, `{"approved": false, "feedback": "Wrong approach"}`)
	got = <-results
	if got[1].Error == nil || got[2].Error == nil || got[2].Error.Code != protocol.CodeDenied {
		t.Errorf("the rest of the batch ran: %+v", got)
	}
}

// TestNeededAnswerIsForWhatWasAsked: an answer without a name reaches no other request
// than the one that was on the screen when it was given, whether it is on its way when
// that one ends or comes later.
func TestNeededAnswerIsForWhatWasAsked(t *testing.T) {
	b := newBench(t, nil)
	s := b.session("coder")
	for _, onItsWay := range []bool{false, true} {
		c := b.needed()
		first := b.call(s, "echo first")
		m := receive(t, c)
		second := b.call(s, "echo second")
		for _, p := range b.pending(2) {
			if string(p.ID) == m["approval_id"] {
				if _, err := b.approvals.Answer(p.ID, answerAllow()); err != nil { // somebody else is faster
					t.Fatal(err)
				}
			}
		}
		if onItsWay {
			_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"approved": true}`)) // it may be closed by now
		}
		closed(t, c, closedElsewhere)
		if o := <-first; o.text != "first\n" {
			t.Errorf("%+v", o)
		}
		b.pending(1)
		c = b.needed()
		if m = receive(t, c); m["arguments"].(map[string]any)["command"] != "echo second" {
			t.Errorf("%v", m)
		}
		send(t, c, fmt.Sprintf(`{"approved": true, "approval_id": %q}`, m["approval_id"]))
		if o := <-second; o.text != "second\n" {
			t.Errorf("%+v", o)
		}
	}
}

// TestAnAnswerComesAfterItsConnection: a request that goes while a person looks at it ends the connection, and a
// client opens another at once. An answer without a name that comes right after that was for the request that
// has gone, however it went, and whatever was answered or closed in between. A while later one is for what is asked.
func TestAnAnswerComesAfterItsConnection(t *testing.T) {
	for name, goes := range map[string]func(b *bench, c *websocket.Conn, withdraw context.CancelFunc, id string){
		"withdrawn": func(_ *bench, c *websocket.Conn, withdraw context.CancelFunc, _ string) {
			withdraw()
			closed(t, c, closedElsewhere)
		},
		"answered elsewhere": func(b *bench, c *websocket.Conn, _ context.CancelFunc, id string) {
			if _, err := b.approvals.Answer(id, answerAllow()); err != nil {
				t.Error(err)
			}
			closed(t, c, closedElsewhere)
		},
		"while the connection was lost": func(b *bench, c *websocket.Conn, withdraw context.CancelFunc, _ string) {
			c.CloseNow()
			time.Sleep(20 * time.Millisecond) // the server has noticed
			withdraw()
			b.pending(1)
		},
	} {
		for _, stood := range []time.Duration{time.Hour, 50 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", stood), func(t *testing.T) {
				b := newBench(t, func(s *Server) { s.stood = stood })
				s, c := b.session("coder"), b.needed()
				ctx, withdraw := context.WithCancel(t.Context())
				defer withdraw()
				b.callIn(ctx, s, "shell", map[string]any{"command": "echo bait"})
				bait := receive(t, c)
				evil := b.call(s, "echo evil")
				b.pending(2)
				goes(b, c, withdraw, bait["approval_id"].(string))
				b.pending(1)
				for range 3 { // each that is too soon ends its connection, and makes room for nothing
					c = b.needed()
					m := receive(t, c)
					if m["arguments"].(map[string]any)["command"] != "echo evil" {
						t.Fatalf("%v", m)
					}
					if stood < time.Minute {
						time.Sleep(stood + 20*time.Millisecond)
						send(t, c, `{"approved": true}`)
						break
					}
					send(t, c, `{"approved": true}`)
					closed(t, c, closedElsewhere)
					b.pending(1)
				}
				if stood > time.Minute {
					c = b.needed()
					send(t, c, fmt.Sprintf(`{"approved": true, "approval_id": %q}`, receive(t, c)["approval_id"]))
				}
				if o := <-evil; o.text != "evil\n" {
					t.Errorf("%+v", o)
				}
			})
		}
	}
}

// TestADoubledAnswerIsForOne: an answer without a name that is sent twice, as by a double click,
// does not reach the request that comes up behind the first half. A while later one does.
func TestADoubledAnswerIsForOne(t *testing.T) {
	for _, stood := range []time.Duration{time.Hour, 50 * time.Millisecond} {
		b := newBench(t, func(s *Server) { s.stood = stood })
		s, c := b.session("coder"), b.needed()
		first := b.call(s, "echo first")
		receive(t, c)
		second := b.call(s, "echo second")
		b.pending(2)
		send(t, c, `{"approved": true}`)
		if o := <-first; o.text != "first\n" {
			t.Errorf("%+v", o)
		}
		if m := receive(t, c); m["arguments"].(map[string]any)["command"] != "echo second" {
			t.Errorf("%v", m)
		}
		if stood < time.Minute {
			time.Sleep(stood)
			send(t, c, `{"approved": true}`)
		} else {
			send(t, c, `{"approved": true}`)
			closed(t, c, closedElsewhere)
			b.pending(1)
			c = b.needed()
			receive(t, c)
			send(t, c, `{"approved": true}`) // the third click
			closed(t, c, closedElsewhere)
			c = b.needed()
			send(t, c, fmt.Sprintf(`{"approved": true, "approval_id": %q}`, receive(t, c)["approval_id"]))
		}
		if o := <-second; o.text != "second\n" {
			t.Errorf("%+v", o)
		}
	}
}

// TestNamesOfToolsInAnswers: a word that means something in an answer names no tool, whatever an
// agent calls its own.
func TestNamesOfToolsInAnswers(t *testing.T) {
	for text, want := range map[string][]string{
		"approve this once": nil, "Always": nil, "deny, please": nil, "allow the Session for this tool": nil,
		"approve shell once": {"shell"}, "@coder, deny write_file!": {"write_file"},
	} {
		said, _ := namesIn(text)
		if got := slices.Sorted(maps.Keys(said)); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestAToolIsNoWordOfDoubt: an agent names the tools that only its runtime has. A person's text does not lose a word
// because a tool is called by it.
func TestAToolIsNoWordOfDoubt(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = 0 })
	s := b.session("a1")
	for tool, text := range map[string]string{
		"never": "never approve this session", "not": "I approve not, once", "no": "approve once no", "don't": "don't allow this once",
		"do-not": "do-not allow this once", "none": "allow none session", "unless": "approve_once unless",
	} {
		ended := make(chan error, 1)
		go func() {
			_, err := s.Decide(t.Context(), protocol.ToolsDecide{Tool: protocol.ToolName(tool), Args: json.RawMessage(`{}`), Ask: protocol.ApproversAsk})
			ended <- err
		}()
		id := idPrefix + b.pending(1)[0].ID
		for _, m := range []message{{Role: "user", Content: text}, {Role: "user", Content: text, ToolCallID: id}, {Role: "tool", Content: text + " " + id}} {
			if status, body := b.post(messages, m); status != 422 {
				t.Errorf("a tool called %s: %+v: %d %s", tool, m, status, body)
			}
		}
		b.pending(1)
		if status, body := b.post(messages, message{Role: "tool", ToolCallID: id, Content: "deny"}); status != 200 {
			t.Errorf("a tool called %s: %d %s", tool, status, body)
		}
		if err := <-ended; err == nil {
			t.Errorf("a tool called %s was allowed", tool)
		}
	}
	ended := make(chan error, 1)
	go func() { // the twin
		_, err := s.Decide(t.Context(), protocol.ToolsDecide{Tool: "gemini-cli:save_memory", Args: json.RawMessage(`{}`), Ask: protocol.ApproversAsk})
		ended <- err
	}()
	id := idPrefix + b.pending(1)[0].ID
	if status, body := b.post(messages, message{Role: "user", Content: "@a1, approve gemini-cli:save_memory once", ToolCallID: id}); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNumbersAreShownAsTheyAre: an agent's numbers, however long or large, reach every approver as they were written, and no
// request keeps another from being seen.
func TestNumbersAreShownAsTheyAre(t *testing.T) {
	b := newBench(t, nil)
	s := b.session("a1")
	const args = `{"account":9007199254740993,"large":1e400,"list":[{"n":-0.10000000000000000555}]}`
	for _, tool := range []protocol.ToolName{"pay:it", "pay:twice"} {
		go s.Decide(t.Context(), protocol.ToolsDecide{Tool: tool, Args: json.RawMessage(args), Ask: protocol.ApproversAsk})
	}
	b.pending(2)
	p, err := b.cfg.Approver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	list, err := p.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	events, err := p.Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e, ok := <-events
		if !ok {
			t.Fatal("the connection has ended")
		}
		shown, err := p.Show(t.Context(), e.Approval.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []*protocol.Approval{&e.Approval, &shown} {
			text := strings.ReplaceAll(present.Payload(a.Payload)+present.Text(a, time.Now(), true), "E+", "e")
			for _, number := range []string{"9007199254740993", "1e400", "-0.10000000000000000555"} {
				if !strings.Contains(text, number) {
					t.Errorf("%s is not in %s", number, text)
				}
			}
		}
	}
}

// TestNeededAttacks: what is no answer to what was asked ends the connection, and answers
// nothing; the twin is answered.
func TestNeededAttacks(t *testing.T) {
	b := newBench(t, nil)
	s := b.session("coder")
	for name, text := range map[string]string{
		"no JSON":         `approved`,
		"no approved":     `{"scope": "session"}`,
		"approved null":   `{"approved": null}`,
		"approved text":   `{"approved": "true"}`,
		"twice":           `{"approved": false, "approved": true}`,
		"unknown":         `{"approved": true, "always": true}`,
		"another request": `{"approved": true, "approval_id": "req-other"}`,
		"unknown scope":   `{"approved": true, "scope": "forever"}`,
		"mode of a yes":   `{"approved": true, "mode": "reject_soft"}`,
	} {
		t.Run(name, func(t *testing.T) {
			ended := b.call(s, "echo asked")
			c := b.needed()
			m := receive(t, c)
			send(t, c, text)
			closed(t, c, websocket.StatusPolicyViolation)
			b.pending(1)
			c = b.needed()
			receive(t, c)
			send(t, c, fmt.Sprintf(`{"approved": true, "approval_id": %q}`, m["approval_id"]))
			if o := <-ended; o.text != "asked\n" {
				t.Errorf("%+v", o)
			}
			send(t, c, `{"approved": true}`) // nothing was asked
			closed(t, c, websocket.StatusPolicyViolation)
		})
	}
}

// TestNeededWithIDs: a client that knows ids has all requests at once, answers in any
// order, and is told how each has ended.
func TestNeededWithIDs(t *testing.T) {
	b := newBench(t, nil)
	s := b.session("coder")
	c := b.needed(idsProtocol)
	if c.Subprotocol() != idsProtocol {
		t.Fatal(c.Subprotocol())
	}
	calls := map[string]<-chan outcome{"echo one": b.call(s, "echo one"), "echo two": b.call(s, "echo two")}
	ids := map[string]string{}
	for range 2 {
		m := receive(t, c)
		ids[m["arguments"].(map[string]any)["command"].(string)] = m["approval_id"].(string)
	}
	send(t, c, `{"approved": true, "approval_id": "req-none"}`)
	if m := receive(t, c); m["type"] != "error" || m["code"] != string(protocol.CodeUnknownApproval) {
		t.Errorf("%v", m)
	}
	for _, command := range []string{"echo two", "echo one"} {
		send(t, c, fmt.Sprintf(`{"approved": true, "approval_id": %q}`, ids[command]))
		if m := receive(t, c); m["type"] != "approval_resolved" || m["approval_id"] != ids[command] || m["approved"] != true {
			t.Errorf("%v", m)
		}
		if o := <-calls[command]; o.err != nil {
			t.Error(o.err)
		}
	}
	send(t, c, `{"approved": true}`)
	closed(t, c, websocket.StatusPolicyViolation)
}

// TestMessagesBridge: a request is a call of client.requestApproval, and words that name it
// answer it.
func TestMessagesBridge(t *testing.T) {
	b := newBench(t, func(s *Server) { s.stood = time.Hour })
	s := b.session("a1")
	stream := b.listen(messages)
	for _, c := range []struct {
		say  func(id string) message
		text string
		code protocol.Code
		end  string
	}{
		{func(id string) message { return message{Role: "tool", ToolCallID: id, Content: "approve_once"} }, "hi\n", "", optOnce},
		{func(id string) message {
			return message{Role: "user", ToolCallID: id, Content: "@a1, approve shell once"}
		}, "hi\n", "", optOnce},
		{func(id string) message {
			return message{Role: "user", Content: "@a1, I deny the shell execution " + id + "."}
		}, "", protocol.CodeDenied, optDeny},
		{func(id string) message {
			return message{Role: "user", ToolCallID: id, Content: "@a1, approve_session shell"}
		}, "hi\n", "", optSession},
	} {
		ended := b.call(s, "echo hi")
		m := stream.next()
		call := m["tool_calls"].([]any)[0].(map[string]any)
		id := call["id"].(string)
		function := call["function"].(map[string]any)
		args := object(t, function["arguments"].(string))
		original := args["originalToolCall"].(map[string]any)
		if m["role"] != "assistant" || m["content"] != "" || call["type"] != "function" || function["name"] != "client.requestApproval" ||
			original["name"] != "shell" || original["args"].(map[string]any)["command"] != "echo hi" ||
			fmt.Sprint(args["options"]) != "[deny approve_once approve_session]" || !regexp.MustCompile(`^approval_\S+$`).MatchString(id) {
			t.Fatalf("%v", m)
		}
		for _, wrong := range []message{
			{Role: "assistant", ToolCallID: id, Content: "approve_once"},
			{Role: "user", Content: "approve_once shell"},
			{Role: "user", ToolCallID: id, Content: "approve_once approval_other"},
			{Role: "user", ToolCallID: "approval_", Content: "approve_once"},
			{Role: "user", ToolCallID: id, Content: "approve shell"},
			{Role: "user", ToolCallID: id, Content: "@a2, approve_once shell"},
			{Role: "user", ToolCallID: id, Content: "approve_once write_file"},
			{Role: "user", ToolCallID: id, Content: "do not approve_once"},
		} {
			if status, body := b.post(messages, wrong); status != 422 && status != 404 {
				t.Errorf("%+v: %d %s", wrong, status, body)
			}
		}
		if status, body := b.post(messages, message{Role: "tool", ToolCallID: "approval_none", Content: "approve_once"}); status != 404 {
			t.Errorf("an id that nobody has: %d %s", status, body)
		}
		b.pending(1)
		status, body := b.post(messages, c.say(id))
		if status != 200 || object(t, body)["decision"] != c.end {
			t.Errorf("%d %s", status, body)
		}
		if o := <-ended; o.text != c.text || codeOf(o.err) != c.code {
			t.Errorf("%+v", o)
		}
		if end := stream.next(); end["role"] != "tool" || end["tool_call_id"] != id || end["content"] != c.end {
			t.Errorf("%v", end)
		}
		if status, _ := b.post(messages, c.say(id)); status != 404 && status != 409 {
			t.Errorf("said twice: %d", status)
		}
	}
	if o := <-b.call(s, "echo hi"); o.text != "hi\n" {
		t.Errorf("not remembered: %+v", o)
	}
}

// TestInWords is the table of what is an answer.
func TestInWords(t *testing.T) {
	for text, want := range map[string]string{
		"deny": optDeny, "Deny shell": optDeny, "I deny the shell execution": optDeny, "cancel": optDeny, "Cancel": optDeny, "please reject this call.": optDeny,
		"approve_once": optOnce, "approve_once shell": optOnce, "approve shell once": optOnce, "@a1, approve_once shell": optOnce, "allow it": "", "Once": optOnce,
		"approve_session": optSession, "approve shell for session": optSession, "@a1: approve the shell tool for this session!": optSession, "Always": optSession,
		`{"decision":"approve_once"}`: "", `{"decision":"deny"}`: "",
		"": "", "yes": "", "ok": "", "approve": "", "approve shell": "", "session": "", "approve once for session": "", "deny once": "", "approve_once deny": "",
		"don't approve once": "", "do not deny": "", "never approve once": "", "approve once?": "", "approve_once, no wait": "", "approve write_file once": "",
		"@a2, approve_once shell": "", "approve_once @a1": "", "approve_once\ndeny": "", "approve_once\u200b": "", "арprove_once": "", "> approve_once": "",
		"he said: approve_once": "", "approve_once shell; rm -rf /": "", "approve_once approve_once": "", "disapprove once": "", "approve_once_": "", "always deny": "",
		"once always": "", "@a1": "", "approve_once approval_1": optOnce, "approve_once approval_2": "", strings.Repeat("please ", 100) + "approve_once": "",
	} {
		got, err := inWords(text, "shell", "a1", "approval_1")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q %v, want %q", text, got, err, want)
		}
	}
	for _, tool := range []string{"deny", "once", "session", "approve", "run"} { // words have their meaning, whatever a tool is called
		if got, _ := inWords("approve_once "+tool, tool, "a", ""); got != "" && tool != "run" {
			t.Errorf("a tool called %s: %q", tool, got)
		}
	}
}

// FuzzInWords: what is an answer says so in plain words, and one word of doubt more makes
// it none.
func FuzzInWords(f *testing.F) {
	for _, s := range []string{"deny", "approve shell once", "@a1, approve_session shell", "Always", "no", "approve_once\u202e", "I deny the shell execution."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		option, err := inWords(text, "shell", "a1", "approval_1")
		if (err == nil) != (option == optDeny || option == optOnce || option == optSession) {
			t.Fatalf("%q %v", option, err)
		}
		if err != nil {
			return
		}
		lower := strings.ToLower(text)
		has := func(words ...string) bool {
			for _, w := range words {
				if strings.Contains(lower, w) {
					return true
				}
			}
			return false
		}
		saysYes, saysNo := has("approve", "allow") || option == buttons[strings.TrimSpace(lower)], has("deny", "reject", "cancel")
		if (option == optDeny) != saysNo || option != optDeny && !saysYes {
			t.Errorf("%q is %s", text, option)
		}
		for _, doubt := range []string{"not", "don't", "if", "deny", "approve_once", "?"} {
			if option, err := inWords(text+" "+doubt, "shell", "a1", "approval_1"); err == nil {
				t.Errorf("%q with %q is %s", text, doubt, option)
			}
		}
	})
}

// FuzzNeededAnswer: an answer that is read says yes or no, and becomes what the
// supervisor's protocol takes or refuses, with the decision that it says.
func FuzzNeededAnswer(f *testing.F) {
	for _, s := range []string{`{"approved":true,"scope":"session"}`, `{"approved":false,"mode":"reject_soft","feedback":"x"}`, `{}`, `{"approved":true,"approved":false}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a neededAnswer
		if protocol.Unmarshal([]byte(text), "answer", &a) != nil || a.Approved == nil {
			return
		}
		if d := a.decide("req-1"); (d.Decision == protocol.Allow) != *a.Approved || d.ID != "req-1" {
			t.Errorf("%s is %+v", text, d)
		}
	})
}

// FuzzPermissionAnswer is that for the answers of the chat.
func FuzzPermissionAnswer(f *testing.F) {
	for _, s := range []string{`{"permission_id":"r","behavior":"allow"}`, `{"permission_id":"r","behavior":"deny","message":"x","interrupt":true}`, `{"behavior":"ALLOW"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a permissionAnswer
		if protocol.Unmarshal([]byte(text), "body", &a) != nil {
			return
		}
		d, err := a.decide()
		if (err == nil) != (a.Behavior == "allow" || a.Behavior == "deny") || (err == nil && (d.Decision == protocol.Allow) != (a.Behavior == "allow")) {
			t.Errorf("%s is %+v %v", text, d, err)
		}
	})
}

// TestBridgesAreForPrograms: a browser's login opens none of them, and no request is told
// to whoever has nothing.
func TestBridgesAreForPrograms(t *testing.T) {
	b := newBench(t, func(s *Server) { s.failures = newBucket(time.Now, 1000, 1000) })
	page := b.signIn()
	for _, q := range []req{
		{"GET", permission, "", nil}, {"POST", permission, `{}`, nil}, {"GET", messages, "", nil}, {"POST", messages, `{}`, nil}, {"GET", "/v1/approval_needed", "", nil},
	} {
		for _, headers := range []map[string]string{nil, with(page, "Origin", "")} {
			q.header = headers
			if status, body, _ := b.do(q); status != 401 {
				t.Errorf("%s %s: %d %s", q.method, q.path, status, body)
			}
		}
		if q.method == "POST" {
			q.header = b.bearer()
			if status, body, _ := b.do(q); status == 401 {
				t.Errorf("the twin of %s %s: %d %s", q.method, q.path, status, body)
			}
		}
	}
}

// TestStreamsEndWithTheServer: nobody who reads holds it up.
func TestStreamsEndWithTheServer(t *testing.T) {
	b := newBench(t, nil)
	stream, c := b.listen(messages), b.needed()
	b.stop()
	for stream.lines.Scan() {
	}
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("the WebSocket goes on")
	}
}

// TestDocumentedExamples: what docs/http.md shows is what is read and said here: each
// member of an example is one that the types have.
func TestDocumentedExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func() any{
		"tool_permission": func() any { return new(permissionEvent) }, "tool_permission_resolved": func() any { return new(permissionEnd) },
		"behavior": func() any { return new(permissionAnswer) }, "approval_needed": func() any { return new(neededMessage) },
		"approval_resolved": func() any { return new(neededEnd) }, "approved": func() any { return new(neededAnswer) }, "role": func() any { return new(message) },
	}
	seen := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^    [<>] (\{.*\})$`).FindAllStringSubmatch(string(text), -1) {
		m := object(t, found[1])
		kind, _ := m["type"].(string)
		for _, member := range []string{"behavior", "approved", "role"} {
			if _, ok := m[member]; ok && kind == "" {
				kind = member
			}
		}
		if kinds[kind] == nil {
			t.Errorf("an example of nothing that is spoken here: %s", found[1])
			continue
		}
		seen[kind]++
		if err := protocol.Unmarshal([]byte(found[1]), "example", kinds[kind]()); err != nil {
			t.Errorf("%s: %v", found[1], err)
		}
	}
	for kind := range kinds {
		if seen[kind] == 0 {
			t.Errorf("docs/http.md has no example of %s", kind)
		}
	}
}

// codeOf is the code of an error, or "".
func codeOf(e *protocol.Error) protocol.Code {
	if e == nil {
		return ""
	}
	return e.Code
}
