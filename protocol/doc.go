// Package protocol defines what is said on sandgate's two sockets: every
// message, the framing, and the error codes. It does nothing with them.
//
// Both sockets speak JSON-RPC 2.0, one message per line, in UTF-8, with at most
// [MaxMessage] bytes a line. An agent connection starts with initialize, opens
// sessions, and calls tools in them; the server answers each request once and,
// while a call runs, sends the notifications tool.state and tool.output. An
// operator connection answers pending approvals and looks at the server.
//
// # Strictness
//
// A message that could be read in two ways could be approved in one and run in
// the other. [Unmarshal] therefore refuses what encoding/json forgives: unknown
// members, members given twice, names that differ in case, null for a value,
// trailing data, ill-formed UTF-8 and lone surrogates. Its errors name the
// member at fault by its path ("params.args.path").
//
// # Limits and recovery
//
// A line beyond the limit is read to its end, dropped, and answered with
// message_too_large and a null id; a line that is not JSON, likewise, with
// parse_error. The connection stays usable after both. See [Reader].
//
// # Errors
//
// An error object carries a number for JSON-RPC's sake, a stable word that
// programs compare ([Code], in data.code), a message for people and, in
// data.hint, what the model may do instead. [Error] is that object in Go.
package protocol
