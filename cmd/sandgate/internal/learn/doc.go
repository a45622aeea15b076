// Package learn is the command learn: it finds what a command needs by leaving out, one try in a draft
// after the other, and proposes it as a part of a configuration.
package learn
