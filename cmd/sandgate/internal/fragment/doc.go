// Package fragment is a part of a configuration that follows from what was seen, with a reason for each line.
package fragment
