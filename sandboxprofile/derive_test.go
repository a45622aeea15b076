package sandboxprofile_test

import (
	"slices"
	"testing"

	. "github.com/sandgate/sandgate/sandboxprofile"
	"pgregory.net/rapid"
)

func TestDerive(t *testing.T) {
	const r, w, x = Read, Write, Execute
	p := Derive(Needs{
		Roots: []Root{
			{"workspace", "/home/u/p", true}, {"vendor", "/home/u/p/vendor", false}, {"out", "/home/u/p/vendor/out", true},
			{"docs", "/srv/docs", false}, {"twice", "/srv/t", true}, {"twice too", "/srv/t", false}, {"vtmp", "/var/tmp", true},
		},
		Presets: []Preset{
			{"a", "", []Grant{{"/usr", r | x, ""}, {"~/.gitconfig", r, ""}, {"~/p/vendor/tool", r | w | x, ""}, {"/tmp", r, ""}}},
			{"b", "", []Grant{{"/usr/lib", r, ""}, {"/srv/docs/x", r, ""}, {"/etc/hosts", r, ""}}},
		},
		Home: "/home/u", Protect: []string{".git/hooks"}, Hide: []string{".env"},
		Env: Env{Names: []string{"B", "A"}}, Limits: NoLimits(), Fresh: true,
	})
	for name, want := range map[string]Rights{
		"/home/u/p/x":              r | w | x,
		"/home/u/p/vendor/x":       r | x, // a read-only root inside a writable one
		"/home/u/p/vendor/out/x":   r | w | x,
		"/home/u/p/vendor/tool":    r | x, // a preset never writes
		"/home/u/p/.env":           0,
		"/home/u/p/.git/hooks/x":   r | x,
		"/home/u/.gitconfig":       r,
		"/home/u/.bashrc":          0, // the private home
		"/srv/t":                   r | x,
		"/srv/docs/x/y":            r | x, // the root gives more than the preset
		"/usr/lib/x":               r | x,
		"/etc/hosts":               r,
		"/etc/shadow":              0,
		"/tmp/x":                   0, // a preset cannot open a scratch directory
		"/var/tmp/x":               r | w | x,
		"/":                        0,
		"relative/is/never/inside": 0,
	} {
		if got := p.Rights(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if want := []string{"/home/u", "/tmp"}; !slices.Equal(p.Scratch, want) {
		t.Errorf("scratch: got %v, want %v", p.Scratch, want)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if !Equal(p, p.Normalize()) || !p.Fresh || !p.Env.Has("A") || p.Env.Has("C") {
		t.Errorf("got %+v", p)
	}
}

func TestDeriveDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Needs{Home: "/a", Limits: NoLimits()}
		for range rapid.IntRange(0, 4).Draw(t, "roots") {
			n.Roots = append(n.Roots, Root{Path: genPath.Draw(t, "root"), Write: rapid.Bool().Draw(t, "write")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "presets") {
			n.Presets = append(n.Presets, Preset{Grants: []Grant{{Path: genPath.Draw(t, "grant"), Rights: genRights.Draw(t, "rights")}}})
		}
		p := Derive(n)
		slices.Reverse(n.Roots)
		slices.Reverse(n.Presets)
		same(t, "order", Derive(n), p)
		for _, r := range n.Roots {
			if p.Rights(r.Path)&Read == 0 {
				t.Fatalf("root %s cannot be read: %+v", r.Path, p)
			}
		}
		n.Roots = nil
		for k, r := range Derive(n).Paths {
			if r&Write != 0 {
				t.Fatalf("a preset writes %s", k)
			}
		}
	})
}

func TestZeroProfileGrantsNothingAndIsRefused(t *testing.T) {
	var p Profile
	if p.Rights("/") != 0 || p.Rights("/etc/passwd") != 0 || p.Env.Has("PATH") || p.Network.Mode != NetworkNone {
		t.Error("the zero profile grants something")
	}
	if p.Validate() == nil {
		t.Error("a profile whose limits are zero validates")
	}
	p.Limits = NoLimits()
	if err := p.Validate(); err != nil {
		t.Errorf("the twin with limits: %v", err)
	}
}

func TestValidateNamesTheFault(t *testing.T) {
	ok := Profile{Limits: NoLimits()}
	for name, spoil := range map[string]func(*Profile){
		"relative path":    func(p *Profile) { p.Paths = map[string]Rights{"a": Read} },
		"unclean path":     func(p *Profile) { p.Paths = map[string]Rights{"/a/../b": Read} },
		"trailing slash":   func(p *Profile) { p.Scratch = []string{"/a/"} },
		"root as scratch":  func(p *Profile) { p.Scratch = []string{"/"} },
		"unknown rights":   func(p *Profile) { p.Paths = map[string]Rights{"/a": 8} },
		"pattern":          func(p *Profile) { p.Hide = []string{"["} },
		"device":           func(p *Profile) { p.Devices = []string{"/etc/passwd"} },
		"socket":           func(p *Profile) { p.UnixSockets = []string{"x.sock"} },
		"network mode":     func(p *Profile) { p.Network.Mode = 3 },
		"no host list":     func(p *Profile) { p.Network.Mode = NetworkProxied },
		"stray host list":  func(p *Profile) { p.Network.Allow = [][]string{{"x"}} },
		"TLS ends nowhere": func(p *Profile) { p.Network.Terminated = []string{"x:443"} },
		"TLS of no host": func(p *Profile) {
			p.Network = Network{Mode: NetworkProxied, Allow: [][]string{{"x"}}, Terminated: []string{""}}
		},
		"variable": func(p *Profile) { p.Env.Names = []string{"A=B"} },
		"limit":    func(p *Profile) { p.Limits.Pids = -1 },
	} {
		p := ok
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestKeyIsTheShapeAndDigestTheWhole(t *testing.T) {
	base := Profile{Paths: map[string]Rights{"/a": Read}, Limits: NoLimits()}
	for name, c := range map[string]struct {
		change func(*Profile)
		shape  bool
	}{
		"path":    {func(p *Profile) { p.Paths = map[string]Rights{"/a": Read | Write} }, true},
		"network": {func(p *Profile) { p.Network.Mode = NetworkHost }, true},
		"calls":   {func(p *Profile) { p.Syscalls = []string{"ptrace"} }, true},
		"scratch": {func(p *Profile) { p.Limits.Scratch = 1 }, true},
		"memory":  {func(p *Profile) { p.Limits.Memory = 1 }, false},
		"env":     {func(p *Profile) { p.Env.All = true }, false},
		"fresh":   {func(p *Profile) { p.Fresh = true }, false},
	} {
		p := base
		c.change(&p)
		if p.Digest() == base.Digest() {
			t.Errorf("%s: same digest", name)
		}
		if got := p.Key() != base.Key(); got != c.shape {
			t.Errorf("%s: key changed: %v, want %v", name, got, c.shape)
		}
	}
}
