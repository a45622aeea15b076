package toolchains

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A home is a person's home directory, made of a list: "path" is an executable,
// "path/" a directory, "path -> target" a link, "path = text" a file.
type home struct {
	t    *testing.T
	dir  string
	ws   string
	env  map[string]string
	path []string
}

func newHome(t *testing.T, list ...string) *home {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, dir: dir + "/h", ws: dir + "/h/work/p", env: map[string]string{}}
	h.make(append(list, "~/work/p/")...)
	return h
}

func (h *home) make(list ...string) {
	h.t.Helper()
	for _, line := range list {
		line = h.expand(line)
		name, text, isFile := strings.Cut(line, " = ")
		name, target, isLink := strings.Cut(name, " -> ")
		must := func(err error) {
			h.t.Helper()
			if err != nil {
				h.t.Fatal(err)
			}
		}
		must(os.MkdirAll(filepath.Dir(strings.TrimSuffix(name, "/")), 0o755))
		switch {
		case isLink:
			must(os.Symlink(target, name))
		case isFile:
			must(os.WriteFile(name, []byte(text), 0o644))
		case strings.HasSuffix(name, "/"):
			must(os.MkdirAll(name, 0o755))
		default:
			must(os.WriteFile(name, []byte("\x7fELF"), 0o755))
		}
	}
}

func (h *home) expand(s string) string { return strings.ReplaceAll(s, "~", h.dir) }

func (h *home) host() Host {
	var path []string
	for _, p := range h.path {
		path = append(path, h.expand(p))
	}
	return Host{
		Home: h.dir, Path: strings.Join(path, ":"), Env: func(name string) string { return h.expand(h.env[name]) },
		Roots:  []sp.Root{{Name: "workspace", Path: h.ws, Write: true}},
		Never:  []string{h.dir + "/.local/state/sandgate"},
		Hidden: func(p string) bool { return slices.Contains(strings.Split(p, "/"), ".ssh") },
		Secret: func(text string) bool { return strings.Contains(text, "hunter2") },
	}
}

// shown is what of the home directory is found, with its rights.
func (h *home) shown(f Found) []string {
	list := []string{}
	for _, g := range f.Grants {
		if strings.HasPrefix(g.Path, h.dir+"/") {
			list = append(list, "~"+strings.TrimPrefix(g.Path, h.dir)+" "+g.Rights.String())
		}
		if g.Reason == "" {
			h.t.Errorf("%s is shown for no reason", g.Path)
		}
	}
	return list
}

const (
	rx = " {read,execute}"
	r  = " {read}"
)

func TestToolchainsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		files, path []string
		env         map[string]string
		want        []string
	}{
		"nothing": {want: []string{}},
		"pyenv shows what is used": {
			files: []string{"~/.pyenv/shims/python", "~/.pyenv/libexec/pyenv", "~/.pyenv/bin/pyenv -> ../libexec/pyenv", "~/.pyenv/version = 3.12.1\n",
				"~/.pyenv/versions/3.12.1/bin/python", "~/.pyenv/versions/3.11.7/bin/python", "~/.pyenv/versions/2.7.18/bin/python", "~/work/p/.python-version = 3.11\n"},
			path: []string{"~/.pyenv/shims"},
			want: []string{"~/.pyenv/bin" + rx, "~/.pyenv/libexec" + rx, "~/.pyenv/shims" + rx, "~/.pyenv/version" + r, "~/.pyenv/versions/3.11.7" + rx, "~/.pyenv/versions/3.12.1" + rx},
		},
		"pyenv elsewhere": {
			files: []string{"~/tools/pyenv/shims/python", "~/tools/pyenv/version = 3.12.1\n", "~/tools/pyenv/versions/3.12.1/bin/python"},
			path:  []string{"~/tools/pyenv/shims"}, env: map[string]string{"PYENV_ROOT": "~/tools/pyenv"},
			want: []string{"~/tools/pyenv/shims" + rx, "~/tools/pyenv/version" + r, "~/tools/pyenv/versions/3.12.1" + rx},
		},
		"nvm shows the version on PATH": {
			files: []string{"~/.nvm/versions/node/v20.1.0/bin/node", "~/.nvm/versions/node/v18.0.0/bin/node", "~/.nvm/alias/default = 20"},
			path:  []string{"~/.nvm/versions/node/v20.1.0/bin"}, want: []string{"~/.nvm/versions/node/v20.1.0" + rx},
		},
		"fnm, by a link in a directory of the session": {
			files: []string{"~/.local/share/fnm/node-versions/v20/installation/bin/node", "~/run/shell1 -> ~/.local/share/fnm/node-versions/v20/installation"},
			path:  []string{"~/run/shell1/bin"},
			want:  []string{"~/.local/share/fnm/node-versions/v20/installation" + rx, "~/run/shell1" + r},
		},
		"fnm itself lists what it has": {
			files: []string{"~/bin/fnm", "~/.local/share/fnm/node-versions/v20/installation/bin/node", "~/.local/share/fnm/node-versions/v18/installation/bin/node", "~/.local/share/fnm/aliases/default -> ../node-versions/v20/installation"},
			path:  []string{"~/bin"},
			want:  []string{"~/.local/share/fnm/aliases" + rx, "~/.local/share/fnm/node-versions" + rx, "~/bin" + rx},
		},
		"rustup, without its documentation": {
			files: []string{"~/.cargo/bin/rustup", "~/.cargo/bin/cargo -> rustup", "~/.cargo/credentials.toml = token", "~/.rustup/settings.toml = x",
				"~/.rustup/toolchains/stable/bin/cargo", "~/.rustup/toolchains/stable/lib/std", "~/.rustup/toolchains/stable/share/doc/x"},
			path: []string{"~/.cargo/bin"},
			want: []string{"~/.cargo/bin" + rx, "~/.rustup/settings.toml" + r, "~/.rustup/toolchains/stable/bin" + rx, "~/.rustup/toolchains/stable/lib" + rx},
		},
		"crates only for a project that has some": {
			files: []string{"~/.cargo/registry/cache/x = 1", "~/work/p/crates/a/Cargo.toml = x"},
			want:  []string{"~/.cargo/registry" + r},
		},
		"yarn's packages only for a project that has some": {
			files: []string{"~/.yarn/berry/cache/x.zip = 1", "~/work/p/package.json = x", "~/work/p/.pnp.cjs = x"},
			want:  []string{"~/.yarn/berry/cache" + r},
		},
		"and not for others": {files: []string{"~/.yarn/berry/cache/x.zip = 1", "~/work/p/package.json = x"}, want: []string{}},
		"SDKMAN and JAVA_HOME": {
			files: []string{"~/.sdkman/candidates/java/21/bin/java", "~/.sdkman/candidates/java/17/bin/java", "~/.sdkman/candidates/java/current -> 21"},
			path:  []string{"~/.sdkman/candidates/java/current/bin"}, env: map[string]string{"JAVA_HOME": "~/.sdkman/candidates/java/current"},
			want: []string{"~/.sdkman/candidates/java/21" + rx, "~/.sdkman/candidates/java/current" + r},
		},
		"pipx: a link to a virtual environment and its Python": {
			files: []string{"~/.local/share/pipx/venvs/black/bin/black", "~/.local/share/pipx/venvs/black/pyvenv.cfg = home = ~/.pyenv/versions/3.12.1/bin\n",
				"~/.pyenv/versions/3.12.1/bin/python", "~/.local/bin/black -> ~/.local/share/pipx/venvs/black/bin/black"},
			path: []string{"~/.local/bin"},
			want: []string{"~/.local/bin" + rx, "~/.local/share/pipx/venvs/black" + rx, "~/.pyenv/versions/3.12.1" + rx},
		},
		"a script with an interpreter elsewhere": {
			files: []string{"~/.local/bin/", "~/.virtualenvs/x/bin/python", "~/.virtualenvs/x/pyvenv.cfg = home = /usr/bin\n"},
			path:  []string{"~/.local/bin"}, want: []string{"~/.local/bin" + rx},
		},
		"an SDK that nobody has listed": {
			files: []string{"~/development/sdk/bin/x", "~/development/sdk/lib/x = 1", "~/development/sdk/README.md = 1", "~/development/flutter/bin/flutter", "~/development/flutter/packages/x = 1"},
			path:  []string{"~/development/sdk/bin", "~/development/flutter/bin"}, want: []string{"~/development/flutter" + rx, "~/development/sdk" + rx},
		},
		"documents and projects beside a bin: the programs alone": {
			files: []string{"~/Dropbox/bin/t", "~/Dropbox/tax/return = 1", "~/code/bin/t", "~/code/org/private/.git/HEAD = 1", "~/gopath/bin/t", "~/gopath/src/github.com/me/x = 1", "~/mine/bin/t", "~/mine/lib/x = 1", "~/mine/letter.txt = 1"},
			path:  []string{"~/Dropbox/bin", "~/code/bin", "~/gopath/bin", "~/mine/bin"},
			want:  []string{"~/Dropbox/bin" + rx, "~/code/bin" + rx, "~/gopath/bin" + rx, "~/mine/bin" + rx},
		},
		"npm prefix":                     {files: []string{"~/.npm-global/bin/tsc -> ../lib/node_modules/typescript/bin/tsc", "~/.npm-global/lib/node_modules/typescript/bin/tsc"}, path: []string{"~/.npm-global/bin"}, want: []string{"~/.npm-global" + rx}},
		"a virtual environment anywhere": {files: []string{"~/envs/x/bin/python", "~/envs/x/pyvenv.cfg = home = ~/opt/py/bin\n", "~/opt/py/bin/python3"}, path: []string{"~/envs/x/bin"}, env: map[string]string{"VIRTUAL_ENV": "~/envs/x"}, want: []string{"~/envs/x" + rx, "~/opt/py" + rx}},
		"of the workspace: a Python of the table": {
			files: []string{"~/.pyenv/versions/3.12.1/bin/python", "~/work/p/.venv/pyvenv.cfg = home = ~/.pyenv/versions/3.12.1/bin\n"},
			want:  []string{"~/.pyenv/versions/3.12.1" + rx},
		},
		"bin of the home directory: the programs alone": {
			files: []string{"~/bin/x", "~/notes = 1", "~/bin/deploy -> ~/work/q/scripts/deploy", "~/work/q/scripts/deploy", "~/work/q/secret = 1"},
			path:  []string{"~/bin"}, want: []string{"~/bin" + rx, "~/work/q/scripts/deploy" + rx},
		},
		"a directory with repositories is no tree": {
			files: []string{"~/src/bin/x", "~/src/q/.git/HEAD = x"}, path: []string{"~/src/bin"}, want: []string{"~/src/bin" + rx},
		},
		"nor one with the workspace": {files: []string{"~/work/bin/x", "~/work/q/a = 1"}, path: []string{"~/work/bin"}, want: []string{"~/work/bin" + rx}},
		"certificate authorities": {
			files: []string{"~/corp/ca.pem = -----BEGIN CERTIFICATE-----\nx\n", "~/corp/both.pem = -----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\n", "~/corp/no.pem = x"},
			env:   map[string]string{"SSL_CERT_FILE": "~/corp/ca.pem", "PIP_CERT": "~/corp/both.pem", "CURL_CA_BUNDLE": "~/corp/no.pem"},
			want:  []string{"~/corp/ca.pem" + r},
		},
		"certificate authorities that settings name, but not those of a workspace": {
			files: []string{
				"~/corp/ca.pem = -----BEGIN CERTIFICATE-----\nx\n", "~/corp/pip.pem = -----BEGIN CERTIFICATE-----\nx\n", "~/corp/its.pem = -----BEGIN CERTIFICATE-----\nx\n",
				"~/.npmrc = registry=https://x.example\ncafile = \"~/corp/ca.pem\"\n", "~/.config/pip/pip.conf = [global]\ncert = ~/corp/pip.pem\n",
				"~/work/p/.npmrc = cafile=~/corp/its.pem\n",
			},
			want: []string{"~/corp/ca.pem" + r, "~/corp/pip.pem" + r},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, c.files...)
			h.path, h.env = c.path, c.env
			found := Find(h.host())
			if diff := cmp.Diff(c.want, h.shown(found)); diff != "" {
				t.Errorf("%s\nnotes: %q", diff, found.Notes)
			}
		})
	}
}

