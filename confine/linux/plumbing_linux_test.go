package linux_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestStreamsIntoPipes: what a program writes comes out of a pipe byte for byte, however slowly it
// is read; the limit of output is the same as where it is copied; and who stops reading ends no
// sandbox.
func TestStreamsIntoPipes(t *testing.T) {
	ws := confinetest.Workspace(t)
	text := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	if err := os.WriteFile(ws+"/text", text, 0o644); err != nil {
		t.Fatal(err)
	}
	c, p := newWarmPool(t), confinetest.Profile(t, ws)
	run := func(t *testing.T, limit int64, read func(*os.File), script string) (confine.Result, string) {
		t.Helper()
		p.Limits.Output = limit
		box, err := c.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { read(r); r.Close(); close(done) }()
		var said bytes.Buffer
		result, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: ws, Env: []string{"PATH=/usr/bin:/bin"},
		}}, confine.Stdio{Stdout: w, Stderr: &said})
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		<-done
		return result, said.String()
	}
	var got bytes.Buffer
	all := func(r *os.File) { got.Reset(); _, _ = io.Copy(&got, r) }

	r, said := run(t, sandboxprofile.Unlimited, all, "cat text; echo said >&2; exit 3")
	if !bytes.Equal(got.Bytes(), text) || r.ExitCode != 3 || r.Stdout != int64(len(text)) || said != "said\n" {
		t.Errorf("%d of %d bytes, %q, %+v", got.Len(), len(text), said, r)
	}
	slowly := func(r *os.File) { // the pipe is full nearly always
		got.Reset()
		for buf := make([]byte, 1000); ; {
			n, err := r.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}
	if r, _ := run(t, int64(len(text)), slowly, "cat text"); !bytes.Equal(got.Bytes(), text) || r.ExitCode != 0 || r.Truncated {
		t.Errorf("read slowly: %d of %d bytes, %+v", got.Len(), len(text), r)
	}
	if r, _ := run(t, 100_000, all, "cat text; sleep 60"); !bytes.Equal(got.Bytes(), text[:100_000]) || !r.Truncated || r.Cause != confine.OutputLimit {
		t.Errorf("beyond the limit: %d bytes, %+v", got.Len(), r)
	}
	little := func(r *os.File) { _, _ = r.Read(make([]byte, 10)) }
	if r, said := run(t, sandboxprofile.Unlimited, little, "cat text; echo $? >&2"); r.ExitCode != 0 || !strings.Contains(said, "141") || r.Stdout >= int64(len(text)) {
		t.Errorf("nobody reads: %q %+v", said, r)
	}
}
