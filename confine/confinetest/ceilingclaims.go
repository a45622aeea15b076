package confinetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// under runs a program in a sandbox that stands, as an action with a ceiling.
func under(t *testing.T, box confine.Sandbox, l *sandboxprofile.Ceiling, dir string, argv ...string) Outcome {
	t.Helper()
	var out, errOut strings.Builder
	r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Ceiling: l, Exec: &sandboxprofile.Program{
		Path: argv[0], Argv: argv, Dir: dir, Env: []string{"HOME=/home/tool", "PATH=/usr/bin:/bin"},
	}}, confine.Stdio{Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatalf("run %q: %v", argv, err)
	}
	return Outcome{r, out.String(), errOut.String()}
}

var readsOnly = &sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, AnyProgram: true}

// changes are ways to change something, each of which works once in a directory as
// changing makes it.
var changes = []string{
	"open('old', 'w')", "open('old', 'a').write('x')", "os.close(os.open('old', os.O_RDONLY | os.O_TRUNC))", "os.truncate('old', 0)",
	"open('new', 'w')", "os.mkdir('newdir')", "os.symlink('old', 'newlink')", "os.link('old', 'newhard')", "os.mkfifo('newpipe')",
	"os.rename('old', 'renamed')", "os.rename('sub/inner', 'moved')", "os.unlink('victim')", "os.rmdir('empty')",
	"os.chmod('sub', 0o700)", "os.utime('sub', (1, 1))", "f = open('sub/inner'); os.fchmod(f.fileno(), 0o600)",
	"socket.socket(socket.AF_UNIX).bind('newsocket')", "os.link('old', '/tmp/hard'); open('/tmp/hard', 'w')",
	"os.rename('old', '/tmp/stolen')",
}

