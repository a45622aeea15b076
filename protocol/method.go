package protocol

// A Method names a request or a notification.
type Method string

// Requests of the agent socket. MethodInitialize must come first, and once; the
// operator socket knows it too, and does not insist on it.
const (
	MethodInitialize   Method = "initialize"
	MethodSessionOpen  Method = "session.open"
	MethodSessionClose Method = "session.close"
	MethodToolsList    Method = "tools.list"
	MethodToolsCall    Method = "tools.call"
	MethodToolsCheck   Method = "tools.check"
	MethodToolsDecide  Method = "tools.decide"
	MethodToolsCancel  Method = "tools.cancel"
	MethodToolsBatch   Method = "tools.batch"

	MethodTaskStart  Method = "task.start"
	MethodTaskOutput Method = "task.output"
	MethodTaskInput  Method = "task.input"
	MethodTaskKill   Method = "task.kill"
	MethodTaskList   Method = "task.list"
)

// Notifications to an agent, about a call under way.
const (
	MethodToolOutput Method = "tool.output"
	MethodToolState  Method = "tool.state"
)

// Requests of the operator socket.
const (
	MethodApprovalsSubscribe  Method = "approvals.subscribe"
	MethodApprovalsList       Method = "approvals.list"
	MethodApprovalsShow       Method = "approvals.show"
	MethodApprovalsPreview    Method = "approvals.preview"
	MethodApprovalsDecide     Method = "approvals.decide"
	MethodApprovalsRemembered Method = "approvals.remembered"
	MethodApprovalsForget     Method = "approvals.forget"
	MethodStatus              Method = "status"
	MethodSessionsList        Method = "sessions.list"
	MethodSessionsClose       Method = "sessions.close"
	MethodCallsList           Method = "calls.list"
	MethodCallsKill           Method = "calls.kill"
	MethodAuditQuery          Method = "audit.query"
)

// Notifications to an operator that has subscribed.
const (
	MethodApprovalRequested Method = "approval.requested"
	MethodApprovalUpdated   Method = "approval.updated"
	MethodApprovalResolved  Method = "approval.resolved"
)
