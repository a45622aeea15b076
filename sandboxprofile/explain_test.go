package sandboxprofile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/sandgate/sandgate/sandboxprofile"
	"pgregory.net/rapid"
)

// TestDiffIsExact: a diff is empty exactly for equal profiles, what a ceiling
// takes away is only ever less, and nothing is said twice.
func TestDiffIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genProfile.Draw(t, "a"), genProfile.Draw(t, "b")
		if got, want := len(Diff(a, b)) == 0, Equal(a, b); got != want {
			t.Fatalf("the diff is empty: %v, the profiles are equal: %v\n%+v", got, want, Diff(a, b))
		}
		taken := Diff(a, Intersect(a, b))
		if got, want := len(taken) == 0, Within(a, b); got != want {
			t.Fatalf("nothing is taken away: %v, a is within b: %v\n%+v", got, want, taken)
		}
		for i, c := range taken {
			if c.Effect != Less && c.Effect != Same || (c.Before == c.After) != (c.Effect == Same) || slices.Contains(taken[:i], c) {
				t.Fatalf("a ceiling gives %+v, of %+v", c, taken)
			}
		}
	})
}

// TestDiffOfPathsCanBeApplied: the lines about paths say the rights of every path.
func TestDiffOfPathsCanBeApplied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genProfile.Draw(t, "a"), genProfile.Draw(t, "b")
		a.Protect, a.Hide, b.Protect, b.Hide = nil, nil, nil, nil
		name := genPath.Draw(t, "path")
		if IsSystemTree(name) {
			t.Skip("patterns do not matter here")
		}
		before, after := a.Rights(name), b.Rights(name)
		var last Change
		for _, c := range Diff(a, b) {
			if c.Axis == "paths" && Contains(c.Name, name) {
				last = c
			}
		}
		if before == after && last.Before == last.After {
			return
		}
		want := Change{Before: lettersOf(before), After: lettersOf(after)}
		if got := (Change{Before: last.Before, After: last.After}); got != want {
			t.Fatalf("%s is %+v, the diff says %+v", name, want, last)
		}
	})
}

func lettersOf(r Rights) string {
	b, _ := r.MarshalText()
	return string(b)
}

