package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// judged is what passes of lines, and the codes and ids of the answers to the others.
func judged(t testing.TB, lines string, limit int) (passed string, answers []string) {
	t.Helper()
	var out bytes.Buffer
	b, err := io.ReadAll(messagesOf(strings.NewReader(lines), &out, limit))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var a struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   struct {
				Code    json.Number `json:"code"`
				Message string      `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.JSONRPC != "2.0" || a.Error.Message == "" {
			t.Fatalf("the answer %q: %v", line, err)
		}
		answers = append(answers, a.Error.Code.String()+" "+string(a.ID))
	}
	return string(b), answers
}

func TestLinesThatAreNoMessages(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":9,"method":"ping"}` + "\n"
	const old = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n"
	for _, c := range []struct{ line, answer string }{
		{good, ""},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n", ""},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", ""},
		{"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":1,\"message\":\"m\"}}\n", ""},
		{"hello\n", "-32700 null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\n", "-32700 null"},
		{"{} {}\n", "-32700 null"},
		{"\xff\n", "-32700 null"},
		{"\"str\"\n", "-32600 null"},
		{"7\n", "-32600 null"},
		{"null\n", "-32600 null"},
		{"{}\n", "-32600 null"},
		{"[1]\n", "-32600 null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":7}\n", "-32600 2"},
		{"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"\"}\n", "-32600 2"},
		{"{\"jsonrpc\":\"2.0\",\"id\":2,\"foo\":1}\n", "-32600 2"},
		{"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n", "-32600 null"},
		{"{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"ping\"}\n", "-32600 \"x\""},
		{"[" + strings.TrimSpace(good) + "]\n", "-32600 null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"" + strings.Repeat("x", 2000) + "\"}\n", "-32600 null"},
	} {
		passed, answers := judged(t, c.line+good, 1000)
		want, wanted := good, []string{c.answer}
		if c.answer == "" {
			want, wanted = c.line+good, nil
		}
		if passed != want || strings.Join(answers, ",") != strings.Join(wanted, ",") {
			t.Errorf("%.100q: %.100q passes, the answers are %q; want %q", c.line, passed, answers, wanted)
		}
	}
	for batch, answer := range map[string]string{
		"[" + strings.TrimSpace(good) + "]\n": "",
		"[]\n":                                "-32600 null",
		"[" + strings.TrimSpace(good) + "," + strings.TrimSpace(good) + "]\n": "-32600 null",
		"[" + strings.TrimSpace(good) + ",1]\n":                               "-32600 null",
	} {
		passed, answers := judged(t, old+batch, 1000)
		if got := strings.Join(answers, ","); got != answer || (answer == "") != (passed == old+batch) {
			t.Errorf("the batch %q: %q passes, the answers are %q; want %q", batch, passed, got, answer)
		}
	}
}

// TestLinesWithoutAnEnd: the last one counts, empty ones do not.
func TestLinesWithoutAnEnd(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	if passed, answers := judged(t, "\r\n\n"+ping+"\r\n"+ping, 1000); passed != ping+"\n"+ping+"\n" || answers != nil {
		t.Errorf("%q, %q", passed, answers)
	}
	if passed, answers := judged(t, `{"jsonrpc":`, 1000); passed != "" || len(answers) != 1 {
		t.Errorf("%q, %q", passed, answers)
	}
}

// FuzzLines: whatever comes, the library gets messages alone, each in a line.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"hello\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}\n[{\"jsonrpc\":\"2.0\",\"method\":\"a\"}]\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		passed, _ := judged(t, lines, 1000)
		for line := range strings.Lines(passed) {
			line, ended := strings.CutSuffix(line, "\n")
			if _, err := jsonrpc.DecodeMessage([]byte(line)); !ended || err != nil && line[0] != '[' {
				t.Errorf("%q passes: %v", line, err)
			}
		}
	})
}
