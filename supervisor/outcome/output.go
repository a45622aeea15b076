package outcome

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Notify sends a notification to the agent that made the call.
type Notify func(protocol.Method, any)

// Streams receive the output of a session's programs if no client listens on a socket.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal is who a program's terminal is for, if it has one; nil: Stdin and Stdout.
	Terminal *confine.Terminal
}

// Output keeps what a program writes, in the order in which it came, and hands
// it on while it comes. Of more than the limit it keeps the beginning and the end, and
// no more than keep in any case.
type Output struct {
	id     protocol.CallID
	notify Notify
	stdin  io.Reader
	sink   *Streams
	limit  int64 // bytes of both streams that are handed on while they come
	one    bool  // the program writes both streams into one pipe, which is stdout

	mu     sync.Mutex
	kept   headTail
	sent   perStream // handed on while it came
	errors tail      // the end of standard error, or of both in one stream, wherever it went
}

// runOn is how many times its output limit a program may write before it is killed.
// Output beyond the limit is read and, but for its end, dropped: a build that prints
// too much reaches its own end, with its own exit status, and a flood does not go on.
const runOn = 128

// A tail keeps the last maxTail bytes of what is written to it, or somewhat more.
// It is written to by one goroutine and read after it.
type tail struct{ b []byte }

// maxTail bounds what is looked through for refusals after a call.
const maxTail = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-maxTail):]...)
	if len(t.b) > 4*maxTail { // rarely, so that moving bytes costs little
		t.b = append(t.b[:0], t.bytes()...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.b[max(0, len(t.b)-maxTail):] }

// MaxKept is how much is kept of what is only to be shown, in bytes: no result holds
// more, and with a generous limit all of it would be in our memory.
const MaxKept = protocol.MaxMessage

func New(id protocol.CallID, limit, keep int64, notify Notify, stdin io.Reader, sink *Streams) *Output {
	return &Output{id: id, limit: limit, notify: notify, stdin: stdin, sink: sink, kept: newHeadTail(min(limit, keep)), sent: perStream{}}
}

// OneStream has the program write stdout and stderr into one pipe. What it writes is stdout.
func (o *Output) OneStream() { o.one = true }

// Stdio is where the program's streams go: to the session's own, in front of a
// person, or to the agent as notifications and in the result. A person's stream has
// no part left out of it: there the program is killed at its limit.
func (o *Output) Stdio(program *sandboxprofile.Program) confine.Stdio {
	if o.sink != nil {
		std := confine.Stdio{Stdin: o.stdin, Stdout: o.sink.Stdout, Stderr: o.sink.Stderr, Terminal: o.terminal(program)}
		one := std.OneStream()
		std.Stderr = io.MultiWriter(&o.errors, o.sink.Stderr)
		if one {
			std.Stdout = std.Stderr
		}
		return std
	}
	beyond := o.limit * (runOn - 1)
	if o.limit > sandboxprofile.Unlimited/runOn {
		beyond = 0
	}
	std := confine.Stdio{Stdin: o.stdin, Beyond: beyond, Stdout: streamWriter{o, protocol.Stdout}, Stderr: streamWriter{o, protocol.Stderr}}
	if o.one {
		std.Stderr = std.Stdout
	}
	return std
}

// terminal is who a program's terminal is for. What it shows is looked through for
// refusals if errors are shown there.
func (o *Output) terminal(program *sandboxprofile.Program) *confine.Terminal {
	if o.sink.Terminal == nil || program == nil || !program.Terminal.Has(2) {
		return o.sink.Terminal
	}
	t := *o.sink.Terminal
	t.Screen = io.MultiWriter(&o.errors, t.Screen)
	return &t
}

type streamWriter struct {
	o      *Output
	stream protocol.Stream
}

func (w streamWriter) Write(p []byte) (int, error) {
	w.o.add(w.stream, p)
	return len(p), nil
}

// add keeps p and hands it on, as far as it is within the limit. The two streams come
// from two goroutines: output is handed on in the order in which it is kept.
func (o *Output) add(s protocol.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := p[:min(int64(len(p)), max(0, o.limit-o.kept.total))]
	o.kept.add(s, p)
	if s == protocol.Stderr || o.one {
		_, _ = o.errors.Write(p)
	}
	if len(fresh) > 0 {
		o.sent[s] += int64(len(fresh))
		o.notify(protocol.MethodToolOutput, protocol.RawOutput{CallID: o.id, Stream: s, Data: fresh})
	}
}

// Finish hands on the end of what was more than the limit, when no more will come,
// and reports whether some was dropped.
func (o *Output) Finish() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept.total <= o.limit {
		return false
	}
	end := o.kept.after(o.limit)
	omitted := o.kept.written.minus(end)
	for _, s := range []protocol.Stream{protocol.Stdout, protocol.Stderr} {
		if n := omitted[s] - o.sent[s]; n > 0 {
			o.notify(protocol.MethodToolOutput, protocol.ToolOutput{CallID: o.id, Stream: s, Omitted: n})
		}
	}
	for _, p := range end {
		o.notify(protocol.MethodToolOutput, protocol.RawOutput{CallID: o.id, Stream: p.stream, Data: p.data})
	}
	return true
}

func (o *Output) Content() []protocol.Content {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.content()
}

// Size is how many bytes are kept.
func (o *Output) Size() int64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.size()
}

// shortContent is how much output is left in a result that would be too long for a
// message, in bytes, of which escaping can make six times as many.
const shortContent = 1 << 20

// Shorter is the content of a result of which all would be too long for a message.
func (o *Output) Shorter() []protocol.Content {
	o.mu.Lock()
	defer o.mu.Unlock()
	less := o.kept.within(shortContent)
	return less.content()
}

// bytes is everything that is kept of one stream.
func (o *Output) bytes(s protocol.Stream) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.bytes(s)
}

// errorTail is the end of standard error, wherever it went.
func (o *Output) errorTail() []byte { return o.errors.bytes() }

// Json is the one JSON value that a program wrote which says that it writes one. Output
// that is not a JSON value is an error, and the text stays in the result; a program that
// failed by itself does not have to print any.
func (o *Output) Json(r confine.Result) (json.RawMessage, error) {
	if r.Cause != confine.Exited {
		return nil, nil
	}
	text := bytes.TrimSpace(o.bytes(protocol.Stdout))
	if r.Truncated || !utf8.Valid(text) || !json.Valid(text) {
		if r.ExitCode != 0 {
			return nil, nil
		}
		return nil, &protocol.Error{Code: protocol.CodeInvalidOutput,
			Message:  "the tool did not write one JSON value to its standard output",
			HintText: "the result contains the text that it wrote; the tool itself must be corrected"}
	}
	return text, nil
}
