package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestParseRequestErrors(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2)
	for _, tt := range []struct {
		name, line string
		code       Code
		field, id  string
	}{
		{"empty", ``, CodeParseError, "", "null"},
		{"no JSON", `hello`, CodeParseError, "", "null"},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"status"} {}`, CodeParseError, "", "null"},
		{"torn", `{"jsonrpc":"2.0","id":1,"method":"sta`, CodeParseError, "", "null"},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", CodeParseError, "", "null"},
		{"array", `[{"jsonrpc":"2.0","id":1,"method":"status"}]`, CodeInvalidRequest, "", "null"},
		{"null", `null`, CodeInvalidRequest, "", "null"},
		{"string", `"x"`, CodeInvalidRequest, "", "null"},
		{"no version", `{"id":1,"method":"status"}`, CodeInvalidRequest, "jsonrpc", "1"},
		{"other version", `{"jsonrpc":"1.0","id":1,"method":"status"}`, CodeInvalidRequest, "jsonrpc", "1"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "method", "1"},
		{"method no string", `{"jsonrpc":"2.0","id":1,"method":7}`, CodeInvalidRequest, "method", "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, CodeInvalidRequest, "method", "1"},
		{"no id", `{"jsonrpc":"2.0","method":"status"}`, CodeInvalidRequest, "id", "null"},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"status"}`, CodeInvalidRequest, "id", "null"},
		{"fractional id", `{"jsonrpc":"2.0","id":1.0,"method":"status"}`, CodeInvalidRequest, "id", "null"},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"status"}`, CodeInvalidRequest, "id", "null"},
		{"unknown member", `{"jsonrpc":"2.0","id":"a","method":"status","extra":1}`, CodeInvalidRequest, "extra", `"a"`},
		{"other case", `{"jsonrpc":"2.0","id":"a","Method":"status"}`, CodeInvalidRequest, "Method", `"a"`},
		{"member twice", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, CodeInvalidRequest, "method", "1"},
		{"member twice by escape", `{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}`, CodeInvalidRequest, "method", "1"},
		{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, CodeInvalidRequest, "id", "null"},
		{"twice deep inside", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[{"y":1,"y":2}]}}`, CodeInvalidRequest, "params.x[0].y", "1"},
		{"lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\ud800"}}`, CodeInvalidRequest, "params.x", "1"},
		{"low surrogate first", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\udc00\ud800"}}`, CodeInvalidRequest, "params.x", "1"},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"a","params":` + deep + `}`, CodeInvalidRequest, "params" + strings.Repeat("[0]", maxDepth-1), "1"},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, CodeInvalidRequest, "result", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ParseRequest([]byte(tt.line))
			if err == nil {
				t.Fatalf("accepted: %+v", m)
			}
			if err.Code != tt.code || err.Field != tt.field || m.ID.String() != tt.id {
				t.Errorf("got code %s field %q id %s, want %s %q %s (%v)",
					err.Code, err.Field, m.ID, tt.code, tt.field, tt.id, err)
			}
		})
	}
}

