package initbin

import (
	"io"
	"os"
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
