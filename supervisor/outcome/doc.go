// Package outcome makes the result of a call: what its program wrote, within bounds
// and while it comes; what a file operation did, in words; why it did not end by
// itself; and what the sandbox refused it.
package outcome
