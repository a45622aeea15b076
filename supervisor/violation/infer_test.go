package violation

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/protocol"
	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// testPolicy has a workspace that may be written, a directory that may be read,
// and a system, under no operator's profile.
func testPolicy() Policy {
	limits := sp.NoLimits()
	limits.OpenFiles, limits.Pids = 64, 8
	return Policy{
		Profile: sp.Profile{
			Paths: map[string]sp.Rights{
				"/w": sp.Read | sp.Write | sp.Execute, "/docs": sp.Read | sp.Execute, "/usr": sp.Read | sp.Execute, "/etc/hosts": sp.Read,
			},
			Scratch:     []string{"/tmp", "/home/u"},
			UnixSockets: []string{"/listed.sock"},
			Protect:     []string{".git/hooks"}, Hide: []string{".env"},
			Limits: limits,
		},
		Operator: sp.Top(),
	}
}

// TestWhatProgramsPrint has lines as the programs print them, and what they mean
// under the profile: "RIGHT PATH", "host HOST", "call NAME", "limit NAME".
func TestWhatProgramsPrint(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"cat: /srv/data: No such file or directory", "read /srv/data"},
		{"cat: /srv/data: Permission denied", "read /srv/data"},
		{"ls: cannot open directory '/srv': Permission denied", "read /srv"},
		{"ls: cannot access '/srv/a b': No such file or directory", "read /srv/a b"},
		{"head: cannot open '../x' for reading: No such file or directory", "read /x"},
		{"touch: cannot touch '/docs/x': Read-only file system", "write /docs/x"},
		{"fatal: repository '/srv/up' does not exist", "read /srv/up"},
		{"fatal: repository 'up' does not exist", ""},
		{"touch: cannot touch '/srv/x': No such file or directory", "write /srv/x"},
		{"mkdir: cannot create directory ‘/docs/a’: Permission denied", "write /docs/a"},
		{"cp: cannot create regular file '/usr/bin/x': Read-only file system", "write /usr/bin/x"},
		{"mv: cannot move 'a' to '/docs/a': Read-only file system", "write /docs/a"},
		{"rm: cannot remove '.git/hooks/x': Read-only file system", "write /w/.git/hooks/x"},
		{"tee: /etc/hosts: Permission denied", "write /etc/hosts"},
		{"rm: cannot remove '.git/hooks': Device or resource busy", "write /w/.git/hooks"},
		{"rmdir: failed to remove '/w': Device or resource busy", ""},
		{"bash: line 1: /docs/x: Read-only file system", "write /docs/x"},
		{"/bin/sh: 1: cannot create /docs/x: Read-only file system", "write /docs/x"},
		{"/bin/sh: 1: cannot create /srv/y/x: Directory nonexistent", "write /srv/y/x"},
		{"zsh: permission denied: /srv/x", "read /srv/x"},
		{"/usr/bin/env: ‘/opt/n/bin/node’: No such file or directory", "read /opt/n/bin/node"},
		{"bash: line 3: /opt/x/run: /opt/x/python: bad interpreter: No such file or directory", "execute /opt/x/python"},
		{"fatal: Unable to create '/docs/.git/index.lock': Read-only file system", "write /docs/.git/index.lock"},
		{"error: could not lock config file /home/u/.gitconfig: No such file or directory", ""}, // its own HOME
		{"/bin/sh: 1: cannot create ../docs/x: Read-only file system", "write /docs/x"},
		{"/srv/run: Permission denied", "read /srv/run"},
		{"  failed to open path: /srv/registry/cache/fnv, error: Read-only file system", "write /srv/registry/cache/fnv"}, // cargo
		{"java.net.UnknownHostException: sandgate: Temporary failure in name resolution", ""},                             // its own name
		{"tar: /docs/a: Cannot open: Read-only file system", "write /docs/a"},
		{"W: Unable to read /srv/apt.conf.d/ - DirectoryExists (2: No such file or directory)", "read /srv/apt.conf.d"},
		{"E: List directory /srv/lists/partial is missing. - Acquire (2: No such file or directory)", "read /srv/lists/partial"},
		{"gcc: error: /srv/a.c: No such file or directory", "read /srv/a.c"},
		{"a.c:1:10: fatal error: /srv/a.h: No such file or directory", "read /srv/a.h"},
		{"PermissionError: [Errno 13] Permission denied: '/srv/x'", "read /srv/x"},
		{"FileNotFoundError: [Errno 2] No such file or directory: '/srv/x'", "read /srv/x"},
		{"OSError: [Errno 30] Read-only file system: '/docs/x'", "write /docs/x"},
		{"OSError: [Errno 30] Read-only file system: 'a' -> '/docs/x'", "write /docs/x"},
		{"python3: can't open file '/srv/x.py': [Errno 2] No such file or directory", "read /srv/x.py"},
		{"Error: EACCES: permission denied, open '/srv/x'", "read /srv/x"},
		{"Error: ENOENT: no such file or directory, open '/srv/x'", "read /srv/x"},
		{"Error: EROFS: read-only file system, mkdir '/docs/x'", "write /docs/x"},
		{"Error: EACCES: permission denied, rename '/w/a' -> '/docs/b'", "write /docs/b"},
		{"panic: open /srv/x: permission denied", "read /srv/x"},
		{"2024/01/01 10:00:00 open /srv/x: no such file or directory", "read /srv/x"},
		{"mkdir /docs/x: read-only file system", "write /docs/x"},
		{"fork/exec /etc/hosts: permission denied", "execute /etc/hosts"},
		{"Error: couldn't open /srv/x: Permission denied (os error 13)", "read /srv/x"},
		{"error: couldn't read `/srv/x.rs`: No such file or directory (os error 2)", "read /srv/x.rs"},
		{"Exception in thread \"main\" java.io.FileNotFoundException: /srv/x (Permission denied)", "read /srv/x"},
		{"Exception in thread \"main\" java.nio.file.AccessDeniedException: /srv/x", "read /srv/x"},
		{"java.nio.file.NoSuchFileException: /srv/x", "read /srv/x"},
		{"java.nio.file.FileSystemException: /docs/x: Read-only file system", "write /docs/x"},
		{"a.rb:1:in `initialize': Permission denied @ rb_sysopen - /srv/x (Errno::EACCES)", "read /srv/x"},
		{"Can't open perl script \"/srv/x\": No such file or directory", "read /srv/x"},
		{"sh: 1: cannot create /proc/sys/kernel/core_pattern: Permission denied", "write /proc/sys/kernel/core_pattern"},

		// What the profile grants is not the sandbox's doing.
		{"cat: /docs/missing: No such file or directory", ""},
		{"cat: missing: No such file or directory", ""},
		{"cat: /w/x: Permission denied", ""},
		{"touch: cannot touch '/w/none/x': No such file or directory", ""},
		{"mkdir: cannot create directory '/tmp/a/b': No such file or directory", ""},
		{"touch: cannot touch '/tmp/x': Permission denied", ""},
		{"a colon: and a 'quote'", ""},
		{"Permission denied", ""},
		{": Permission denied", ""},
		// What lies in a private directory is not the machine's.
		{"cat: /home/u/.netrc: Permission denied", "read /home/u/.netrc"},
		{"cat: /home/u/.ssh/id_rsa: No such file or directory", "read /home/u/.ssh/id_rsa"},
		{"cat: .env: Permission denied", "read /w/.env"},

		{"strace: test_ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted", "call ptrace"},
		{"ptrace: Operation not permitted.", "call ptrace"},
		{"could not attach to pid 7: operation not permitted", "call ptrace"},
		{"could not launch process: fork/exec /w/m: operation not permitted", "call ptrace"},
		{"    0: Failed to suspend process", "call ptrace"},
		{"==7==LeakSanitizer has encountered a fatal error.", "call ptrace"},
		{"unshare: unshare failed: Operation not permitted", "call unshare"},
		{"chroot: cannot change root directory to '/docs': Operation not permitted", "write /docs; call chroot"},
		{"keyctl_session_to_parent: Operation not permitted", "call keyctl"},
		{"mkdir: cannot create directory '/w/ptrace': Operation not permitted", ""},
		{"chmod: changing permissions of 'x': Operation not permitted", ""},

		{"curl: (6) Could not resolve host: example.com", "host example.com"},
		{"fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com", "host github.com"},
		{"wget: unable to resolve host address ‘example.com’", "host example.com"},
		{"npm error request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org", "host registry.npmjs.org"},
		{"go: x@v1: Get \"https://proxy.golang.org/x\": dial tcp: lookup proxy.golang.org on [::1]:53: read: connection refused", "host proxy.golang.org"},
		{"dial tcp 10.1.2.3:443: connect: network is unreachable", "host 10.1.2.3"},
		{"ssh: Could not resolve hostname GitHub.com: Temporary failure in name resolution", "host github.com"},
		{"HTTPSConnectionPool(host='pypi.org', port=443): Failed to establish a new connection", "host pypi.org"},
		{"ERROR: Could not find a version that satisfies the requirement six (from versions: none)", "host pypi.org"},
		{"WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/six/", "host pypi.org"},
		{"Looking in indexes: https://user:word@Packages.example/simple\nconnection broken by 'NewConnectionError('<x>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/six/", "host packages.example"},
		{"Looking in indexes: https://packages.example/simple", ""},
		{"  cause: error sending request for url (https://packages.example/simple/six/)\n  cause: failed to lookup address information: Temporary failure in name resolution", "host packages.example"},
		{"  cause: error sending request for url (https://packages.example/simple/six/)\n  cause: connection reset", ""},
		{"├─▶ Failed to fetch metadata from https://packages.example/is-odd: error\n╰─▶ failed to lookup address information: Temporary failure in name", "host packages.example"}, // pnpm
		{"failed to lookup address information: Temporary failure in name resolution", ""},
		{"ping: example.com: Temporary failure in name resolution", "host example.com"},
		{"bash: line 1: example.com: Temporary failure in name resolution", "host example.com"},
		{"java.net.UnknownHostException: repo.maven.apache.org", "host repo.maven.apache.org"},
		{" WARN  GET https://registry.npmjs.org/is-odd error (EAI_AGAIN). Will retry in 10 seconds. 2 retries left.", "host registry.npmjs.org"},
		{"            > repo.maven.apache.org: Temporary failure in name resolution", "host repo.maven.apache.org"},                 // Gradle
		{"            \x1b[33m> \x1b[39mrepo.maven.apache.org: Temporary failure in name resolution", "host repo.maven.apache.org"}, // and on a terminal
		{"[ERROR] Could not transfer artifact x:x:pom:2.6 from/to central (https://repo.maven.apache.org/maven2): transfer failed for https://repo.maven.apache.org/maven2/x.pom: Unknown host repo.maven.apache.org: Temporary failure in name resolution -> [Help 1]", "host repo.maven.apache.org"},
		{"  Err: Temporary failure resolving 'deb.debian.org'", "host deb.debian.org"},
		{"curl: (6) Could not resolve host: localhost", ""},
		{`psql: error: connection to server on socket "/var/run/postgresql/.s.PGSQL.5432" failed: No such file or directory`, "host /var/run/postgresql/.s.PGSQL.5432"},
		{"dial unix /var/run/docker.sock: connect: no such file or directory", "host /var/run/docker.sock"},
		{"dial unix /listed.sock: connect: permission denied", ""},

		{"OSError: [Errno 24] Too many open files: 'x'", "limit open_files"},
		{"bash: fork: retry: Resource temporarily unavailable", "limit pids"},
		{"MemoryError", ""}, // nothing limits it here
	} {
		if d := cmp.Diff(c.want, brief(testPolicy().Infer([]byte(c.line+"\n"), "/w"))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.line, d)
		}
	}
}

