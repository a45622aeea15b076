// Package flips makes system calls that name files while other threads change what the
// names mean, during the checks of a broker: the bytes of the path, the table of
// descriptors, the working directory, and the links and directories on the way. A test
// runs it confined, and looks at what lies where the calls may not reach.
package flips
