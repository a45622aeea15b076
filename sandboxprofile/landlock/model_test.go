package landlock

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

var (
	modelPart = rapid.SampledFrom([]string{"a", "b", "c"})
	modelPath = rapid.Map(rapid.SliceOfN(modelPart, 0, 4), func(c []string) string { return "/" + strings.Join(c, "/") })
)

var modelProfile = rapid.Custom(func(t *rapid.T) sp.Profile {
	rights := rapid.Map(rapid.IntRange(0, 7), func(i int) sp.Rights { return sp.Rights(i) })
	return sp.Profile{
		Paths:   rapid.MapOfN(modelPath, rights, 0, 5).Draw(t, "paths"),
		Scratch: rapid.SliceOfN(rapid.SampledFrom([]string{"/a", "/b/c", "/c/a/b"}), 0, 2).Draw(t, "scratch"),
		Limits:  sp.NoLimits(),
	}
})

// allowed is what the rules allow at a path: Landlock adds up the rules of a path
// and of every directory above it.
func allowed(rules []Rule, name string) AccessFS {
	var a AccessFS
	for _, r := range rules {
		if sp.Contains(r.Path, name) {
			a |= r.Access
		}
	}
	return a
}

// TestRulesAreTheProfileButForTheMounts: over trees of directories, what two
// profiles both allow works under the rules, and what the rules allow beyond it is
// what the mounts in front of them hold: writing, and everything at a path
// without rights, which is not mounted. Executing is no boundary (see leaks).
func TestRulesAreTheProfileButForTheMounts(t *testing.T) {
	refused, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		all++
		if !rulesAreTheProfile(t) {
			refused++
		}
	})
	if t.Logf("%d of %d profiles were refused", refused, all); refused > all*9/10 {
		t.Error("nearly every profile is refused: nothing was compared")
	}
}

// FuzzRulesAreTheProfile lets coverage choose the trees.
func FuzzRulesAreTheProfile(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 400)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { rulesAreTheProfile(t) }))
}

// rulesAreTheProfile is false if the profile is refused.
func rulesAreTheProfile(t *rapid.T) bool {
	a, b := modelProfile.Draw(t, "profile"), sp.Top()
	if rapid.Bool().Draw(t, "meet") {
		b = modelProfile.Draw(t, "ceiling")
	}
	p := sp.Intersect(a, b)
	f := sp.Facts{Kinds: map[string]sp.FileKind{}}
	for _, k := range p.Keys() {
		f.Kinds[k] = sp.Dir
	}
	rules, err := Compile(p, f)
	if err != nil {
		return false
	}
	// Every place at which rights change, something below each, and anything.
	names := append(p.Keys(), modelPath.Draw(t, "path"))
	for _, k := range p.Keys() {
		names = append(names, path.Join(k, "below"))
	}
	for _, name := range names {
		want, got := a.Rights(name)&b.Rights(name), allowed(rules, name)
		if !access(want).SubsetOf(got) {
			t.Fatalf("%s: %v is granted, the rules allow %v: %v", name, want, got, rules)
		}
		if want == 0 || inScratch(p, name) {
			continue
		}
		if beyond := got &^ (access(want) | writeAccess | Execute); beyond != 0 {
			t.Fatalf("%s: %v is granted, the rules allow %v too: %v", name, want, beyond, rules)
		}
	}
	return true
}

// inScratch reports whether name lies in a directory of the sandbox's own.
func inScratch(p sp.Profile, name string) bool {
	for ; name != "/"; name = path.Dir(name) {
		for _, s := range p.Scratch {
			if s == name {
				return true
			}
		}
	}
	return false
}
