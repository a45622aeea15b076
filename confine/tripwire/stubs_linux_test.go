package tripwire

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestOnlyStubsAreRemoved: of what has a name that bubblewrap mounts over, only what
// can be nobody else's goes.
func TestOnlyStubsAreRemoved(t *testing.T) {
	dir := func(mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, name string) {
			must(t, os.Mkdir(name, 0o700))
			must(t, os.Chmod(name, mode))
		}
	}
	file := func(mode os.FileMode, text string) func(*testing.T, string) {
		return func(t *testing.T, name string) {
			must(t, os.WriteFile(name, []byte(text), 0o600))
			must(t, os.Chmod(name, mode))
		}
	}
	for what, x := range map[string]struct {
		make   func(t *testing.T, name string)
		before bool // it was there
		name   string
		want   verdict
	}{
		"a mount point that is a file":           {make: file(0o444, ""), want: isStub},
		"a mount point that is a directory":      {make: dir(0o705), want: isStub},
		"in a directory that gives its group":    {make: dir(0o705 | os.ModeSetgid), want: isStub},
		"a directory as anybody makes it":        {make: dir(0o755), want: maybeStub},
		"a directory for its owner alone":        {make: dir(0o700), want: maybeStub},
		"a file that was there":                  {make: file(0o444, ""), before: true},
		"a directory that was there":             {make: dir(0o705), before: true},
		"a plain directory that was there":       {make: dir(0o755), before: true},
		"another name":                           {make: file(0o444, ""), name: "other"},
		"another mode":                           {make: file(0o644, "")},
		"a directory with another mode":          {make: dir(0o750)},
		"something in it":                        {make: file(0o444, "x")},
		"a file that somebody is about to write": {make: opened, want: maybeStub},
		"a file with two names":                  {make: linked},
		"a directory with something in it":       {make: filled},
		"a link":                                 {make: func(t *testing.T, name string) { must(t, os.Symlink("/etc", name)) }},
		"a pipe":                                 {make: func(t *testing.T, name string) { must(t, unix.Mkfifo(name, 0o444)) }},
	} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{root: sandboxprofile.Read | sandboxprofile.Write}}
			name := root + "/.env"
			if x.name != "" {
				name = root + "/" + x.name
			}
			if x.before {
				x.make(t, name)
			}
			awaitTick(time.Now())
			w := WatchStubs(p, []wire.Mount{{Path: root + "/.env"}}, uint32(os.Geteuid()))
			awaitTick(w.since)
			if !x.before {
				x.make(t, name)
			}
			doubtful, err := w.Remove(p)
			if err != nil {
				t.Fatal(err)
			}
			_, err = os.Lstat(name)
			if removed := os.IsNotExist(err); removed != (x.want == isStub) {
				t.Errorf("removed: %v", removed)
			}
			if named := slices.Contains(doubtful, name); named != (x.want == maybeStub) {
				t.Errorf("named are %q", doubtful)
			}
			if names, err := os.ReadDir(root); err != nil || len(names) > 2 {
				t.Errorf("left are %v, %v", names, err)
			}
		})
	}
}

// TestFreshFilesAreNotStubs: a file made a moment before the watch may have the same
// time as one made after it.
func TestFreshFilesAreNotStubs(t *testing.T) {
	root := t.TempDir()
	p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{root: sandboxprofile.Read | sandboxprofile.Write}}
	for range 300 {
		must(t, os.WriteFile(root+"/.env", nil, 0o444))
		w := WatchStubs(p, []wire.Mount{{Path: root + "/.env"}}, uint32(os.Geteuid()))
		if _, err := w.Remove(p); err != nil {
			t.Fatal(err)
		}
		must(t, os.Remove(root+"/.env"))
	}
}

// TestExchangedStubsStay: what took the name of a stub between the look at it and its
// removal is as it was.
func TestExchangedStubsStay(t *testing.T) {
	root := t.TempDir()
	must(t, os.WriteFile(root+"/stub", nil, 0o444))
	f, err := os.Open(root + "/stub")
	must(t, err)
	defer f.Close()
	at, err := os.Open(root)
	must(t, err)
	defer at.Close()
	must(t, os.WriteFile(root+"/theirs", nil, 0o444))
	must(t, os.Rename(root+"/theirs", root+"/stub"))
	if removed, err := removeExactly(int(at.Fd()), "stub", f); removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if names, err := os.ReadDir(root); err != nil || len(names) != 1 || names[0].Name() != "stub" {
		t.Errorf("left are %v, %v", names, err)
	}
	own, err := os.Open(root + "/stub")
	must(t, err)
	defer own.Close()
	if removed, err := removeExactly(int(at.Fd()), "stub", own); !removed || err != nil {
		t.Errorf("of itself: removed %v, %v", removed, err)
	}
}

func opened(t *testing.T, name string) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o444)
	must(t, err)
	t.Cleanup(func() { f.Close() })
}

func linked(t *testing.T, name string) {
	must(t, os.WriteFile(name, nil, 0o444))
	must(t, os.Link(name, name+".2"))
}

func filled(t *testing.T, name string) {
	must(t, os.Mkdir(name, 0o700))
	must(t, os.WriteFile(name+"/x", nil, 0o600))
	must(t, os.Chmod(name, 0o705))
}

// awaitTick waits until files get times that lie after at.
func awaitTick(at time.Time) {
	for !fileClock().After(at) {
		time.Sleep(time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
