package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

func TestFindTakesTheFirstTier(t *testing.T) {
	env := placed(t)
	user := filepath.Join(env.ConfigHome, "sandgate", FileName)
	admin := filepath.Join(env.AdminDir, FileName)
	flag := filepath.Join(env.Cwd, "mine.yaml")

	check := func(tier Tier, path string) {
		t.Helper()
		got, err := Find(env)
		if err != nil || got.Tier != tier || got.Path != path {
			t.Errorf("got %+v, %v; want %s %q", got, err, tier, path)
		}
	}
	check(TierEmbedded, "")
	write(t, admin, "version: 1\n")
	check(TierAdmin, admin)
	write(t, user, "version: 1\n")
	check(TierUser, user)
	write(t, flag, "version: 1\n")
	env.File = "mine.yaml"
	check(TierFlag, flag)
}

func TestFindDoesNotFallBackFromANamedFileThatIsMissing(t *testing.T) {
	env := placed(t)
	env.File = "absent.yaml"
	if _, err := Find(env); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestFindNamesTheWorkspaceFileThatIsNotLoaded(t *testing.T) {
	env := placed(t)
	file := filepath.Join(env.Cwd, FileName)
	write(t, file, "approval: {mode: approve_all}\n")

	c, found, err := Resolve(env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Approval.Mode != Interactive || found.Tier != TierEmbedded {
		t.Errorf("the workspace's file was loaded: mode %q, %+v", c.Approval.Mode, found)
	}
	if len(c.Notices) != 1 || c.Notices[0].Position.File != file || !strings.Contains(c.Notices[0].Text, "not loaded") {
		t.Errorf("notices: %v", c.Notices)
	}

	env.File = file
	c, _, err = Resolve(env)
	if err != nil || c.Approval.Mode != ApproveAll {
		t.Fatalf("named with --config: %+v, %v", c, err)
	}
	for _, n := range c.Notices {
		if strings.Contains(n.Text, "not loaded") {
			t.Errorf("a named file brings the notice %v", n)
		}
	}
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
