// Package audit keeps the log of what was asked, decided and done: one JSON
// object a line, only ever appended to, each line carrying the SHA-256 of the
// one before it. docs/audit.md specifies the format for other readers.
//
//	log, recovery, err := audit.Open(path, audit.Options{})
//	entry, err := log.Append(ctx, audit.Record{Kind: audit.KindDecision, Call: id, Data: plan})
//	// the entry is on disk: the call may run
//	_, err = log.Append(ctx, audit.Record{Kind: audit.KindEnd, Call: id, Data: result})
//
// A decision is on disk before Append returns. Appends that arrive while the disk
// is busy share one write and one sync. Several processes may append to the same
// log: each append takes an advisory lock and continues the chain from where
// another process left it. Every failure to append satisfies errors.Is(err,
// ErrUnavailable). A caller that guards calls with the log lets nothing run after
// such an error.
//
// Open repairs what a crash left behind, and records it in the log itself: bytes
// of an unfinished line go to a file beside the log, and calls that were decided
// but never ended get an entry that says they were interrupted.
//
// Verify finds every change before the end of a log. It cannot find what an
// intruder with the right to write the file does when he computes the whole chain
// anew; keep a copy of the newest hash elsewhere if that is your worry. The
// checkpoint beside the log finds a tail that was cut off.
//
// The package reads no configuration, rotates nothing and sends nothing anywhere.
package audit
