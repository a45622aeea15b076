// Package tripwire finds what actions left where a program of the user's would run
// or follow it, and takes it away.
//
// A Guard surveys the trees that a profile gives before a sandbox is built: the names
// to cover are the compilers' to have. A Baseline is the state before an action. When
// the action has ended the trees are surveyed again, and what is new and protected
// goes into package quarantine before anybody hears of the end.
package tripwire
