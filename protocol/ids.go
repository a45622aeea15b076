package protocol

import (
	"encoding/json"
	"fmt"
)

// Version is the only version of the protocol that this package speaks.
const Version = 1

// MaxMessage is the greatest length of one message, in bytes, without its newline.
const MaxMessage = 16 << 20

// Identifiers are short, printable ASCII: they end up in prompts, file names and
// log lines, where an escape sequence or a look-alike letter would deceive.
type (
	// SessionID names a session. The server chooses it, and only the connection
	// that opened the session may use it.
	SessionID string
	// CallID names a call. The client chooses it; no other call of the
	// connection that is still under way may carry the same one.
	CallID string
	// ToolName names a tool, as tools.list gives it.
	ToolName string
	// ApprovalID names a pending request for approval. The server chooses it.
	ApprovalID string
)

// maxID is the greatest length of an identifier, in bytes.
const maxID = 256

func checkID(path, id string) error {
	if id == "" {
		return &FieldError{Path: path, Reason: "missing"}
	}
	if len(id) > maxID {
		return &FieldError{Path: path, Reason: fmt.Sprintf("longer than %d bytes", maxID)}
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return &FieldError{Path: path, Reason: "must be printable ASCII without spaces"}
		}
	}
	return nil
}

func checkOptionalID(path, id string) error {
	if id == "" {
		return nil
	}
	return checkID(path, id)
}

// A RequestID is the id of a JSON-RPC request: a string or an integer. It is sent back
// unchanged. The zero value means no id and marshals as null.
type RequestID struct{ raw string }

// StringID is the request id s.
func StringID(s string) RequestID {
	b, _ := json.Marshal(s) // a string always marshals
	return RequestID{string(b)}
}

// NumberID is the request id n.
func NumberID(n int64) RequestID { return RequestID{fmt.Sprint(n)} }

// IsZero reports whether there is no id.
func (id RequestID) IsZero() bool { return id.raw == "" }

func (id RequestID) String() string {
	if id.raw == "" {
		return "null"
	}
	return id.raw
}

// MarshalJSON implements json.Marshaler.
func (id RequestID) MarshalJSON() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalJSON implements json.Unmarshaler. Null means that there is no id. A number
// must be a plain integer: 1, 1.0 and 1e0 would be one id to some clients and three to
// others.
func (id *RequestID) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		*id = RequestID{}
		return nil
	case len(b) > maxID:
		return &FieldError{Path: "id", Reason: fmt.Sprintf("longer than %d bytes", maxID)}
	case b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*id = StringID(s)
		return nil
	}
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return &FieldError{Path: "id", Reason: "must be a string or an integer"}
	}
	*id = NumberID(n)
	return nil
}
