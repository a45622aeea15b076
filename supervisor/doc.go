// Package supervisor is the reference monitor: every tool call goes through it,
// on one path, and nothing reaches the machine another way.
//
//	agent ──agent.sock──▶ ┌────────────── supervisor (your user, unconfined) ─────────────┐
//	                      │ receive ▶ check ▶ decide ▶ confine ▶ run ▶ record ▶ reply     │
//	approver ─operator.sock─▶ pending calls, answers     │             │          │       │
//	                      └──────────────────────────────┼─────────────┼──────────┘       │
//	                                                     ▼             ▼                  ▼
//	                                    sandbox: sandgate-init    the tool's        audit log
//	                                    (process 1)               processes         (hash chain)
//
// call.go is that path, top to bottom. It works on state.go, makes plans and questions by
// propose.go, ties calls to their sessions by register.go, and writes to the log by record.go.
// Who may do what:
//
//   - tools propose a plan (package tools), and cannot run it;
//   - approval decides (package approval), and hands back the plan it was shown;
//   - confine runs what the grant holds (package confine), under the plan's profile;
//   - the agent socket (server/agent.go) can ask, and cannot name an operator's method;
//   - the operator socket (server/operator.go) can answer, and touches no process or file
//     of a call.
//
// Calls differ by who has made them and who waits (kind.go), and plans by who carries them
// out (tools.Kind, and acts in call.go); nothing else tells them apart. The same path decides
// what runs elsewhere: calls that an agent's runtime carries out itself (external.go), which
// nothing here holds, and the start and the calls of MCP servers, whose process is a call of
// its session's (mcp.go; package mcphost keeps it). A call that goes on when it has been
// answered is a task (task.go; package background keeps it). A session with a name
// (named.go) outlives its connection. What a call changes is kept by packages undo and changes,
// and what it was refused can be asked about (widen.go). What a person has to
// review runs in another supervisor, on a draft, and is decided here (review.go): package relay
// takes its calls from the one to the other.
// Package gateway serves the connections of a call, and signs outside what git hands over.
//
// Package server answers on the two sockets, and package explain says what would become of a call
// and can make none; both know this package by interfaces of their own.
//
// Everything is built by package assemble and given to New; this package reads no
// configuration file and keeps no global state.
package supervisor
