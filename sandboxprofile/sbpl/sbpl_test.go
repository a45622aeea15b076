package sbpl_test

import (
	"errors"
	"strings"
	"testing"

	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/sbpl"
)

const (
	rw  = sp.Read | sp.Write
	rwx = sp.Read | sp.Write | sp.Execute
	rx  = sp.Read | sp.Execute
)

// vars gives every scratch directory of p a place, and a proxy.
func vars(p sp.Profile) sbpl.Vars {
	v := sbpl.Vars{Tag: "test", ProxyPort: 18080, Scratch: map[string]string{}}
	for _, dir := range p.Scratch {
		v.Scratch[dir] = "/private/scratch" + strings.TrimSuffix(dir, "/")
	}
	return v
}

func compile(t testing.TB, p sp.Profile, f sp.Facts) string {
	t.Helper()
	p.Limits = sp.NoLimits()
	text, err := sbpl.Compile(p, f, vars(p))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func policy(t testing.TB, p sp.Profile, f sp.Facts) *sbpl.Policy {
	t.Helper()
	pol, err := sbpl.Parse(compile(t, p, f))
	if err != nil {
		t.Fatal(err)
	}
	return pol
}

// TestCompileRefuses: what Seatbelt cannot say is an error that names the part.
func TestCompileRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sp.Profile, *sp.Facts, *sbpl.Vars)
		part   string
	}{
		"nothing":        {func(*sp.Profile, *sp.Facts, *sbpl.Vars) {}, ""},
		"a port":         {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Network = sp.Network{Expose: []string{"80:80"}} }, "network.expose"},
		"every socket":   {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.UnixSockets = []string{sp.All} }, "unix_sockets"},
		"every device":   {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Devices = []string{sp.All} }, "devices"},
		"system calls":   {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Syscalls = []string{"ptrace"} }, "syscalls"},
		"a path in /dev": {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Paths["/dev/disk0"] = sp.Read }, "paths"},
		"no control":     {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Paths["/w/a\nb"] = sp.Read }, "paths"},
		"no UTF-8":       {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Paths["/w/a\xff"] = sp.Read }, "paths"},
		"two spellings":  {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Paths["/W"] = sp.Read }, "paths"},
		"two ways": {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) {
			p.Paths["/tmp/x"], p.Paths["/private/tmp/x"] = rw, sp.Read
		}, "paths"},
		"write without read": {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Paths["/drop"] = sp.Write }, "paths"},
		"pattern with é":     {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Hide = []string{"clé"} }, "hide"},
		"pattern with quote": {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Protect = []string{`a"b`} }, "protect"},
		"class beyond ASCII": {func(p *sp.Profile, _ *sp.Facts, _ *sbpl.Vars) { p.Hide = []string{"[a-é]"} }, "hide"},
		"no scratch given":   {func(_ *sp.Profile, _ *sp.Facts, v *sbpl.Vars) { v.Scratch = nil }, "scratch"},
		"scratch is root":    {func(_ *sp.Profile, _ *sp.Facts, v *sbpl.Vars) { v.Scratch["/home"] = "/" }, "scratch"},
		"scratch is granted": {func(_ *sp.Profile, _ *sp.Facts, v *sbpl.Vars) { v.Scratch["/home"] = "/w" }, "scratch"},
		"no proxy": {func(p *sp.Profile, _ *sp.Facts, v *sbpl.Vars) {
			p.Network, v.ProxyPort = sp.Network{Mode: sp.NetworkProxied, Allow: [][]string{{"x"}}}, 0
		}, "network"},
		"socket is a file": {func(p *sp.Profile, f *sp.Facts, _ *sbpl.Vars) {
			p.UnixSockets, f.Kinds = []string{"/w/s"}, map[string]sp.FileKind{"/w/s": sp.Symlink}
		}, "unix_sockets"},
		"no tag":     {func(_ *sp.Profile, _ *sp.Facts, v *sbpl.Vars) { v.Tag = "" }, "tag"},
		"a loud tag": {func(_ *sp.Profile, _ *sp.Facts, v *sbpl.Vars) { v.Tag = `x") (allow default` }, "tag"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sp.Profile{Paths: map[string]sp.Rights{"/w": rwx}, Scratch: []string{"/home"}, Limits: sp.NoLimits()}
			f, v := sp.Facts{}, vars(p)
			c.change(&p, &f, &v)
			_, err := sbpl.Compile(p, f, v)
			var mine *sbpl.Error
			switch {
			case c.part == "" && err != nil:
				t.Fatal(err)
			case c.part != "" && (!errors.As(err, &mine) || mine.Part != c.part):
				t.Fatalf("got %v, want an error that names %s", err, c.part)
			}
		})
	}
	if _, err := sbpl.Compile(sp.Profile{Hide: []string{"["}}, sp.Facts{}, sbpl.Vars{Tag: "x"}); err == nil {
		t.Error("an invalid profile was compiled")
	}
}