// changing is a fresh workspace for changes.
func changing(t *testing.T) string {
	ws := Workspace(t)
	for _, name := range []string{"old", "victim", "sub/inner"} {
		write(t, ws+"/"+name, "content of "+name)
	}
	if err := os.Mkdir(ws+"/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	return ws
}

// ceilingChangesNothing: each act with a ceiling, and then without. The workspace lies
// below a private directory, as one in the user's HOME does.
func ceilingChangesNothing(t *testing.T, c confine.Confiner) {
	profile := func(ws string) sandboxprofile.Profile {
		p := Profile(t, ws)
		p.Scratch = append(p.Scratch, filepath.Dir(ws))
		return p
	}
	ws := changing(t)
	box, err := c.Prepare(context.Background(), profile(ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	before := tree(t, ws)
	for _, act := range changes {
		o := under(t, box, readsOnly, ws, "/usr/bin/python3", "-c", errno(act))
		switch got := strings.TrimSpace(o.Out); got {
		case "EACCES", "EPERM", "EXDEV": // what a domain, a filter, and a link from one tree to another answer
		default:
			t.Errorf("%s under a ceiling: %s %s (%+v)", act, got, o.Err, o.Result)
		}
		if !strings.Contains(o.Ceiling, "Landlock layer") {
			t.Errorf("what held the ceiling: %q", o.Ceiling)
		}
	}
	if after := tree(t, ws); after != before {
		t.Errorf("actions under a ceiling changed the workspace:\n%s\nwas\n%s", after, before)
	}
	for _, act := range changes {
		ws := changing(t)
		before := tree(t, ws)
		free := Exec(t, context.Background(), c, profile(ws), ws, nil, "/usr/bin/python3", "-c", errno(act))
		switch {
		case free.Ceiling != "":
			t.Errorf("%s without a ceiling: %q held it", act, free.Ceiling)
		case tree(t, ws) == before && !elsewhereOnly(act):
			t.Errorf("%s without a ceiling: %s %s, and nothing has changed", act, free.Out, free.Err)
		}
	}
}

// elsewhereOnly are the acts that some backends refuse to every program: no sockets, no
// metadata, no links out of the workspace.
func elsewhereOnly(act string) bool {
	return strings.Contains(act, "/tmp/") || strings.Contains(act, "socket") || strings.Contains(act, "chmod") || strings.Contains(act, "utime")
}

// ceilingReadsAndKeepsScratch: what an action of the class is there for.
func ceilingReadsAndKeepsScratch(t *testing.T, c confine.Confiner) {
	ws := changing(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	script := `set -e; cat old sub/inner; f=$(mktemp); sort -o "$f" old; cat "$f"; echo gone > /dev/null; ls -l >&2`
	o := under(t, box, readsOnly, ws, "/bin/bash", "-c", script)
	if want := "content of oldcontent of sub/innercontent of old\n"; o.Out != want || o.ExitCode != 0 {
		t.Errorf("%q: %+v, want %q", o.Err, o, want)
	}
	if got := under(t, box, readsOnly, ws, "/usr/bin/python3", "-c", errno("socket.socket()")); strings.TrimSpace(got.Out) != "EACCES" {
		t.Errorf("a socket: %+v", got)
	}
}

// ceilingKeepsHomeEmpty: the attack is one program of a line that writes where the next one looks for orders. No
// word of its line has to say so: a link that was there leads to HOME as well. The same without that ceiling.
func ceilingKeepsHomeEmpty(t *testing.T, c confine.Confiner) {
	home := `h = os.environ["HOME"]; `
	into := []string{
		"open(h + '/.curlrc', 'w')", "os.mkdir(h + '/.config')", "os.symlink('old', h + '/.npmrc')", "os.chdir(h); open('.netrc', 'w')",
		"os.symlink(h, '/tmp/out'); open('/tmp/out/.gitconfig', 'w')",
	}
	beside := []string{"open('new', 'w')", "os.mkdir('newdir')", "os.rename('old', 'sub/old')", "open('/dev/null', 'w')", "open(os.environ.get('TMPDIR', '/tmp') + '/x', 'w')"}
	for _, empty := range []bool{true, false} {
		ws := changing(t)
		p := Profile(t, ws)
		box, err := c.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		l := &sandboxprofile.Ceiling{Class: sandboxprofile.ClassBeyond, AnyProgram: true, EmptyHome: empty}
		for i, act := range append(into, beside...) {
			o := under(t, box, l, ws, "/usr/bin/python3", "-c", errno(home+act))
			want := "ok"
			if empty && i < len(into) {
				want = "EACCES"
			}
			got := strings.TrimSpace(o.Out)
			if strings.Contains(act, "symlink(h") && got == "EACCES" {
				want = got // without namespaces no program goes that way
			}
			if got != want || empty != strings.Contains(o.Ceiling, "cannot write to HOME; by ") {
				t.Errorf("empty %t: %s: %s, want %s; held by %q, %s", empty, act, got, want, o.Ceiling, o.Err)
			}
		}
	}
}

// ceilingStartsOnlyItsPrograms: the files that it names, and nothing behind them.
func ceilingStartsOnlyItsPrograms(t *testing.T, c confine.Confiner) {
	ws := changing(t)
	write(t, ws+"/script", "#!/bin/bash\necho ran\n")
	if err := os.Chmod(ws+"/script", 0o755); err != nil {
		t.Fatal(err)
	}
	files := func(names ...string) *sandboxprofile.Ceiling {
		l := &sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead}
		for _, n := range names {
			real, err := filepath.EvalSymlinks(n)
			if err != nil {
				t.Fatal(err)
			}
			l.Programs = append(l.Programs, real)
		}
		return l
	}
	loader := loaderOf(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	alone, both := files("/bin/bash", loader), files("/bin/bash", loader, "/bin/cat")
	for range 2 { // the second time with what was made the first time
		if o := under(t, box, alone, ws, "/bin/bash", "-c", "/bin/cat old"); o.ExitCode != 126 || !strings.Contains(o.Err, "Permission denied") {
			t.Errorf("a program that is not named: %+v", o)
		}
		if o := under(t, box, both, ws, "/bin/bash", "-c", "/bin/cat old"); o.Out != "content of old" {
			t.Errorf("a program that is named: %+v", o)
		}
	}
	if o := under(t, box, both, ws, "/bin/bash", "-c", "./script"); o.ExitCode != 126 {
		t.Errorf("a script that is not named: %+v", o)
	}
	if o := under(t, box, files("/bin/cat", loader), ws, "/bin/bash", "-c", "true"); o.Cause != confine.NotStarted || o.Errno != "EACCES" {
		t.Errorf("an action whose own program is not named: %+v", o)
	}
	copied := under(t, box, both, ws, "/bin/bash", "-c", "/bin/cat /bin/cat > /tmp/own; chmod +x /tmp/own; /tmp/own old")
	if copied.ExitCode == 0 {
		t.Errorf("a copy in a private directory: %+v", copied)
	}
	if o := under(t, box, nil, ws, "/bin/bash", "-c", "./script"); strings.TrimSpace(o.Out) != "ran" {
		t.Errorf("the script without a ceiling: %+v", o)
	}
}

// ceilingsThatNobodyHolds: an action whose ceiling cannot be enforced does not run.
func ceilingsThatNobodyHolds(t *testing.T, c confine.Confiner) {
	ws := changing(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, x := range []struct {
		name   string
		action sandboxprofile.Action
	}{
		{"no class", sandboxprofile.Action{Kind: sandboxprofile.Exec, Ceiling: &sandboxprofile.Ceiling{AnyProgram: true},
			Exec: &sandboxprofile.Program{Path: "/bin/true", Argv: []string{"true"}, Dir: ws}}},
		{"a write under read", sandboxprofile.Action{Kind: sandboxprofile.WriteFile, Ceiling: readsOnly, File: &sandboxprofile.Operation{Path: ws + "/x"}}},
	} {
		if r, err := box.Run(context.Background(), x.action, confine.Stdio{}); err == nil {
			t.Errorf("%s: %+v", x.name, r)
		}
	}
	if got := ExecIn(t, context.Background(), box, ws, nil, "/bin/true"); got.ExitCode != 0 {
		t.Errorf("the sandbox is of no use afterwards: %+v", got)
	}
}

// loaderOf is the file that the kernel starts for a program that is linked dynamically.
func loaderOf(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/lib64/ld-linux-*.so.*", "/lib/ld-linux-*.so.*", "/lib/ld-musl-*.so.*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatal("no dynamic loader found")
	return ""
}

// tree is everything about a directory that a program could change.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := []byte{}
		if info.Mode().IsRegular() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %v %v %x\n", path, info.Mode(), info.ModTime(), sha256.Sum256(content))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
