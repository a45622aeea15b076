package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAPersonsEditsAreTheirs: of a configuration that a program made, a person relies on what they
// have written into it since; what is not remembered is a person's as it is.
func TestAPersonsEditsAreTheirs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config")
	at := func(text string) (st unix.Stat_t, b birth) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) // in place
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		return st, birth{idOf(&st), born(unix.AT_FDCWD, name)}
	}
	b := &Broker{configs: map[birth]config{}}
	st, now := at("[a]\n")
	if got := b.wasOf(now, "[a]\n"); got != "[a]\n" {
		t.Errorf("of a file that nobody installed %q is a person's", got)
	}
	b.installed(&st, unix.AT_FDCWD, name, config{text: "[a]\n"})
	if got := b.wasOf(now, "[a]\n"); got != "" {
		t.Errorf("of a program's own file %q is a person's", got)
	}
	if _, now = at("[a]\n[b]\n"); b.wasOf(now, "[a]\n[b]\n") != "[a]\n[b]\n" {
		t.Error("what a person has added is not theirs")
	}
	b.installed(&st, unix.AT_FDCWD, name, config{text: "[a]\n", was: strings.Repeat("x", maxConfigBytes)})
	if len(b.configs) != 0 || b.configBytes != 0 {
		t.Errorf("%d of %d bytes are remembered", len(b.configs), b.configBytes)
	}
}
