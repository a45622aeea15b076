//go:build !linux

package unixsock

// IsDescendant reports whether process pid descends from process ancestor. Here
// it cannot tell, and says no: the sandbox does not show the sockets to a tool,
// and this is only the second line.
func IsDescendant(pid, ancestor int) (bool, error) { return pid == ancestor, nil }
