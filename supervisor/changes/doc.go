// Package changes keeps what calls change in a workspace, so that a person can take it
// back. It knows nothing of tools and sandboxes: it looks at a tree before a call and
// after it, on every backend in the same way.
//
// The content of each file is stored before a call may change it. A supervisor that is
// killed in the middle of one loses nothing: what the call changed is found by the next
// look, and is the interrupted call's.
//
// One directory for each workspace, its user's alone (0700), outside of every sandbox:
//
//	DIR/workspace        the path of the workspace, and what bounds the rest
//	DIR/lock             flock(2): one look or one undo at a time, of all processes
//	DIR/tree             the tree as it was last seen, one entry for each name
//	DIR/objects/          contents by SHA-256, compressed (zstd): small ones in packs; or files
//	                      that share their blocks with what they are the content of
//	DIR/running/ID       a call that is under way: its data, then what it has changed so far
//	DIR/calls/ID.json    a call that has ended, and what it changed
package changes
