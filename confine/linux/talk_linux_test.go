package linux_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// listener is a Python program that does what it is told, line by line, and says how
// each went: by the name of an errno, or by what r was set to.
const listener = `
import sys, os, errno, ctypes, socket, signal, subprocess, threading, time, fcntl, mmap, struct
libc = ctypes.CDLL(None, use_errno=True)
def sys_(*a):
    n = libc.syscall(*a)
    if n < 0: raise OSError(ctypes.get_errno(), '')
    return n
g = dict(globals()); g['g'] = g
for line in sys.stdin:
    g['r'] = 'ok'
    try: exec(eval(line), g)
    except OSError as e: g['r'] = errno.errorcode.get(e.errno, str(e))
    except Exception as e: g['r'] = repr(e)
    print(repr(g['r']) if not isinstance(g['r'], str) else g['r'], flush=True)
`

// A talk is with a program in a sandbox, which does one thing at a time while the test
// does others outside.
type talk struct {
	t    *testing.T
	ws   string
	in   *io.PipeWriter
	out  *bufio.Scanner
	end  func() confine.Result
	errs *bytes.Buffer
}

// converse starts a listener in a sandbox of c.
func converse(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, ws string) *talk {
	t.Helper()
	return converseWith(t, c, p, ws, confine.Stdio{})
}

// converseWith is converse with somebody who hears of changes.
func converseWith(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, ws string, std confine.Stdio) *talk {
	t.Helper()
	box, err := c.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	in, say := io.Pipe()
	hear, out := io.Pipe()
	var errs bytes.Buffer
	var r confine.Result
	std.Stdin, std.Stdout, std.Stderr = in, out, &errs
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/usr/bin/python3", Argv: []string{"python3", "-I", "-S", "-c", listener}, Dir: ws, Env: []string{"HOME=/home/tool", "PATH=/usr/bin:/bin"},
		}}, std)
		out.Close()
	}()
	k := &talk{t: t, ws: ws, in: say, out: bufio.NewScanner(hear), errs: &errs}
	k.end = sync.OnceValue(func() confine.Result {
		say.Close()
		go func() { _, _ = io.Copy(io.Discard, hear) }()
		<-done
		box.Close()
		if err != nil {
			t.Errorf("the call: %v", err)
		}
		return r
	})
	t.Cleanup(func() { k.end() })
	return k
}

// does has the program do something, and gives how it went.
func (k *talk) does(statement string) string {
	k.t.Helper()
	k.starts(statement)
	return k.hears()
}

// starts is does without waiting for the answer, which hears gives.
func (k *talk) starts(statement string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, strconv.Quote(statement)+"\n"); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) hears() string {
	k.t.Helper()
	if !k.out.Scan() {
		k.t.Fatalf("the program has ended: %+v\n%s", k.end(), k.errs)
	}
	return k.out.Text()
}

// gets expects an answer.
func (k *talk) gets(statement, want string) {
	k.t.Helper()
	if got := k.does(statement); got != want {
		k.t.Errorf("%s: %s, want %s", statement, got, want)
	}
}

// init is the process that holds the broker: the parent of the program.
func (k *talk) init() string { return k.does("r = str(os.getppid())") }

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func brokered(t *testing.T) (*linux.Landlock, string, sandboxprofile.Profile) {
	t.Helper()
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Protect, p.Hide = strings.Fields(".git/hooks .git/config .gitconfig .bashrc .vim/plugin .config/git/config"), strings.Fields(".env secrets")
	return newLandlock(t, linux.LandlockOptions{}), ws, p
}
