package failure

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
)

// Wire is where the errors of the packages below become the codes of the
// wire. What is not known here is a fault of ours, and its text stays in the log.
func Wire(err error) *protocol.Error {
	var (
		wire    *protocol.Error
		denied  *approval.DeniedError
		later   *approval.DeferredError
		blocked *approval.Blocked
		args    *tools.ArgumentError
		unknown *tools.UnknownToolError
		cannot  *confine.Unenforceable
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &denied):
		return &protocol.Error{Code: protocol.Code(denied.Code), Message: denied.Decision.Reason, HintText: deniedHint(denied)}
	case errors.As(err, &later):
		return &protocol.Error{Code: protocol.CodeApprovalRequired, Message: "this call needs a person's approval, which was requested",
			HintText: "continue with something else; later, repeat the call with this approval_id", ApprovalID: protocol.ApprovalID(later.ID)}
	case errors.As(err, &blocked):
		return &protocol.Error{Code: protocol.CodeBlocked, Message: blocked.Reason, HintText: blocked.Hint}
	case errors.As(err, &args):
		return &protocol.Error{Code: protocol.CodeInvalidArguments, Message: args.Error(), HintText: args.Hint}
	case errors.Is(err, tools.ErrNotFound), errors.Is(err, tools.ErrNotExecutable):
		return &protocol.Error{Code: protocol.CodeInvalidArguments, Message: err.Error()}
	case errors.As(err, &unknown):
		return &protocol.Error{Code: protocol.CodeUnknownTool, Message: unknown.Error(), HintText: unknown.Hint()}
	case errors.As(err, &cannot):
		return &protocol.Error{Code: protocol.CodeSandboxUnavailable, Message: cannot.Error(), HintText: cannot.Hint}
	case errors.Is(err, audit.ErrUnavailable):
		return Audit(err)
	case IsCancelled(err), errors.Is(err, context.DeadlineExceeded):
		return &protocol.Error{Code: protocol.CodeCancelled, Message: err.Error()}
	case errors.Is(err, confine.ErrJournal) && diskRefuses(err): // no shortage that goes by in a moment
		return &protocol.Error{Code: protocol.CodeSandboxFailed, Message: err.Error(),
			HintText: "nothing ran: sandgate must record what to undo if it is killed; free some space there, or set XDG_STATE_HOME to a writable directory"}
	case confine.IsShortage(err):
		return &protocol.Error{Code: protocol.CodeTooManyRequests, Message: err.Error(), HintText: "nothing ran; try the same call again in a moment"}
	default:
		return &protocol.Error{Code: protocol.CodeSandboxFailed, Message: err.Error(), HintText: "internal failure; no wrong decision was made: retry the call"}
	}
}

// WithCause says who or what ended a call that was on its way when its context ended.
func WithCause(ctx context.Context, err error) error {
	var denied *approval.DeniedError
	var wire *protocol.Error
	ended := ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
	if !ended || errors.As(err, &denied) || errors.As(err, &wire) {
		return err
	}
	return &protocol.Error{Code: protocol.CodeCancelled, Message: context.Cause(ctx).Error()}
}

// diskRefuses reports whether a file system takes no files, which stays so.
func diskRefuses(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES}, func(e error) bool { return errors.Is(err, e) })
}

// deniedHint is the approver's feedback if there is any: it is meant for the model.
func deniedHint(d *approval.DeniedError) string {
	if d.Decision.Feedback != "" {
		return d.Decision.Feedback
	}
	return d.Hint
}

func Audit(err error) *protocol.Error {
	hint := "free space on the disk of the audit log, or set XDG_STATE_HOME to a directory on another disk"
	var e *audit.Error
	if errors.As(err, &e) {
		hint = cmp.Or(e.Hint(), hint)
	}
	return &protocol.Error{
		Code:     protocol.CodeAuditUnavailable,
		Message:  "the audit log cannot be written: " + err.Error(),
		HintText: "no call can run without it; " + hint,
	}
}

// IsRefusal reports whether err means that a person or a rule said no.
func IsRefusal(err error) bool {
	e := Wire(err)
	if e == nil {
		return false
	}
	switch e.Code {
	case protocol.CodeDenied, protocol.CodeBlocked, protocol.CodeApprovalTimeout, protocol.CodeNoApprover:
		return true
	}
	return false
}

// IsCancelled reports whether an error is the agent's, the session's or the
// supervisor's word that a call is no longer wanted.
func IsCancelled(err error) bool {
	for _, c := range []error{context.Canceled, server.ErrCancelled, server.ErrSessionEnding, ErrSessionClosed, ErrShuttingDown, server.ErrDisconnected} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

func Drift(err error) error {
	return &protocol.Error{
		Code:     protocol.CodeDenied,
		Message:  "changed between approval and start: " + err.Error(),
		HintText: "repeat the call, so that the new content can be approved",
	}
}

var (
	ErrShuttingDown  = errors.New("the supervisor is shutting down")
	ErrSessionClosed = errors.New("the session was closed")
)

// EndsBatch reports whether a denial is one of the call and of what comes after it.
func EndsBatch(d approval.Decision) bool { return d.Reject == approval.RejectHard || d.Interrupt }
