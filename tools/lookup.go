package tools

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// The two ways in which a program cannot be run, and the exit statuses by which
// a shell tells them.
var (
	ErrNotFound      = errors.New("command not found") // 127
	ErrNotExecutable = errors.New("not executable")    // 126
)

// defaultPath is searched by execvp(3) without a PATH.
const defaultPath = "/bin:/usr/bin"

// LookPath finds the program that execvp(3) would run for name inside a sandbox
// with the search path pathEnv and the working directory dir, and resolves every
// symbolic link in its path. A name with a slash is not searched for. An empty or
// relative entry of pathEnv starts at dir, as it does for execvp: a caller that
// trusts a program by its name asks Trusted about the result.
//
// visible says which paths the sandbox's profile lets be read and executed. What
// it does not see is not there: the error is then the same as for a missing file.
// Errors wrap ErrNotFound or ErrNotExecutable.
func LookPath(name, pathEnv, dir string, visible func(path string) bool) (string, error) {
	candidates, err := searchList(name, pathEnv, dir)
	if err != nil {
		return "", fmt.Errorf("look up %q: %w", clip(name), err)
	}
	failure := ErrNotFound
	for _, candidate := range candidates {
		path, err := executable(candidate, visible)
		switch {
		case err == nil:
			return path, nil
		case errors.Is(err, ErrNotExecutable):
			failure = err // execvp goes on, and reports EACCES if nothing else is found
		}
	}
	return "", fmt.Errorf("look up %q: %w", clip(name), failure)
}

// searchList gives the absolute paths at which name may be, in order.
func searchList(name, pathEnv, dir string) ([]string, error) {
	if err := checkPath(name); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNotFound, err)
	}
	if strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("%w: it names a directory", ErrNotFound)
	}
	if strings.Contains(name, "/") {
		abs, err := absolute(name, dir, "")
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrNotFound, err)
		}
		return []string{abs}, nil
	}
	if pathEnv == "" {
		pathEnv = defaultPath
	}
	var list []string
	for _, entry := range filepath.SplitList(pathEnv) {
		if !filepath.IsAbs(entry) {
			if !filepath.IsAbs(dir) {
				continue
			}
			entry = dir + "/" + entry
		}
		list = append(list, entry+"/"+name)
	}
	return list, nil
}

// executable resolves candidate and checks that it is a visible regular file that
// this user may execute. Both the entry itself and its target must be visible:
// inside the sandbox the link, too, must be there to be found.
func executable(candidate string, visible func(path string) bool) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(candidate, &st); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return "", ErrNotFound // as in most directories of PATH, whose links need not be followed one by one
	}
	slash := strings.LastIndexByte(candidate, '/') // filepath.Dir would clean "link/.." away
	parent, err := resolveLinks(candidate[:slash])
	if err != nil {
		return "", ErrNotFound
	}
	entry := filepath.Join(parent, candidate[slash+1:])
	path, err := resolveBelow(parent, candidate[slash+1:], nil)
	if err != nil || !visible(entry) || !visible(path) {
		return "", ErrNotFound
	}
	if err := unix.Lstat(path, &st); err != nil {
		return "", ErrNotFound
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 || unix.Access(path, unix.X_OK) != nil {
		return "", ErrNotExecutable
	}
	return path, nil
}

// Trusted reports whether the executable at the resolved path may stand for its
// name: it runs under p, from a place where nothing under p can write. What a
// tool can write may have been replaced by the tool; `./ls` is not `ls`.
// A file that is write-protected by a pattern only is not trusted either, since
// it still lies in a tree that the tool fills.
func Trusted(path string, p sandboxprofile.Profile) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		if slices.Contains(p.Scratch, dir) {
			return false
		}
		if rights, ok := p.Paths[dir]; ok {
			return rights&sandboxprofile.Execute != 0 && rights&sandboxprofile.Write == 0 &&
				p.Rights(path)&sandboxprofile.Execute != 0
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
