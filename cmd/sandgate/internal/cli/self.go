package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ReplaceProcess is execve(2). Tests that run commands in their own process refuse it: what takes
// their place would end well for them.
var ReplaceProcess = syscall.Exec

// ThisProgram is the program that an undo runs in its sandbox. Test binaries, which are
// not sandgate, have one beside them.
var ThisProgram = os.Executable

func ResolvedSelf() (string, error) {
	self, err := ThisProgram()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", WithStatus(ExitInternal, fmt.Errorf("undo: find this program: %w", err))
	}
	return self, nil
}
