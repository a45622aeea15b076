// Package failure turns the errors of every package below the supervisor into the
// codes of the wire. What is not known here is a fault of ours.
package failure
