// Package hooks answers the hooks of agent runtimes: before such a program carries out
// one of its own tools, it asks a command of the user's choice whether it may. The answer
// comes from the supervisor's rules; this package only translates.
//
// Two kinds of answer differ in what they are worth. A shell command is rewritten, where
// the runtime lets a hook do that, into one that has the supervisor run it: it is decided
// and confined there like any other call. Everything else the runtime carries out itself,
// in its own process: the hook advises, and no sandbox holds it.
//
// Runtimes take most failures of a hook for a yes. So whatever goes wrong here, down to
// an input that cannot be understood, is a no, and says why.
package hooks
