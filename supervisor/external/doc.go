// Package external is what of a call only a sandbox could keep, where the agent's runtime carries the call
// out itself: that is refused, and the rest asked about as what it is.
package external
