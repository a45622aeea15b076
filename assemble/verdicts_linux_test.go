package assemble

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestVerdictsAreOfOneState: a file that was judged is read again as soon as anything about it
// differs, by the next process too, and only then.
func TestVerdictsAreOfOneState(t *testing.T) {
	dir := filepath.Join(filepath.Dir(os.Args[0]), "verdicts")
	if err := os.MkdirAll(filepath.Join(dir, "sandgate"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_STATE_HOME", dir)
	file := filepath.Join(dir, "settings.toml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Duration(0)
	// asked is what a new process says, and whether it has read the file.
	asked := func() (holds, read bool) {
		t.Helper()
		st, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		v := openVerdicts()
		v.now = func() time.Time { return time.Now().Add(later) }
		holds = v.Holds(file, st, func() bool {
			read = true
			b, err := os.ReadFile(file)
			return err == nil && LooksSecret(string(b))
		})
		v.keep()
		return holds, read
	}
	write(file, "a = 1\n")
	if holds, read := asked(); holds || !read {
		t.Fatalf("a new file: holds %v, read %v", holds, read)
	}
	if _, read := asked(); !read {
		t.Fatal("a file that has changed a moment ago is believed: it may change again in the same tick")
	}
	if v := openVerdicts(); !v.trusts(file, 1) {
		later = time.Hour
		asked()
		if _, read := asked(); !read {
			t.Fatal("change times are believed that the file system may not keep")
		}
		return
	}
	settle := func() {
		t.Helper()
		later = settling + time.Second
		defer func() { later = 0 }()
		if _, read := asked(); !read {
			t.Fatal("another state was believed")
		}
		if _, read := asked(); read {
			t.Fatal("the same state was read again")
		}
	}
	settle()
	// The same size and the same modification time: only the change time tells.
	old, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	const token = "token = 'abcdefgh'\n"
	write(file, token[:6])
	if err := os.Chtimes(file, old.ModTime(), old.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, read := asked(); !read {
		t.Fatal("a file that was written with its times set back is believed")
	}
	write(file, token)
	if holds, read := asked(); !holds || !read {
		t.Fatalf("a token: holds %v, read %v", holds, read)
	}
	settle()
	if holds, read := asked(); !holds || read {
		t.Fatal("what is remembered of a token is that there is none")
	}
	// Another file takes the name.
	write(file+".new", "a = 1\n")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	if holds, read := asked(); holds || !read {
		t.Fatalf("another file of the name: holds %v, read %v", holds, read)
	}
	settle()
	// What is not whole is not believed.
	kept := filepath.Join(dir, "sandgate", "verdicts")
	b, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	write(kept, string(b))
	if _, read := asked(); !read {
		t.Fatal("a file of verdicts whose sum is wrong is believed")
	}
}
