// Package memfile makes unnamed files in memory that can no longer be changed. One
// process hands them to another by descriptor, with no path that leads to them and
// nothing on a disk.
package memfile
