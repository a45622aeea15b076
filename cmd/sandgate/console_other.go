//go:build !linux

package main

import (
	"io"
	"os"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A console is none where no sandbox makes a terminal.
type console struct {
	tty    *os.File
	size   *sandboxprofile.Terminal
	screen io.Writer
}

func openConsole(*cli.App) *console            { return nil }
func (c *console) Close()                      {}
func (c *console) streams() *confine.Terminal  { return nil }
func (c *console) sentItself(n os.Signal) bool { return false }
