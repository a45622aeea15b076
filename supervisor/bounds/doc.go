// Package bounds limits a plan beyond its profile: its class and ceiling, what is
// withheld from a call that runs without a prompt, and everything that it could reach,
// for the log of answers and in words for people. It computes, and touches nothing.
package bounds
