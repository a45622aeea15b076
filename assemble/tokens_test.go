package assemble

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
)

// TestSettingsOfGitWithATokenAreNotShown: the preset git, which config init writes, shows who the user is, and no file
// that holds a token, in whichever of its places and behind whichever link. The twins: settings as people have them.
func TestSettingsOfGitWithATokenAreNotShown(t *testing.T) {
	const plain = `[user]
	name = A Person
	email = person@example.com
	signingkey = ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl person@example.com
[gpg]
	format = ssh
[gpg "ssh"]
	allowedSignersFile = ~/.config/git/allowed_signers
[core]
	askpass = /usr/bin/ksshaskpass
	excludesfile = ~/.gitignore_global
[credential]
	helper = cache --timeout=3600
[credential "https://github.com"]
	helper = !/usr/bin/gh auth git-credential
	username = person
[url "git@github.com:"]
	insteadOf = https://github.com/
[url "ssh://git@gitlab.example.com/"]
	insteadOf = https://gitlab.example.com/
[filter "lfs"]
	process = git-lfs filter-process
	required = true
[alias]
	graph = log --graph --abbrev-commit --format='%h %s'
	token = !echo $TOKEN
[http]
	sslCAInfo = /etc/ssl/certs/company.pem
[sendemail]
	smtpserver = smtp.example.com
	smtpuser = person@example.com
[init]
	defaultBranch = main
# token = 0123456789abcdef0123456789abcdef01234567
`
	tokens := map[string]string{
		"header":   "[http \"https://github.com/\"]\n\textraHeader = Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345\n",
		"basic":    "[http]\n\textraheader = AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46Z2hwXzAxMjM0NTY3ODlhYmNkZWY=\n",
		"url":      "[url \"https://oauth2:s3cr3t-passw0rd@git.example.com/\"]\n\tinsteadOf = https://git.example.com/\n",
		"token":    "[github]\n\ttoken = 0123456789abcdef0123456789abcdef01234567\n",
		"password": "[sendemail]\n\tsmtpPass = hunter2-hunter2\n",
	}
	cfg := &config.Config{Sandbox: config.Sandbox{Presets: []string{"git"}}}
	check := func(name, file, text string, link, shown bool) {
		t.Helper()
		home := t.TempDir()
		t.Setenv("HOME", home)
		at := filepath.Join(home, file)
		if link {
			at = filepath.Join(home, "dotfiles", "settings")
			if err := os.Symlink("dotfiles/settings", filepath.Join(home, file)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, found, err := deriveNeeds(cfg, "")
		if err != nil {
			t.Fatal(err)
		}
		var grants []string
		for _, g := range n.Presets[0].Grants {
			grants = append(grants, g.Path)
		}
		granted := "~/" + strings.TrimSuffix(file, "/work")
		if slices.Contains(grants, granted) != shown || (len(found.Tokens) == 0) != shown {
			t.Errorf("%s in %s: %q is granted, %q", name, file, grants, found.Tokens)
		}
	}
	for _, place := range []string{".gitconfig", ".config/git/work"} {
		check("nothing secret", place, plain, false, true)
		for name, text := range tokens {
			check(name, place, plain+text, false, false)
		}
	}
	check("a token behind a link", ".gitconfig", plain+tokens["token"], true, false)
	check("nothing behind a link", ".gitconfig", plain, true, true)
}

// TestATokenInARepositoryIsSaid: the settings of the workspace's repository have to be shown to programs. If they hold a
// token, status, serve and run -v say so, and no result does.
func TestATokenInARepositoryIsSaid(t *testing.T) {
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	remote := func(url string) string { return "[remote \"origin\"]\n\turl = " + url + "\n" }
	for _, x := range []struct {
		name, file, text string
		said             bool
	}{
		{"a name and a token", "config", remote("https://x:" + token + "@git.example.com/a/b"), true},
		{"a token alone", "config", remote("https://" + token + "@git.example.com/a/b"), true},
		{"a header", "config", "[http]\n\textraHeader = Authorization: Bearer " + token + "\n", true},
		{"a submodule's", "modules/sub/config", remote("https://x:" + token + "@git.example.com/a/b"), true},
		{"one of a name that moves the cursor", "modules/a\x1b[2J\nsandgate: x/config", remote("https://x:" + token + "@git.example.com/a/b"), true},
		{"no secret", "config", remote("https://git.example.com/a/b") + remote("ssh://git@git.example.com/a"), false},
	} {
		home, ws := t.TempDir(), t.TempDir()
		t.Setenv("HOME", home)
		at := filepath.Join(ws, ".git", x.file)
		for name, text := range map[string]string{at: x.text, filepath.Join(ws, ".git", "HEAD"): "ref: refs/heads/main\n"} {
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := &config.Config{Sandbox: config.Sandbox{Paths: []config.Path{{Name: "workspace", Root: ws, Mode: config.ReadWrite}}}}
		d, err := Derive(cfg, nil, "")
		said := strings.Join(d.Found.Readable, "\n")
		if err != nil || (said != "") != x.said || x.said && !strings.HasPrefix(said, approval.EscapeName(at)+" contains a token") || strings.Contains(said, token) || strings.ContainsAny(said, "\x1b\n") {
			t.Errorf("%s: %q, %v", x.name, said, err)
		}
		if slices.ContainsFunc(d.warnings, func(w string) bool { return strings.Contains(w, at) }) {
			t.Errorf("%s: the warnings of results have it: %q", x.name, d.warnings)
		}
	}
}

// TestATreeOfAPresetStays: a text that looks like a token in a tree of modules or programs takes no other file away.
func TestATreeOfAPresetStays(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{".rustup/toolchains/stable/etc/completion", ".cargo/registry/src/a/test.toml", "go/pkg/mod/a/settings.json", ".gitconfig"} {
		at := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("[github]\n\ttoken = 0123456789abcdef0123456789abcdef01234567\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, found, err := deriveNeeds(&config.Config{Sandbox: config.Sandbox{Presets: []string{"rust", "go", "git"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, p := range n.Presets {
		for _, g := range p.Grants {
			shown[g.Path] = true
		}
	}
	if !shown["~/.rustup/toolchains"] || !shown["~/.cargo/registry"] || !shown["~/go/pkg/mod"] || shown["~/.gitconfig"] || len(found.Tokens) != 1 || len(found.Secrets) != 0 {
		t.Errorf("%v, %q, %q", shown, found.Tokens, found.Secrets)
	}
}
