// Package frozen keeps what a person approved as it was shown: the files that a call starts are held by
// their content, and while the call runs no other call takes their names.
package frozen
