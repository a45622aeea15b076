package assemble

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/profiles/repositories"
	"github.com/sandgate/sandgate/profiles/toolchains"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Host is the machine as this person uses it, with the configured directories.
func Host(n sandboxprofile.Needs, program string) toolchains.Host {
	hidden := sandboxprofile.NewMatcher(n.Hide)
	return toolchains.Host{
		Home: n.Home, Path: os.Getenv("PATH"), Env: os.Getenv, Roots: n.Roots, Program: program,
		Never: OwnDirectories(), Secret: LooksSecret,
		Hidden: hidden.Match,
		Preset: func(name string) []sandboxprofile.Grant {
			p, err := profiles.Preset(name)
			if err != nil {
				return nil
			}
			return p.Grants
		},
	}
}

// OwnDirectories are where sandgate keeps files of its own.
func OwnDirectories() []string {
	var list []string
	if dir, err := statedir.Path(""); err == nil {
		list = append(list, filepath.Clean(dir))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "sandgate"))
	}
	if socket, err := unixsock.DefaultPath(unixsock.AgentSocket); err == nil {
		list = append(list, filepath.Dir(socket))
	}
	for i, dir := range list {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			list[i] = real
		}
	}
	return list
}

// LooksSecret reports whether a text, of a file of settings or a variable, holds what the
// log would not keep, or gives a value to a name of a secret.
func LooksSecret(text string) bool {
	r, err := secretRules()
	if err != nil {
		return true
	}
	low := strings.ToLower(text)
	named := slices.ContainsFunc(secretNames, func(name string) bool { return strings.Contains(low, name) })
	if strings.Contains(low, `"auth"`) && slices.ContainsFunc(basicAuth().FindAllStringSubmatch(text, -1), isLogin) {
		return true
	}
	if !named && r.String(text) == text { // most files: a search for words costs a tenth of the expressions
		return false
	}
	text = comments().ReplaceAllString(text, "")
	return secretSetting().MatchString(text) || r.String(text) != text
}

// HoldsToken reports whether the log would not keep something of a text, comments included.
func HoldsToken(text string) bool {
	r, err := secretRules()
	return err != nil || r.String(text) != text
}

// secretNames are the ends of names of secrets, in lower case. A text without any of them
// gives a value to none.
var secretNames = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "_auth", "accesskey", "access_key", "smtppass"}

var (
	secretRules = sync.OnceValues(func() (*audit.Redactor, error) { return audit.DefaultRedactor(nil) })
	// basicAuth is "auth": "...", as files of docker have it.
	basicAuth = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)"auth"\s*:\s*"([A-Za-z0-9+/=]{6,})"`) })
	// comments hold examples of passwords.
	comments = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?ms)<!--.*?-->|^[ \t]*[#;][^\n]*$`) })
	// secretSetting is "password = x", "_authToken=x", "token: x", "<password>x</password>",
	// "machine a login b password c". A reference to a variable is not a secret.
	secretSetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?im)(?:^|[\s"':;_.<-])[\w.-]*(?:` + strings.Join(secretNames, "|") + `)["']?(?:\s*[:=]\s*|>|[ \t]+)["']?[^\s"'$<>{}()\[\],;]{6,}`)
	})
)

// isLogin reports whether a match of basicAuth is a name and a password.
func isLogin(m []string) bool {
	b, err := base64.StdEncoding.DecodeString(m[1])
	return err == nil && bytes.ContainsRune(b, ':')
}

// detect adds to needs what the programs on PATH need, if the configuration wants that.
func detect(cfg *config.Config, n *sandboxprofile.Needs, program string) toolchains.Found {
	if !slices.Contains(cfg.Sandbox.Presets, config.DetectPreset) {
		return toolchains.Found{Path: os.Getenv("PATH")}
	}
	host, seen := Host(*n, program), openVerdicts()
	host.Holds = seen.Holds
	found := toolchains.Find(host)
	seen.keep()
	n.Presets = append(n.Presets, sandboxprofile.Preset{
		Name: config.DetectPreset, Reason: "What the programs on PATH need.", Grants: found.Grants,
	})
	return found
}

