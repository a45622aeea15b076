// Package approval decides whether a call of a tool may happen. It is the policy
// decision point between a program that wants to act, such as an AI agent, and
// the code that acts for it. It needs nothing but the standard library and
// belongs to no agent framework.
//
// A tool says what a call means: it implements Aware, or is wrapped by Require, and
// returns nothing (no approval needed), a Request (a person must be asked), or a
// *Blocked (never allowed). It does not know modes, people or memory. A Controller
// knows about those, and turns what the tool said into a Grant or a *DeniedError:
//
//	c := approval.NewController(approval.Options{Prompter: terminal})
//	grant, err := c.Decide(ctx, approval.Call{Request: request, Subject: command})
//	if err != nil {
//		return err // a *DeniedError says by whom, why, and what to tell the model
//	}
//	approved, err := approval.Granted[Command](grant) // what was approved, and nothing else
//
// # The order of a decision
//
// The first step that has an opinion decides. Its name is Decision.Source.
//
//	step              decides when                                             as
//	blocked           the tool never allows the call                           block
//	deny_rule         a standing rule denies the tool or its connector         deny
//	unknown_tool      no list names the tool, and such are denied              deny
//	remembered_deny   this, or a pattern of it, was denied for some scope      deny
//	batch             a call of the same batch was rejected hard               deny
//	deferred          the call names the approval that it was given            either
//	not_needed        the tool needs no approval                            allow
//	mode              approve_all allows, strict denies, interactive goes on   either
//	remembered_allow  this, or patterns of all of it, was allowed for a scope  allow
//	allow_rule        a standing rule allows the tool or its connector         allow
//	denial_cache      a person denied the same call a moment ago               deny
//	ask               a person answers; no answer in time is a denial          either
//
// A caller that asks people itself (Call.CallerAsks) is refused in the last step,
// with a record that no decision was made.
//
// So a deny beats an allow at every scope, and neither a mode nor an allow erases
// one; adding a deny never makes any decision more permissive. A call whose
// session is not open, or whose payload is not JSON, is refused before the first
// step (invalid_call). What cannot be read, such as a broken Store, is a denial.
//
// What the tool said and the mode come together like this, where no rule and no
// memory speaks first:
//
//	the tool says   interactive   approve_all   strict
//	nothing         allow         allow         allow
//	a request       ask           allow         deny
//	blocked         block         block         block
//
// A ToolPolicy in Options can put a question, or a denial, where a tool that it
// does not know asks for nothing. What a tool says about itself (Annotations) adds
// to that and takes nothing away.
//
// # The same call again
//
// An answer can be remembered for the session, the agent, or globally. It then
// covers calls with the same connector, tool name and payload, compared as
// canonical JSON: key order and the spelling of numbers do not matter, and strings
// are compared byte for byte. The tool chooses how much an answer covers by what it
// puts into the payload.
//
// Or it covers a Pattern: the beginning of a command, the files of a directory,
// the hosts below a name. A tool says by Call.Reach what its call touches; a deny
// needs one element of it, an allow all of them, and the tool has the last word
// (Reach.Left). Patterns are narrow: Pattern.Check refuses what would be a blank
// cheque, and a pattern that does not fit the call it is an answer to is refused.
//
// What is remembered says where it came from, when it ends (after a time, after a
// number of uses), how often it was used and when last: Remembered lists it.
//
// # Edited arguments, and calls that do not wait
//
// An allow may carry other arguments. The call's own tool plans them (Call.Revise),
// everything that denies is asked again, and the Grant is for the edited call.
//
// Defer is Decide without waiting: it gives an id, and a later call with the same
// digest and that id gets the answer, once, within five minutes of it.
//
// # A crash
//
// With a Journal, a request is kept before anybody is asked, and until the caller
// has its own record of how it ended (Recorded). What is found there after a crash
// was not answered to anybody's knowledge, and is over: nothing is ever allowed by
// what a Journal holds.
//
// # Approvers
//
// A request waits until its first answer, its timeout, the end of its context or
// of its session, whichever comes first; approvers may come and go meanwhile.
// Answers enter through Answer and Dismiss only, or from a Prompter in the same
// process. The package reads no messages, so nothing that a model or a tool
// writes is ever an answer; who may call Answer is for the program to guard.
//
// Text in a Pending comes from the other side of the gate and is meant for a
// person: print it through Escape or EscapeLine.
package approval