// brief writes violations as the tables above have them.
func brief(list []protocol.Violation) string {
	var parts []string
	for _, v := range list {
		switch v.Kind {
		case protocol.ViolationFile:
			parts = append(parts, string(v.Right)+" "+v.Path)
		case protocol.ViolationNetwork:
			parts = append(parts, "host "+v.Host+v.Path)
		case protocol.ViolationSystemCall:
			parts = append(parts, "call "+v.SystemCall)
		case protocol.ViolationLimit:
			parts = append(parts, "limit "+v.Limit)
		}
	}
	return strings.Join(parts, "; ")
}

// TestWhatExistsIsNotTold: a path that is not granted gives one answer, whichever
// error a program met there.
func TestWhatExistsIsNotTold(t *testing.T) {
	for _, name := range []string{"/srv/x", "/w/.env", "/home/u/.ssh/id_rsa", "/etc/shadow", "/w/sub/.env"} {
		var first []protocol.Violation
		for _, words := range []string{"No such file or directory", "Permission denied", "Operation not permitted"} {
			got := testPolicy().Infer([]byte("cat: "+name+": "+words+"\n"), "/w")
			if len(got) != 1 {
				t.Fatalf("%s: %s: got %v", name, words, got)
			}
			if first == nil {
				first = got
			}
			if d := cmp.Diff(first, got); d != "" {
				t.Errorf("%s: %q is told apart (-first +this):\n%s", name, words, d)
			}
		}
	}
}

