package supervisor

import (
	"io"
	"sync"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
)

// output keeps what a program writes, in the order in which it came, and hands
// it on while it comes. The sandbox bounds how much there can be.
type output struct {
	id     protocol.CallID
	notify notifyFunc
	stdin  io.Reader
	sink   *Streams

	mu     sync.Mutex
	pieces []piece
}

type piece struct {
	stream protocol.Stream
	data   []byte
}

func newOutput(id protocol.CallID, notify notifyFunc, stdin io.Reader, sink *Streams) *output {
	return &output{id: id, notify: notify, stdin: stdin, sink: sink}
}

// stdio is where the program's streams go: to the session's own, in front of a
// person, or to the agent as notifications and in the result.
func (o *output) stdio() confine.Stdio {
	if o.sink != nil {
		return confine.Stdio{Stdin: o.stdin, Stdout: o.sink.Stdout, Stderr: o.sink.Stderr}
	}
	return confine.Stdio{Stdin: o.stdin, Stdout: streamWriter{o, protocol.Stdout}, Stderr: streamWriter{o, protocol.Stderr}}
}

type streamWriter struct {
	o      *output
	stream protocol.Stream
}

func (w streamWriter) Write(p []byte) (int, error) {
	w.o.add(w.stream, p)
	w.o.notify(protocol.MethodToolOutput, protocol.NewToolOutput(w.o.id, w.stream, p))
	return len(p), nil
}

func (o *output) add(s protocol.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.pieces); n > 0 && o.pieces[n-1].stream == s {
		o.pieces[n-1].data = append(o.pieces[n-1].data, p...)
		return
	}
	o.pieces = append(o.pieces, piece{s, append([]byte(nil), p...)})
}

func (o *output) content() []protocol.Content {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	content := make([]protocol.Content, 0, len(o.pieces))
	for _, p := range o.pieces {
		content = append(content, protocol.NewContent(p.stream, p.data))
	}
	return content
}
