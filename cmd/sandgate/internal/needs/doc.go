// Package needs says what a call was refused, what a configuration would have to give for it, and which
// programs of the person at sandgate are others inside.
package needs
