// Package initbin carries the program that is process 1 of every sandbox,
// cmd/sandgate-init, built without cgo and embedded.
package initbin

import (
	"errors"
	"io"
	"strings"
)

//go:generate env CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/sandgate-init github.com/sandgate/sandgate/cmd/sandgate-init
//go:generate cp built.go.txt built.go

// image is the program. built.go sets it, which is made beside the program: a checkout
// in which that has not been built yet still compiles, and Open says what to do.
var image string

// Arg is the first argument that the init is started with.
const Arg = "--sandgate-init"

// ErrNotBuilt means that this binary was built without its init.
var ErrNotBuilt = errors.New("initbin: this program was built without its sandbox init; run `make build`, or `go generate ./confine/initbin` first")

// An Image is the ELF image of the init, to be read once.
type Image struct {
	io.Reader
	// From says where it comes from, for people.
	From string
	// Size is in bytes.
	Size  int64
	close func() error
}

// Open gives the image. Where possible it is read from this executable's file, like any
// file: pages read through the mapping of an executable count as its process's memory.
func Open() (*Image, error) {
	if image == "" {
		return openSelf()
	}
	file, offset, err := locate(image)
	if err != nil {
		return &Image{strings.NewReader(image), "embedded", int64(len(image)), func() error { return nil }}, nil
	}
	return &Image{io.NewSectionReader(file, offset, int64(len(image))), "embedded", int64(len(image)), file.Close}, nil
}

// Close ends the reading.
func (i *Image) Close() error { return i.close() }
