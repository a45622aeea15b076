package protocol

import (
	"encoding/json"
	"fmt"
)

// A Code says what went wrong, in a word that stays the same.
type Code string

// What is wrong with the message.
const (
	CodeParseError         Code = "parse_error"         // no JSON, or not UTF-8
	CodeInvalidRequest     Code = "invalid_request"     // JSON, but no JSON-RPC request
	CodeUnknownMethod      Code = "unknown_method"      // this socket has no such method
	CodeInvalidParams      Code = "invalid_params"      // a member of params is missing, unknown or of the wrong type
	CodeMessageTooLarge    Code = "message_too_large"   // longer than MaxMessage
	CodeNotInitialized     Code = "not_initialized"     // a request before initialize
	CodeAlreadyInitialized Code = "already_initialized" // initialize a second time
	CodeUnsupportedVersion Code = "unsupported_version" // initialize with another protocol version
	CodeDuplicateRequest   Code = "duplicate_request"   // the id of a request that is not answered yet
	CodeDuplicateCall      Code = "duplicate_call"      // the call id of a call that is not over
	CodeUnknownSession     Code = "unknown_session"     // no such session on this connection
	CodeUnknownCall        Code = "unknown_call"        // no such call under way on this connection
	CodeUnknownApproval    Code = "unknown_approval"    // no such request is pending
	CodeAlreadyDecided     Code = "already_decided"     // another answer came first
	CodeUnknownTask        Code = "unknown_task"        // no background task of that id in this session
	CodeUnknownRule        Code = "unknown_rule"        // no standing rule of that id
	CodeRuleRefused        Code = "rule_refused"        // a rule that does not load, or would loosen what it cannot
	CodeTooManyRequests    Code = "too_many_requests"   // more at once than the server's limits allow
)

// What happened to the call.
const (
	CodeDenied             Code = "denied"
	CodeBlocked            Code = "blocked"
	CodeApprovalRequired   Code = "approval_required" // a deferred call that waits for an answer
	CodeApprovalTimeout    Code = "approval_timeout"
	CodeNoApprover         Code = "no_approver"
	CodeInvalidArguments   Code = "invalid_arguments"
	CodeUnknownTool        Code = "unknown_tool"
	CodeSandboxUnavailable Code = "sandbox_unavailable"
	CodeSandboxFailed      Code = "sandbox_failed"
	CodeTimedOut           Code = "timed_out"
	CodeCancelled          Code = "cancelled"
	CodeLimitExceeded      Code = "limit_exceeded"
	CodeInvalidOutput      Code = "invalid_output" // a tool that writes JSON wrote something else
	CodeServerFailed       Code = "server_failed"  // the MCP server that has the tool
	CodeAuditUnavailable   Code = "audit_unavailable"
	CodeShuttingDown       Code = "shutting_down"
	CodeInternal           Code = "internal"
)

// numbers maps every code to the number that JSON-RPC 2.0 (section 5.1) asks
// for. Programs should compare the word; the numbers are stable all the same.
var numbers = map[Code]int{
	CodeParseError:     -32700,
	CodeInvalidRequest: -32600,
	CodeUnknownMethod:  -32601,
	CodeInvalidParams:  -32602,
	CodeInternal:       -32603,

	CodeMessageTooLarge:    -32001,
	CodeNotInitialized:     -32002,
	CodeAlreadyInitialized: -32003,
	CodeUnsupportedVersion: -32004,
	CodeDuplicateRequest:   -32005,
	CodeDuplicateCall:      -32006,
	CodeUnknownSession:     -32007,
	CodeUnknownCall:        -32008,
	CodeUnknownApproval:    -32009,
	CodeAlreadyDecided:     -32010,
	CodeTooManyRequests:    -32011,
	CodeShuttingDown:       -32012,

	CodeUnknownRule: -32013,
	CodeRuleRefused: -32014,
	CodeUnknownTask: -32015,

	CodeDenied:             -32020,
	CodeBlocked:            -32021,
	CodeApprovalRequired:   -32022,
	CodeApprovalTimeout:    -32023,
	CodeNoApprover:         -32024,
	CodeInvalidArguments:   -32025,
	CodeUnknownTool:        -32026,
	CodeSandboxUnavailable: -32027,
	CodeSandboxFailed:      -32028,
	CodeTimedOut:           -32029,
	CodeCancelled:          -32030,
	CodeLimitExceeded:      -32031,
	CodeAuditUnavailable:   -32032,
	CodeInvalidOutput:      -32033,
	CodeServerFailed:       -32034,
}

// Number is the code's JSON-RPC number; a code that is not in the table counts
// as internal.
func (c Code) Number() int {
	if n, ok := numbers[c]; ok {
		return n
	}
	return numbers[CodeInternal]
}

// An Error is the error of a response. Code and Message are always set.
type Error struct {
	Code    Code
	Message string // one line for people
	// HintText is for the model: what would be allowed, or what to change.
	HintText string
	// Field is the path of the member at fault: "params.args.path".
	Field string
	// Decision is who or what refused, if it came to a decision.
	Decision *Decision
	// PlanDigest names the plan that was refused.
	PlanDigest string
	// ApprovalID is the request that a deferred call waits for (approval_required).
	ApprovalID ApprovalID
	// Result is the outcome of a call until it was stopped (timed_out, cancelled, limit_exceeded,
	// invalid_output).
	Result *CallResult
}

// Errorf makes an error from a code and a message. An error among the arguments
// is not wrapped: what an agent may not see must not be reachable through it.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns e with a hint for the model.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.HintText = fmt.Sprintf(format, args...)
	return e
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Hint says what to do about the error, or is "".
func (e *Error) Hint() string { return e.HintText }

// wireError is the error object of JSON-RPC 2.0, section 5.1.
type wireError struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Data    errorData `json:"data"`
}

type errorData struct {
	Code       Code        `json:"code"`
	Hint       string      `json:"hint,omitempty"`
	Field      string      `json:"field,omitempty"`
	Decision   *Decision   `json:"decision,omitempty"`
	PlanDigest string      `json:"plan_digest,omitempty"`
	ApprovalID ApprovalID  `json:"approval_id,omitempty"`
	Result     *CallResult `json:"result,omitempty"`
}

// MarshalJSON writes e as a JSON-RPC error object.
func (e *Error) MarshalJSON() ([]byte, error) {
	return marshal(wireError{e.Code.Number(), e.Message, errorData{
		e.Code, e.HintText, e.Field, e.Decision, e.PlanDigest, e.ApprovalID, e.Result,
	}})
}

// UnmarshalJSON reads a JSON-RPC error object. One without data.code, from a
// server that is not ours, counts as internal.
func (e *Error) UnmarshalJSON(b []byte) error {
	var w wireError
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	d := w.Data
	if d.Code == "" {
		d.Code = CodeInternal
	}
	*e = Error{d.Code, w.Message, d.Hint, d.Field, d.Decision, d.PlanDigest, d.ApprovalID, d.Result}
	return nil
}

// A FieldError says which member of a message is at fault.
type FieldError struct {
	Path   string // "params.args.lines[2]", "" for the whole message
	Reason string
	Hint   string
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// wire turns e into the error of a response.
func (e *FieldError) wire(code Code) *Error {
	return &Error{Code: code, Message: e.Error(), HintText: e.Hint, Field: e.Path}
}
