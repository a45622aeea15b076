package linux_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/internal/flips"
	"github.com/sandgate/sandgate/sandboxprofile"
)

var flipEach = flag.Duration("flip-each", 0, "how long TestNothingOutsideChangesWhileNamesFlip makes each call; 0 makes all of them by turns for a second, and some floods only")

const flipsWord = "flip-names"

// TestFlipNames is the program that TestNothingOutsideChangesWhileNamesFlip runs.
func TestFlipNames(t *testing.T) {
	args := flag.Args()
	if len(args) == 0 || args[0] != flipsWord {
		if len(flips.Calls()) == 0 {
			t.Error("there are no calls")
		}
		return
	}
	a, err := flips.Parse(args[1:])
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.Run(&out); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.Write(out.Bytes())
}

// TestNothingOutsideChangesWhileNamesFlip: while one thread makes a call, others change
// the bytes of its path, what its descriptors and its working directory are, and the
// links and directories on the way. Whatever the broker reads when, nothing outside of
// the workspace, nothing protected and nothing hidden changes, and nothing hidden is read.
func TestNothingOutsideChangesWhileNamesFlip(t *testing.T) {
	list, each := []string{""}, time.Second
	if *flipEach > 0 {
		list, each = flips.Calls(), *flipEach
	}
	for _, hidden := range []bool{false, true} { // with something hidden, reads are the broker's too
		for _, call := range list {
			t.Run(fmt.Sprintf("hidden-%v/%s", hidden, call), func(t *testing.T) { flip(t, call, each, hidden) })
		}
	}
}

func flip(t *testing.T, call string, each time.Duration, hidden bool) {
	base := confinetest.Workspace(t)
	program := base + "/program"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, self, program)
	for _, place := range flips.Places {
		if strings.Contains(place, "secrets") && !hidden {
			continue
		}
		mkdir(t, base+place)
		mkdir(t, base+place+"/d")
		content := "content"
		if strings.Contains(place, "secrets") {
			content = flips.Secret
		}
		put(t, base+place+"/f", content)
		if err := os.Symlink("f", base+place+"/l"); err != nil {
			t.Fatal(err)
		}
	}
	if err := flips.MakeLinks(base); err != nil {
		t.Fatal(err)
	}
	put(t, base+"/wsp/.git/config", "[core]\n\tbare = false\n")
	mkdir(t, base+"/wsp/sub")
	server, err := net.Listen("unix", base+"/out/dirs/inner/s")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	err = filepath.WalkDir(base, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&fs.ModeSymlink == 0 {
			err = os.Chmod(path, 0o777) // what the kernel itself would not refuse
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	own(t, base)
	l, p := newLandlock(t, linux.LandlockOptions{}), confinetest.Profile(t, base+"/wsp")
	p.Protect, p.Hide = strings.Fields(".git/hooks .git/config"), []string{"secrets"}
	p.Paths[program] = sandboxprofile.Read | sandboxprofile.Execute
	p.Paths[base+"/out"] = sandboxprofile.Read
	p.Limits = sandboxprofile.NoLimits()
	out, git := base+"/out", base+"/wsp/.git"
	closed := func() string {
		said := identities(t, out) + identities(t, git)
		if hidden {
			said += identities(t, base+"/wsp/secrets")
		}
		return said
	}
	before := closed()
	planted, stop, stopped := "", make(chan struct{}), make(chan struct{})
	go func() { // what is taken back before the end was there all the same
		defer close(stopped)
		for begun := false; ; {
			select {
			case <-stop:
				return
			default:
			}
			if !begun { // a sandbox is not built while its workspace changes
				begun = unix.Access(base+"/wsp/made", unix.F_OK) == nil
			} else {
				flips.FlipLink(base)
			}
			for _, name := range []string{"/wsp/sub/.git/hooks", "/wsp/sub/.git/config"} {
				var st unix.Stat_t
				if unix.Lstat(base+name, &st) != nil {
					continue
				}
				harmless := st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0 // a configuration that says nothing may come
				if strings.HasSuffix(name, "hooks") {
					harmless = st.Mode&unix.S_IFMT == unix.S_IFDIR
				}
				if !harmless {
					planted = name
				}
			}
			if unix.Access(base+"/wsp/sub/.git/hooks/f", unix.F_OK) == nil {
				planted = "/wsp/sub/.git/hooks/f"
			}
		}
	}()
	a := flips.Attack{Base: base, Call: call, For: each}
	argv := append([]string{program, "-test.run=^TestFlipNames$", "-test.v=false", "-test.timeout=0", flipsWord}, a.Args()...)
	o := confinetest.Exec(t, context.Background(), l, p, base+"/wsp", nil, argv...)
	close(stop)
	<-stopped
	if o.ExitCode != 0 {
		t.Fatalf("%+v\n%s\n%s", o.Result, o.Out, o.Err)
	}
	if after := closed(); after != before {
		t.Errorf("before\n%s\nand after\n%s", before, after)
	}
	if planted != "" {
		t.Errorf("%s was there", planted)
	}
	if err := server.(*net.UnixListener).SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if c, err := server.Accept(); err == nil {
		c.Close()
		t.Error("a connection came to a socket outside")
	}
	made, flipped := map[string]int{}, 0
	for line := range strings.Lines(o.Out) {
		var name string
		var ok, of int
		if n, _ := fmt.Sscan(line, &name, &ok, &of); n != 3 {
			continue // PASS
		}
		made[name] = ok
		if name == "flips" {
			flipped = of
		}
		if name == "leaks" {
			t.Errorf("what is hidden was read %d times", ok)
		}
	}
	if flipped == 0 {
		t.Errorf("nothing flipped:\n%s", o.Out)
	}
	for _, name := range flips.Calls() {
		if (call == "" || call == name) && made[name] == 0 {
			t.Errorf("no %s did anything, so this proves nothing:\n%s", name, o.Out)
		}
	}
	t.Logf("done something, of made:\n%s", o.Out)
}

// identities is everything of a tree that a call could have changed, without times of
// access.
func identities(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		content := ""
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(text)
		}
		fmt.Fprintf(&b, "%s %d %o %d %d %d %d %v %v %q\n", path, st.Ino, st.Mode, st.Nlink, st.Uid, st.Gid, st.Size, st.Mtim, st.Ctim, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