// TestWhatIsNotShown: nothing of a PATH, however it is made, shows the home directory,
// what is hidden, sandgate's own files, or what others can put programs into. Each has
// a note, and the directory beside it is found.
func TestWhatIsNotShown(t *testing.T) {
	for name, c := range map[string]struct {
		files, path []string
		env         map[string]string
		open        string // made writable by others
		note        string
	}{
		"the home directory":        {path: []string{"~"}, note: "it contains the whole home directory"},
		"a directory above it":      {path: []string{"~/.."}, note: "it contains the whole home directory"},
		"keys":                      {files: []string{"~/.ssh/bin/x"}, path: []string{"~/.ssh/bin"}, note: "a pattern of sandbox.hide hides it"},
		"a link to keys":            {files: []string{"~/.ssh/x", "~/tools -> ~/.ssh"}, path: []string{"~/tools"}, note: "a pattern of sandbox.hide hides it"},
		"sandgate's state":          {files: []string{"~/.local/state/sandgate/bin/x"}, path: []string{"~/.local/state/sandgate/bin"}, note: "it contains sandgate's own files"},
		"what others write":         {files: []string{"~/open/bin/x"}, path: []string{"~/open/bin"}, open: "~/open/bin", note: "other users can write to it"},
		"a relative directory":      {path: []string{"node_modules/.bin"}, note: "is relative"},
		"a variable for everything": {env: map[string]string{"JAVA_HOME": "~"}, note: "it contains the whole home directory"},
		"a venv of the workspace that points to keys":           {files: []string{"~/.ssh/id = 1", "~/work/p/.venv/pyvenv.cfg = home = ~/.ssh\n"}, note: "the Python of ~/work/p/.venv is in"},
		"one that points to a link beside a Python that exists": {files: []string{"~/mine/x = 1", "~/.pyenv/versions/evil -> ~/mine", "~/work/p/.venv/pyvenv.cfg = home = ~/.pyenv/versions/evil\n"}, note: "the Python of ~/work/p/.venv is in"},
		"one that points to what has no Python":                 {files: []string{"~/.virtualenvs/mine/note = 1", "~/work/p/.venv/pyvenv.cfg = home = ~/.virtualenvs/mine\n"}, note: "the Python of ~/work/p/.venv is in"},
		"one whose Python is gone":                              {files: []string{"~/work/p/.venv/pyvenv.cfg = home = ~/.pyenv/versions/3.9/bin\n"}, note: "the Python of ~/work/p/.venv does not exist"},
		"one that points home":                                  {files: []string{"~/work/p/.venv/pyvenv.cfg = home = ~\n"}, note: "the Python of ~/work/p/.venv is in"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, append(c.files, "~/twin/bin/x")...)
			h.path, h.env = append(c.path, "~/twin/bin"), c.env
			if c.open != "" {
				if err := os.Chmod(h.expand(c.open), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			found := Find(h.host())
			if diff := cmp.Diff([]string{"~/twin" + rx}, h.shown(found)); diff != "" {
				t.Error(diff)
			}
			if !slices.ContainsFunc(found.Notes, func(n string) bool { return strings.Contains(n, h.expand(c.note)) }) {
				t.Errorf("notes: %q, want one with %q", found.Notes, c.note)
			}
		})
	}
}

