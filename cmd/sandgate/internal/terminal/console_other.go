//go:build !linux

package terminal

import (
	"io"
	"os"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Console is always nil where sandboxes make no
// terminals.
type Console struct {
	tty    *os.File
	Size   *sandboxprofile.Terminal
	screen io.Writer
}

func OpenConsole(*cli.App) *Console            { return nil }
func (c *Console) Close()                      {}
func (c *Console) Streams() *confine.Terminal  { return nil }
func (c *Console) sentItself(n os.Signal) bool { return false }
