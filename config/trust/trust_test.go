package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const digest = "sha256:00"

func newStore(t testing.TB) *Store {
	t.Helper()
	return At(filepath.Join(t.TempDir(), "state", FileName))
}

func add(t testing.TB, s *Store, file, digest string) {
	t.Helper()
	if err := s.Add(Entry{file, digest, time.Unix(1, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
}

func trusts(t testing.TB, s *Store, file, digest string) bool {
	t.Helper()
	ok, err := s.Trusts(file, digest)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestTrustIsForAFileAsItIs(t *testing.T) {
	s := newStore(t)
	if trusts(t, s, "/w/sandgate.yaml", digest) {
		t.Error("trusted without a record")
	}
	add(t, s, "/w/sandgate.yaml", digest)
	for _, c := range []struct {
		file, digest string
		want         bool
	}{
		{"/w/sandgate.yaml", digest, true},
		{"/w/sandgate.yaml", "sha256:01", false},
		{"/v/sandgate.yaml", digest, false},
		{"/w/sandgate.yaml", "", false},
	} {
		if got := trusts(t, s, c.file, c.digest); got != c.want {
			t.Errorf("%+v: trusted %v", c, got)
		}
	}
	add(t, s, "/w/sandgate.yaml", "sha256:01")
	if trusts(t, s, "/w/sandgate.yaml", digest) || !trusts(t, s, "/w/sandgate.yaml", "sha256:01") {
		t.Error("what was said before still holds")
	}
	if was, err := s.Revoke("/w/sandgate.yaml"); !was || err != nil {
		t.Errorf("revoke: %v, %v", was, err)
	}
	if was, err := s.Revoke("/w/sandgate.yaml"); was || err != nil {
		t.Errorf("revoke again: %v, %v", was, err)
	}
	if trusts(t, s, "/w/sandgate.yaml", "sha256:01") {
		t.Error("trusted after it was revoked")
	}
}

func TestRecordIsTheUsersAlone(t *testing.T) {
	s := newStore(t)
	add(t, s, "/w/sandgate.yaml", digest)
	info, err := os.Lstat(s.Path())
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	aside := s.Path() + ".aside"
	put := func(name string, make func() error, undo func() error) {
		t.Helper()
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Trusts("/w/sandgate.yaml", digest); ok || err == nil {
			t.Errorf("%s: trusted %v, %v", name, ok, err)
		}
		if err := s.Add(Entry{"/v/sandgate.yaml", digest, time.Time{}}); err == nil {
			t.Errorf("%s: written to", name)
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
		if !trusts(t, s, "/w/sandgate.yaml", digest) {
			t.Errorf("%s: not trusted after it was undone", name)
		}
	}
	mode := func(name string, m fs.FileMode) func() error { return func() error { return os.Chmod(name, m) } }
	put("others may read", mode(s.Path(), 0o640), mode(s.Path(), 0o600))
	put("others may write", mode(s.Path(), 0o602), mode(s.Path(), 0o600))
	dir := filepath.Dir(s.Path())
	put("others may exchange it", mode(dir, 0o777), mode(dir, 0o700))
	put("a second name", func() error { return os.Link(s.Path(), aside) }, func() error { return os.Remove(aside) })
	back := func() error { return os.Rename(aside, s.Path()) }
	put("a link", func() error {
		if err := os.Rename(s.Path(), aside); err != nil {
			return err
		}
		return os.Symlink(aside, s.Path())
	}, back)
	put("a pipe", func() error {
		if err := os.Rename(s.Path(), aside); err != nil {
			return err
		}
		return syscall.Mkfifo(s.Path(), 0o600)
	}, back)
}

func TestBrokenRecordTrustsNothing(t *testing.T) {
	s := newStore(t)
	add(t, s, "/w/sandgate.yaml", digest)
	good, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	entry := `{"file": "/w/sandgate.yaml", "digest": "sha256:00", "since": "1970-01-01T00:00:01Z"}`
	for _, bad := range []string{
		"", "{", "[]", string(good) + "{}", `{"version": 2, "files": []}`, `{"version": 1, "files": [], "more": 1}`,
		`{"version": 1, "files": [` + entry + "," + entry + `]}`,
		strings.ReplaceAll(string(good), "/w/", "/w/../w/"), strings.ReplaceAll(string(good), `"/w/`, `"w/`), strings.ReplaceAll(string(good), "sha256:", "md5:"),
		string(good) + strings.Repeat(" ", maxFile),
	} {
		if err := os.WriteFile(s.Path(), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Trusts("/w/sandgate.yaml", digest); ok || err == nil {
			t.Errorf("%.80q: trusted %v, %v", bad, ok, err)
		}
	}
	if err := os.WriteFile(s.Path(), good, 0o600); err != nil || !trusts(t, s, "/w/sandgate.yaml", digest) {
		t.Errorf("the record as it was: %v", err)
	}
}

// TestWritersLoseNothing: each of several at once is found afterwards.
func TestWritersLoseNothing(t *testing.T) {
	s := newStore(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := s.Add(Entry{fmt.Sprintf("/w%d/sandgate.yaml", i), digest, time.Time{}}); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	if list, err := s.List(); err != nil || len(list) != 8 {
		t.Errorf("%v, %v", list, err)
	}
	if names, err := os.ReadDir(filepath.Dir(s.Path())); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func TestDefaultPath(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/sandgate/trusted.json"},
		{"relative", "/h", "/h/.local/state/sandgate/trusted.json"},
		{"", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		if got, err := DefaultPath(); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// FuzzParse holds the record's parser to entries that are whole.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version": 1, "files": [{"file": "/w/sandgate.yaml", "digest": "sha256:00", "since": "1970-01-01T00:00:01Z"}]}`))
	f.Add([]byte(`{"version": 1, "files": null}`))
	f.Add([]byte(`{"version": 1, "Files": [{"FILE": "/w"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse(data)
		for _, e := range list {
			if err != nil || !filepath.IsAbs(e.File) || e.Digest == "" {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}
