// Package httpgate lets approvers in over HTTP, on loopback: the web page, and
// bridges for programs that speak another protocol about approvals.
//
//	l, err := httpgate.Listen("127.0.0.1:8642")
//	token, err := httpgate.Token(file)
//	s := httpgate.New(httpgate.Config{Listener: l, Token: token, Approver: dial, ...})
//	err = s.Serve(ctx)
//
// A client that comes in this way is an operator, with an ordinary connection to
// the operator socket. This package has no rules of its own about calls. What it
// does decide is who may come in, because every user and every web page of the
// machine can send a request to a port on loopback:
//
//   - programs show the token (Authorization: Bearer), which is in a file that only
//     this user can read;
//   - a browser gets in by a link that works once. It is then known by a cookie,
//     which no script can read, and by a key that the page keeps, which no other
//     port of the same host is sent. One without the other is nothing;
//   - requests for another Host, from another Origin, with a query, or with a
//     method that is not the route's are refused before anything else is looked at.
//
// A route that does not say who may use it is closed (guard.go).
package httpgate
