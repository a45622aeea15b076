// Package mcp is the way in for clients of the Model Context Protocol: it serves
// the tools of one sandgate session as an MCP server, over standard input and
// output or over HTTP on the loopback.
//
// It translates and decides nothing. tools/list is tools.list, tools/call is
// tools.call, and notifications/cancelled is tools.cancel; what a call may do, and
// who is asked about it, is the supervisor's to say. A refusal is a result with
// isError, since a protocol error does not reach the model: the hint that comes
// with it says what would be allowed.
//
// A client cannot answer for the approver: nothing that MCP lets a client send
// reaches the operator's side, and the server asks its client for nothing, no
// sampling and no roots. The one exception is the operator's to make
// (approval.elicitation): a client that can ask its person is asked to, and the
// answer counts once, for a call of its own session (elicit.go).
package mcp