func TestDiffSaysWhat(t *testing.T) {
	a := Profile{
		Paths: map[string]Rights{"/w": Read | Write | Execute, "/d": Read}, Protect: []string{".git"}, Env: Env{Names: []string{"A", "B"}},
		Network: Network{Mode: NetworkProxied, Allow: [][]string{{"x", "y"}}, Expose: []string{"80:80"}}, UnixSockets: []string{"/s"}, Limits: NoLimits(),
	}
	b := Profile{
		Paths: map[string]Rights{"/w": Read, "/w/out": Write | Execute | Read, "/d": Write}, Env: Env{All: true}, Hide: []string{".env"},
		Network: Network{Mode: NetworkProxied, Allow: [][]string{{"x"}}, Expose: []string{"0:80"}}, Limits: NoLimits(), Fresh: true,
	}
	b.Limits.Memory, b.Limits.Pids = 3<<30, 5
	var got []string
	for _, c := range Diff(a, b) {
		got = append(got, strings.Join([]string{string(c.Effect), c.Axis, c.Name, c.Before, c.After}, "|"))
	}
	want := []string{
		"both|paths|/d|r--|-w-", "less|paths|/w|rwx|r--", "same|paths|/w/out|rwx|rwx", "more|protect|.git|yes|", "less|hide|.env||yes",
		"less|network|y|yes|", "more|expose|0:80||yes", "less|expose|80:80|yes|", "less|unix_sockets|/s|yes|", "more|env||A B|every environment variable",
		"less|limits|memory|unlimited|3 GiB", "less|limits|pids|unlimited|5", "less|fresh||no|yes",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestExposureFollowsTheProfile turns one axis at a time, and exactly the lines
// about it turn.
func TestExposureFollowsTheProfile(t *testing.T) {
	tight := Profile{Paths: map[string]Rights{"/usr": Read | Execute, "/w": Read}, Protect: []string{"p"}, Hide: []string{"h"}, Fresh: true, Limits: Limits{
		Wall: 1, CPU: 1, Memory: 1, Pids: 1, FileSize: 1, OpenFiles: 1, Output: 1, Scratch: 1}}
	if got := exposedLines(tight); len(got) != 0 {
		t.Fatalf("the tight profile exposes %q", got)
	}
	for _, c := range []struct {
		name string
		turn func(*Profile)
		want []string
	}{
		{"host network", func(p *Profile) { p.Network.Mode = NetworkHost }, []string{"data leaving over the network", "connections from this machine"}},
		{"a port", func(p *Profile) { p.Network.Expose = []string{"80:80"} }, []string{"connections from this machine"}},
		{"listed hosts", func(p *Profile) { p.Network = Network{Mode: NetworkProxied, Allow: [][]string{{"x"}}} }, []string{"data leaving over the network"}},
		{"socket", func(p *Profile) { p.UnixSockets = []string{"/s"} }, []string{"services behind Unix sockets"}},
		{"device", func(p *Profile) { p.Devices = []string{"/dev/kvm"} }, []string{"devices"}},
		{"system calls", func(p *Profile) { p.Syscalls = []string{"ptrace"} }, []string{"dangerous system calls"}},
		{"home", func(p *Profile) { p.Paths["/home/u"] = Read }, []string{"other files of the user"}},
		{"no hidden names", func(p *Profile) { p.Hide = nil }, []string{"files with secrets"}},
		{"environment", func(p *Profile) { p.Env.All = true }, []string{"secrets in the environment"}},
		{"a token", func(p *Profile) { p.Env.Names = []string{"PATH", "GITHUB_TOKEN"} }, []string{"secrets in the environment"}},
		{"plain variables", func(p *Profile) { p.Env.Names = []string{"PATH", "KEYBOARD"} }, nil},
		{"writes", func(p *Profile) { p.Paths["/w"] |= Write }, []string{"files that you run or trust later"}},
		{"writes, unprotected", func(p *Profile) { p.Paths["/w"] |= Write; p.Protect = nil },
			[]string{"files that you run or trust later", "hooks and start-up files"}},
		{"writes to the system", func(p *Profile) { p.Paths["/usr"] = Read | Write },
			[]string{"files that you run or trust later", "programs and settings of the system"}},
		{"scratch", func(p *Profile) { p.Scratch = []string{"/tmp"} }, []string{"programs that it creates"}},
		{"shared", func(p *Profile) { p.Fresh = false }, []string{"one call preparing the next"}},
		{"memory", func(p *Profile) { p.Limits.Memory = Unlimited }, []string{"use of memory"}},
	} {
		p := tight
		p.Paths = map[string]Rights{"/usr": Read | Execute, "/w": Read}
		c.turn(&p)
		if d := cmp.Diff(c.want, exposedLines(p)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	if got, all := len(exposedLines(Top())), len(Explain(Top()).Exposure); got != all {
		t.Errorf("Top exposes %d of %d lines", got, all)
	}
}

func exposedLines(p Profile) []string {
	var names []string
	for _, x := range Explain(p).Exposure {
		if x.Exposed {
			names = append(names, x.Name)
		}
	}
	return names
}

// TestExplanationNamesWhatIsGranted: every path outside of the system that can be
// read or written is in the words about it.
func TestExplanationNamesWhatIsGranted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genProfile.Draw(t, "p").Normalize()
		said := map[string][]string{}
		for _, s := range Explain(p).Sections {
			said[s.Verb] = s.Items
		}
		for k, r := range p.Paths {
			verb := map[Rights]string{Read | Execute: "reads and runs", Read: "reads", Execute: "runs, unread"}[r&(Read|Execute)]
			covered := func(verb string) bool {
				return slices.ContainsFunc(said[verb], func(item string) bool { return strings.HasPrefix(item, "/") && Contains(item, k) })
			}
			if verb != "" && !covered(verb) {
				t.Fatalf("%s is %v, and %q says %q", k, r, verb, said[verb])
			}
			if r&Write != 0 && !covered("changes") {
				t.Fatalf("%s is %v, and changes says %q", k, r, said["changes"])
			}
		}
	})
}
