package linux_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func landlockSession(t *testing.T) linux.SessionBackend {
	t.Helper()
	b, err := linux.New(linux.Options{Backend: "landlock"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.Session()
}

// sandboxesOf are the sandboxes of this process, by the first process of each.
func sandboxesOf(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pid := range proctree.Children(os.Getpid()) {
		if !isWarden(pid) && isLive(pid) {
			list = append(list, strconv.Itoa(pid))
		}
	}
	return list
}

// TestWhatIsBuiltAheadIsHeldAgainstTheHost: without namespaces the next call gets the sandbox
// that was built when the last one had ended, for itself alone, and only if one that is built
// now would be the same to the last rule.
func TestWhatIsBuiltAheadIsHeldAgainstTheHost(t *testing.T) {
	put := func(name string) func(*testing.T, string, *sandboxprofile.Profile) {
		return func(t *testing.T, ws string, _ *sandboxprofile.Profile) {
			t.Helper()
			if err := os.WriteFile(ws+"/"+name, []byte("TOKEN"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range []struct {
		name   string
		during func(t *testing.T, ws string, p *sandboxprofile.Profile)
		fits   bool
	}{
		{"nothing happened", nil, true},
		{"an ordinary file has appeared", put("plain"), true},
		{"the call has other limits", func(_ *testing.T, _ string, p *sandboxprofile.Profile) { p.Limits.OpenFiles = 77 }, true},
		{"a secret has appeared", put(".env"), false},
		{"a protected file has appeared", put(".bashrc"), false},
		{"the call may write less", func(_ *testing.T, ws string, p *sandboxprofile.Profile) { p.Paths[ws] = sandboxprofile.Read }, false},
		{"another pattern", func(_ *testing.T, _ string, p *sandboxprofile.Profile) { p.Hide = append(p.Hide, "x") }, false},
		{"a listed file is another one", func(t *testing.T, ws string, _ *sandboxprofile.Profile) {
			put("other")(t, ws, nil)
			if err := os.Rename(ws+"/other", ws+"-listed"); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			if err := os.WriteFile(ws+"-listed", []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Remove(ws + "-listed") })
			s, p := landlockSession(t), confinetest.Profile(t, ws)
			p.Protect, p.Hide = append(p.Protect, ".bashrc"), append(p.Hide, ".env")
			p.Paths[ws+"-listed"] = sandboxprofile.Read
			if o := confinetest.Shell(t, s, p, ws, "cut -d' ' -f4 /proc/$PPID/stat"); o.ExitCode != 0 {
				t.Fatalf("%+v", o)
			}
			s.Expected()
			ahead := sandboxesOf(t)
			if len(ahead) != 1 {
				t.Fatalf("%v, want the one sandbox that was built ahead", ahead)
			}
			if x.during != nil {
				x.during(t, ws, &p)
			}
			// Whose child the program's init is.
			o := confinetest.Shell(t, s, p, ws, "cut -d' ' -f4 /proc/$PPID/stat; ulimit -n; cat .env; echo x > .bashrc")
			said := strings.Fields(o.Out)
			if len(said) < 2 || strings.Contains(o.Out, "TOKEN") || !strings.Contains(o.Err, ".bashrc") {
				t.Fatalf("%q %q", o.Out, o.Err)
			}
			if served := said[0] == ahead[0]; served != x.fits {
				t.Errorf("what was built ahead served: %v, want %v", served, x.fits)
			}
			if limit := strconv.FormatInt(p.Limits.OpenFiles, 10); p.Limits.OpenFiles == 77 && said[1] != limit {
				t.Errorf("the limit is %s, want %s", said[1], limit)
			}
			if o := confinetest.Shell(t, s, p, ws, "cut -d' ' -f4 /proc/$PPID/stat"); strings.TrimSpace(o.Out) == said[0] || o.ExitCode != 0 {
				t.Errorf("the next call: %+v", o)
			}
			s.Close()
			if left := sandboxesOf(t); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestClosingEndsWhatIsExpected: at any moment of the building, and nothing is built after.
// Where there is one call only, nothing is built after it.
func TestClosingEndsWhatIsExpected(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	nobody := func(s linux.SessionBackend, when string) {
		t.Helper()
		s.Expected()
		if left := sandboxesOf(t); len(left) > 0 {
			t.Fatalf("%s: %v is left", when, left)
		}
	}
	for wait := time.Duration(0); wait < 40*time.Millisecond; wait = 2*wait + time.Millisecond {
		s := landlockSession(t)
		confinetest.Shell(t, s, p, ws, "true")
		time.Sleep(wait)
		s.Close()
		nobody(s, "closed after "+wait.String())
		confinetest.Shell(t, s, p, ws, "true")
		nobody(s, "after a call of a closed session")
	}
	one := landlockSession(t)
	defer one.Close()
	one.Ahead(p)
	confinetest.Shell(t, one, p, ws, "true")
	nobody(one, "after the one call")
}
