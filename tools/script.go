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

// PinProgram pins the files that running argv stands on: the executable at path,
// as LookPath gives it; the interpreter that its "#!" line names; and, if it is
// itself an interpreter, the script that argv names, when that lies below a root
// that tools can write. Other scripts cannot change under the sandbox's hands,
// and files that are only data may.
//
// Which argument is the script is a guess by position: the first that exists.
// It may pin too little, for a program that loads more code by itself. That is
// no hole: what runs is bounded by the profile, whatever it is.
func PinProgram(path string, argv []string, dir string, p Paths) ([]Pin, error) {
	return pinAll(path, shebang(path), script(path, argv, dir, p))
}

// PinBinary is PinProgram for an executable that is no script.
func PinBinary(path string, argv []string, dir string, p Paths) ([]Pin, error) {
	return pinAll(path, script(path, argv, dir, p))
}

func pinAll(path string, more ...string) ([]Pin, error) {
	pin, err := PinFile(path)
	if err != nil {
		return nil, err
	}
	pins := []Pin{pin}
	for _, extra := range more {
		if extra == "" || extra == path {
			continue
		}
		if pin, err := PinFile(extra); err == nil { // if it has gone, execve will say so
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

// script gives the resolved path of the script that an interpreter would read.
func script(path string, argv []string, dir string, p Paths) string {
	if len(argv) == 0 || !isInterpreter(argv[0]) && !isInterpreter(path) {
		return ""
	}
	p.Cwd, p.Home = dir, ""
	for _, arg := range argv[1:] {
		if arg == "-c" || arg == "-e" || arg == "-m" {
			return "" // the code is in argv, which is part of the plan, or found by module name
		}
		if strings.HasPrefix(arg, "-") {
			continue
		}
		resolved, err := p.Resolve(arg)
		if err != nil || !p.writable(resolved) {
			continue
		}
		if info, err := os.Lstat(resolved); err == nil && info.Mode().IsRegular() {
			return resolved
		}
	}
	return ""
}

// writable reports whether a tool could have changed the file at resolved.
func (p Paths) writable(resolved string) bool {
	return slices.ContainsFunc(p.rulesFor(resolved), func(r *PathRule) bool { return r.Write })
}

// isInterpreter knows the programs that run a script named on their command
// line, with or without a version: python3.11, lua5.4.
func isInterpreter(program string) bool {
	switch strings.TrimRight(filepath.Base(program), "0123456789.-") {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "fish",
		"python", "pypy", "node", "nodejs", "deno", "bun", "ruby", "perl", "php",
		"lua", "luajit", "Rscript", "tclsh", "wish", "guile", "julia", "java", "ts-node", "tsx":
		return true
	}
	return false
}
