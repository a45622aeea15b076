package initbin

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What is read from the executable's file is what is embedded in it.
func TestImageIsReadFromTheFile(t *testing.T) {
	if image == "" {
		t.Fatal(ErrNotBuilt)
	}
	file, offset, err := locate(image)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if offset <= 0 {
		t.Errorf("at %d of the file", offset)
	}
	i, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if _, mapped := i.Reader.(*strings.Reader); mapped {
		t.Error("it is read through the mapping")
	}
	b, err := io.ReadAll(i)
	if err != nil || string(b) != image || i.Size != int64(len(image)) {
		t.Errorf("%d bytes of %d, the same: %v; %v", len(b), i.Size, string(b) == image, err)
	}
}

// What is in no file is not looked for in one.
func TestMemoryIsInNoFile(t *testing.T) {
	b, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if f, at, err := locate(string(b)); err == nil {
		f.Close()
		t.Errorf("found at %d", at)
	}
}

// TestImageIsCurrent: the embedded program is what its source builds now. With an older one a sandbox
// ends before it is ready, or keeps to rules of yesterday.
func TestImageIsCurrent(t *testing.T) {
	if image == "" {
		t.Fatal(ErrNotBuilt)
	}
	built := filepath.Join(t.TempDir(), "init")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", built, "github.com/sandgate/sandgate/cmd/sandgate-init") // as initbin.go says
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != image {
		t.Errorf("the embedded init (%d bytes) is not the one that this source builds (%d bytes): run `make init`", len(image), len(b))
	}
}
