package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// placed is an Env with a user's and an administrator's directory, both empty.
func placed(t *testing.T) Env {
	t.Helper()
	env := testEnv(t)
	env.ConfigHome = filepath.Join(env.Home, ".config")
	env.AdminDir = filepath.Join(filepath.Dir(env.Cwd), "etc")
	if err := os.Mkdir(env.AdminDir, 0o700); err != nil {
		t.Fatal(err)
	}
	return env
}

// tiersOf are the files that apply, as TIER or TIER! for one that is not trusted.
func tiersOf(c *Config) string {
	var list []string
	for _, s := range c.Sources {
		name := string(s.Tier)
		if !s.Trusted {
			name += "!"
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

func TestResolveTakesEveryTier(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the administrator's file has to be root's")
	}
	env := placed(t)
	check := func(want, main string) {
		t.Helper()
		c, found, err := Resolve(env)
		if err != nil {
			t.Fatal(err)
		}
		if got := tiersOf(c); got != want || string(found.Tier) != main || c.File != found.Path {
			t.Errorf("got %q, %+v, file %q; want %q, %s", got, found, c.File, want, main)
		}
	}
	check("", "default")
	write(t, filepath.Join(env.Cwd, FileName), "version: 1\n")
	check("workspace!", "default")
	write(t, filepath.Join(env.AdminDir, FileName), "version: 1\n")
	check("admin workspace!", "admin")
	write(t, filepath.Join(env.ConfigHome, "sandgate", FileName), "version: 1\n")
	check("admin user workspace!", "user")
	write(t, filepath.Join(env.Cwd, "mine.yaml"), "version: 1\n")
	env.File = "mine.yaml"
	check("admin flag workspace!", "flag")
	env.Trusted = func(string, string) (bool, error) { return true, nil }
	check("admin flag workspace", "flag")
	env.File = FileName // by its name it is the flag's, and not once more the workspace's
	check("admin flag", "flag")
}

func TestANamedFileThatIsMissingIsAnError(t *testing.T) {
	env := placed(t)
	env.File = "absent.yaml"
	if _, _, err := Resolve(env); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// TestEveryBrokenFileIsReported: one that does not load is never passed over.
func TestEveryBrokenFileIsReported(t *testing.T) {
	env := placed(t)
	write(t, filepath.Join(env.Cwd, FileName), "shell: {rulez: []}\n")
	write(t, filepath.Join(env.ConfigHome, "sandgate", FileName), "approval: {mode: later}\n")
	_, _, err := Resolve(env)
	var files []string
	for _, p := range problemsOf(t, err) {
		files = append(files, filepath.Base(filepath.Dir(p.Position.File)))
	}
	if !slices.Equal(files, []string{"sandgate", "work"}) {
		t.Errorf("problems in %q: %v", files, err)
	}
}

func TestFindNamesTheWorkspaceFileThatIsNotLoaded(t *testing.T) {
	env := placed(t)
	file := filepath.Join(env.Cwd, FileName)
	write(t, file, "approval: {mode: approve_all, timeout: 1m}\n")
	c, found, err := Resolve(env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Approval.Mode != Interactive || c.Approval.Timeout != time.Minute || found.Tier != TierEmbedded {
		t.Errorf("not trusted: mode %q, timeout %v, %+v", c.Approval.Mode, c.Approval.Timeout, found)
	}
	if len(c.Unused) != 1 || c.Unused[0].Field != "approval.mode" || c.Unused[0].Position != (Position{file, 1, 18}) {
		t.Errorf("unused: %v", c.Unused)
	}
	env.Trusted = func(path, digest string) (bool, error) { return path == file, nil }
	if c, _, err = Resolve(env); err != nil || c.Approval.Mode != ApproveAll || len(c.Unused) != 0 {
		t.Errorf("trusted: %+v, %v", c, err)
	}
	env.Trusted, env.File = nil, file
	if c, _, err = Resolve(env); err != nil || c.Approval.Mode != ApproveAll || len(c.Unused) != 0 {
		t.Errorf("named: %+v, %v", c, err)
	}
	broken := errors.New("cannot tell")
	env.File, env.Trusted = "", func(string, string) (bool, error) { return true, broken }
	if _, _, err = Resolve(env); !errors.Is(err, broken) {
		t.Errorf("where trust cannot be told: %v", err)
	}
}

// TestWorkspaceFileIsAFile: what stands in its place may be somebody's trap.
func TestWorkspaceFileIsAFile(t *testing.T) {
	env := placed(t)
	file := filepath.Join(env.Cwd, FileName)
	elsewhere := filepath.Join(env.Home, "policy.yaml")
	write(t, elsewhere, "approval: {mode: strict}\n")
	for name, make := range map[string]func() error{
		"it is a symbolic link":    func() error { return os.Symlink(elsewhere, file) },
		"it is not a regular file": func() error { return syscall.Mkfifo(file, 0o600) },
		"is a directory":           func() error { return os.Mkdir(file, 0o700) },
		"larger than 1MiB":         func() error { return os.WriteFile(file, []byte(strings.Repeat("#", maxFile+1)), 0o600) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Resolve(env); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, file); err != nil {
		t.Fatal(err)
	}
	env.File = elsewhere // what the link leads to is the flag's, and nobody else's
	if c, _, err := Resolve(env); err != nil || tiersOf(c) != "flag" {
		t.Errorf("a link to the file that is named: %+v, %v", c, err)
	}
	env.File = ""
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(elsewhere, file); err != nil { // the twin: it may well be a file with another name
		t.Fatal(err)
	}
	if c, _, err := Resolve(env); err != nil || c.Approval.Mode != Strict {
		t.Errorf("a file: %+v, %v", c, err)
	}
}

// TestTrustDigest: it stays where nothing changes, and changes with the bytes, with the
// place, and with where the paths in the file lead.
func TestTrustDigest(t *testing.T) {
	env := placed(t)
	env.Cwd = filepath.Join(env.Cwd, "src")
	file := filepath.Join(env.Cwd, FileName)
	write(t, file, "sandbox: {paths: {data: {root: data}}}\n")
	if err := os.Symlink("inner", filepath.Join(env.Cwd, "data")); err != nil {
		t.Fatal(err)
	}
	var seen []string
	digest := func() string {
		t.Helper()
		var got string
		env.Trusted = func(path, digest string) (bool, error) { got = digest; return false, nil }
		if _, _, err := Resolve(env); err != nil || got == "" {
			t.Fatalf("%q, %v", got, err)
		}
		return got
	}
	fresh := func(what string, change func() error) {
		t.Helper()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		d := digest()
		if slices.Contains(seen, d) {
			t.Errorf("%s: the digest is one from before", what)
		}
		seen = append(seen, d)
	}
	fresh("the first", func() error { return nil })
	if digest() != seen[0] {
		t.Error("the digest of the same file is another one")
	}
	fresh("a comment", func() error {
		return os.WriteFile(file, []byte("sandbox: {paths: {data: {root: data}}} #\n"), 0o600)
	})
	fresh("a link that leads elsewhere", func() error {
		return errors.Join(os.Remove(filepath.Join(env.Cwd, "data")), os.Symlink(env.Home, filepath.Join(env.Cwd, "data")))
	})
	fresh("the same workspace elsewhere", func() error {
		moved := filepath.Join(env.Home, "moved")
		err := os.Rename(env.Cwd, moved)
		env.Cwd = moved
		return err
	})
}

func TestUserFileThatOthersMayWriteIsRefused(t *testing.T) {
	env := placed(t)
	user := filepath.Join(env.ConfigHome, "sandgate", FileName)
	write(t, user, "version: 1\n")
	for mode, good := range map[fs.FileMode]bool{0o600: true, 0o644: true, 0o664: true, 0o602: false, 0o666: false} {
		if err := os.Chmod(user, mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := Resolve(env)
		var untrusted *UntrustedError
		if good && err != nil || !good && !errors.As(err, &untrusted) {
			t.Errorf("mode %#o: %v, want success %v", mode, err, good)
		}
	}
}

// info is a fs.FileInfo with a mode, for checks that need no real owner.
type info struct {
	fs.FileInfo
	mode fs.FileMode
}

func (i info) Mode() fs.FileMode { return i.mode }

func TestOnlyListedOwnersAreTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	write(t, path, "")
	real, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	me := os.Getuid()
	for _, tc := range []struct {
		name   string
		mode   fs.FileMode
		owners []int
		reason string
	}{
		{"mine", 0o644, []int{me}, ""},
		{"one of several", 0o644, []int{me + 1, me}, ""},
		{"another's", 0o644, []int{me + 1}, "belongs to user"},
		{"group may write", 0o664, []int{me}, "others may write"},
		{"all may write", 0o646, []int{me}, "others may write"},
	} {
		err := checkOwner(path, info{real, tc.mode}, tc.owners, 0o022)
		var untrusted *UntrustedError
		switch {
		case tc.reason == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.reason != "" && (!errors.As(err, &untrusted) || !strings.Contains(untrusted.Reason, tc.reason)):
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.reason)
		}
	}
}

// The admin tier must be root's: with another owner it is an error, and never
// passed over in favour of the default.
func TestAdminFileIsRootsOrAnError(t *testing.T) {
	env := placed(t)
	admin := filepath.Join(env.AdminDir, FileName)
	write(t, admin, "approval: {mode: strict}\n")
	c, _, err := Resolve(env)
	var untrusted *UntrustedError
	if os.Getuid() != 0 {
		if !errors.As(err, &untrusted) {
			t.Errorf("owned by %d: %v", os.Getuid(), err)
		}
		return
	}
	if err != nil || c.Approval.Mode != Strict {
		t.Fatalf("owned by root: %+v, %v", c, err)
	}
	for _, path := range []string{admin, env.AdminDir} {
		if err := os.Chmod(path, 0o770); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Resolve(env); !errors.As(err, &untrusted) || untrusted.Path != path {
			t.Errorf("%s with mode 0770: %v", path, err)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadRefusesWhatIsNoText(t *testing.T) {
	env := testEnv(t)
	for _, tc := range []struct{ name, text, want string }{
		{"UTF-16", "\xff\xfev\x00", ":1:1: byte 0xff is not UTF-8"},
		{"Latin-1", "version: 1 # \xe9\n", ":1:14: byte 0xe9 is not UTF-8"},
		{"control character", "version: 1\n#\x1b[2J\n", ":2:2: control character U+001B"},
		{"a key that looks like a comment", "# harmless\u2028approval: {mode: approve_all}\n", ":1:11: control character U+2028"},
		{"a lone carriage return", "# harmless\rapproval: {mode: approve_all}\n", ":1:11: control character U+000D"},
		{"reordered text", "# \u202e }llort\n", ":1:3: control character U+202E"},
		{"too large", strings.Repeat("#", maxFile+1), ":1:1: the file is larger than 1MiB"},
		{"too deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), ": more than 64 levels of nesting"},
	} {
		_, err := parse(env, tc.text)
		if problems := problemsOf(t, err); len(problems) != 1 || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestLoadTakesTheLineEndsOfWindows(t *testing.T) {
	c, err := parse(testEnv(t), "version: 1\r\napproval:\r\n  mode: strict\r\n")
	if err != nil || c.Approval.Mode != Strict {
		t.Fatalf("got %+v, %v", c, err)
	}
	if got := c.Origins["approval.mode"]; got.Line != 3 || got.Column != 9 {
		t.Errorf("approval.mode is at %v", got)
	}
}

// An alias bomb is refused at its aliases, which are never followed.
func TestAliasBombIsRefusedAtOnce(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 30; i++ {
		c, p := string(rune('0'+i%10))+string(rune('0'+i/10)), string(rune('0'+(i-1)%10))+string(rune('0'+(i-1)/10))
		if i == 1 {
			p = "0"
		}
		bomb.WriteString("a" + c + ": &a" + c + " [*a" + p + ", *a" + p + ", *a" + p + "]\n")
	}
	bomb.WriteString("tools: {t: {command: [x], input_schema: {a: *a92}}}\n")
	start := time.Now()
	_, err := parse(testEnv(t), bomb.String())
	problemsOf(t, err)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.Contains(err.Error(), "aliases are not allowed") {
		t.Errorf("got %v", err)
	}
}

func TestHostEnvIgnoresARelativeConfigHome(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	for value, want := range map[string]string{
		"":              "/home/somebody/.config",
		"relative":      "/home/somebody/.config",
		"/etc/xdg-mine": "/etc/xdg-mine",
	} {
		t.Setenv("XDG_CONFIG_HOME", value)
		env, err := HostEnv()
		if err != nil || env.ConfigHome != want {
			t.Errorf("XDG_CONFIG_HOME=%q: got %q, %v; want %q", value, env.ConfigHome, err, want)
		}
	}
}
