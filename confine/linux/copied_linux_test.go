package linux

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// TestWhatIsCopied: what everybody may read, if it is little, and nothing that is a file only by its name.
func TestWhatIsCopied(t *testing.T) {
	dir := t.TempDir() + "/"
	for name, mode := range map[string]os.FileMode{"open": 0o644, "program": 0o755, "group": 0o640, "others": 0o604, "owner": 0o600} {
		if err := os.WriteFile(dir+name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"large", make([]byte, maxCopy+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("open", dir+"link"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"few/a": "x", "few/sub/b": "x", "closed/a": "x", "deep/1/2/3/4/a": "x", "named/a\nb": "x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+name), 0o755), os.WriteFile(dir+name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("a", dir+"few/l"), os.Chmod(dir+"closed/a", 0o640), os.Mkdir(dir+"many", 0o755), os.Mkdir(dir+"shut", 0o750), os.Mkdir(dir+"pipe", 0o755), unix.Mkfifo(dir+"pipe/fifo", 0o644)); err != nil {
		t.Fatal(err)
	}
	for i := range maxCopied {
		if err := os.WriteFile(dir+"many/"+strconv.Itoa(i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"open": "--perms 0444 --file 7 open", "program": "--perms 0555 --file 7 program",
		"few":   "--perms 0755 --dir few --perms 0444 --file 7 few/a --symlink a few/l --perms 0755 --dir few/sub --perms 0444 --file 8 few/sub/b",
		"named": "--perms 0755 --dir named --perms 0444 --file 7 named/a\nb",
		"group": "", "others": "", "owner": "", "large": "", "link": "", "fifo": "", "missing": "", "closed": "", "deep": "", "many": "", "shut": "", "pipe": "",
	} {
		c := copier{left: maxCopied, fd: 7}
		ok := c.add(dir+name, maxCopiedDepth)
		if got := strings.ReplaceAll(strings.Join(c.args, " "), dir, ""); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %v, %q, want %q", name, ok, got, want)
		}
		if n := strings.Count(want, "--file"); ok && len(c.files) != n {
			t.Errorf("%s: %d descriptors, want %d", name, len(c.files), n)
		}
		closeFiles(c.files)
	}
}

// TestNothingHiddenIsCopied: a directory in which something else is mounted is no copy, and
// neither is what lies in a directory of the host's or in one that programs may write to.
func TestNothingHiddenIsCopied(t *testing.T) {
	args := []string{
		"--ro-bind", "/etc/ld.so.conf.d", "/etc/ld.so.conf.d", "--ro-bind", "/dev/null", "/etc/ld.so.conf.d/libc.conf",
		"--ro-bind", "/etc/passwd", "/etc/passwd", "--tmpfs", "/etc/ssl", "--ro-bind", "/etc/ssl/openssl.cnf", "/etc/ssl/openssl.cnf",
		"--ro-bind", "/usr/bin/env", "/usr/bin/env", "--bind", "/etc/hostname", "/etc/hostname",
	}
	got, files := copyFiles(sandboxprofile.Profile{}, args, nil)
	defer closeFiles(files)
	want := slices.Clone(args)
	want = slices.Replace(want, 6, 9, "--perms", "0444", "--file", strconv.Itoa(bwrap.NameFileFD), "/etc/passwd")
	if !slices.Equal(got, want) || len(files) != 1 {
		t.Errorf("%q, want %q", got, want)
	}
	whole := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{"/": sandboxprofile.Read}}
	if got, files := copyFiles(whole, args, nil); !slices.Equal(got, args) || len(files) != 0 {
		t.Errorf("where the root is the host's: %q", got)
	}
}