func TestSecretsAreFound(t *testing.T) {
	h := newHome(t, "~/.sdk/x/bin/x", "~/.sdk/x/config.toml = password = hunter2", "~/.sdk/x/etc/npmrc = token hunter2", "~/.sdk/x/etc/other.conf = port = 1",
		"~/.sdk/x/lib/pkg/test.json = hunter2", "~/.sdk/x/a/b/.rc = hunter2", "~/.npmrc = hunter2", "~/.config/pip/pip.conf = index-url = https://x/", "~/python3")
	h.path = []string{"~/.sdk/x/bin", "~/progs"}
	h.make("~/progs/python3", "~/progs/node")
	got := Find(h.host())
	var list []string
	for _, s := range got.Secrets {
		list = append(list, strings.Replace(s, h.dir, "~", 1))
	}
	want := []string{"~/.npmrc", "~/.sdk/x/a/b/.rc", "~/.sdk/x/config.toml", "~/.sdk/x/etc/npmrc"}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
}

// TestALongPath: a PATH without end costs no more than a bound.
func TestALongPath(t *testing.T) {
	h := newHome(t, "~/a/bin/x")
	for range 5000 {
		h.path = append(h.path, "~/nowhere/bin", "~/a/bin", "~/a/bin/../bin")
	}
	found := Find(h.host())
	if diff := cmp.Diff([]string{"~/a" + rx}, h.shown(found)); diff != "" || len(found.Notes) != 1 {
		t.Errorf("%s %q", diff, found.Notes)
	}
}

