// Package review is a draft that a person looks at before it is in the workspace: what one is, what is
// asked about it, and how the calls on it are decided.
package review
