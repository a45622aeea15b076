// Package initbin carries the program that is process 1 of every sandbox,
// cmd/sandgate-init, built without cgo and embedded.
package initbin

import (
	"embed"
	"errors"
	"io/fs"
)

//go:generate env CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/sandgate-init github.com/sandgate/sandgate/cmd/sandgate-init

// The directory, not the file, is embedded: a checkout in which the program has
// not been built yet still compiles, and Program says what to do.
//
//go:embed all:bin
var files embed.FS

// ErrNotBuilt means that this binary was built without its init.
var ErrNotBuilt = errors.New("initbin: this program was built without its sandbox init; run `make build`, or `go generate ./confine/initbin` first")

// Open gives the ELF image of the init, to be read.
func Open() (fs.File, error) {
	f, err := files.Open("bin/sandgate-init")
	if err != nil {
		return nil, ErrNotBuilt
	}
	return f, nil
}
