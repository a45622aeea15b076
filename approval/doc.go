// Package approval decides whether a call of a tool may happen. It is the policy
// decision point between a program that wants to act, such as an AI agent, and
// the code that acts for it. It needs nothing but the standard library and
// belongs to no agent framework.
//
// A tool says what a call means: it implements Aware, or is wrapped by Require,
// and gives nothing (no approval needed), a Request (somebody must be asked), or
// a *Blocked (never allowed). It knows nothing of modes, people or memory. A
// Controller knows about those, and turns what the tool said into a Grant or a
// *DeniedError:
//
//	c := approval.NewController(approval.Options{Prompter: terminal})
//	grant, err := c.Decide(ctx, approval.Call{Request: request, Subject: command})
//	if err != nil {
//		return err // a *DeniedError says by whom, why, and what to tell the model
//	}
//	run(grant.Subject()) // what was approved, and nothing else
//
// # The order of a decision
//
// The first step that has an opinion decides. Its name is Decision.Source.
//
//	step              decides when                                             as
//	blocked           the tool never allows the call                           block
//	deny_rule         a standing rule denies the tool or its connector         deny
//	remembered_deny   the same call was denied for the session, agent, or all  deny
//	batch             a call of the same batch was rejected hard               deny
//	not_needed        the tool asks for no approval                            allow
//	mode              approve_all allows, strict denies, interactive goes on   either
//	remembered_allow  the same call was allowed for the session, agent, or all allow
//	allow_rule        a standing rule allows the tool or its connector         allow
//	denial_cache      a person denied the same call a moment ago               deny
//	ask               a person answers; no answer in time is a denial          either
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
// # The same call again
//
// An answer can be remembered for the session, the agent, or globally. It then
// covers calls with the same connector, tool name and payload, compared as
// canonical JSON: key order, the spelling of numbers and the Unicode normal form
// (see Options.Normalize) do not matter. The tool chooses how much an answer
// covers by what it puts into the payload.
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