// TestTheAllowLineAllows does what each line says and asks again.
func TestTheAllowLineAllows(t *testing.T) {
	p := testPolicy()
	operator := sp.Top()
	operator.Paths = map[string]sp.Rights{"/": sp.Read | sp.Execute}
	operator.Limits.Pids = 8
	ceiling := Policy{Profile: sp.Intersect(p.Profile, operator), Operator: operator}
	for _, c := range []struct {
		policy      Policy
		path        string
		right       protocol.Right
		allow       string
		allowed     func(*Policy)
		stillDenied protocol.Right
	}{
		{p, "/srv/x", protocol.RightRead, `sandbox.paths.extra: {root: "/srv/x", mode: ro}`, root("/srv/x", false), protocol.RightWrite},
		{p, "/srv/x", protocol.RightWrite, `sandbox.paths.extra: {root: "/srv", mode: rw}`, root("/srv", true), ""},
		{p, "/docs/\"x/y", protocol.RightWrite, `sandbox.paths.extra: {root: "/docs/\"x", mode: rw}`, root("/docs/\"x", true), ""},
		{p, "/x", protocol.RightWrite, "", nil, ""},
		{p, "/usr/lib/x", protocol.RightWrite, "", nil, ""},
		{p, "/home/u/.bashrc", protocol.RightWrite, "", nil, ""},
		{p, "/home/u/.npmrc", protocol.RightRead, `sandbox.paths.extra: {root: "/home/u/.npmrc", mode: ro}`, root("/home/u/.npmrc", false), protocol.RightWrite},
		{p, "/w/.env", protocol.RightRead, `sandbox.hide: a list without ".env"`, func(p *Policy) { p.Profile.Hide = nil }, ""},
		{p, "/w/.git/hooks/a", protocol.RightWrite, `sandbox.protect: a list without ".git/hooks"`, func(p *Policy) { p.Profile.Protect = nil }, ""},
		{p, "/proc/sys/kernel/x", protocol.RightWrite, "", nil, ""},
		{ceiling, "/w/x", protocol.RightWrite, `paths of the operator's profile: - {path: "/w/x", rights: rwx, reason: "..."}`, func(q *Policy) {
			operator.Paths["/w/x"] = sp.Read | sp.Write | sp.Execute
			*q = Policy{Profile: sp.Intersect(p.Profile, operator), Operator: operator}
		}, ""},
	} {
		v := c.policy.File(c.path, c.right, protocol.Inferred)
		if v.Allow != c.allow || v.Reason == "" || v.Hint == "" {
			t.Errorf("%s %s: got %+v, want allow %q", c.right, c.path, v, c.allow)
		}
		if c.allowed == nil {
			continue
		}
		if !c.policy.Refused(c.path, c.right) {
			t.Errorf("%s %s is not refused to begin with", c.right, c.path)
		}
		c.allowed(&c.policy)
		if c.policy.Refused(c.path, c.right) {
			t.Errorf("%s %s: still refused with %q", c.right, c.path, c.allow)
		}
		if c.stillDenied != "" && !c.policy.Refused(c.path, c.stillDenied) {
			t.Errorf("%s: %q gives %s too", c.path, c.allow, c.stillDenied)
		}
	}
}

