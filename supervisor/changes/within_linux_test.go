package changes

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingIsSavedThroughALink: what a forced keep replaces is saved beside the draft, although a link is among it.
func TestNothingIsSavedThroughALink(t *testing.T) {
	ws, outside := t.TempDir(), t.TempDir()
	sh(t, ws, "echo mine > f; mkdir dir; echo mine > dir/passwd; ln -s "+outside+" link; ln -s "+outside+"/passwd alone")
	sh(t, outside, "echo theirs > passwd")
	w := open(t, t.TempDir()+"/s", ws, options)
	during(t, w, "s", func() {})
	at := func(name string) *Entry { e := entries(w)[name]; return &e }
	for name, steps := range map[string][]Step{
		"a directory":  {{Path: "link", Now: at("link"), Conflict: "c"}, {Path: "link/passwd", Now: at("dir/passwd"), Conflict: "c"}},
		"a file":       {{Path: "alone", Now: at("alone"), Conflict: "c"}, {Path: "alone", Now: at("f"), Conflict: "c"}},
		"no link":      {{Path: "f", Now: at("f"), Conflict: "c"}},
		"a name above": {{Path: "../../../../passwd", Now: at("f"), Conflict: "c"}},
	} {
		d, err := NewDraft(t.TempDir(), []string{ws}, nil)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := d.SaveReplaced([]DraftPlan{{Undo: Undo{Steps: steps}, w: w}})
		if (err == nil) != (name == "no link") {
			t.Errorf("%s: %v", name, err)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "0/f")); name == "no link" && string(b) != "mine\n" {
			t.Errorf("%s: %q", name, b)
		}
		if b, _ := os.ReadFile(outside + "/passwd"); string(b) != "theirs\n" {
			t.Errorf("%s: outside: %q", name, b)
			sh(t, outside, "echo theirs > passwd")
		}
	}
}

// TestADropChangesNothingOutside: a draft is dropped while something swaps a directory of it for a link.
func TestADropChangesNothingOutside(t *testing.T) {
	ws, outside, dir := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Chmod(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		d, err := NewDraft(dir, []string{ws}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, d.part(0, "upper"), "mkdir closed closed/below swapped; chmod 0 closed; ln -s "+outside+" link")
		fd, err := openDirectory(unix.AT_FDCWD, d.part(0, "upper"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for exchange(fd, "swapped", "link") == nil {
			}
		}()
		err = d.Drop()
		<-ended
		unix.Close(fd)
		if err != nil {
			t.Error(err)
		}
		info, err := os.Stat(outside)
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Fatalf("outside: %v, %v", info.Mode(), err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
	}
}
