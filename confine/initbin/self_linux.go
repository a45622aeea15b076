package initbin

import (
	"os"

	"github.com/sandgate/sandgate/confine/sandboxinit"
)

// self says that this program can be started as the init: it called RunIfInit.
var self bool

// RunIfInit makes this process the init of a sandbox if it was started as one, and does
// not return then. A program calls it first in main, before it looks at anything. A build
// that embeds no init starts itself as one, which it may only do if it calls this.
func RunIfInit() {
	if len(os.Args) >= 2 && os.Args[1] == Arg {
		os.Exit(sandboxinit.Main())
	}
	self = true
}

// openSelf gives this program's own file.
func openSelf() (*Image, error) {
	if !self {
		return nil, ErrNotBuilt
	}
	// The file that runs, whatever its path leads to by now.
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Image{f, "this program itself", info.Size(), f.Close}, nil
}
