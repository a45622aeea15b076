package shell

import (
	"context"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/tools"
)

// fragments are put together at random to make command lines that look like
// shell and often are not.
var fragments = []string{"ls", "echo", "evil", "evil", " ", " ", " ", "\n", ";", "&", "&&", "|", "||", "(", ")", "{ ", "; }", "$(", "`", "\"", "'", "$'", "\\", "\\\n", "$", "x", "=",
	"x=evil", "$x", "${x", "}", "${", ":-", "<<E\n", "\nE\n", "<<'E'\n", "<(", ">/dev/null", "2>&1", "<", "#", " # ", "if ", "; then ", "; fi", "for x in ", "; do ", "; done", "while ",
	"case x in ", "x) ", ";;", " esac", "[[ ", " ]]", "((", "))", "$((", "[", "]", "a[", "!", "~", "*", "{evil,", "f() ", "function ", "f", "@P}", "<<<", "1", ",", "time ", "bash -c ",
	"command ", "exec ", "env ", "let ", "${x:-", "x=1"}

// TestBashRunsNothingElse runs random command lines that the rules allow in a
// real bash, whose PATH has one program that no rule speaks about. It must never
// run: where it does, bash reads a command line otherwise than this package.
func TestBashRunsNothingElse(t *testing.T) {
	const runs = 250 // allowed command lines that mention the program
	dir := t.TempDir()
	mark := filepath.Join(dir, "ran")
	bin := filepath.Join(dir, "bin")
	for name, script := range map[string]string{"evil": "#!/bin/sh\n: >" + mark + "\n", "ls": "#!/bin/sh\n"} {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if runInBash(t, dir, bin, "evil &"); os.Remove(mark) != nil {
		t.Fatal("the program leaves no mark when bash runs it in the background")
	}
	d, list := rulesOf(t, "ls;echo")
	p := mustPolicy(t, d, list)
	random := rand.New(rand.NewSource(1))
	for done := 0; done < runs; {
		var b strings.Builder
		for range 1 + random.Intn(14) {
			b.WriteString(fragments[random.Intn(len(fragments))])
		}
		command := b.String()
		if !strings.Contains(command, "evil") || p.Decide(command, "bash").Effect != tools.Allow {
			continue
		}
		done++
		runInBash(t, dir, bin, command)
		if os.Remove(mark) == nil {
			t.Errorf("%q is allowed, and bash runs the other program", command)
		}
	}
}

// runInBash runs command, and waits for whatever it leaves in the background:
// until the last process that holds the pipe has gone.
func runInBash(t *testing.T, dir, bin, command string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-c", "--", command)
	c.Dir, c.Env = dir, []string{"PATH=" + bin}
	c.ExtraFiles = []*os.File{w}
	err = c.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // most of these fail, and may
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
}
