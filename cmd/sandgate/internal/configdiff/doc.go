// Package configdiff says in what two configurations differ: which calls are decided otherwise, what
// their sandboxes show otherwise, and which keys have other values.
package configdiff
