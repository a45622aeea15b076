package ownfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlone: one open directory or link on the way is enough, however far up. Whether
// there is one above the test's own directory is a matter of the machine.
func TestAlone(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, file := top+"/a/b", top+"/a/b/file"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{dir + "/link": file, top + "/l": dir} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		top, path string
		want      bool
	}{
		{top, file, true},
		{top + "/a", file, true},
		{top, dir, false},
		{top, dir + "/none", false},
		{top, dir + "/link", false},
		{top, top + "/l/file", false},
		{top, dir + "/../b/file", false},
		{file, file, false},
		{top + "/other", file, false}, // not below it
	} {
		if got := AloneBelow(x.top, x.path); got != x.want {
			t.Errorf("%s below %s: %v", x.path, x.top, got)
		}
	}
	for _, x := range []struct {
		path string
		mode os.FileMode
		want bool
	}{
		{file, 0o620, false},
		{file, 0o602, false},
		{dir, 0o777, false},
		{dir, 0o777 | os.ModeSticky, true},
		{top + "/a", 0o770, false},
		{top, 0o777, false},
	} {
		before, err := os.Stat(x.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(x.path, x.mode); err != nil {
			t.Fatal(err)
		}
		if got := AloneBelow(top, file); got != x.want {
			t.Errorf("%s with mode %v: %v", x.path, x.mode, got)
		}
		if !x.want && Alone(file) {
			t.Errorf("%s with mode %v: Alone looks at less", x.path, x.mode)
		}
		if err := os.Chmod(x.path, before.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAloneLooksAtEveryDirectory: Alone answers for none of them itself.
func TestAloneLooksAtEveryDirectory(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := top + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir := top; ; dir = filepath.Dir(dir) {
		if err := CheckDir(dir); err != nil && Alone(file) {
			t.Error(err)
		}
		if dir == "/" {
			break
		}
	}
}

// TestCheckDirLooksUpwards: who owns or may write a directory above can put another one
// in the place of ours.
func TestCheckDirLooksUpwards(t *testing.T) {
	for _, c := range []struct {
		name     string
		mode     os.FileMode
		uid      int
		own, sub string // what is said of the directory itself, and of one below it; "" is nothing
	}{
		{"ours", 0o755, os.Geteuid(), "", ""},
		{"a group's", 0o775, os.Geteuid(), "others can write", ""},
		{"everybody's", 0o777, os.Geteuid(), "others can write", "others can write"},
		{"everybody's and sticky", 0o777 | os.ModeSticky, os.Geteuid(), "", ""},
		{"another user's", 0o700, 4711, "belongs to uid 4711", "belongs to uid 4711"},
	} {
		if c.uid != os.Geteuid() && os.Geteuid() != 0 {
			continue // only root can give a directory away
		}
		dir := filepath.Join(t.TempDir(), "d")
		sub := filepath.Join(dir, "sub")
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chown(dir, c.uid, -1), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(sub, link); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{dir: c.own, sub: c.sub, link: c.sub} {
			err := CheckDir(path)
			if said := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(said, want) && want != "" {
				t.Errorf("%s: %s: %v, want %q", c.name, path, err, want)
			}
		}
	}
}
