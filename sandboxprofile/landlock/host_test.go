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

// TestBrokeredRulesGrantNoMoreThanTheProfile compares, for random profiles with nested
// paths and patterns, what the rules add up to at every path with the profile's rights
// there. Programs get all of it but writing, except where a directory is read through
// the broker; the broker gets what the paths at and above a name say, and patterns and
// stricter paths below are its own to hold.
func TestBrokeredRulesGrantNoMoreThanTheProfile(t *testing.T) {
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
		h, err := CompileBrokered(p, f, entriesOf(kinds, Splits(p, f)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			var above sp.Rights
			for k, r := range p.Paths {
				if sp.Contains(k, name) {
					above |= r
				}
			}
			programs, most := granted(h.Programs, name), access(p.Rights(name)&^sp.Write)
			broker, all := granted(h.Broker, name), access(above)
			if kinds[name] == sp.File {
				programs, most, broker, all = programs&forFiles, most&forFiles, broker&forFiles, all&forFiles
			}
			if !programs.SubsetOf(most) {
				t.Fatalf("%s: programs get %v, the profile says %v\n%v", name, programs, most, h.Programs)
			}
			if programs != most && !slices.Contains(h.Redirected, name) {
				t.Fatalf("%s: programs get %v, the profile says %v, and it is not in %q", name, programs, most, h.Redirected)
			}
			if broker != all {
				t.Fatalf("%s: the broker gets %v, the paths above say %v", name, broker, all)
			}
		}
	})
}

// TestBrokeredSplits: a hidden file cuts the rules of the directories above it, and a
// protected one cuts nothing.
func TestBrokeredSplits(t *testing.T) {
	const rwx = sp.Read | sp.Write | sp.Execute
	p := sp.Profile{Limits: sp.NoLimits(), Paths: map[string]sp.Rights{"/ws": rwx}, Protect: []string{".git/hooks"}, Hide: []string{".env"}}
	f := sp.Facts{Kinds: map[string]sp.FileKind{"/ws": sp.Dir}, Masks: []sp.Mask{
		{Path: "/ws/repo/.git/hooks", Kind: sp.Dir}, {Path: "/ws/app/.env", Kind: sp.File, Hide: true}}}
	splits := Splits(p, f)
	if got := strings.Join(splits, " "); got != "/ws /ws/app" {
		t.Errorf("splits: %s", got)
	}
	h, err := CompileBrokered(p, f, map[string][]Entry{
		"/ws":     {{"repo", sp.Dir}, {"app", sp.Dir}, {"free", sp.Dir}, {"link", sp.Symlink}},
		"/ws/app": {{".env", sp.File}, {"main.go", sp.File}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]AccessFS{
		"/ws": ReadDir, "/ws/new": ReadDir, "/ws/app": ReadDir, "/ws/app/.env": ReadDir, "/ws/app/main.go": access(sp.Read|sp.Execute) & (forFiles | ReadDir),
		"/ws/free": access(sp.Read | sp.Execute), "/ws/free/new": access(sp.Read | sp.Execute), "/ws/repo/.git/hooks": access(sp.Read | sp.Execute),
	} {
		if got := granted(h.Programs, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := granted(h.Broker, "/ws/repo/.git/hooks"); got != access(rwx) {
		t.Errorf("the broker gets %v", got)
	}
	if got := strings.Join(h.Redirected, " "); got != "/ws /ws/app" || h.Reads != AllReads {
		t.Errorf("read through the broker: %s, %v", got, h.Reads)
	}
}

// TestBrokeredReads: reads need the broker where programs can make names beside hidden
// ones, listings where a hidden directory lies below.
func TestBrokeredReads(t *testing.T) {
	const rx, rwx = sp.Read | sp.Execute, sp.Read | sp.Write | sp.Execute
	for _, x := range []struct {
		name  string
		home  sp.Rights
		mask  sp.Mask
		under map[string]sp.Rights
		want  Reads
	}{
		{"nothing hidden", rx, sp.Mask{Path: "/home/x", Kind: sp.File}, nil, NoReads},
		{"a hidden file that nobody writes beside", rx, sp.Mask{Path: "/home/x", Kind: sp.File, Hide: true}, nil, NoReads},
		{"a hidden directory there", rx, sp.Mask{Path: "/home/x", Kind: sp.Dir, Hide: true}, nil, Listings},
		{"a hidden file where programs write", rwx, sp.Mask{Path: "/home/x", Kind: sp.File, Hide: true}, nil, AllReads},
		{"programs write elsewhere in it", rx, sp.Mask{Path: "/home/x", Kind: sp.File, Hide: true}, map[string]sp.Rights{"/home/d": rwx}, NoReads},
		{"programs write around it", rx, sp.Mask{Path: "/home/d/x", Kind: sp.File, Hide: true}, map[string]sp.Rights{"/home/d": rwx}, AllReads},
		{"less below than above", rwx, sp.Mask{Path: "/home/y", Kind: sp.File}, map[string]sp.Rights{"/home/d": 0}, AllReads},
	} {
		p := sp.Profile{Limits: sp.NoLimits(), Paths: map[string]sp.Rights{"/home": x.home}}
		kinds := map[string]sp.FileKind{"/home": sp.Dir, "/home/d": sp.Dir}
		for k, r := range x.under {
			p.Paths[k] = r
		}
		h, err := CompileBrokered(p, sp.Facts{Kinds: kinds, Masks: []sp.Mask{x.mask}}, map[string][]Entry{
			"/home": {{"d", sp.Dir}, {"x", x.mask.Kind}, {"f", sp.File}}, "/home/d": {{"x", sp.File}}})
		if err != nil || h.Reads != x.want {
			t.Errorf("%s: %v, %v, want %v", x.name, err, h.Reads, x.want)
		}
		if got := granted(h.Programs, "/home/f"); got&ReadFile == 0 {
			t.Errorf("%s: what lies beside cannot be read: %v", x.name, got)
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
		{"", with(func(p *sp.Profile) { p.Network = sp.Network{Mode: sp.NetworkProxied, Allow: [][]string{{"x"}}} })},
		{"", with(func(p *sp.Profile) { p.Network = sp.Network{Expose: []string{"80:80"}} })},
		{"", with(func(p *sp.Profile) { p.UnixSockets = []string{"/a/s"} })},
		{"credentials for hosts", with(func(p *sp.Profile) {
			p.Network = sp.Network{Mode: sp.NetworkProxied, Allow: [][]string{{"x"}}, Terminated: []string{"x"}}
		})},
		{"devices", with(func(p *sp.Profile) { p.Devices = []string{"/dev/kvm"} })},
		{"paths", with(func(p *sp.Profile) { p.Paths = map[string]sp.Rights{"/proc/self": sp.Read} })},
	} {
		_, err := CompileBrokered(x.p, sp.Facts{Kinds: map[string]sp.FileKind{"/a": sp.Dir}}, nil)
		var cannot *Error
		if errors.As(err, &cannot) != (x.part != "") || cannot != nil && (cannot.Part != x.part || cannot.Hint() == "") {
			t.Errorf("%q: %v", x.part, err)
		}
	}
}

func TestHostABI(t *testing.T) {
	if err := CheckHostABI(1); err == nil || !strings.Contains(err.Error(), "refer") {
		t.Errorf("ABI 1: %v", err)
	}
	for _, abi := range []int{2, 3, 5, 6, 7, 11} {
		if err := CheckHostABI(abi); err != nil {
			t.Errorf("ABI %d: %v", abi, err)
		}
	}
}
