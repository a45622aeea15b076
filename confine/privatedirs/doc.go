// Package privatedirs has directories of one sandbox on the host's disk, where no mount namespace gives it
// a /tmp of its own: it makes them, counts what they take, and removes them however deep they are.
package privatedirs