// withoutTokens takes from the configured presets the settings in HOME that hold a token or a password, as detect does
// with those that it finds. What is only read is not there then: git ends if it may not open a file of its settings.
func withoutTokens(n *sandboxprofile.Needs, found *toolchains.Found) {
	host := Host(*n, "")
	for i, preset := range n.Presets {
		n.Presets[i].Grants = slices.DeleteFunc(slices.Clone(preset.Grants), func(g sandboxprofile.Grant) bool {
			below, home := strings.CutPrefix(g.Path, "~/")
			if !home {
				return false
			}
			path := filepath.Join(cmp.Or(n.UserHome, n.Home), below)
			files := []string{path}
			if entries, err := os.ReadDir(path); err == nil {
				files = nil
				for _, e := range entries {
					files = append(files, filepath.Join(path, e.Name()))
				}
			}
			for _, file := range files {
				real, err := filepath.EvalSymlinks(file)
				if err != nil || host.Hidden(file) || host.Hidden(real) {
					continue
				}
				if st, err := os.Stat(real); err != nil || !st.Mode().IsRegular() || len(toolchains.Secrets(host, real)) == 0 {
					continue // a tree of modules has texts that look like tokens, and is no settings
				}
				if g.Rights&sandboxprofile.Execute == 0 {
					found.Tokens = append(found.Tokens, fmt.Sprintf("%s is not shown: %s contains a token or a password: "+
						"move the secret to another file, and let git include it ([include] path = FILE)", path, file))
					return true
				}
				found.Secrets = append(found.Secrets, real)
			}
			return false
		})
	}
}

// repository adds to needs what git needs of the repository that a workspace belongs to,
// where that is not a part of it. What is configured stays as it is configured.
func repository(n *sandboxprofile.Needs, found *toolchains.Found, workspace string) {
	git := repositories.Find(workspace, n.Home)
	found.Unfollowed = git.Notes
	configured := n.Roots
	for _, r := range git.Roots {
		if slices.ContainsFunc(configured, func(c sandboxprofile.Root) bool { return sandboxprofile.Contains(c.Path, r.Path) }) {
			continue
		}
		n.Roots = append(n.Roots, r)
		found.Repository = append(found.Repository, r)
	}
	dirs := []string{filepath.Join(workspace, ".git")}
	for _, r := range git.Roots {
		dirs = append(dirs, r.Path)
	}
	for _, dir := range dirs {
		modules, _ := filepath.Glob(dir + "/modules/*/config") // or its name is a pattern
		for _, file := range append(modules, filepath.Join(dir, "config")) {
			if !readable(file) {
				continue
			}
			found.Readable = append(found.Readable, fmt.Sprintf("%s contains a token or a password, and every call can read it (git remote -v): "+
				"take it out (git remote set-url NAME URL), and let a credential helper of yours give it to git", approval.EscapeName(file))) // calls name submodules
		}
	}
}

// maxSettingsFile bounds what is looked at of a repository's settings, in bytes.
const maxSettingsFile = 64 << 10

// readable reports whether a repository's settings hold a token. git does not work without them, so that they cannot
// be hidden as those in HOME are (decision 0302).
func readable(file string) bool {
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
		return false // calls may have put it there
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettingsFile))
	return err == nil && LooksSecret(string(text))
}

// hostEnv is the environment that programs may get variables of.
func hostEnv(found toolchains.Found) []string {
	env := os.Environ()
	for i, kv := range env {
		if strings.HasPrefix(kv, "PATH=") {
			env[i] = "PATH=" + found.Path
		}
	}
	return env
}

// allowedNames are the variables that programs get. If no names are given, the result has
// the variables that exist and do not look like a secret; withheld are the others.
func allowedNames(cfg *config.Config) (names, withheld []string) {
	if cfg.Set("sandbox.env.allow") {
		return slices.Clone(cfg.Sandbox.Env.Allow), nil
	}
	shipped := config.Variables()
	for i, name := range cfg.Sandbox.Env.Allow {
		value, set := os.LookupEnv(name)
		switch {
		case i >= len(shipped) || name != shipped[i].Name: // of the command line
			names = append(names, name)
		case set && LooksSecret(name+"="+value):
			withheld = append(withheld, name)
		case set:
			names = append(names, name)
		}
	}
	return names, withheld
}
