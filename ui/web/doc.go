// Package web is the page on which people answer requests for approval: its files,
// and the channel over which it is told what waits.
//
//	files := web.Files()            // by path: "/", "/main.js", ...
//	live := web.Live(dial)          // for whoever may decide, and for nobody else
//
// The page is a screen and no more. What a request is in words is made here, by
// package present, with everything that could deceive escaped; the page puts these
// texts into text nodes, never into markup. What is decided about an answer is
// decided behind the operator socket, on which each open page is one client.
//
// Who may open the channel is not this package's business: see package httpgate.
package web
