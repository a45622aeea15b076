// Package filediff shows how a file differs from what it was.
package filediff