func TestParseRequest(t *testing.T) {
	for _, tt := range []struct {
		line   string
		id     RequestID
		method Method
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"status"}`, NumberID(1), MethodStatus},
		{" {\"params\" : {\"x\":\"\\ud83d\\ude00 \\\"\\\\u\"} , \"jsonrpc\":\"2.0\",\"id\":\"a<b\",\"method\":\"status\"}\r", StringID("a<b"), MethodStatus},
		{`{"jsonrpc":"2.0","id":-9223372036854775808,"method":"x","params":[1,-2.5e3,true,false,null]}`, NumberID(-1 << 63), "x"},
	} {
		m, err := ParseRequest([]byte(tt.line))
		if err != nil || m.ID != tt.id || m.Method != tt.method {
			t.Errorf("%s: got id %s method %q, %v", tt.line, m.ID, m.Method, err)
		}
	}
}

func TestUnmarshalParams(t *testing.T) {
	const ids = `"session_id":"s","call_id":"c","tool":"shell"`
	for _, tt := range []struct {
		name, params string
		into         any
		field        string // "" means accepted
	}{
		{"good call", `{` + ids + `,"args":{"command":"ls"},"timeout_ms":5,"metadata":{"a":null},"defer":true,"group_id":"g","batch_remaining":[{"tool":"x","arguments":"y"}]}`, &ToolsCall{}, ""},
		{"no args", `{` + ids + `}`, &ToolsCall{}, ""},
		{"unknown", `{` + ids + `,"comand":1}`, &ToolsCall{}, "params.comand"},
		{"unknown with a path in its name", `{` + ids + `,"a.b":1}`, &ToolsCall{}, `params["a.b"]`},
		{"other case", `{"Session_id":"s","call_id":"c","tool":"shell"}`, &ToolsCall{}, "params.Session_id"},
		{"missing", `{"call_id":"c","tool":"shell"}`, &ToolsCall{}, "params.session_id"},
		{"no params", ``, &ToolsCall{}, "params.session_id"},
		{"null id", `{"session_id":null,"call_id":"c","tool":"shell"}`, &ToolsCall{}, "params.session_id"},
		{"wrong type", `{` + ids + `,"timeout_ms":"5"}`, &ToolsCall{}, "params.timeout_ms"},
		{"fraction", `{` + ids + `,"timeout_ms":5.5}`, &ToolsCall{}, "params.timeout_ms"},
		{"overflow", `{` + ids + `,"timeout_ms":9223372036854775808}`, &ToolsCall{}, "params.timeout_ms"},
		{"negative", `{` + ids + `,"timeout_ms":-1}`, &ToolsCall{}, "params.timeout_ms"},
		{"bool", `{` + ids + `,"defer":1}`, &ToolsCall{}, "params.defer"},
		{"bool for string", `{"session_id":true,"call_id":"c","tool":"shell"}`, &ToolsCall{}, "params.session_id"},
		{"args no object", `{` + ids + `,"args":[1]}`, &ToolsCall{}, "params.args"},
		{"args null", `{` + ids + `,"args":null}`, &ToolsCall{}, "params.args"},
		{"args twice inside", `{` + ids + `,"args":{"command":"ls","command":"rm"}}`, &ToolsCall{}, "params.args.command"},
		{"metadata no object", `{` + ids + `,"metadata":"x"}`, &ToolsCall{}, "params.metadata"},
		{"number beyond float64", `{` + ids + `,"metadata":{"n":1e999}}`, &ToolsCall{}, "params.metadata.n"},
		{"batch no array", `{` + ids + `,"batch_remaining":{}}`, &ToolsCall{}, "params.batch_remaining"},
		{"deep in batch", `{` + ids + `,"batch_remaining":[{"tool":"x"},{"tool":"y","z":1}]}`, &ToolsCall{}, "params.batch_remaining[1].z"},
		{"escape sequence in id", `{"session_id":"s","call_id":"\u001b[2J","tool":"shell"}`, &ToolsCall{}, "params.call_id"},
		{"long id", `{"session_id":"s","call_id":"` + strings.Repeat("x", maxID+1) + `","tool":"shell"}`, &ToolsCall{}, "params.call_id"},
		{"params array", `[]`, &ToolsCall{}, "params"},

		{"good open", `{"agent":"claude é","metadata":[1,{"a":2}],"mode":"strict"}`, &SessionOpen{}, ""},
		{"bad mode", `{"agent":"a","mode":"yolo"}`, &SessionOpen{}, "params.mode"},
		{"good open of a path", `{"agent":"team/claude-code@2.1"}`, &SessionOpen{}, ""},
		{"good open of a word that holds one of ours", `{"agent":"safety disallowance ruler"}`, &SessionOpen{}, ""},
		{"blank agent", `{"agent":" "}`, &SessionOpen{}, "params.agent"},
		{"agent of dashes", `{"agent":"--"}`, &SessionOpen{}, "params.agent"},
		{"agent in sandgate's name", `{"agent":"sandgate: allowed by rule"}`, &SessionOpen{}, "params.agent"},
		{"agent that is sandgate", `{"agent":"Sand-Gate"}`, &SessionOpen{}, "params.agent"},
		{"agent that is allowed", `{"agent":"allowed by uid 1000"}`, &SessionOpen{}, "params.agent"},
		{"agent with a fact of its own", `{"agent":"x) asked by rule"}`, &SessionOpen{}, "params.agent"},
		{"agent with blanks", `{"agent":"a   b"}`, &SessionOpen{}, "params.agent"},
		{"no agent", `{}`, &SessionOpen{}, "params.agent"},
		{"bidi agent", `{"agent":"a\u202eb"}`, &SessionOpen{}, "params.agent"},
		{"long agent", `{"agent":"` + strings.Repeat("x", maxName+1) + `"}`, &SessionOpen{}, "params.agent"},

		{"good initialize", `{"protocol_version":1,"client":{"name":"n"}}`, &InitializeParams{}, ""},
		{"no version", `{"client":{"name":"n"}}`, &InitializeParams{}, "params.protocol_version"},
		{"client inside", `{"protocol_version":1,"client":{"nam":"n"}}`, &InitializeParams{}, "params.client.nam"},
		{"no client", `{"protocol_version":1}`, &InitializeParams{}, "params.client.name"},

		{"good close", `{"session_id":"s"}`, &SessionClose{}, ""},
		{"good list", `{"session_id":"s"}`, &ToolsListParams{}, ""},
		{"good cancel", `{"call_id":"s"}`, &ToolsCancel{}, ""},
		{"cancel nothing", `{}`, &ToolsCancel{}, "params.call_id"},
		{"good show", `{"id":"s"}`, &ApprovalsShowParams{}, ""},
		{"show nothing", `{}`, &ApprovalsShowParams{}, "params.id"},

		{"allow one", `{"id":"a","decision":"allow","scope":"session"}`, &ApprovalsDecide{}, ""},
		{"deny some", `{"ids":["a","b"],"decision":"deny","mode":"reject_soft","feedback":"no"}`, &ApprovalsDecide{}, ""},
		{"deny a group", `{"group":"turn 1","decision":"deny"}`, &ApprovalsDecide{}, ""},
		{"allow a group", `{"group":"turn 1","decision":"allow"}`, &ApprovalsDecide{}, "params.group"},
		{"nobody", `{"decision":"deny"}`, &ApprovalsDecide{}, "params"},
		{"two targets", `{"id":"a","group":"g","decision":"deny"}`, &ApprovalsDecide{}, "params"},
		{"empty id in list", `{"ids":["a",""],"decision":"deny"}`, &ApprovalsDecide{}, "params.ids[1]"},
		{"no verdict", `{"id":"a"}`, &ApprovalsDecide{}, "params.decision"},
		{"odd verdict", `{"id":"a","decision":"yes"}`, &ApprovalsDecide{}, "params.decision"},
		{"odd scope", `{"id":"a","decision":"allow","scope":"forever"}`, &ApprovalsDecide{}, "params.scope"},
		{"odd mode", `{"id":"a","decision":"deny","mode":"soft"}`, &ApprovalsDecide{}, "params.mode"},
		{"allow with mode", `{"id":"a","decision":"allow","mode":"reject_soft"}`, &ApprovalsDecide{}, "params.mode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := UnmarshalParams(Message{Params: json.RawMessage(tt.params)}, tt.into)
			if tt.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("accepted: %+v", tt.into)
			}
			if err.Code != CodeInvalidParams || err.Field != tt.field {
				t.Errorf("got %s at %q, want %q (%v)", err.Code, err.Field, tt.field, err)
			}
		})
	}
}

func TestDecodeArgsKeepsLargeIntegers(t *testing.T) {
	args, err := ToolsCall{Args: json.RawMessage(`{"n":12345678901234567890}`)}.DecodeArgs()
	if err != nil || args["n"] != json.Number("12345678901234567890") {
		t.Errorf("got %v, %v", args, err)
	}
}

func TestEveryCodeHasItsOwnNumber(t *testing.T) {
	seen := map[int]Code{}
	for code, n := range numbers {
		if other, ok := seen[n]; ok {
			t.Errorf("%s and %s are both %d", code, other, n)
		}
		seen[n] = code
		if n < -32768 || n > -32000 {
			t.Errorf("%s: %d is outside what JSON-RPC reserves", code, n)
		}
	}
	if Code("made up").Number() != CodeInternal.Number() {
		t.Error("a code that is not in the table must count as internal")
	}
}

func TestErrorRoundTrip(t *testing.T) {
	in := Errorf(CodeDenied, "rm is <not> allowed").WithHint("use trash")
	in.Decision = &Decision{Action: "denied", Source: "rules", Rule: "shell.rules[2]"}
	in.PlanDigest = "sha256:00"
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Error
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*in, out) {
		t.Errorf("got %+v, want %+v", out, *in)
	}
	if out.Hint() != "use trash" || out.Error() != "denied: rm is <not> allowed" {
		t.Errorf("got %q, %q", out.Error(), out.Hint())
	}
	var foreign Error
	if err := json.Unmarshal([]byte(`{"code":-1,"message":"x"}`), &foreign); err != nil || foreign.Code != CodeInternal {
		t.Errorf("got %+v, %v", foreign, err)
	}
}

func TestParseFromServer(t *testing.T) {
	for line, good := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{},"news":1}`:                                    true,
		`{"jsonrpc":"2.0","method":"tool.state","params":{}}`:                              true,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}`:                    true,
		`{"jsonrpc":"2.0","id":1}`:                                                         false,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":-1,"message":"x"}}`:           false,
		`{"jsonrpc":"2.0","id":1,"method":"x"}`:                                            false,
		`{"id":1,"result":{}}`:                                                             false,
		`{"jsonrpc":"2.0","id":[],"result":{}}`:                                            false,
		`nonsense`:                                                                         false,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"x"}}`:                      false,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x","data":{"code":"wat"}}}`: true,
	} {
		if _, err := ParseFromServer([]byte(line)); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestMessagesAreTheirReceiversToKeep: a line's buffer is used again for the next one.
func TestMessagesAreTheirReceiversToKeep(t *testing.T) {
	line, err := EncodeResult(NumberID(7), CallResult{Content: []Content{NewContent(Stdout, []byte("a\n"))}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseFromServer(line)
	clear(line)
	if err != nil || m.ID != NumberID(7) || !json.Valid(m.Result) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestOutputIsTextOrBase64(t *testing.T) {
	for _, data := range []string{"", "héllo\n", "\xff\x00\xfe", "\xc3"} {
		b, err := json.Marshal(NewToolOutput("c", Stdout, []byte(data)))
		if err != nil {
			t.Fatal(err)
		}
		var out ToolOutput
		if err := json.Unmarshal(b, &out); err != nil || string(out.Bytes()) != data {
			t.Errorf("%q came back as %q, %v", data, out.Bytes(), err)
		}
		if utf8.ValidString(data) != (out.Base64 == nil) {
			t.Errorf("%q: wrong member: %s", data, b)
		}
		if got := NewContent(Stderr, []byte(data)).Bytes(); string(got) != data {
			t.Errorf("content %q came back as %q", data, got)
		}
	}
}

func TestReaderLimit(t *testing.T) {
	const limit = 40
	fits := strings.Repeat("a", limit)
	stream := fits + "\n" + fits + "a\n" + strings.Repeat("b", 100_000) + "\nlast\n" + "torn"
	for name, r := range map[string]io.Reader{
		"whole":       strings.NewReader(stream),
		"by the byte": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			rd := NewReaderSize(r, limit)
			for i, want := range []string{fits, "too large", "too large", "last", "torn"} {
				line, err := rd.ReadMessage()
				var e *Error
				switch {
				case want == "too large":
					if !errors.As(err, &e) || e.Code != CodeMessageTooLarge {
						t.Fatalf("line %d: got %q, %v", i, line, err)
					}
				case want == "torn":
					if err != io.ErrUnexpectedEOF {
						t.Fatalf("torn line: got %q, %v", line, err)
					}
				case string(line) != want || err != nil:
					t.Fatalf("line %d: got %q, %v", i, line, err)
				}
			}
			if _, err := rd.ReadMessage(); err != io.EOF {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

func TestReaderFramesWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching(`[^\n]{0,80}`)).Draw(t, "lines")
		var b bytes.Buffer
		for _, l := range lines {
			if err := WriteMessage(&b, []byte(l)); err != nil {
				t.Fatal(err)
			}
		}
		r := NewReader(&b)
		for _, want := range lines {
			if got, err := r.ReadMessage(); err != nil || string(got) != want {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
		}
		if _, err := r.ReadMessage(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// TestReaderHoweverItComes: a stream that comes in pieces of any length is split as one
// that is there as a whole, and a line is good until the next one is asked for.
func TestReaderHoweverItComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 100_000 // longer than a buffer is at first
		length := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(leastBuffer-2, leastBuffer+2), rapid.IntRange(limit-1, limit+1), rapid.Just(2*limit))
		lines := []string{}
		for i, n := range rapid.SliceOfN(length, 1, 12).Draw(t, "lengths") {
			lines = append(lines, strings.Repeat(string(rune('a'+i)), n))
		}
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(1, 3*leastBuffer)), 1, 20).Draw(t, "pieces")
		pieces = append(pieces, 7) // so that there is an end
		r := NewReaderSize(&inPieces{strings.Join(lines, "\n"), pieces, 0}, limit)
		lines, torn := lines[:len(lines)-1], lines[len(lines)-1]
		for i, want := range lines {
			got, err := r.Next()
			var e *Error
			if tooLarge := errors.As(err, &e) && e.Code == CodeMessageTooLarge; tooLarge != (len(want) > limit) || !tooLarge && (err != nil || string(got) != want) {
				t.Fatalf("line %d: %d bytes of %d, %v", i, len(got), len(want), err)
			}
		}
		want := io.EOF
		if torn != "" {
			want = io.ErrUnexpectedEOF
		}
		if _, err := r.Next(); err != want {
			t.Fatalf("at the end: %v, not %v", err, want)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("after it: %v", err)
		}
	})
}

// inPieces gives as much of a text at a time as its lengths say, in turns.
type inPieces struct {
	rest    string
	lengths []int
	turn    int
}

func (p *inPieces) Read(b []byte) (int, error) {
	n := min(p.lengths[p.turn%len(p.lengths)], len(p.rest), len(b))
	p.turn++
	copy(b, p.rest[:n])
	p.rest = p.rest[n:]
	if p.rest == "" {
		return n, io.EOF
	}
	return n, nil
}

func TestReaderGoesOnAfterAnError(t *testing.T) {
	r := NewReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc\n"))))
	if _, err := r.Next(); err != iotest.ErrTimeout {
		t.Fatal(err)
	}
	if line, err := r.Next(); err != nil || string(line) != "abc" {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestWriteMessageLimit(t *testing.T) {
	var e *Error
	if err := WriteMessage(io.Discard, make([]byte, MaxMessage+1)); !errors.As(err, &e) || e.Code != CodeMessageTooLarge {
		t.Errorf("got %v", err)
	}
	if err := WriteMessage(io.Discard, make([]byte, MaxMessage)); err != nil {
		t.Errorf("a message at the limit: %v", err)
	}
}

func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := ToolsCall{
			SessionID: SessionID(rapid.StringMatching(`[!-~]{1,20}`).Draw(t, "session")),
			CallID:    CallID(rapid.StringMatching(`[!-~]{1,20}`).Draw(t, "call")),
			Tool:      ToolName(rapid.StringMatching(`[!-~]{1,20}`).Draw(t, "tool")),
			TimeoutMS: rapid.Int64Min(0).Draw(t, "timeout"),
			Metadata:  map[string]any{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value")},
			Defer:     rapid.Bool().Draw(t, "defer"),
		}
		id := StringID(rapid.StringMatching(`.{0,20}`).Draw(t, "id"))
		line, err := EncodeRequest(id, MethodToolsCall, in)
		if err != nil {
			t.Fatal(err)
		}
		m, perr := ParseRequest(line)
		if perr != nil || m.ID != id || m.Method != MethodToolsCall {
			t.Fatalf("%s: %v", line, perr)
		}
		var out ToolsCall
		if err := UnmarshalParams(m, &out); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("got %+v, want %+v", out, in)
		}
	})
}

// FuzzParse: no input makes the decoder panic, and what it accepts means the
// same to encoding/json, so that no second reader sees another message.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"session_id":"s","call_id":"c","tool":"shell","args":{"command":"ls"}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"approvals.decide","params":{"ids":["a"],"decision":"deny","scope":"once"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"approvals.decide","params":{"id":"a","decision":"allow","scope":"agent","args":{"path":"b"},"pattern":{"kind":"argv_prefix","value":"go test"},"expires":{"after_ms":1,"uses":2}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools.batch","params":{"session_id":"s","calls":[{"call_id":"c","tool":"shell","args":{"command":"ls"}},{"call_id":"d","tool":"shell"}]}}`,
		`{"id":"a","decision":"deny","mode":"reject_soft","interrupt":true}`, `{"id":"a","args":{},"pattern":{"kind":"host","value":"*.example.org:443"}}`,
		`{"session_id":"s","calls":[{"call_id":"c","tool":"t","metadata":{"k":[1]}}]}`,
		`{"jsonrpc":"2.0","id":null,"method":"\ud83d\ude00","params":[[[{}]]]}`,
		`{"a":"\\u","b":"\"","c":-1.5e+3,"d":[true,false,null]}`,
		"{}", "[]", `"\ud800"`, "1e999", "nul", "\xff", "", " ", `{"":""}`, `{"a" : 1 , "b" : [ 1 , 2 ] } `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := ParseRequest(line)
		if err != nil {
			if err.Code == "" || err.Message == "" || !utf8.ValidString(err.Message) {
				t.Fatalf("unusable error %+v", err)
			}
			if _, merr := EncodeError(m.ID, err); merr != nil {
				t.Fatal(merr)
			}
		} else if !json.Valid(line) || m.Method == "" || m.ID.IsZero() {
			t.Fatalf("accepted %q as %+v", line, m)
		}
		for _, v := range []any{&ToolsCall{}, &ApprovalsDecide{}, &ApprovalsPreview{}, &ToolsBatch{}, &SessionOpen{}, &Status{}, &CallResult{}} {
			if Unmarshal(line, "x", v) != nil {
				continue
			}
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			other := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := d.Decode(other); err != nil || !reflect.DeepEqual(v, other) {
				t.Fatalf("%q: %+v and %+v, %v", line, v, other, err)
			}
		}
		_, _ = ParseFromServer(line)
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\n\n"), 1)
	f.Add([]byte("aaaaaaaaaaaaaaaa\nb"), 3)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		if limit < 0 || limit > 1<<20 {
			t.Skip("a limit is a small positive number")
		}
		r := NewReaderSize(bytes.NewReader(stream), limit)
		for range len(stream) + 2 {
			line, err := r.ReadMessage()
			if len(line) > limit || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %q beyond limit %d", line, limit)
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return
			}
		}
		t.Fatal("no end")
	})
}