func root(dir string, write bool) func(*Policy) {
	return func(p *Policy) {
		d := sp.Derive(sp.Needs{Roots: []sp.Root{{Name: "extra", Path: dir, Write: write}}, Limits: sp.NoLimits()})
		paths := map[string]sp.Rights{dir: d.Paths[dir]}
		for k, r := range p.Profile.Paths {
			paths[k] = r
		}
		p.Profile.Paths = paths
	}
}

func TestNetworkOfTheHostIsNoViolation(t *testing.T) {
	line := []byte("curl: (6) Could not resolve host: example.com\n")
	for mode, want := range map[sp.NetworkMode]string{sp.NetworkNone: "host example.com", sp.NetworkProxied: "host example.com", sp.NetworkHost: ""} {
		p := testPolicy()
		p.Profile.Network.Mode = mode
		if got := brief(p.Infer(line, "/w")); got != want {
			t.Errorf("%v: got %q, want %q", mode, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	p := testPolicy()
	v, ok := p.Limit("pids", protocol.Observed)
	if !ok || v.Allow != "sandbox.limits.pids: 16" {
		t.Errorf("pids: got %+v", v)
	}
	p.Operator.Limits.Pids = 8
	if v, _ = p.Limit("pids", protocol.Observed); v.Allow != "limits of the operator's profile: pids: 16" {
		t.Errorf("pids under the operator's: got %+v", v)
	}
	for _, name := range []string{"memory", "no such limit"} {
		if v, ok := p.Limit(name, protocol.Observed); ok {
			t.Errorf("%s: got %+v, want none", name, v)
		}
	}
	if more(math.MaxInt64) != math.MaxInt64 {
		t.Error("doubling overflows")
	}
}

func TestWhatIsFoundIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 500 {
		text.WriteString("cat: /srv/" + strings.Repeat("x", i%100) + ": Permission denied\n")
	}
	got := testPolicy().Infer([]byte(text.String()), "/w")
	if len(got) != Max+1 || !strings.HasSuffix(got[Max].Reason, "more was refused (80)") || got[Max].Path != "" {
		t.Fatalf("got %d violations, want %d and how many there are besides: %+v", len(got), Max, got[len(got)-1])
	}
	if got[0] == got[1] {
		t.Errorf("%+v is there twice", got[0])
	}
	for name, line := range map[string]string{
		"control characters": "cat: '/srv/\x1b[2J': Permission denied", "not UTF-8": "cat: /srv/\xff: Permission denied",
		"too long": "cat: /srv/" + strings.Repeat("x", maxPath) + ": Permission denied",
	} {
		if got := testPolicy().Infer([]byte(line), "/w"); len(got) != 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// FuzzInfer: whatever a program prints, what is reported is bounded, is not
// granted by the profile, and is text that can be sent.
func FuzzInfer(f *testing.F) {
	for _, s := range []string{
		"cat: /srv/x: Permission denied\n", "OSError: [Errno 30] Read-only file system: 'a' -> '/docs/x'", "curl: (6) Could not resolve host: a.b",
		"x: ''\": ‘’: permission denied", "permission denied: ", "unshare: Operation not permitted", "İ: /srv: permission denied", "\xff: /a: permission denied",
		"open : no such file or directory, open '", "java.nio.file.AccessDeniedException: ", "too many open files\nMemoryError",
	} {
		f.Add([]byte(s), "/w")
	}
	f.Fuzz(func(t *testing.T, text []byte, dir string) {
		p := testPolicy()
		list := p.Infer(text, dir)
		if len(list) > Max+1 {
			t.Fatalf("%d violations", len(list))
		}
		if len(list) > Max {
			list = list[:Max] // and how many there are besides
		}
		for _, v := range list {
			if v.Kind == protocol.ViolationFile && !p.Refused(v.Path, v.Right) {
				t.Fatalf("%+v is granted", v)
			}
			if v.Basis != protocol.Inferred || v.Reason == "" || !utf8.ValidString(v.Path+v.Host) {
				t.Fatalf("%+v", v)
			}
		}
	})
}

// TestAddressesAreNamed: where a listed name leads to an address that it must not, the
// line that helps lists the address too, and there is none for this machine's own.
func TestAddressesAreNamed(t *testing.T) {
	for _, c := range []struct {
		addresses, detail, allow string
	}{
		{"10.1.2.3", "10.1.2.3, which only a rule for the address can allow: private", `shell.network: {allow: ["registry.corp.example:443", "10.1.2.3:443"]}`},
		{"10.1.2.3 fd12::1", "private", `shell.network: {allow: ["registry.corp.example:443", "10.1.2.3:443", "[fd12::1]:443"]}`},
		{"192.0.2.80", "documentation", `shell.network: {allow: ["registry.corp.example:443", "192.0.2.80:443"]}`},
		{"127.0.0.1", "loopback", ""},
		{"169.254.169.254", "a cloud's metadata service", ""},
		{"168.63.129.16", "168.63.129.16, which only a rule for the address can allow: a cloud's metadata service", ""},
	} {
		var list []netip.Addr
		for _, a := range strings.Fields(c.addresses) {
			list = append(list, netip.MustParseAddr(a))
		}
		v := Address("registry.corp.example", 443, list, c.detail)
		if v.Allow != c.allow || !strings.Contains(v.Reason, c.detail) || v.Hint == "" {
			t.Errorf("%s: %+v", c.addresses, v)
		}
	}
}

// TestAddressesOfCloudsAreNotOffered: a refused address can be listed, but no hint offers one that gives credentials of
// the cloud, or leads to this machine or its neighbours: `learn` proposes what hints offer.
func TestAddressesOfCloudsAreNotOffered(t *testing.T) {
	for host, allow := range map[string]string{
		"10.1.2.3":        `shell.network: {allow: ["10.1.2.3:80"]}`,
		"169.254.169.254": "",
		"fe80::1":         "",
		"127.0.0.1":       "",
		"168.63.129.16":   "",
	} {
		detail := "private"
		if host == "168.63.129.16" {
			detail = "a cloud's metadata service"
		}
		if v := Address(host, 80, nil, detail); v.Allow != allow || v.Hint == "" {
			t.Errorf("%s: %+v", host, v)
		}
	}
}
