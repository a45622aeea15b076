package sandboxprofile_test

import (
	"math/bits"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/sandgate/sandgate/sandboxprofile"
	"pgregory.net/rapid"
)

var (
	genComponent = rapid.SampledFrom([]string{"a", "b", ".git", "hooks", ".env", "ab"})
	genPath      = rapid.Map(rapid.SliceOfN(genComponent, 0, 4), func(c []string) string {
		return "/" + strings.Join(c, "/")
	})
	genRights  = rapid.Map(rapid.IntRange(0, 7), func(i int) Rights { return Rights(i) })
	genPattern = rapid.SampledFrom([]string{".git/hooks", ".env", "*", "a/b", ".*", "[", "a?"})
	genNames   = rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B", "C", All}), 0, 3)
	genLimit   = rapid.SampledFrom([]int64{1, 2, 3, Unlimited})
)

var genProfile = rapid.Custom(func(t *rapid.T) Profile {
	limit := func(name string) int64 { return genLimit.Draw(t, name) }
	return Profile{
		Paths:   rapid.MapOfN(genPath, genRights, 0, 6).Draw(t, "paths"),
		Scratch: rapid.SliceOfN(genPath, 0, 2).Draw(t, "scratch"),
		Protect: rapid.SliceOfN(genPattern, 0, 2).Draw(t, "protect"),
		Hide:    rapid.SliceOfN(genPattern, 0, 2).Draw(t, "hide"),
		Network: Network{
			Mode:   NetworkMode(rapid.IntRange(0, 2).Draw(t, "mode")),
			Allow:  rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2), 0, 2).Draw(t, "allow"),
			Ask:    rapid.Bool().Draw(t, "ask"),
			Expose: rapid.SliceOfN(rapid.SampledFrom([]string{"1:1", "0:1", "2:1", All}), 0, 3).Draw(t, "expose"),

			Terminated: rapid.SliceOfN(rapid.SampledFrom([]string{"x:443", "y:443"}), 0, 2).Draw(t, "terminated"),
		},
		UnixSockets: genNames.Draw(t, "sockets"),
		Devices:     genNames.Draw(t, "devices"),
		Syscalls:    genNames.Draw(t, "syscalls"),
		Env:         Env{All: rapid.Bool().Draw(t, "all"), Names: genNames.Draw(t, "names")},
		Limits: Limits{
			Wall: time.Duration(limit("wall")), CPU: time.Duration(limit("cpu")),
			Memory: limit("memory"), Pids: limit("pids"), FileSize: limit("size"),
			OpenFiles: limit("files"), Output: limit("output"), Scratch: limit("scratch size"),
		},
		Fresh: rapid.Bool().Draw(t, "fresh"),
	}
})

func TestIntersectIsAMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genProfile.Draw(t, "a"), genProfile.Draw(t, "b"), genProfile.Draw(t, "c")
		ab := Intersect(a, b)
		same(t, "commutative", ab, Intersect(b, a))
		same(t, "associative", Intersect(ab, c), Intersect(a, Intersect(b, c)))
		same(t, "idempotent", Intersect(a, a), a.Normalize())
		same(t, "absorbs", Intersect(ab, a), ab)
		same(t, "Top is neutral", Intersect(a, Top()), a.Normalize())
		same(t, "the zero profile wins", Profile{Paths: Intersect(a, Profile{}).Paths}, Profile{Paths: map[string]Rights{}})
		for _, p := range []Profile{a, b} {
			if !Within(ab, p) {
				t.Fatalf("the meet is not within %+v: %+v", p, ab)
			}
		}
	})
}

func same(t *rapid.T, law string, got, want Profile) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", law, d)
	}
}

func TestIntersectIsExactForEveryPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genProfile.Draw(t, "a"), genProfile.Draw(t, "b")
		name := genPath.Draw(t, "path")
		if got, want := Intersect(a, b).Rights(name), a.Rights(name)&b.Rights(name); got != want {
			t.Fatalf("rights of %s: got %v, want %v & %v", name, got, a.Rights(name), b.Rights(name))
		}
	})
}

func TestNormalizeKeepsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genProfile.Draw(t, "p")
		n := p.Normalize()
		name := genPath.Draw(t, "path")
		if p.Rights(name) != n.Rights(name) {
			t.Fatalf("rights of %s: %v before, %v after", name, p.Rights(name), n.Rights(name))
		}
		l := NewLookup(p) // it remembers what it was asked last
		for _, name := range append(rapid.SliceOfN(genPath, 0, 6).Draw(t, "asked before"), name, name+"/x", name) {
			if got := l.Rights(name); got != p.Rights(name) {
				t.Fatalf("rights of %s: %v looked up, %v asked", name, got, p.Rights(name))
			}
		}
		same(t, "idempotent", n.Normalize(), n)
		if p.Digest() != n.Digest() || p.Key() != n.Key() {
			t.Fatal("digest or key changed")
		}
	})
}

