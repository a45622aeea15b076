// Package hostfs looks at files of the host: what stands at a path of a profile, and
// which file that is, without following a link that a tool could have made.
package hostfs
