package landlock

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A tree is a small file system for the compiler: directories a and b, three
// levels deep, with a file in each.
func tree() map[string]sp.FileKind {
	kinds := map[string]sp.FileKind{"/": sp.Dir}
	level := []string{""}
	for range 3 {
		var next []string
		for _, dir := range level {
			for _, name := range []string{"a", "b"} {
				kinds[dir+"/"+name] = sp.Dir
				next = append(next, dir+"/"+name)
			}
			kinds[dir+"/f"] = sp.File
		}
		level = next
	}
	return kinds
}

func entriesOf(kinds map[string]sp.FileKind, dirs []string) map[string][]Entry {
	entries := map[string][]Entry{}
	for name, kind := range kinds {
		if dir := path.Dir(name); name != "/" && slices.Contains(dirs, dir) {
			entries[dir] = append(entries[dir], Entry{path.Base(name), kind})
		}
	}
	return entries
}

// granted is what rules give at name: those at and above it, added up.
func granted(rules []Rule, name string) AccessFS {
	var a AccessFS
	for _, r := range rules {
		if sp.Contains(r.Path, name) {
			a |= r.Access
		}
	}
	return a
}

// TestHostRulesGrantNoMoreThanTheProfile compares, for random profiles with
// nested paths and patterns, what the rules add up to at every path with the
// profile's rights there; and where nothing was narrowed, that it is all of them.
func TestHostRulesGrantNoMoreThanTheProfile(t *testing.T) {
	kinds := tree()
	names := []string{}
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		p := sp.Profile{Limits: sp.NoLimits(), Paths: map[string]sp.Rights{}}
		for range rapid.IntRange(1, 5).Draw(t, "paths") {
			p.Paths[rapid.SampledFrom(names).Draw(t, "path")] = sp.Rights(rapid.IntRange(0, 7).Draw(t, "rights"))
		}
		patterns := rapid.SliceOfN(rapid.SampledFrom([]string{"a/b", "b/f", "b/b", "f"}), 0, 2)
		p.Hide, p.Protect = patterns.Draw(t, "hide"), patterns.Draw(t, "protect")
		f := sp.Facts{Kinds: kinds}
		for _, name := range names {
			hide, protect := sp.NewMatcher(p.Hide), sp.NewMatcher(p.Protect)
			if hide.Match(name) || protect.Match(name) {
				f.Masks = append(f.Masks, sp.Mask{Path: name, Kind: kinds[name], Hide: hide.Match(name)})
			}
		}
		h, err := CompileHost(p, f, entriesOf(kinds, Splits(p, f)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			got, most := granted(h.Rules, name), access(p.Rights(name))
			if kinds[name] == sp.File {
				got, most = got&forFiles, most&forFiles
			}
			if !got.SubsetOf(most) {
				t.Fatalf("%s: the rules give %v, the profile %v\n%v", name, got, most, h.Rules)
			}
			if got != most && len(h.Narrowed) == 0 {
				t.Fatalf("%s: the rules give %v, the profile %v, and nothing is said to be narrower", name, got, most)
			}
			if got != most && !slices.Contains(h.Narrowed, name) {
				t.Fatalf("%s: the rules give %v, the profile %v, and it is not in %q", name, got, most, h.Narrowed)
			}
		}
	})
}

// TestHostSplits is the case that everybody has: a repository in the workspace.
func TestHostSplits(t *testing.T) {
	const rwx = sp.Read | sp.Write | sp.Execute
	p := sp.Profile{Limits: sp.NoLimits(), Paths: map[string]sp.Rights{"/ws": rwx}, Protect: []string{".git/hooks"}, Hide: []string{".env"}}
	f := sp.Facts{Kinds: map[string]sp.FileKind{"/ws": sp.Dir}, Masks: []sp.Mask{
		{Path: "/ws/repo/.git/hooks", Kind: sp.Dir}, {Path: "/ws/app/.env", Kind: sp.File, Hide: true}}}
	splits := Splits(p, f)
	if got := strings.Join(splits, " "); got != "/ws /ws/app /ws/repo /ws/repo/.git" {
		t.Errorf("splits: %s", got)
	}
	h, err := CompileHost(p, f, map[string][]Entry{
		"/ws":           {{"repo", sp.Dir}, {"app", sp.Dir}, {"free", sp.Dir}, {"link", sp.Symlink}},
		"/ws/app":       {{".env", sp.File}, {"main.go", sp.File}},
		"/ws/repo":      {{".git", sp.Dir}, {"main.go", sp.File}},
		"/ws/repo/.git": {{"hooks", sp.Dir}, {"HEAD", sp.File}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]AccessFS{
		"/ws": ReadDir, "/ws/app": ReadDir, "/ws/app/.env": ReadDir, "/ws/app/main.go": access(rwx) & (forFiles | ReadDir),
		"/ws/free": access(rwx), "/ws/free/new": access(rwx), "/ws/repo": access(sp.Read | sp.Execute), "/ws/repo/.git/hooks": access(sp.Read | sp.Execute),
		"/ws/repo/.git/HEAD": access(sp.Read|sp.Execute) | access(rwx)&forFiles,
	} {
		if got := granted(h.Rules, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestHostRefuses(t *testing.T) {
	base := sp.Profile{Limits: sp.NoLimits(), Paths: map[string]sp.Rights{"/a": sp.Read}}
	with := func(change func(*sp.Profile)) sp.Profile {
		p := base
		change(&p)
		return p
	}
	for _, x := range []struct {
		part string
		p    sp.Profile
	}{
		{"", base},
		{"", with(func(p *sp.Profile) { p.Network.Mode = sp.NetworkHost })},
		{"network allow-list", with(func(p *sp.Profile) { p.Network = sp.Network{Mode: sp.NetworkProxied, Allow: [][]string{{"x"}}} })},
		{"network.expose", with(func(p *sp.Profile) { p.Network = sp.Network{Expose: []string{"80:80"}} })},
		{"unix_sockets", with(func(p *sp.Profile) { p.UnixSockets = []string{"/a/s"} })},
		{"devices", with(func(p *sp.Profile) { p.Devices = []string{"/dev/kvm"} })},
		{"paths", with(func(p *sp.Profile) { p.Paths = map[string]sp.Rights{"/proc/self": sp.Read} })},
	} {
		_, err := CompileHost(x.p, sp.Facts{Kinds: map[string]sp.FileKind{"/a": sp.Dir}}, nil)
		var cannot *Error
		if errors.As(err, &cannot) != (x.part != "") || cannot != nil && (cannot.Part != x.part || cannot.Hint() == "") {
			t.Errorf("%q: %v", x.part, err)
		}
	}
}

func TestHostABI(t *testing.T) {
	for abi, want := range map[int]string{1: "refer", 2: "truncate", 3: "TCP", 4: "ioctl", 5: "signals"} {
		if err := CheckHostABI(abi); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "signals") {
			t.Errorf("ABI %d: %v, want %q in it", abi, err, want)
		}
	}
	for _, abi := range []int{6, 7, 11} {
		if err := CheckHostABI(abi); err != nil {
			t.Errorf("ABI %d: %v", abi, err)
		}
	}
}
