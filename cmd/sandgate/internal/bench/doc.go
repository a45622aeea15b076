// Package bench measures sandgate beside bare exec and bare bubblewrap, with supervisors that it starts
// for that.
package bench
