//go:build !cgo

package linux_test

import (
	"os"
	"testing"

	"github.com/sandgate/sandgate/confine/initbin"
)

// The launcher of other places needs cgo.
func TestMain(m *testing.M) {
	initbin.RunIfInit() // of a build without an embedded init
	os.Exit(m.Run())
}
