package httpgate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/confine/confinetest"
)

// TestARefusedPathIsAskedAboutOverHTTP: what a call was refused is one question that names it,
// on the page and in a conversation, and a yes there runs it once more with that.
func TestARefusedPathIsAskedAboutOverHTTP(t *testing.T) {
	b := newBench(t, nil)
	outside := filepath.Join(confinetest.Workspace(t), "x")
	if err := os.WriteFile(outside, []byte("from outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// By what echo writes nobody can tell the path before it is refused.
	command := "cat $(echo " + outside + ")"
	want := "Run again, and let it read " + outside
	s := b.session("a1")

	page := b.signIn()
	c, _ := b.upgrade(page, "sandgate.page", keyProtocol+page[PageKey])
	hear := func() (m map[string]any) {
		_, text, err := c.Read(t.Context())
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	ask := func(do string, params map[string]any) map[string]any {
		text, err := json.Marshal(map[string]any{"ask": 1, "do": do, "params": params})
		if err == nil {
			err = c.Write(t.Context(), websocket.MessageText, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			if m := hear(); m["answer"] != nil {
				return m
			}
		}
	}
	ended, last := b.call(s, command), ""
	for _, want := range []string{"cat", want} {
		id := b.pending(1)[0].ID
		for ; id == last; id = b.pending(1)[0].ID { // it may be there a moment longer
			time.Sleep(time.Millisecond)
		}
		last = id
		shown := ask("show", map[string]any{"id": id})
		if !strings.Contains(fmt.Sprint(shown), want) {
			t.Errorf("the page has not %q: %v", want, shown)
		}
		if got := ask("decide", map[string]any{"answer": map[string]any{"id": id, "decision": "allow"}}); got["problem"] != nil {
			t.Errorf("%v", got)
		}
	}
	if got := <-ended; got.err != nil || !strings.Contains(got.text, "from outside") {
		t.Errorf("on the page: %+v", got)
	}
	c.CloseNow()

	stream := b.listen(messages)
	ended = b.call(s, "true; "+command) // another call, to be asked about again
	for _, want := range []string{"cat", want} {
		m := stream.next()
		call := m["tool_calls"].([]any)[0].(map[string]any)
		if !strings.Contains(fmt.Sprint(call), want) {
			t.Errorf("the message has not %q: %v", want, call)
		}
		if status, body := b.post(messages, message{Role: "tool", ToolCallID: call["id"].(string), Content: "approve_once"}); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		stream.next() // how it ended
	}
	if got := <-ended; got.err != nil || !strings.Contains(got.text, "from outside") {
		t.Errorf("in words: %+v", got)
	}
}
