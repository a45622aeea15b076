package tools

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// program writes an executable file and gives its path.
func (tr tree) program(rel, content string) string {
	tr.t.Helper()
	tr.mkdir(filepath.Dir(rel))
	if err := os.WriteFile(tr.path(rel), []byte(content), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	return tr.path(rel)
}

func TestLookPath(t *testing.T) {
	tr := newTree(t)
	tr.program("bin/tool", "")
	tr.program("bin2/tool", "")
	tr.program("bin2/other", "")
	tr.program("hidden/only", "")
	tr.program("hidden/tool", "")
	tr.program("ws/local", "")
	tr.program("ws/dir/local2", "")
	tr.mkdir("bin/adir")
	tr.mkdir("links")
	tr.link("links/alias", "../bin/tool")
	tr.link("links/escape", "../hidden/only")
	tr.link("links/dangling", "nowhere")
	tr.link("links/loop", "loop")
	tr.link("hidden/shown", "../bin/tool")
	tr.link("ws/down", "dir/deep")
	if err := os.WriteFile(tr.path("bin/plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tr.path("bin/other"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	visible := func(path string) bool { return !strings.HasPrefix(path, tr.path("hidden")) }

	for _, c := range []struct {
		name, path string // path: entries below the tree's root
		want       string
		err        error
	}{
		{"tool", "bin:bin2", "bin/tool", nil},
		{"tool", "bin2:bin", "bin2/tool", nil},
		{"tool", "missing:bin", "bin/tool", nil},
		{"tool", "hidden:bin", "bin/tool", nil}, // what the profile hides is skipped
		{"only", "hidden:bin", "", ErrNotFound},
		{"shown", "hidden", "", ErrNotFound}, // the link is not there, though its target is
		{"alias", "links", "bin/tool", nil},
		{"escape", "links", "", ErrNotFound},
		{"dangling", "links", "", ErrNotFound},
		{"loop", "links", "", ErrNotFound},
		{"plain", "bin", "", ErrNotExecutable},
		{"adir", "bin", "", ErrNotExecutable},
		{"other", "bin:bin2", "bin2/other", nil}, // execvp goes on after EACCES
		{"nothing", "bin:bin2", "", ErrNotFound},
		{"", "bin", "", ErrNotFound},
		{"a\x00b", "bin", "", ErrNotFound},
		{"./local", "bin", "ws/local", nil},
		{"dir/local2", "bin", "ws/dir/local2", nil},
		{"down/../local2", "bin", "ws/dir/local2", nil},
		{"./local/", "bin", "", ErrNotFound},
		{"./tool", "bin", "", ErrNotFound}, // a slash means no search
		{"local", "bin", "", ErrNotFound},  // and no slash no working directory,
		{"local", "bin:", "ws/local", nil}, // unless PATH says so
		{"local", ":bin", "ws/local", nil},
		{"local2", "=dir", "ws/dir/local2", nil},
		{"../hidden/only", "bin", "", ErrNotFound},
		{"../bin/plain", "bin", "", ErrNotExecutable},
	} {
		got, err := LookPath(c.name, tr.searchPath(c.path), tr.path("ws"), visible)
		want := ""
		if c.want != "" {
			want = tr.path(c.want)
		}
		if got != want || !errors.Is(err, c.err) {
			t.Errorf("LookPath(%q, %q) = %q, %v; want %q, %v", c.name, c.path, got, err, want, c.err)
		}
	}
}

// searchPath turns "bin:=rel:" into absolute entries; "=rel" stays relative.
func (tr tree) searchPath(spec string) string {
	var entries []string
	for _, e := range strings.Split(spec, ":") {
		switch rel, relative := strings.CutPrefix(e, "="); {
		case relative:
			entries = append(entries, rel)
		case e == "":
			entries = append(entries, "")
		default:
			entries = append(entries, tr.path(e))
		}
	}
	return strings.Join(entries, ":")
}

func TestLookPathWithoutPATHSearchesTheSystem(t *testing.T) {
	all := func(string) bool { return true }
	got, err := LookPath("sh", "", "/", all)
	if err != nil || !filepath.IsAbs(got) {
		t.Errorf("LookPath(sh) = %q, %v", got, err)
	}
	none := func(string) bool { return false }
	if got, err := LookPath("sh", "", "/", none); !errors.Is(err, ErrNotFound) {
		t.Errorf("LookPath(sh) with nothing visible = %q, %v; want ErrNotFound", got, err)
	}
}

func TestTrusted(t *testing.T) {
	const rx, rwx = sandboxprofile.Read | sandboxprofile.Execute, sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute
	p := sandboxprofile.Profile{
		Paths: map[string]sandboxprofile.Rights{
			"/usr": rx, "/ws": rwx, "/ws/vendor": rx, "/etc": sandboxprofile.Read, "/tmp/sdk": rx,
		},
		Scratch: []string{"/tmp", "/usr/scratch"},
		Protect: []string{"bin"},
		Hide:    []string{"secret"},
	}
	for path, want := range map[string]bool{
		"/usr/bin/ls":       true,
		"/ws/ls":            false,
		"/ws/bin/ls":        false, // protected by a pattern, in a tree that the tool fills
		"/ws/vendor/ls":     true,
		"/tmp/ls":           false,
		"/tmp/sdk/ls":       true,
		"/usr/scratch/x":    false,
		"/etc/ls":           false, // readable, not to be run
		"/usr/secret":       true,  // patterns speak of the user's files
		"/elsewhere":        false,
		"/usrlocal/bin/ls":  false,
		"/ws/vendor/secret": false,
	} {
		if got := Trusted(path, p); got != want {
			t.Errorf("Trusted(%q) = %v, want %v", path, got, want)
		}
	}
	if Trusted("/usr/bin/ls", sandboxprofile.Profile{}) {
		t.Error("the zero profile trusts a program")
	}
}

func TestPinProgram(t *testing.T) {
	tr := newTree(t)
	exe := tr.program("bin/python3.11", "\x7fELF")
	sh := tr.program("bin/mysh", "\x7fELF")
	hash := tr.program("ws/run.sh", "#! "+sh+" -e\necho\n")
	hashLinked := tr.program("ws/run2.sh", "#!"+tr.path("shlink")+"\n")
	tr.link("shlink", "bin/mysh")
	for _, c := range []struct {
		exe  string
		want []string
	}{
		{exe, []string{"bin/python3.11"}},
		{hash, []string{"ws/run.sh", "bin/mysh"}},
		{hashLinked, []string{"ws/run2.sh", "bin/mysh"}},
	} {
		pins, err := PinProgram(c.exe)
		if err != nil {
			t.Errorf("%q: %v", c.exe, err)
		}
		var got []string
		for _, pin := range pins {
			rel, _ := filepath.Rel(tr.base, pin.Path)
			got = append(got, rel)
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%q pins %q, want %q", c.exe, got, c.want)
		}
	}
	if _, err := PinProgram(tr.path("missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing executable: %v", err)
	}
}
