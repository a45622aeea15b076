//go:build linux && !cgo

package seccomp

// compile needs no C library.
func compile(p program) ([]byte, error) { return assemble(p) }
