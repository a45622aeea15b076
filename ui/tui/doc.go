// Package tui is the screen of `sandgate approve`: the requests that wait, all
// that is known about one of them, and keys to answer it.
//
//	events, err := approver.Subscribe(ctx) // a *client.Approver
//	err = tui.Run(ctx, tui.Options{Approver: approver, Events: events, ...})
//
// It is an ordinary client of the operator socket. What it must get right is that
// a person answers what they have read, and nothing else:
//
//   - A key answers the request under the cursor only after that request has been
//     on the screen for a moment. A key that comes sooner was meant for something
//     else: it is dropped, and the moment begins anew. So neither type-ahead nor a
//     request that takes the place of another gets an answer by accident.
//   - Deny has the focus. Pasted text answers nothing.
//   - Allowing what was not all on the screen, or for good, or for a whole group,
//     takes the same key twice, with what it covers in between. A group is allowed
//     by the ids that were listed: what joins it later is asked about.
//   - Every string from outside is escaped (approval.Escape), kept inside the
//     margin that marks it as such, and wrapped, not cut.
//
// All state is in model, which changes in Update alone, so that a test drives it
// by messages and looks at View. It needs a terminal; for anything else there is
// the plain mode of `sandgate approve`.
package tui
