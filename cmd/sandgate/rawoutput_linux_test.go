package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// rawOutputConfig hands on a hundred thousand bytes of output, and ends what writes 128 times that.
const rawOutputConfig = `version: 1
sandbox:
  limits: {output: 100kB}
shell:
  default: {allowed: true, approval: false}
audit: {path: audit.jsonl, sync: decision}
`

// streamed is what came of each stream, and how much was left out of it.
type streamed struct {
	data    map[protocol.Stream]string
	omitted map[protocol.Stream]int64
}

func (s *streamed) add(o protocol.RawOutput) {
	if s.data == nil {
		s.data, s.omitted = map[protocol.Stream]string{}, map[protocol.Stream]int64{}
	}
	s.data[o.Stream] += string(o.Data)
	s.omitted[o.Stream] += o.Omitted
}

// byLines makes a call as a client does that does not ask for raw output.
func (s *serving) byLines(command string) (got streamed, r protocol.CallResult, failed *protocol.Error) {
	s.t.Helper()
	c, err := net.Dial("unix", s.agent)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	lines := protocol.NewReader(c)
	request := func(id int64, method protocol.Method, params, result any) *protocol.Error {
		line, err := protocol.EncodeRequest(protocol.NumberID(id), method, params)
		if err = errors.Join(err, protocol.WriteMessage(c, line)); err != nil {
			s.t.Fatal(err)
		}
		for {
			line, err := lines.Next()
			if err != nil {
				s.t.Fatal(err)
			}
			m, err := protocol.ParseFromServer(line)
			if err != nil {
				s.t.Fatal(err)
			}
			switch {
			case m.Method == protocol.MethodToolOutput:
				var o protocol.ToolOutput
				if err := json.Unmarshal(m.Params, &o); err != nil || o.RawBytes != 0 {
					s.t.Fatalf("%+v, %v", o, err)
				}
				got.add(protocol.RawOutput{Stream: o.Stream, Data: o.Bytes(), Omitted: o.Omitted})
			case m.Method != "":
			case m.Error != nil:
				return m.Error
			default:
				if err := json.Unmarshal(m.Result, result); err != nil {
					s.t.Fatal(err)
				}
				return nil
			}
		}
	}
	var opened protocol.SessionOpened
	if err := errors.Join(asError(request(1, protocol.MethodInitialize, protocol.InitializeParams{ProtocolVersion: protocol.Version, Client: protocol.Program{Name: "lines"}}, &protocol.Initialized{})),
		asError(request(2, protocol.MethodSessionOpen, protocol.SessionOpen{Agent: "lines"}, &opened))); err != nil {
		s.t.Fatal(err)
	}
	failed = request(3, protocol.MethodToolsCall, protocol.ToolsCall{SessionID: opened.SessionID, CallID: "c", Tool: "shell", Args: must(json.Marshal(map[string]string{"command": command}))}, &r)
	return got, r, failed
}

func asError(e *protocol.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// byStream joins what came from each stream: two pipes have no order.
func byStream(c []protocol.Content) (joined []protocol.Content) {
	slices.SortStableFunc(c, func(a, b protocol.Content) int { return strings.Compare(string(a.Stream), string(b.Stream)) })
	for _, c := range c {
		if n := len(joined); n > 0 && joined[n-1].Stream == c.Stream && c.Stream != "" {
			joined[n-1] = protocol.NewContent(c.Stream, slices.Concat(joined[n-1].Bytes(), c.Bytes()))
			continue
		}
		joined = append(joined, c)
	}
	return joined
}

// TestRawOutputIsTheSameOutput: a client that asks for raw output gets the bytes, the result and the entries
// of the log that one gets that does not ask, below the limit of output, beyond it, and where it
// ends the program. A client that asks and does not read holds up nobody.
func TestRawOutputIsTheSameOutput(t *testing.T) {
	s := newServing(t, rawOutputConfig)
	stuck := s.session("stuck")
	reads, blocked := make(chan bool), make(chan bool, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := stuck.Call(t.Context(), "shell", map[string]any{"command": "printf x; head -c 90000 /dev/zero; exec sleep 60"}, client.OnRawOutput(func(protocol.RawOutput) {
			select {
			case blocked <- true:
			default:
			}
			<-reads
		}))
		ended <- err
	}()
	<-blocked
	commands := map[string]string{
		"nothing":           "true",
		"little":            `printf '{"jsonrpc":"2.0"}\n\377\0\n'; printf 'errors\n' >&2; exit 3`,
		"not text, in full": `for i in 1 2 3 4; do head -c 20000 /dev/zero | tr '\0' '\377'; echo "$i"; done`,
		"beyond the limit":  `printf first; head -c 1000000 /dev/zero; printf 'the end'; exit 4`,
		"without end":       `printf first; exec yes`,
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			want, wantResult, wantErr := s.byLines(command)
			var got streamed
			r, err := s.session("raw").Call(t.Context(), "shell", map[string]any{"command": command}, client.OnRawOutput(got.add))
			var failed *protocol.Error
			if err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			if (failed == nil) != (wantErr == nil) || failed != nil && (failed.Code != wantErr.Code || failed.Message != wantErr.Message) {
				t.Errorf("%v, by lines %v", failed, wantErr)
			}
			if name == "without end" {
				if failed == nil || failed.Code != protocol.CodeLimitExceeded {
					t.Errorf("the program's end: %v", failed)
				}
				if stdout := got.data[protocol.Stdout]; !strings.HasPrefix(stdout, "firsty\ny\n") || len(stdout) != len(want.data[protocol.Stdout]) || got.omitted[protocol.Stdout] == 0 {
					t.Errorf("%d bytes and %d omitted, by lines %d", len(stdout), got.omitted[protocol.Stdout], len(want.data[protocol.Stdout]))
				}
				return
			}
			if !maps.Equal(got.data, want.data) || !maps.Equal(got.omitted, want.omitted) {
				t.Errorf("%.200q, %v omitted; by lines %.200q, %v", got.data, got.omitted, want.data, want.omitted)
			}
			wantResult.Content, r.Content = byStream(wantResult.Content), byStream(r.Content)
			if diff := cmp.Diff(wantResult, r, cmpopts.IgnoreFields(protocol.CallResult{}, "DurationMS")); diff != "" {
				t.Errorf("the result (-by lines +raw)\n%s", diff)
			}
		})
	}
	close(reads)
	stuck.Close(t.Context())
	if err := <-ended; err == nil {
		t.Error("the call that nobody read ended by itself")
	}
	s.stop()
	ends := map[string][]map[string]any{} // what the log says of each agent's calls, in order
	for line := range bytes.Lines(must(os.ReadFile(s.dir + "/audit.jsonl"))) {
		var e struct {
			Kind, Agent string
			Data        map[string]any
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind != "end" {
			continue
		}
		maps.DeleteFunc(e.Data, func(key string, _ any) bool {
			return strings.HasSuffix(key, "_ms") || key == "stdout_bytes" && e.Data["cause"] == "output_limit"
		})
		ends[e.Agent] = append(ends[e.Agent], e.Data)
	}
	if diff := cmp.Diff(ends["lines"], ends["raw"]); diff != "" || len(ends["raw"]) != len(commands) {
		t.Errorf("the log has %d ends (-by lines +raw)\n%s", len(ends["raw"]), diff)
	}
}
