package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// workdirEnv is a directory with some others in it.
func workdirEnv(t *testing.T) Env {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"notes", "cache/deep", "code", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("cache/deep", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	return Env{Cwd: top, Home: top}
}

func TestStartDir(t *testing.T) {
	const (
		notes    = "notes: {root: ./notes, mode: rw, suffixes: [.txt]}"
		cache    = "cache: {root: ./cache, mode: rw}"
		code     = "code: {root: ./code}"
		readOnly = "cache: {root: ./cache}"
	)
	for name, c := range map[string]struct {
		paths   []string
		workdir string
		want    string // below the top, or "/"
	}{
		"one with suffixes comes first":  {[]string{notes, cache}, "", "cache"},
		"one that may be written":        {[]string{code, cache}, "", "cache"},
		"none may be written":            {[]string{notes, code, readOnly}, "", "code"},
		"none is shown":                  {[]string{notes}, "", "/"},
		"none at all":                    {nil, "", "/"},
		"named":                          {[]string{cache, code}, "./code", "code"},
		"named, inside of one":           {[]string{cache}, "./cache/deep", "cache/deep"},
		"named by a link":                {[]string{cache}, "./link", "cache/deep"},
		"named as the home directory is": {[]string{cache}, "~/cache", "cache"},
	} {
		t.Run(name, func(t *testing.T) {
			env := workdirEnv(t)
			text := "version: 1\nsandbox:\n  paths: {" + strings.Join(c.paths, ", ") + "}\n"
			if c.workdir != "" {
				text += "  workdir: " + c.workdir + "\n"
			}
			cfg := mergedOf(t, env, layerOf(t, env, TierUser, true, text))
			want := filepath.Join(env.Cwd, c.want)
			if c.want == "/" {
				want = "/"
			}
			if got := cfg.StartDir(); got != want {
				t.Errorf("programs start in %s, want %s", got, want)
			}
		})
	}
}

func TestWorkdirThatProgramsDoNotSee(t *testing.T) {
	for _, c := range []struct{ workdir, want string }{
		{"./notes", "limited to [.txt]: only file tools can see it"},
		{"./elsewhere", "is not in sandbox.paths"},
		{"./absent", "no such file or directory"},
		{"./cache/file", "is not a directory"},
		{"~nobody", "~USER is not supported"},
	} {
		env := workdirEnv(t)
		if err := os.WriteFile(filepath.Join(env.Cwd, "cache/file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		text := "version: 1\nsandbox: {workdir: " + c.workdir + ", paths: {notes: {root: ./notes, suffixes: [.txt]}, cache: {root: ./cache}}}\n"
		_, err := Parse([]byte(text), "sandgate.yaml", env)
		if err == nil || !strings.Contains(err.Error(), "sandbox.workdir: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("workdir %s: %v; want %q", c.workdir, err, c.want)
		}
	}
}

// What another file takes away cannot be started in, and the operator hears of it.
func TestWorkdirIsBoundedWithThePaths(t *testing.T) {
	env := workdirEnv(t)
	user := layerOf(t, env, TierUser, true, "version: 1\nsandbox: {workdir: ./cache, paths: {cache: {root: ./cache, mode: rw}, code: {root: ./code, mode: rw}}}\n")
	for name, workspace := range map[string]string{
		"the path is gone":    "version: 1\nsandbox: {paths: {code: {root: ./code}}}\n",
		"the path is limited": "version: 1\nsandbox: {paths: {code: {root: ./code}, cache: {root: ./cache, suffixes: [.md]}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := mergedOf(t, env, user, layerOf(t, env, TierWorkspace, false, workspace))
			if got := cfg.StartDir(); got != filepath.Join(env.Cwd, "code") {
				t.Errorf("programs start in %s", got)
			}
			var told bool
			for _, n := range cfg.Notices {
				told = told || n.Field == "sandbox.workdir" && strings.Contains(n.Text, "they start in")
			}
			if !told {
				t.Errorf("nobody is told: %v", cfg.Notices)
			}
		})
	}
	untrusted := mergedOf(t, env, user, layerOf(t, env, TierWorkspace, false,
		"version: 1\nsandbox: {workdir: ./code, paths: {cache: {root: ./cache, mode: rw}, code: {root: ./code, mode: rw}}}\n"))
	if got := untrusted.StartDir(); got != filepath.Join(env.Cwd, "cache") {
		t.Errorf("a file that nobody trusts has moved the start to %s", got)
	}
}
