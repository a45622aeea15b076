// Package external covers calls that the agent's runtime carries out itself: what only a sandbox could
// enforce is refused, and the rest is asked about as what it is.
package external
