package confinetest

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// inheritedFiles: a program gets the files that it is handed as descriptors 3 and
// on, and the next program in the same sandbox does not. A sealed one cannot be
// changed. Without any there is no descriptor 3. A program that cannot be executed
// is reported as such all the same.
func inheritedFiles(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	defer box.Close()
	const script = "cat <&3; cat /proc/self/fd/4 <&4; cat <&5; echo changed > /proc/self/fd/4"
	o := runWith(t, box, ws, []*os.File{sealed(t, "first\n"), sealed(t, "second\n")}, "/bin/bash", "-c", script)
	if o.Out != "first\nsecond\n" {
		t.Errorf("%q %q, want both files", o.Out, o.Err)
	}
	if strings.Count(o.Err, "Bad file descriptor") != 1 || !strings.Contains(o.Err, "Operation not permitted") {
		t.Errorf("%q, want no descriptor 5, and no permission to write to 4", o.Err)
	}
	if o = runWith(t, box, ws, nil, "/bin/bash", "-c", "cat <&3"); !strings.Contains(o.Err, "3: Bad file descriptor") {
		t.Errorf("the next program: %q %q, want no descriptor 3", o.Out, o.Err)
	}
	many := make([]*os.File, 16)
	for i := range many {
		many[i] = sealed(t, "x")
	}
	if o = runWith(t, box, ws, many, "/usr/bin/no-such-program"); o.Cause != confine.NotStarted || o.Errno != "ENOENT" {
		t.Errorf("%+v, want ENOENT", o.Result)
	}
}

// runWith runs a program that inherits files, and closes them.
func runWith(t *testing.T, box confine.Sandbox, dir string, files []*os.File, argv ...string) Outcome {
	t.Helper()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	var out, errOut bytes.Buffer
	r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: argv[0], Argv: argv, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"},
	}}, confine.Stdio{Stdout: &out, Stderr: &errOut, Files: files})
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return Outcome{Result: r, Out: out.String(), Err: errOut.String()}
}

// sealed is a file in memory that cannot be changed.
func sealed(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := memfile.New("test", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
