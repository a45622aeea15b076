// Package cli is the basis of every command of sandgate: its three streams, the exit
// statuses and errors with hints, and how text reaches a terminal.
package cli
