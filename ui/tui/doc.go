// Package tui is the screen of `sandgate approve`: the requests that wait, all
// that is known about one of them, and keys to answer it.
//
//	events, err := approver.Subscribe(ctx) // a *client.Approver
//	err = tui.Run(ctx, tui.Options{Approver: approver, Events: events, ...})
//
// It is an ordinary client of the operator socket. What it must get right is that
// a person answers what they have read, and nothing else:
//
//   - A key or a click answers the request that has stood in front of the person, by the
//     rule of package guard. Keys that come in one burst are pasted, and answer nothing. When
//     a key was typed is known from the order of the terminal's own answers (typed.go).
//   - Deny has the focus. Only one's own answer makes room for the next request.
//   - Allowing what was not all on the screen takes the same key twice. A group is allowed
//     after each member was on the screen, by the ids that were listed: what joins it
//     later is asked about. What is remembered is a sentence before it is an answer, and so
//     is a rule.
//   - Every string from outside is escaped (approval.Escape), kept inside the
//     margin that marks it as such, and wrapped, not cut.
//
// All state is in model, which changes in Update alone, so that a test drives it
// by messages and looks at View. It needs a terminal; for anything else there is
// the plain mode of `sandgate approve`.
package tui
