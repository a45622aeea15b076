package dirwatch

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSecondNames: a file that was there can only have been written by another name if that is reported. What only
// creates files, also beside the name that they get in the end, is not taken for that.
func TestSecondNames(t *testing.T) {
	type fn = func() error
	rename := func(a, b string) fn { return func() error { return os.Rename(a, b) } }
	link := func(a, b string) fn { return func() error { return os.Link(a, b) } }
	create := func(a string) fn { return func() error { return os.WriteFile(a, nil, 0o600) } }
	remove := func(a string) fn { return func() error { return os.Remove(a) } }
	exchange := func(a, b string) fn {
		return func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) }
	}
	for name, c := range map[string]struct {
		want bool
		do   []fn
	}{
		"nothing":                       {false, nil},
		"a file":                        {false, []fn{create("b/new")}},
		"a file that is written again":  {false, []fn{create("b/new"), create("b/new")}},
		"a file saved over another":     {false, []fn{create("a/tmp"), rename("a/tmp", "a/x")}},
		"a file saved elsewhere":        {false, []fn{create("a/tmp"), rename("a/tmp", "b/y")}},
		"two files":                     {false, []fn{create("a/1"), create("b/1"), rename("b/1", "b/2")}},
		"a symbolic link":               {false, []fn{func() error { return os.Symlink("x", "b/new") }}},
		"a link":                        {true, []fn{link("a/x", "b/new")}},
		"a link that goes":              {true, []fn{link("a/x", "b/new"), remove("b/new")}},
		"a link that moves and goes":    {true, []fn{link("a/x", "b/new"), rename("b/new", "b/z"), remove("b/z")}},
		"a link that leaves":            {true, []fn{link("a/x", "b/new"), rename("b/new", "../away")}},
		"a link that is saved over":     {true, []fn{link("a/x", "b/new"), create("b/1"), rename("b/1", "b/new")}},
		"a link that is made again":     {true, []fn{link("a/x", "b/new"), remove("b/new"), create("b/new")}},
		"a link that is exchanged":      {true, []fn{link("a/x", "b/new"), exchange("b/new", "b/y"), remove("b/y")}},
		"a link that is exchanged back": {true, []fn{link("a/x", "b/new"), exchange("b/y", "b/new"), remove("b/y")}},
		"a link exchanged with a link":  {true, []fn{link("a/x", "b/1"), create("b/2"), exchange("b/1", "b/2"), remove("b/2")}},
		"a link in a new directory": {true, []fn{
			func() error { return os.Mkdir("b/new", 0o700) }, link("a/x", "b/new/x"), remove("b/new/x"), remove("b/new"),
		}},
		"a link in a directory that moves": {true, []fn{link("a/x", "b/new"), rename("b", "d"), func() error { return os.Mkdir("b", 0o700) }, create("b/new")}},
	} {
		try := func(t *testing.T, events Events) (got, again bool) {
			t.Chdir(t.TempDir())
			if err := os.Mkdir("in", 0o700); err != nil {
				t.Fatal(err)
			}
			t.Chdir("in")
			open := func(dir string) (int, error) { return unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0) }
			w := New[string](10, events)
			if w == nil {
				t.Fatal("nothing can be watched")
			}
			for _, dir := range []string{".", "a", "b"} {
				_ = os.Mkdir(dir, 0o700)
			}
			for _, f := range []string{"a/x", "b/y"} {
				if err := create(f)(); err != nil {
					t.Fatal(err)
				}
			}
			for _, dir := range []string{".", "a", "b"} {
				fd, err := open(dir)
				if err != nil || !w.Add(dir, fd) {
					t.Fatal(dir, err)
				}
				unix.Close(fd)
			}
			var st unix.Stat_t
			if err := unix.Stat("a/x", &st); err != nil {
				t.Fatal(err)
			}
			for _, do := range c.do {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
			told := false
			hear := func() bool {
				return w.Changed(func(dir, name string, inode uint64) { told = told || inode == st.Ino && dir+"/"+name != "a/x" }, open)
			}
			got = hear() || told
			told = false
			return got, hear() || told
		}
		// Where something is mounted meanwhile, by whatever else runs on this machine, all counts as changed.
		test := func(t *testing.T, events Events) {
			got, again := try(t, events)
			for tries := 0; tries < 20 && (got && !c.want || again); tries++ {
				got, again = try(t, events)
			}
			if got == c.want && !again {
				return
			}
			t.Errorf("second names: %v, want %v; reported again: %v", got, c.want, again)
		}
		t.Run(name, func(t *testing.T) { test(t, Contents) })
		if n := newNamed(); n != nil { // not before Linux 5.17, nor in containers that bar fanotify(7)
			unix.Close(n.fd)
			t.Run(name+", by inode", func(t *testing.T) { test(t, Inodes) })
		}
	}
}

// TestANameThatGoesWhileItIsLookedAt: what happens between what was heard and the look at a name is heard, too.
func TestANameThatGoesWhileItIsLookedAt(t *testing.T) {
	at := place{1, "new"}
	for name, c := range map[string]struct {
		meanwhile []event
		want      bool
	}{
		"nothing":           {nil, false},
		"it is another one": {[]event{{wd: 1, name: "new", went: true}, {wd: 1, name: "new", came: true}}, true},
		"saved over":        {[]event{{wd: 1, name: "new", taken: true, cookie: 7}}, true},
		"moved":             {[]event{{wd: 1, name: "new", left: true, cookie: 7}}, true},
		"one more":          {[]event{{wd: 1, name: "next", came: true}}, true},
	} {
		a := arrivals{at: map[place]step{}, moving: map[uint32]bool{}}
		a.hear(event{wd: 1, name: "new", came: true})
		got := a.secondNames(func(p place) bool { return p == at }, func() {
			for _, e := range c.meanwhile {
				a.hear(e)
			}
		})
		if got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
