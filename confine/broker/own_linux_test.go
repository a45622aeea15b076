package broker

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestOnlyTheFileThatWasWrittenIsRenamed: a program that has exchanged the file that a file tool
// has written does not have its own put in the place of what was approved.
func TestOnlyTheFileThatWasWrittenIsRenamed(t *testing.T) {
	ws := t.TempDir()
	b, err := New(Options{Rules: NewRules(sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{ws: sandboxprofile.Read | sandboxprofile.Write}}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := unix.Open(ws, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	write := func(name, text string) FileID {
		var st unix.Stat_t
		if err := os.WriteFile(ws+"/"+name, []byte(text), 0o600); err != nil || unix.Lstat(ws+"/"+name, &st) != nil {
			t.Fatal(err)
		}
		return idOf(&st)
	}
	write("file", "old")
	written := write("temporary", "approved")
	write("other", "not approved")
	if err := os.Rename(ws+"/temporary", ws+"/aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(ws+"/other", ws+"/temporary"); err != nil {
		t.Fatal(err)
	}
	if err := b.Rename(dir, "temporary", "file", written); err != unix.ESTALE {
		t.Errorf("another file: %v", err)
	}
	if text, _ := os.ReadFile(ws + "/file"); string(text) != "old" {
		t.Errorf("%q", text)
	}
	if err := b.Rename(dir, "aside", "file", written); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(ws + "/file"); string(text) != "approved" {
		t.Errorf("%q", text)
	}
}

// TestAnswersAreBounded: what a program makes the broker remember of long paths has an end, and
// what is answered last is known.
func TestAnswersAreBounded(t *testing.T) {
	q := questions{answers: map[subject]bool{}}
	held := func() (n int) {
		for s := range q.answers {
			n += len(s.path)
		}
		return n
	}
	long := "/" + strings.Repeat("x", 4000)
	for i := range uint64(10_000) {
		q.answer(subject{path: long, file: FileID{Ino: i}}, true)
	}
	if n := held(); n > maxAnswerBytes || n < len(long) {
		t.Errorf("%d bytes", n)
	}
	if yes, known := q.answers[subject{path: long, file: FileID{Ino: 9999}}]; !yes || !known {
		t.Error("the last answer is not known")
	}
}