// TestPathsAreData: a path that looks like a rule stays a path, in every place
// where a path is written.
func TestPathsAreData(t *testing.T) {
	for _, evil := range []string{`/w") (allow default) ("`, `/w\`, `/w\" (allow default)`, `/w;x`, `/w#"x"`, `/w[a](b)*`, "/w é"} {
		p := sp.Profile{
			Paths:       map[string]sp.Rights{evil: rwx, evil + "/inner": sp.Read},
			Protect:     []string{`a;)\(b`},
			UnixSockets: []string{evil + "/s"},
			Devices:     []string{"/dev" + evil},
		}
		f := sp.Facts{Kinds: map[string]sp.FileKind{evil + "/s": sp.Other, "/dev" + evil: sp.Other}, Masks: []sp.Mask{{Path: evil + "/m", Hide: true}}}
		pol := policy(t, p, f)
		for name, want := range map[string]sp.Rights{evil + "/x": rwx, evil + "/inner/x": sp.Read, evil + "/m": 0, evil + "/a;)(b": rx, "/other": 0, "/w": 0} {
			if got := pol.Rights(name); got != want {
				t.Errorf("%q with key %q: got %v, want %v", name, evil, got, want)
			}
		}
	}
}

// TestOtherOperations asks for everything that is not file access.
func TestOtherOperations(t *testing.T) {
	base := sp.Profile{
		Paths: map[string]sp.Rights{"/w": rwx}, Scratch: []string{"/home"},
		UnixSockets: []string{"/var/run/docker.sock", "/w/absent.sock"}, Devices: []string{"/dev/rdisk9"},
	}
	f := sp.Facts{Kinds: map[string]sp.FileKind{"/var/run/docker.sock": sp.Other, "/dev/rdisk9": sp.Other}}
	proxied, host := base, base
	proxied.Network = sp.Network{Mode: sp.NetworkProxied, Allow: [][]string{{"example.org"}}}
	host.Network = sp.Network{Mode: sp.NetworkHost}
	policies := [...]*sbpl.Policy{policy(t, base, f), policy(t, proxied, f), policy(t, host, f)}
	for _, c := range []struct {
		what string
		r    sbpl.Request
		want [3]bool // without network, proxied, the host's
	}{
		{"the proxy", sbpl.Request{Op: "network-outbound", Host: "localhost", Port: 18080}, [3]bool{false, true, true}},
		{"another local port", sbpl.Request{Op: "network-outbound", Host: "localhost", Port: 22}, [3]bool{false, false, true}},
		{"another host", sbpl.Request{Op: "network-outbound", Host: "example.org", Port: 18080}, [3]bool{false, false, true}},
		{"listening", sbpl.Request{Op: "network-bind", Host: "localhost", Port: 8080}, [3]bool{false, false, true}},
		{"accepting", sbpl.Request{Op: "network-inbound", Host: "localhost", Port: 8080}, [3]bool{false, false, true}},
		{"the resolver", sbpl.Request{Op: "network-outbound", Path: "/private/var/run/mDNSResponder"}, [3]bool{false, false, true}},
		{"trustd", sbpl.Request{Op: "mach-lookup", Name: "com.apple.trustd.agent"}, [3]bool{false, false, true}},
		{"an internet socket", sbpl.Request{Op: "system-socket", Domain: "AF_INET"}, [3]bool{false, true, true}},
		{"a routing socket", sbpl.Request{Op: "system-socket", Domain: "AF_ROUTE"}, [3]bool{false, false, false}},
		{"a listed socket", sbpl.Request{Op: "network-outbound", Path: "/private/var/run/docker.sock"}, [3]bool{true, true, true}},
		{"a socket that is not there", sbpl.Request{Op: "network-outbound", Path: "/w/absent.sock"}, [3]bool{}},
		{"a socket in the workspace", sbpl.Request{Op: "network-outbound", Path: "/w/agent.sock"}, [3]bool{}},
		{"binding in the workspace", sbpl.Request{Op: "network-bind", Path: "/w/new.sock"}, [3]bool{}},
		{"a socket in scratch", sbpl.Request{Op: "network-outbound", Path: "/private/scratch/home/s"}, [3]bool{true, true, true}},
		{"binding in scratch", sbpl.Request{Op: "network-bind", Path: "/private/scratch/home/s"}, [3]bool{true, true, true}},
		{"users' names", sbpl.Request{Op: "mach-lookup", Name: "com.apple.system.opendirectoryd.libinfo"}, [3]bool{true, true, true}},
		{"the keychain", sbpl.Request{Op: "mach-lookup", Name: "com.apple.SecurityServer"}, [3]bool{}},
		{"starting applications", sbpl.Request{Op: "mach-lookup", Name: "com.apple.coreservices.launchservicesd"}, [3]bool{}},
		{"preferences", sbpl.Request{Op: "mach-lookup", Name: "com.apple.cfprefsd.agent"}, [3]bool{}},
		{"offering a service", sbpl.Request{Op: "mach-register", Name: "com.example"}, [3]bool{}},
		{"AppleEvents", sbpl.Request{Op: "appleevent-send"}, [3]bool{}},
		{"the number of processors", sbpl.Request{Op: "sysctl-read", Name: "hw.ncpu"}, [3]bool{true, true, true}},
		{"processor features", sbpl.Request{Op: "sysctl-read", Name: "hw.optional.arm.FEAT_SHA256"}, [3]bool{true, true, true}},
		{"the list of processes", sbpl.Request{Op: "sysctl-read", Name: "kern.proc.all"}, [3]bool{}},
		{"setting a sysctl", sbpl.Request{Op: "sysctl-write", Name: "hw.ncpu"}, [3]bool{}},
		{"killing itself", sbpl.Request{Op: "signal", Target: "self"}, [3]bool{true, true, true}},
		{"killing a child", sbpl.Request{Op: "signal", Target: "same-sandbox"}, [3]bool{true, true, true}},
		{"killing others", sbpl.Request{Op: "signal", Target: "others"}, [3]bool{}},
		{"own limits", sbpl.Request{Op: "process-info-setcontrol", Target: "self"}, [3]bool{true, true, true}},
		{"others' files", sbpl.Request{Op: "process-info-listpids", Target: "others"}, [3]bool{}},
		{"a child's memory", sbpl.Request{Op: "mach-priv-task-port", Target: "same-sandbox"}, [3]bool{}},
		{"fork", sbpl.Request{Op: "process-fork"}, [3]bool{true, true, true}},
		{"a program", sbpl.Request{Op: "process-exec", Path: "/w/prog", Mode: 0o755}, [3]bool{true, true, true}},
		{"set-user-id", sbpl.Request{Op: "process-exec", Path: "/w/prog", Mode: 0o4755}, [3]bool{}},
		{"set-group-id", sbpl.Request{Op: "process-exec", Path: "/w/prog", Mode: 0o2755}, [3]bool{}},
		{"chmod u+s", sbpl.Request{Op: "file-write-setugid", Path: "/w/prog"}, [3]bool{}},
		{"chmod u+x", sbpl.Request{Op: "file-write-mode", Path: "/w/prog"}, [3]bool{true, true, true}},
		{"a library of the profile", sbpl.Request{Op: "file-map-executable", Path: "/w/lib.dylib"}, [3]bool{true, true, true}},
		{"a library of the system", sbpl.Request{Op: "file-map-executable", Path: "/usr/lib/dyld"}, [3]bool{true, true, true}},
		{"another library", sbpl.Request{Op: "file-map-executable", Path: "/opt/lib.dylib"}, [3]bool{}},
		{"a hard link", sbpl.Request{Op: "file-link", Path: "/w/a"}, [3]bool{}},
		{"a clone", sbpl.Request{Op: "file-clone", Path: "/w/a"}, [3]bool{}},
		{"a mount", sbpl.Request{Op: "file-mount", Path: "/w/a"}, [3]bool{}},
		{"a new terminal", sbpl.Request{Op: "pseudo-tty"}, [3]bool{true, true, true}},
		{"its own terminal", sbpl.Request{Op: "file-ioctl", Path: "/dev/ttys003", Extension: "com.apple.sandbox.pty"}, [3]bool{true, true, true}},
		{"the user's terminal", sbpl.Request{Op: "file-ioctl", Path: "/dev/ttys001"}, [3]bool{}},
		{"writing to it", sbpl.Request{Op: "file-write-data", Path: "/dev/ttys001"}, [3]bool{}},
		{"a listed device", sbpl.Request{Op: "file-ioctl", Path: "/dev/rdisk9"}, [3]bool{true, true, true}},
		{"another device", sbpl.Request{Op: "file-read-data", Path: "/dev/rdisk0"}, [3]bool{}},
		{"a way there", sbpl.Request{Op: "file-read-metadata", Path: "/private/scratch"}, [3]bool{true, true, true}},
		{"what lies beside it", sbpl.Request{Op: "file-read-metadata", Path: "/private/other"}, [3]bool{}},
		{"nvram", sbpl.Request{Op: "nvram-get"}, [3]bool{}},
		{"IOKit", sbpl.Request{Op: "iokit-open"}, [3]bool{}},
		{"a kernel extension", sbpl.Request{Op: "system-kext-load"}, [3]bool{}},
	} {
		for i, pol := range policies {
			if got := pol.Decide(c.r); got.Allowed != c.want[i] {
				t.Errorf("%s, network %v: got %+v, want %v", c.what, sp.NetworkMode(i), got, c.want[i])
			} else if !got.Allowed && got.Message != "test" {
				t.Errorf("%s: the denial has message %q", c.what, got.Message)
			}
		}
	}
}

