// Package memfile makes unnamed files in memory that nobody can change any more: what
// one process hands another by descriptor, with no path that leads to it and nothing on
// a disk.
package memfile