func TestWithinOrdersEveryAxis(t *testing.T) {
	base := Profile{
		Paths:   map[string]Rights{"/w": Read},
		Network: Network{Mode: NetworkProxied, Allow: [][]string{{"x"}}, Terminated: []string{"x:443"}},
		Env:     Env{Names: []string{"A"}},
		Limits:  NoLimits(),
	}
	looser := map[string]func(*Profile){
		"rights":  func(p *Profile) { p.Paths = map[string]Rights{"/w": Read | Write} },
		"paths":   func(p *Profile) { p.Paths = map[string]Rights{"/w": Read, "/x": Read} },
		"network": func(p *Profile) { p.Network = Network{Mode: NetworkHost} },
		"hosts":   func(p *Profile) { p.Network.Allow = nil },
		"ports":   func(p *Profile) { p.Network.Expose = []string{"80:80"} },
		"TLS":     func(p *Profile) { p.Network.Terminated = nil },
		"sockets": func(p *Profile) { p.UnixSockets = []string{"/s"} },
		"devices": func(p *Profile) { p.Devices = []string{"/dev/kvm"} },
		"calls":   func(p *Profile) { p.Syscalls = []string{"ptrace"} },
		"env":     func(p *Profile) { p.Env.All = true },
	}
	for name, loosen := range looser {
		p := base
		loosen(&p)
		if !Within(base, p) {
			t.Errorf("%s: the base is not within the looser profile", name)
		}
		if Within(p, base) {
			t.Errorf("%s: the looser profile is within the base", name)
		}
	}
}

// naiveRights says what Profile.Rights means in the plainest way: collect every
// entry that contains the path, take the longest, then apply the patterns.
func naiveRights(p Profile, name string) Rights {
	best, rights := "", Rights(0)
	longest := func(k string, r Rights) {
		if (k == "/" || name == k || strings.HasPrefix(name, k+"/")) && len(k) >= len(best) {
			best, rights = k, r
		}
	}
	for k, r := range p.Paths {
		longest(k, r)
	}
	for _, k := range p.Scratch {
		longest(k, 0)
	}
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	for i := range parts {
		for j := i + 1; j <= len(parts); j++ {
			window := strings.Join(parts[i:j], "/")
			if slices.ContainsFunc(p.Hide, func(pat string) bool { return pathMatch(pat, window) }) {
				return 0
			}
			if slices.ContainsFunc(p.Protect, func(pat string) bool { return pathMatch(pat, window) }) {
				rights &^= Write
			}
		}
	}
	return rights
}

func pathMatch(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return (ok && name != "") || err != nil
}

func FuzzIntersectAgreesWithModel(f *testing.F) {
	f.Add([]byte("\x07\x01/a/b\x00\x03/a\x00"), []byte("\x05/\x00\x00/tmp\x00"), "/a/b/.git/hooks/x", ".git/hooks")
	f.Add([]byte("\x07/\x00"), []byte("\x17/a\x00"), "/a", ".env")
	f.Add([]byte{}, []byte{}, "/", "[")
	f.Fuzz(func(t *testing.T, da, db []byte, name, pattern string) {
		name = path.Clean("/" + name)
		a, b := decode(da), decode(db)
		a.Hide, b.Protect = []string{pattern}, []string{pattern}
		if ParsePattern(pattern) != nil {
			a.Hide, b.Protect = nil, nil
		}
		for _, p := range []Profile{a, b} {
			if got, want := p.Rights(name), naiveRights(p, name); got != want {
				t.Fatalf("%+v: rights of %q: got %v, want %v", p, name, got, want)
			}
		}
		if got, want := Intersect(a, b).Rights(name), naiveRights(a, name)&naiveRights(b, name); got != want {
			t.Fatalf("meet of %+v and %+v: rights of %q: got %v, want %v", a, b, name, got, want)
		}
	})
}

// decode reads a profile from NUL-terminated records: a byte whose low three
// bits are rights and whose fifth bit says scratch, then a path.
func decode(data []byte) Profile {
	p := Profile{Paths: map[string]Rights{}}
	for rec := range strings.SplitSeq(string(data), "\x00") {
		if rec == "" {
			continue
		}
		k := path.Clean("/" + rec[1:])
		if rec[0]&0x10 != 0 {
			p.Scratch = append(p.Scratch, k)
		} else {
			p.Paths[k] = Rights(rec[0]) & 7
		}
	}
	// A path that is both is scratch; the model needs one answer.
	for _, k := range p.Scratch {
		delete(p.Paths, k)
	}
	return p
}

func TestRightsAlgebra(t *testing.T) {
	for r := range Rights(8) {
		for s := range Rights(8) {
			if got, want := r.SubsetOf(s), bits.OnesCount8(uint8(r&^s)) == 0; got != want {
				t.Errorf("%v subset of %v: got %v", r, s, got)
			}
			if !r.Intersect(s).SubsetOf(r) || !r.SubsetOf(r.Union(s)) || r.Without(s).Intersect(s) != 0 {
				t.Errorf("%v and %v do not obey the laws", r, s)
			}
		}
		b, err := r.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseRights(string(b)); err != nil || back != r {
			t.Errorf("%v -> %q -> %v, %v", r, b, back, err)
		}
	}
	if got := (Read | Execute).String(); got != "{read,execute}" {
		t.Errorf("String: %s", got)
	}
}
