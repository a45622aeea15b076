package confinetest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// held: an action that is held has not begun when Hold is called, begins when Hold
// releases it, and never begins if Hold refuses it. A refused action leaves nothing that
// begins later, and does not prevent the next action.
func held(t *testing.T, c confine.Confiner) { heldActions(t, c, "program", "on-a-terminal", "file") }

// hostHeld leaves out terminals, which there are none of.
func hostHeld(t *testing.T, c confine.Confiner) { heldActions(t, c, "program", "file") }

func heldActions(t *testing.T, c confine.Confiner, kinds ...string) {
	ws := Workspace(t)
	p := Profile(t, ws)
	refusal := errors.New("not yet, and never")
	made := func(name string) bool {
		_, err := os.Lstat(ws + "/" + name)
		return err == nil
	}
	mkdir := func(name string, terminal *sandboxprofile.Terminal) sandboxprofile.Action {
		return sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/usr/bin/mkdir", Argv: []string{"mkdir", name}, Dir: ws, Env: []string{"PATH=/usr/bin"}, Terminal: terminal,
		}}
	}
	actions := map[string]func(name string) sandboxprofile.Action{
		"program": func(name string) sandboxprofile.Action { return mkdir(name, nil) },
		"on-a-terminal": func(name string) sandboxprofile.Action {
			return mkdir(name, &sandboxprofile.Terminal{Rows: 24, Columns: 80})
		},
		"file": func(name string) sandboxprofile.Action {
			return sandboxprofile.Action{Kind: sandboxprofile.WriteFile, File: &sandboxprofile.Operation{Path: ws + "/" + name, Content: []byte("x")}}
		},
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			box, err := c.Prepare(context.Background(), p)
			if err != nil {
				t.Fatalf("prepare: %v", err)
			}
			defer box.Close()
			hold := func(name string, answer error) (asked int, err error) {
				var out, errOut bytes.Buffer
				r, err := box.Run(context.Background(), actions[kind](name), confine.Stdio{Stdout: &out, Stderr: &errOut, Hold: func() error {
					asked++
					time.Sleep(100 * time.Millisecond) // long enough for what does not wait
					if made(name) {
						t.Errorf("%s: the action had begun before it was released", name)
					}
					return answer
				}})
				if err == nil && (r.Cause != confine.Exited || r.ExitCode != 0 || r.Errno != "") {
					t.Errorf("%s: %+v, %s%s", name, r, out.String(), errOut.String())
				}
				return asked, err
			}
			if n, err := hold(kind+"-released", nil); n != 1 || err != nil || !made(kind+"-released") {
				t.Errorf("released: asked %d times, %v, made %v", n, err, made(kind+"-released"))
			}
			if n, err := hold(kind+"-refused", refusal); n != 1 || !errors.Is(err, refusal) {
				t.Errorf("refused: asked %d times, %v", n, err)
			}
			box.Close() // and with it whatever could still begin
			if made(kind + "-refused") {
				t.Error("a refused action has begun")
			}
			if o := Shell(t, c, p, ws, "mkdir "+kind+"-after"); o.ExitCode != 0 || !made(kind+"-after") {
				t.Errorf("after a refusal: %+v", o)
			}
		})
	}
}
