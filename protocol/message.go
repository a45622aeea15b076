package protocol

import (
	"bytes"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
)

// A Message is one line: a request, a response or a notification.
type Message struct {
	ID     RequestID // zero in notifications
	Method Method    // "" in responses
	Params json.RawMessage
	Result json.RawMessage
	Error  *Error
}

type requestEnvelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      *RequestID      `json:"id"`
	Method  Method          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// ParseRequest reads a request. When the message is at fault, the returned
// Message still carries the id if one could be read, so that the error can be
// answered to the right request.
func ParseRequest(line []byte) (Message, *Error) {
	var e requestEnvelope
	if err := Unmarshal(line, "", &e); err != nil {
		e := asError(err, CodeInvalidRequest)
		if e.Code == CodeParseError || e.Field == "id" { // such as two ids, of which either could be meant
			return Message{}, e
		}
		return Message{ID: salvageID(line)}, e
	}
	m := Message{Method: e.Method, Params: e.Params}
	if e.ID != nil {
		m.ID = *e.ID
	}
	switch {
	case e.JSONRPC != "2.0":
		return m, (&FieldError{Path: "jsonrpc", Reason: `must be "2.0"`}).wire(CodeInvalidRequest)
	case e.Method == "":
		return m, (&FieldError{Path: "method", Reason: "missing"}).wire(CodeInvalidRequest)
	case m.ID.IsZero():
		return m, (&FieldError{Path: "id", Reason: "must be a string or an integer: every request is answered"}).wire(CodeInvalidRequest)
	}
	return m, nil
}

// salvageID finds the id of a request whose rest is at fault.
func salvageID(line []byte) RequestID {
	var loose map[string]json.RawMessage
	if json.Unmarshal(line, &loose) != nil || len(loose["id"]) == 0 {
		return RequestID{}
	}
	var id RequestID
	if id.UnmarshalJSON(loose["id"]) != nil {
		return RequestID{}
	}
	return id
}

type validator interface{ Validate() error }

// UnmarshalParams reads a request's params into v, strictly, and checks them if
// v has a Validate method. Absent params are an empty object.
func UnmarshalParams(m Message, v any) *Error {
	params := m.Params
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	if err := unmarshal(params, "params", v); err != nil {
		return asError(err, CodeInvalidParams)
	}
	if c, ok := v.(validator); ok {
		if err := c.Validate(); err != nil {
			return asError(err, CodeInvalidParams)
		}
	}
	return nil
}

func asError(err error, code Code) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var f *FieldError
	if errors.As(err, &f) {
		return f.wire(code)
	}
	return Errorf(code, "%v", err)
}

type responseEnvelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      RequestID       `json:"id"`
	Method  Method          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

// ParseFromServer reads a response or a notification. It is lenient about
// members it does not know: a server may be newer than its client, and what it
// says is not a question of trust.
func ParseFromServer(line []byte) (Message, error) {
	var e responseEnvelope
	if err := jsonv2.Unmarshal(line, &e); err != nil {
		return Message{}, explain(err, line, "")
	}
	m := Message{ID: e.ID, Method: e.Method, Params: e.Params, Result: e.Result, Error: e.Error}
	switch {
	case e.JSONRPC != "2.0":
		return m, &FieldError{Path: "jsonrpc", Reason: `must be "2.0"`}
	case m.Method != "" && !m.ID.IsZero():
		return m, &FieldError{Path: "method", Reason: "a server sends no requests"}
	case m.Method == "" && (m.Error == nil) == (m.Result == nil):
		return m, &FieldError{Reason: "a response has either a result or an error"}
	}
	return m, nil
}

// EncodeRequest makes the line, without newline, of a request.
func EncodeRequest(id RequestID, method Method, params any) ([]byte, error) {
	return marshal(struct {
		JSONRPC string    `json:"jsonrpc"`
		ID      RequestID `json:"id"`
		Method  Method    `json:"method"`
		Params  any       `json:"params,omitempty"`
	}{"2.0", id, method, params})
}

// EncodeNotification makes the line of a notification.
func EncodeNotification(method Method, params any) ([]byte, error) {
	return marshal(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  Method `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", method, params})
}

// EncodeResult makes the line of a response that succeeded.
func EncodeResult(id RequestID, result any) ([]byte, error) {
	return marshal(struct {
		JSONRPC string    `json:"jsonrpc"`
		ID      RequestID `json:"id"`
		Result  any       `json:"result"`
	}{"2.0", id, result})
}

// EncodeError makes the line of a response that failed. Its id is null when the
// request's own could not be read.
func EncodeError(id RequestID, e *Error) ([]byte, error) {
	return marshal(struct {
		JSONRPC string    `json:"jsonrpc"`
		ID      RequestID `json:"id"`
		Error   *Error    `json:"error"`
	}{"2.0", id, e})
}

// marshal is json.Marshal without the escaping that is meant for HTML, which
// would make commands with < and & hard to read in logs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