// TestTable: each line says why, and is about a place that can be relocated or is
// absolute.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range families {
		if f.name == "" || seen[f.name] || len(f.path)+len(f.programs)+len(f.markers)+len(f.starts) == 0 {
			t.Errorf("%+v: no name of its own, or nothing that says when it is used", f)
		}
		seen[f.name] = true
		for _, g := range f.grants {
			if g.Reason == "" || g.Rights&sp.Write != 0 || !strings.HasPrefix(g.Path, "~/") && !strings.HasPrefix(g.Path, "/") || strings.HasSuffix(g.Path, "/") {
				t.Errorf("%s: %+v", f.name, g)
			}
		}
	}
	for prefix := range places {
		if !strings.HasPrefix(prefix, "~/") {
			t.Error(prefix)
		}
	}
}

// TestNeeded: what is said to be needed is enough, and no more than that.
func TestNeeded(t *testing.T) {
	h := newHome(t, "~/.pyenv/versions/3.12.1/bin/python", "~/.local/share/pipx/venvs/black/bin/black",
		"~/.local/share/pipx/venvs/black/pyvenv.cfg = home = ~/.pyenv/versions/3.12.1/bin\n", "~/.local/bin/black -> ~/.local/share/pipx/venvs/black/bin/black",
		"~/mine/tool", "~/.cargo/bin/rustup", "~/.cargo/bin/cargo -> rustup",
		"~/.virtualenvs/v/pyvenv.cfg = home = ~/.pyenv/versions/3.12.1/bin\n", "~/.virtualenvs/v/bin/python3 -> ~/.pyenv/versions/3.12.1/bin/python", "~/.virtualenvs/v/bin/python -> python3")
	for program, want := range map[string][]string{
		"~/.local/bin/black":          {"~/.local/bin", "~/.local/share/pipx/venvs/black", "~/.pyenv/versions/3.12.1"},
		"~/mine/tool":                 {"~/mine/tool"},
		"~/.virtualenvs/v/bin/python": {"~/.pyenv/versions/3.12.1", "~/.virtualenvs/v"},

		"~/nothing": nil,
		"~/.ssh/x":  nil,
	} {
		var got []string
		for _, p := range Needed(h.host(), h.expand(program)) {
			got = append(got, strings.Replace(p, h.dir, "~", 1))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", program, diff)
		}
	}
}

// TestCachesOfYarn: what yarn 1 keeps packages in is, from 2 on, the name of a cache that a
// project has in itself and can install from without a network: it stays as it is.
func TestCachesOfYarn(t *testing.T) {
	variables := func(files ...string) (list []string) {
		h := newHome(t, append(files, "~/bin/yarn", "~/work/p/package.json = x")...)
		h.path = []string{"~/bin"}
		for _, c := range Find(h.host()).Caches {
			if strings.HasPrefix(c.Variable, "YARN_") {
				list = append(list, c.Variable)
			}
		}
		return list
	}
	if diff := cmp.Diff([]string{"YARN_CACHE_FOLDER", "YARN_GLOBAL_FOLDER"}, variables()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"YARN_GLOBAL_FOLDER"}, variables("~/work/p/.yarnrc.yml = x")); diff != "" {
		t.Error(diff)
	}
}
