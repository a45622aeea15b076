// Package cli is what every command of sandgate is built on: its three streams, the exit
// statuses and errors with hints, and how text reaches a terminal.
package cli
