// Package bounds is what holds a plan besides its profile: its class and ceiling, what
// is withheld from a call that nobody is asked about, and all that it could reach, for
// the log of answers and in words for people. It computes, and touches nothing.
package bounds
