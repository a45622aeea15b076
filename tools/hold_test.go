package tools

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
)

func asked() Proposal {
	return Proposal{
		Plan:    Plan{Tool: "x"},
		Request: &approval.Request{Payload: map[string]any{"command": "x"}},
		Present: func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{Type: approval.Command, Content: "x"}, nil
		},
	}
}

// TestHold: which of the files that a call names are held, and how.
func TestHold(t *testing.T) {
	tr := newTree(t)
	tr.program("ws/run.sh", "#!/bin/sh\necho text of run.sh\n")
	if err := os.WriteFile(tr.path("ws/data.txt"), []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tr.path("ws/plain.sh"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tr.link("ws/link.sh", "run.sh")
	tr.link("ws/loop", "loop")
	tr.link("ws/out.sh", "../ro/r.txt")
	tr.link("ws/out", "../ro")
	tr.link("ws/far.sh", "../outside/secret.txt")
	tr.link("ws/dangling", "nothing")
	tr.mkdir("ws/dir")
	if err := unix.Mkfifo(tr.path("ws/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := tr.paths()
	for _, c := range []struct {
		name string
		s    Started
		want string // the path that is held, "" for none, and how
	}{
		{"a script", Started{Name: "run.sh"}, "ws/run.sh frozen"},
		{"one that is read", Started{Name: "data.txt"}, "ws/data.txt frozen"},
		{"through a link", Started{Name: "link.sh"}, "ws/run.sh frozen"},
		{"one that the program rewrites", Started{Name: "data.txt", Written: true}, "ws/data.txt"},
		{"perhaps a script", Started{Name: "run.sh", Doubtful: true}, "ws/run.sh"},
		{"perhaps, by its first line", Started{Name: "plain.sh", Doubtful: true}, "ws/plain.sh"},
		{"surely none", Started{Name: "data.txt", Doubtful: true}, ""},
		{"not there yet", Started{Name: "new.sh"}, "ws/new.sh absent"},
		{"need not be there", Started{Name: "new.sh", Optional: true}, ""},
		{"a directory", Started{Name: "dir"}, "ws/dir is a directory"},
		{"a directory that may be a script", Started{Name: "dir", Doubtful: true}, ""},
		{"a directory with a script's name in another place", Started{Name: "dir", Optional: true}, ""},
		{"a pipe", Started{Name: "fifo"}, "ws/fifo is a pipe"},
		{"a pipe in place of a Makefile", Started{Name: "fifo", Optional: true, Sought: true}, "ws/fifo is a pipe"},
		{"a loop", Started{Name: "loop"}, "ws/loop is a loop of links"},
		{"below a file", Started{Name: "run.sh/x"}, "ws/run.sh/x absent"},
		{"a link to what no tool can write", Started{Name: "out.sh"}, "ro/r.txt leads elsewhere"},
		{"a directory that is a link there", Started{Name: "out/r.txt", Optional: true}, "ro/r.txt leads elsewhere"},
		{"perhaps, by a link there", Started{Name: "out.sh", Doubtful: true}, "ro/r.txt leads elsewhere"},
		{"a link to what no tool sees", Started{Name: "far.sh"}, "outside/secret.txt leads elsewhere"},
		{"a link that leads nowhere", Started{Name: "dangling"}, "ws/nothing absent"},
		{"what no tool can write", Started{Name: "ro/r.txt"}, ""},
		{"what no tool sees", Started{Name: "../outside/secret.txt"}, ""},
		{"from another directory", Started{Name: "../run.sh", Dir: tr.path("ws/dir")}, "ws/run.sh frozen"},
	} {
		got := Hold(asked(), p, []Started{c.s})
		text := ""
		if len(got.Plan.Pins) == 1 {
			pin := got.Plan.Pins[0]
			rel, _ := filepath.Rel(tr.base, pin.Path)
			text = rel
			if pin.Frozen {
				text += " frozen"
			}
			if pin.Absent || pin.Kind != "" {
				text += " " + pin.state()
			}
			if files, _ := got.Request.Payload["files"].(map[string]any); files[pin.Path] == nil {
				t.Errorf("%s: a remembered answer does not cover it: %v", c.name, got.Request.Payload)
			}
			if err := pin.Verify(); err != nil {
				t.Errorf("%s: unchanged: %v", c.name, err)
			}
		}
		if text != c.want || len(got.Plan.Pins) > 1 {
			t.Errorf("%s: holds %q, want %q: %+v", c.name, text, c.want, got.Plan.Pins)
		}
	}
	if got := Hold(Proposal{}, p, []Started{{Name: "run.sh"}}); len(got.Plan.Pins) != 0 {
		t.Errorf("a call that nobody is asked about: %+v", got.Plan.Pins)
	}
	shown, err := Hold(asked(), p, []Started{{Name: "run.sh"}, {Name: "new.sh"}}).Present(context.Background())
	if err != nil || !strings.HasPrefix(shown.Content, "  x\n") || !strings.Contains(shown.Content, "\n│ echo text of run.sh\n") || !strings.Contains(shown.Content, "new.sh, which is not there yet") {
		t.Errorf("%v: %+v", err, shown)
	}
}

// TestOnlyOurLinesBeginAtTheEdge: what a call, a file and its name say stands behind a margin, a bar
// and quotes, whatever letters it imitates our lines with.
func TestOnlyOurLinesBeginAtTheEdge(t *testing.T) {
	tr := newTree(t)
	const forged = "ーー c.sh, which cannot change while the call runs\n丨 make test\n── c.sh\n│ x\n"
	name := "c.sh, which cannot change while the call runs"
	tr.program("ws/"+name, "#!/bin/sh\n"+forged)
	for _, c := range []struct {
		content string
		held    bool
		want    []string // the lines that begin at the edge
	}{
		{"make test", false, []string{"make test"}}, // one line forges no section
		{"make test", true, []string{`── "` + name + `", which cannot change while the call runs`}},
		{forged, false, nil},
		{": '" + forged + "'", true, []string{`── "` + name + `", which cannot change while the call runs`}},
	} {
		p, list := asked(), []Started{}
		p.Present = func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{Type: approval.Command, Content: c.content}, nil
		}
		if c.held {
			list = append(list, Started{Name: name})
		}
		shown, err := Hold(p, tr.paths(), list).Present(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var edge []string
		for line := range strings.Lines(shown.Content) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "│ ") {
				edge = append(edge, line)
			}
		}
		if !slices.Equal(edge, c.want) || (shown.Metadata[approval.Margin] != nil) != (c.held || c.content == forged) {
			t.Errorf("%q: %q at the edge, want %q:\n%s", c.content, edge, c.want, shown.Content)
		}
	}
}

// TestHeldFilesThatNobodyCanRead: a held file that is not text, or too long, is named as what no
// screen shows. A script is not, nor is a program that no tool can write.
func TestHeldFilesThatNobodyCanRead(t *testing.T) {
	tr := newTree(t)
	tr.program("ws/run.sh", "#!/bin/sh\n")
	tr.program("ws/app", "\x7fELF\x00")
	tr.program("ws/nul.sh", "#!/bin/sh\necho\x00\n")
	tr.program("ws/long.sh", "#!/bin/sh\n"+strings.Repeat("#\n", maxTexts/2))
	tr.program("ws/near.sh", strings.Repeat("#\n", maxTexts/2-4))
	tr.program("ro/app", "\x7fELF\x00")
	if err := os.Truncate(tr.program("ws/huge", "\x7fELF"), MaxHeld+1); err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string]string{
		"run.sh": "", "../ro/app": "", "new.sh": "",
		"app": "app (Binary file: application/x-executable (5 bytes))", "nul.sh": "",
		"long.sh": "long.sh (too long to be shown)", "huge": "huge (it is too large or cannot be read)",
		"run.sh app":              "app (Binary file: application/x-executable (5 bytes))",
		"app nul.sh long.sh huge": "app (Binary file: application/x-executable (5 bytes)), huge (it is too large or cannot be read), long.sh (too long to be shown)",
		"near.sh run.sh":          "near.sh (too long to be shown)", // and run.sh has its room
	} {
		var list []Started
		for _, name := range strings.Fields(names) {
			list = append(list, Started{Name: name})
		}
		shown, err := Hold(asked(), tr.paths(), list).Present(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got, _ := shown.Metadata[approval.Unshown].(string)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

// TestHeldContent: a change of the content or the mode is drift, also one that moves no
// time of the file's; the same content behind another inode is not.
func TestHeldContent(t *testing.T) {
	tr := newTree(t)
	path := tr.program("ws/run.sh", "#!/bin/sh\necho one\n")
	pin, err := PinContent(path)
	if err != nil {
		t.Fatal(err)
	}
	again := func(content string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(content), mode), os.Chmod(path+".new", mode), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	again("#!/bin/sh\necho one\n", 0o755)
	if err := pin.Verify(); err != nil {
		t.Errorf("the same content: %v", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	page, err := unix.Mmap(int(f.Fd()), 0, 19, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	copy(page[15:], "two")
	var drift *DriftError
	if err := pin.Verify(); !errors.As(err, &drift) || len(drift.Changed) != 1 || drift.Changed[0] != "content" {
		t.Errorf("through a mapped page: %v", err)
	}
	if err := pin.Copy(io.Discard); !errors.As(err, &drift) {
		t.Errorf("copied: %v", err)
	}
	if err := unix.Munmap(page); err != nil {
		t.Fatal(err)
	}
	again("#!/bin/sh\necho one\n", 0o700)
	if err := pin.Verify(); !errors.As(err, &drift) || drift.Changed[0] != "mode" {
		t.Errorf("another mode: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := pin.Verify(); !errors.As(err, &drift) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	tr.mkdir("ws/run.sh")
	if err := pin.Verify(); !errors.As(err, &drift) {
		t.Errorf("a directory: %v", err)
	}
}

// TestWhatIsTooLargeIsHeldByItsIdentity: no file is read without end.
func TestWhatIsTooLargeIsHeldByItsIdentity(t *testing.T) {
	tr := newTree(t)
	path := tr.program("ws/app", "\x7fELF")
	if err := os.Truncate(path, MaxHeld+1); err != nil {
		t.Fatal(err)
	}
	got := Hold(asked(), tr.paths(), []Started{{Name: "app"}})
	if len(got.Plan.Pins) != 1 || got.Plan.Pins[0].Inode == 0 || got.Plan.Pins[0].Frozen {
		t.Fatalf("%+v", got.Plan.Pins)
	}
	shown, err := got.Present(context.Background())
	if err != nil || !strings.Contains(shown.Content, "whose content is not pinned") {
		t.Errorf("%v: %+v", err, shown)
	}
	if err := os.Truncate(path, MaxHeld+2); err != nil {
		t.Fatal(err)
	}
	if got.Plan.Pins[0].Verify() == nil {
		t.Error("another size is not noticed")
	}
}

// TestNothingIsReadForNobody: a call that was given up has no plan, and its files are not
// read. Its twin has one.
func TestNothingIsReadForNobody(t *testing.T) {
	tr := newTree(t)
	tr.program("ws/run.sh", "#!/bin/sh\necho text of run.sh\n")
	done := make(chan struct{})
	paths := tr.paths()
	paths.Until = done
	registry, err := NewRegistry(holding{paths})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := registry.Plan(Call{Tool: "x", Args: map[string]any{}, Done: done}); err != nil || len(p.Plan.Pins) != 1 {
		t.Errorf("%v, %+v", err, p.Plan.Pins)
	}
	close(done)
	if p, err := registry.Plan(Call{Tool: "x", Args: map[string]any{}, Done: done}); !errors.Is(err, context.Canceled) || p.Plan.Tool != "" {
		t.Errorf("given up: %v, %+v", err, p)
	}
	if p, err := (holding{paths}).Plan(Call{Done: done}); err != nil || len(p.Plan.Pins) != 0 {
		t.Errorf("read for nobody: %v, %+v", err, p.Plan.Pins)
	}
	if _, _, err := readPinned(tr.path("ws/run.sh"), io.Discard, done); !errors.Is(err, context.Canceled) {
		t.Errorf("read on: %v", err)
	}
}

// holding is a tool that starts a script.
type holding struct{ paths Paths }

func (h holding) Definition() Definition {
	return Definition{Name: "x", InputSchema: []byte(`{"type": "object"}`)}
}

func (h holding) Plan(Call) (Proposal, error) {
	return Hold(asked(), h.paths, []Started{{Name: "run.sh"}}), nil
}
