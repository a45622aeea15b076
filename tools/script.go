package tools

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// PinProgram pins the executable at path, as LookPath gives it, and the interpreter that
// its "#!" line names. What else a call starts, Hold binds it to.
func PinProgram(path string) ([]Pin, error) {
	pin, err := PinFile(path)
	if err != nil {
		return nil, err
	}
	pins := []Pin{pin}
	if interpreter := shebang(path); interpreter != "" && interpreter != path {
		if pin, err := PinFile(interpreter); err == nil { // if it has gone, execve will say so
			pins = append(pins, pin)
		}
	}
	return pins, nil
}

// shebang gives the resolved interpreter that path's first line names, or "".
// The kernel looks at 256 bytes: execve(2), "Interpreter scripts".
func shebang(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return ""
	}
	line, found := bytes.CutPrefix(head[:n], []byte("#!"))
	if !found {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) == 0 || !filepath.IsAbs(fields[0]) {
		return ""
	}
	resolved, err := resolveLinks(fields[0])
	if err != nil {
		return ""
	}
	return resolved
}

// IsELF reports whether the file at path is a program that the kernel runs by itself,
// and no script.
func IsELF(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var head [4]byte
	n, err := unix.Pread(fd, head[:], 0)
	return err == nil && string(head[:n]) == "\x7fELF"
}

// Writable reports whether a tool, or the author of the configuration that keeps tools
// from it, could have changed the file at resolved: see Above.
func (p Paths) Writable(resolved string) bool {
	own := slices.ContainsFunc(p.rulesFor(resolved), func(r *PathRule) bool { return r.Write })
	return own || p.Above != nil && p.Above.Writable(resolved)
}
