//go:build !unix

package unixsock

import "errors"

var errUnsupported = errors.New("this system has no Unix sockets with file modes")

// Listen always fails here.
func Listen(path string, _ Options) (*Listener, error) {
	return nil, &PathError{Op: "listen on", Path: path, Err: errUnsupported}
}

func ownDir(dir string) error {
	return &PathError{Op: "use directory", Path: dir, Err: errUnsupported}
}

func privateDir(dir string) error { return ownDir(dir) }
