package tools

import (
	"debug/elf"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// An Executable is the file that the kernel executes when a program is started
// (execve(2)).
type Executable struct {
	// Files are the program, the interpreter that its "#!" line names, and the loader
	// that a dynamically linked one of them names, links resolved.
	Files []string
	// Script is set if it is not the kernel's own code that decides what else is
	// started: a text, which may start anything.
	Script bool
}

// LookExecutable reads which files starting the program at path executes. path is free
// of links, as LookPath gives it.
func LookExecutable(path string) Executable {
	x := Executable{Files: []string{path}}
	program := path
	if !IsELF(path) {
		x.Script = true
		if program = shebang(path); program != "" {
			x.Files = append(x.Files, program)
		}
	}
	if loader := loaderOf(program); loader != "" {
		x.Files = append(x.Files, loader)
	}
	return x
}

// loaderOf gives the resolved loader that an ELF file names (elf(5), PT_INTERP), or "".
func loaderOf(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if i < 0 || program.Progs[i].Filesz > maxPath {
		return ""
	}
	name := make([]byte, program.Progs[i].Filesz)
	if _, err := program.Progs[i].ReadAt(name, 0); err != nil {
		return ""
	}
	resolved, err := resolveLinks(strings.TrimRight(string(name), "\x00"))
	if err != nil {
		return ""
	}
	return resolved
}
