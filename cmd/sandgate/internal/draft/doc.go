// Package draft has commands and sessions work on a draft of their directories: it makes one, starts this
// program on it, and tells a configuration where its copies lie.
package draft
