// Package terminal is the terminal of the person at sandgate: what a program writes to it and
// reads from it, and what is asked on it.
package terminal
