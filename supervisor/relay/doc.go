// Package relay puts the calls of a supervisor that works on a draft before the one whose draft
// it is, which decides. Ask is the side of the draft, Serve the other one; between them is a
// socket that no other process has.
//
// What is data of an approval.Call goes over as it is, whole. Of what it can do only that it can
// do it goes over, and is called back. Where that fails, nothing is allowed: a pattern covers
// nothing, and what is permitted instead has no digest.
package relay
