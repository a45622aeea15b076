package confine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
)

// TestSwappedDirectoriesAreNotMounted is another call of the same session that
// exchanges a directory of the workspace for a link, over and over, while
// sandboxes are built. bubblewrap finds what it mounts by path: without a look
// at what came of it, the directory behind the link would be mounted, writable.
func TestSwappedDirectoriesAreNotMounted(t *testing.T) {
	ws, outside := confinetest.Workspace(t), confinetest.Workspace(t)
	for _, dir := range []string{ws + "/a/.git/hooks", outside + "/.git/hooks"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside+"/secret", []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../"+filepath.Base(outside), ws+"/link"); err != nil {
		t.Fatal(err)
	}
	b := newBwrap(t)
	build := func() (leaked bool, err error) {
		box, err := b.Prepare(context.Background(), confinetest.Profile(t, ws))
		if err != nil {
			return false, err
		}
		defer box.Close()
		o := confinetest.ExecIn(t, context.Background(), box, "/", nil, "/bin/bash", "-c",
			"cat "+ws+"/a/secret "+ws+"/link/secret 2>/dev/null; touch "+ws+"/a/planted "+ws+"/link/planted 2>/dev/null; true")
		return strings.Contains(o.Out, "hunter2"), nil
	}
	if leaked, err := build(); leaked || err != nil {
		t.Fatalf("before any swap: leaked %v, %v", leaked, err)
	}

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, ws+"/a", unix.AT_FDCWD, ws+"/link", unix.RENAME_EXCHANGE)
				time.Sleep(rand.N(3 * time.Millisecond)) // so that swaps fall into every phase of a build
			}
		}
	}()
	built, refused, noticed := 0, 0, 0
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		leaked, err := build()
		if leaked {
			t.Fatalf("a directory outside was mounted, after %d sandboxes and %d refusals", built, refused)
		}
		if err != nil {
			refused++
			var u *confine.Unenforceable
			if errors.As(err, &u) && u.Part == "check the mounts" {
				noticed++
			}
		} else {
			built++
		}
	}
	close(stop)
	<-stopped
	if _, err := os.Lstat(outside + "/planted"); err == nil {
		t.Error("a file was written outside")
	}
	if built+refused == 0 || refused == 0 {
		t.Errorf("%d built, %d refused: the race was not run", built, refused)
	}
	t.Logf("%d built, %d refused, %d of them by what was mounted", built, refused, noticed)
}