// BenchmarkMessages reads what agents and servers send most, and what is longest.
func BenchmarkMessages(b *testing.B) {
	text := strings.Repeat("func main() { println(\"hello\") }\n", 30_000)
	args, err := json.Marshal(map[string]string{"path": "a.go", "content": text})
	if err != nil {
		b.Fatal(err)
	}
	result, err := EncodeResult(NumberID(1), CallResult{Content: []Content{NewContent(Stdout, []byte(text))}})
	if err != nil {
		b.Fatal(err)
	}
	request := func(method, params string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
	}
	const shell = `{"session_id":"s","call_id":"c","tool":"shell","args":{"command":"ls -la"},"group_id":"g"}`
	batch := strings.TrimSuffix(strings.Repeat(`{"call_id":"c","tool":"shell","args":{"command":"ls -la","x":[1,2,{"a":"b"}]}},`, 50), ",")
	for _, c := range []struct {
		name string
		line []byte
		into any
	}{
		{"call", request("tools.call", shell), &ToolsCall{}},
		{"batch", request("tools.batch", `{"session_id":"s","calls":[`+batch+`]}`), &ToolsBatch{}},
		{"write", request("tools.call", `{"session_id":"s","call_id":"c","tool":"write_file","args":`+string(args)+`}`), &ToolsCall{}},
		{"result", result, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.line)))
			for b.Loop() {
				if c.into == nil {
					if _, err := ParseFromServer(c.line); err != nil {
						b.Fatal(err)
					}
					continue
				}
				m, err := ParseRequest(c.line)
				if err == nil {
					err = UnmarshalParams(m, c.into)
				}
				if err != nil && err.Code != CodeInvalidParams { // the same call id 50 times
					b.Fatal(err)
				}
			}
		})
	}
}
