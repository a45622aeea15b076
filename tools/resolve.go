package tools

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// maxPath is PATH_MAX of Linux without its terminating NUL, in bytes.
	maxPath = 4095
	// maxLinks is how many symbolic links one resolution follows, as in
	// path_resolution(7).
	maxLinks = 40
)

const ofEachProcess = "the name means a different file in each process"

// A resolveError says that a path cannot be resolved, and where the walk stood
// then. The place matters: a failure outside every root must look like any
// other refusal there.
type resolveError struct {
	at     string // absolute, free of links; "" if the walk never began
	reason string
}

func (e *resolveError) Error() string { return e.reason }

// checkPath refuses what no path can be.
func checkPath(path string) error {
	switch {
	case path == "":
		return &resolveError{reason: "path is empty"}
	case len(path) > maxPath:
		return &resolveError{reason: fmt.Sprintf("path is %d bytes long, more than %d", len(path), maxPath)}
	case strings.IndexByte(path, 0) >= 0:
		return &resolveError{reason: "path contains a NUL byte"}
	case !utf8.ValidString(path):
		return &resolveError{reason: "path is not valid UTF-8"}
	}
	return nil
}

// absolute gives path as seen from cwd. Only "~" and "~/..." name the home
// directory: "~user" would need the user database, and is an ordinary name.
func absolute(path, cwd, home string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return path, nil
	case home != "" && path == "~":
		return home, nil
	case home != "" && strings.HasPrefix(path, "~/"):
		return home + path[1:], nil
	case filepath.IsAbs(cwd):
		return cwd + "/" + path, nil // not filepath.Join: "link/.." is resolved, not cleaned away
	}
	return "", &resolveError{reason: fmt.Sprintf("path %q is relative and there is no working directory", path)}
}

// resolveLinks follows every symbolic link of the absolute path, also those of a
// dangling link, and gives the path that an open would reach. A component that does not
// exist, or that this process may not look at, is taken as written, and so is the rest:
// the way a name resolves must not reveal whether something is there.
func resolveLinks(path string) (string, error) { return resolveBelow("/", path, nil) }

// resolveBelow is resolveLinks for a path that starts at current, which is resolved. It tells of
// each link on the way.
func resolveBelow(current, path string, link func(path string)) (string, error) {
	links := 0
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			current = filepath.Dir(current)
			continue
		}
		next := filepath.Join(current, name)
		if len(next) > maxPath {
			return "", &resolveError{at: current, reason: "path is too long once its links are resolved"}
		}
		target, ok := readLink(next)
		if !ok {
			current = next
			continue
		}
		if strings.HasPrefix(next, "/proc/") { // self, cwd: another file for each process that looks
			return "", &resolveError{at: next, reason: ofEachProcess}
		}
		if link != nil {
			link(next)
		}
		if links++; links > maxLinks {
			return "", &resolveError{at: next, reason: "path goes through too many symbolic links"}
		}
		if filepath.IsAbs(target) {
			current = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return current, nil
}

// readLink reports the target of path, if it is a symbolic link that can be read.
func readLink(path string) (target string, ok bool) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(path, buf[:]) // EINVAL for whatever is no link
	if err != nil || n <= 0 {
		return "", false
	}
	return string(buf[:n]), true
}

// below reports whether path is root or lies below it, by whole components.
// Both are absolute and clean.
func below(root, path string) bool {
	if !filepath.IsAbs(root) {
		return false
	}
	if root == "/" || path == root {
		return filepath.IsAbs(path)
	}
	return strings.HasPrefix(path, root) && path[len(root)] == '/'
}
