package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The library ends a connection at the first line that it cannot read as a message, and
// leaves one that asks for nothing without an answer. As JSON-RPC 2.0 (section 5.1)
// requires, the client learns what is wrong with the line, and the next line counts.

// batchVersions are the versions of the protocol with batches.
var batchVersions = []string{"2024-11-05", "2025-03-26"}

// A lineReader hands on the lines that are messages, and answers the others.
type lineReader struct {
	in      *bufio.Reader
	out     io.Writer
	max     int // bytes of a line
	batches bool
}

// messagesOf gives the lines of in that are messages, and answers the others on out.
// Nothing else writes to out in the middle of a line.
func messagesOf(in io.Reader, out io.Writer, limit int) *io.PipeReader {
	messages, to := io.Pipe()
	l := &lineReader{in: bufio.NewReaderSize(in, 64<<10), out: out, max: limit}
	go func() { to.CloseWithError(l.copy(to)) }()
	return messages
}

func (l *lineReader) copy(to io.Writer) error {
	for {
		line, tooLong, err := l.line()
		if fault := l.judge(line, tooLong); fault != nil {
			if err := l.answer(line, fault); err != nil {
				return err
			}
		} else if len(line) > 0 {
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if err != nil {
			return err // io.EOF ends the messages as well
		}
	}
}

// line reads one without its end. Of one that is too long nothing is kept.
func (l *lineReader) line() (line []byte, tooLong bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.max {
			line, tooLong = nil, true
		}
		if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), tooLong, err
		}
	}
}

// judge returns what is wrong with a line, or nil.
func (l *lineReader) judge(line []byte, tooLong bool) *jsonrpc.Error {
	switch {
	case tooLong:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("a message is longer than %d bytes", l.max)}
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "a line is not JSON"}
	case line[0] == '[':
		return l.judgeBatch(line)
	}
	m, fault := judgeMessage(line)
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "initialize" {
		var params struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		l.batches = json.Unmarshal(r.Params, &params) == nil && slices.Contains(batchVersions, params.ProtocolVersion)
	}
	return fault
}

func judgeMessage(line []byte) (jsonrpc.Message, *jsonrpc.Error) {
	m, err := jsonrpc.DecodeMessage(line)
	if err == nil {
		switch m := m.(type) {
		case *jsonrpc.Request:
			if m.Method == "" {
				err = errors.New("it does not name a method")
			}
		case *jsonrpc.Response:
			if m.Result == nil && m.Error == nil {
				err = errors.New("it has neither method, result nor error")
			}
		}
	}
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not a JSON-RPC 2.0 message: " + err.Error()}
	}
	return m, nil
}

func (l *lineReader) judgeBatch(line []byte) *jsonrpc.Error {
	var batch []json.RawMessage
	_ = json.Unmarshal(line, &batch) // it is JSON, and an array
	ids := map[jsonrpc.ID]bool{}
	why := ""
	switch {
	case !l.batches:
		why = "this protocol version does not support batches"
	case len(batch) == 0:
		why = "the batch is empty"
	}
	for _, one := range batch {
		m, fault := judgeMessage(one)
		if fault != nil {
			return fault
		}
		if r, ok := m.(*jsonrpc.Request); ok && r.ID.IsValid() {
			if ids[r.ID] {
				why = "two requests of a batch have the same id"
			}
			ids[r.ID] = true
		}
	}
	if why == "" {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}
}

// answer tells the client, with the id of its message if that has a proper one.
func (l *lineReader) answer(line []byte, fault *jsonrpc.Error) error {
	var named struct {
		ID any `json:"id"`
	}
	_ = json.Unmarshal(line, &named) // or there is none
	reply := struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, fault}
	switch id := named.ID.(type) {
	case string, float64:
		reply.ID = id
	}
	b, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(b, '\n'))
	return err
}

// A shared writer is for several who write whole lines.
type sharedWriter struct {
	mu sync.Mutex
	io.Writer
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(p)
}