// TestPatternsIgnoreCase tries the spellings that a file system which ignores
// case takes for a protected or hidden name.
func TestPatternsIgnoreCase(t *testing.T) {
	pol := policy(t, sp.Profile{
		Paths:   map[string]sp.Rights{"/w": rwx, "/w/Kept": sp.Read, "/w/Gone": 0},
		Protect: []string{".git/hooks", "m?ke", "[a-c]x", "[^a]y", `q\*`, `[\]z]1`},
		Hide:    []string{".env", "*.Pem"},
	}, sp.Facts{})
	for name, want := range map[string]sp.Rights{
		"/w/.git/hooks/pre-commit": rx, "/w/x/.GIT/Hooks": rx, "/w/.git/hoo\u212as": rx, "/w/.git/hook\u017f": rx,
		"/w/.git/hooks2": rwx, "/w/x.git/hooks": rwx, "/w/.git/HEAD": rwx, "/w/.git": rwx,
		"/w/.ENV": 0, "/w/.env/x": 0, "/w/.envrc": rwx, "/w/x.env": rwx,
		"/w/a.pem": 0, "/w/.PEM": 0, "/w/pem": rwx, "/w/a.pem.txt": rwx,
		"/w/make": rx, "/w/mke": rwx, "/w/mäke": rx, "/w/m€ke": rx, "/w/m😀ke": rx, "/w/maake": rwx,
		"/w/bx": rx, "/w/Bx": rx, "/w/dx": rwx, "/w/by": rx, "/w/ay": rx, "/w/y": rwx,
		"/w/q*": rx, "/w/qq": rwx, "/w/z1": rx, "/w/]1": rx, "/w/a1": rwx,
		"/w/kept/x": sp.Read, "/w/KEPT": sp.Read, "/w/\u212aept": sp.Read, "/w/gone": 0, "/w/gonex": rwx,
	} {
		if got := pol.Rights(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestSystemLibrariesYieldToTheProfile: what every program reads comes before
// the profile, so that a profile can take it away.
func TestSystemLibrariesYieldToTheProfile(t *testing.T) {
	with := policy(t, sp.Profile{Paths: map[string]sp.Rights{"/w": rwx}}, sp.Facts{})
	without := policy(t, sp.Profile{Paths: map[string]sp.Rights{"/usr": rx, "/usr/lib/secret": 0}}, sp.Facts{})
	if got := with.Rights("/usr/lib/secret"); got != sp.Read {
		t.Errorf("without a word about it: %v", got)
	}
	if got := without.Rights("/usr/lib/secret"); got != 0 {
		t.Errorf("taken away: %v", got)
	}
	if got := without.Rights("/usr/lib/other"); got != rx {
		t.Errorf("granted: %v", got)
	}
}

// TestEveryAllowHasAReason holds the text itself to account.
func TestEveryAllowHasAReason(t *testing.T) {
	p := sp.Profile{
		Paths: map[string]sp.Rights{"/w": rwx, "/etc/hosts": sp.Read}, Scratch: []string{"/home", "/tmp"},
		Protect: []string{".git/hooks"}, Hide: []string{".env", ".config/gcloud"},
		Network: sp.Network{Mode: sp.NetworkHost}, UnixSockets: []string{"/s"}, Devices: []string{"/dev/x"},
	}
	f := sp.Facts{Kinds: map[string]sp.FileKind{"/s": sp.Other, "/dev/x": sp.Other}}
	previous := ""
	for i, line := range strings.Split(compile(t, p, f), "\n") {
		if strings.HasPrefix(line, "(allow") && !strings.HasPrefix(previous, ";; ") && !strings.HasPrefix(previous, "(allow") {
			t.Errorf("line %d has no reason above it: %s", i+1, line)
		}
		if !strings.HasPrefix(line, " ") {
			previous = line
		}
	}
}

// TestCeiling: under a ceiling the workspace is read and not written, and only the named
// program is executed; without it both can be done. Private directories stay writable.
func TestCeiling(t *testing.T) {
	p := sp.Profile{
		Paths: map[string]sp.Rights{"/usr/bin": rx, "/w": rwx}, Scratch: []string{"/private/home"}, Limits: sp.NoLimits(),
		Network: sp.Network{Mode: sp.NetworkHost},
	}
	under := func(l *sp.Ceiling) *sbpl.Policy {
		v := vars(p)
		v.Ceiling = l
		text, err := sbpl.Compile(p, sp.Facts{}, v)
		if err != nil {
			t.Fatal(err)
		}
		pol, err := sbpl.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return pol
	}
	free := under(nil)
	named := under(&sp.Ceiling{Class: sp.ClassRead, Programs: []string{"/usr/bin/ls", "/opt/not-in-the-profile"}})
	scratch := vars(p).Scratch["/private/home"]
	for _, x := range []struct {
		name        string
		free, named sp.Rights
	}{
		{"/w/file", rwx, sp.Read},
		{"/usr/bin/ls", rx, rx},
		{"/usr/bin/rm", rx, sp.Read},
		{"/opt/not-in-the-profile", 0, 0},
		{scratch + "/f", rwx, rw},
	} {
		if got := free.Rights(x.name); got != x.free {
			t.Errorf("%s without a ceiling: %v, want %v", x.name, got, x.free)
		}
		if got := named.Rights(x.name); got != x.named {
			t.Errorf("%s under a ceiling: %v, want %v", x.name, got, x.named)
		}
	}
	connect := sbpl.Request{Op: "network-outbound", Host: "example.org", Port: 443}
	if !free.Decide(connect).Allowed || named.Decide(connect).Allowed {
		t.Errorf("connections: %v without a ceiling, %v under one", free.Decide(connect), named.Decide(connect))
	}
}
