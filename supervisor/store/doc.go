// Package store keeps remembered answers in a file, so that what a person said
// for an agent, or for everybody, still holds after a restart. It is the
// approval.Store that lasts.
//
//	s, err := store.Open(path)
//	c := approval.NewController(approval.Options{Store: s})
//
// The file is a bbolt database. Several processes share it: a lock is held for
// the length of one read or one write and never in between, so a deny that was
// given to one supervisor binds every other at its next call, and `sandgate run`
// beside a running `sandgate serve` is not looser than it. Lookups are answered
// from a copy in memory, which is read again when the file has changed.
//
// What was acknowledged is on disk. A file that is damaged, or that others could
// have written, is refused as a whole: a lost deny would allow, so nothing is
// salvaged from such a file, and a call whose memory cannot be read is denied.
//
// How often an answer was used is counted in memory and written with the next
// change, or by Close; a crash loses these counts and nothing else.
package store
