// Package present puts a request for approval into words that cannot deceive:
// what the screen of `sandgate approve`, its plain mode and `sandgate approvals
// show` have in common.
//
//	present.Title(a)         shell: Execute: go test ./...
//	present.Facts(a)         agent, careful; asked by, may write, network; limits, ...
//	present.Essence(a)       title, facts to decide by, content: for a question
//	present.Text(a, ...)     all of it: for a pager or a pipe
//
// Every string of a request comes from outside. What leaves this package is
// escaped (approval.Escape), has its long runs of blanks counted, and is kept
// apart from words of ours by a label or a margin: no line that comes from outside
// begins where one of ours does. It draws nothing and knows no terminal.
package present
