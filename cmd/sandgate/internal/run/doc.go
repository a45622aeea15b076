// Package run takes one command through the whole path of a call, with a supervisor of its own in this
// process.
package run
