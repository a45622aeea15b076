package linux

import (
	"errors"
	"os"
	"testing"
)

// What nobody asked for is not made to be closed: it is three megabytes.
func TestALazyFileIsNotMadeToBeClosed(t *testing.T) {
	f := &lazyFile{make: func() (*os.File, error) {
		t.Error("made")
		return nil, nil
	}}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	if _, err := f.get(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after close: %v, want os.ErrClosed", err)
	}
}
