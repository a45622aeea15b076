package assemble

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/gitsign"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools"
)

// WithSigning is d with what git needs for that, where the configuration lists the
// workspace's repository.
func (d Derived) WithSigning(cfg *config.Config) (Derived, error) {
	repository := cacheWorkspace(cfg.Vouched())
	if cfg.Git.Sign != config.Ask && cfg.Git.Sign != config.Allow || repository == "" ||
		!slices.ContainsFunc(cfg.Git.Repositories, func(dir string) bool { return sandboxprofile.Contains(dir, repository) }) {
		return d, nil
	}
	if d.Programs.Network.Mode == sandboxprofile.NetworkHost {
		d.warnings = append(d.warnings, "git.sign: signing does not work with the network of the host: programs there cannot reach sandgate")
		return d, nil
	}
	script, exe, err := signScript()
	if err != nil {
		return d, fmt.Errorf("git.sign: %w", err)
	}
	p := d.Programs
	p.Paths = maps.Clone(p.Paths)
	for _, path := range []string{script, exe} {
		p.Paths[path] |= p.Rights(path) | sandboxprofile.Read | sandboxprofile.Execute
	}
	own := hostrule.OwnRule(gitsign.Host, gitsign.Service)
	n := &p.Network
	if n.Mode == sandboxprofile.NetworkNone {
		n.Mode, n.Allow = sandboxprofile.NetworkProxied, [][]string{{own}}
	} else {
		n.Allow = slices.Clone(n.Allow)
		for i, list := range n.Allow {
			n.Allow[i] = append(slices.Clone(list), own)
		}
	}
	d.settings = map[string]string{"gpg.program": script, "gpg.openpgp.program": script, "gpg.ssh.program": script}
	p.Env.Names = append(slices.Clone(p.Env.Names), "GIT_CONFIG_COUNT")
	for i := range maxSettings {
		p.Env.Names = append(p.Env.Names, fmt.Sprintf("GIT_CONFIG_KEY_%d", i), fmt.Sprintf("GIT_CONFIG_VALUE_%d", i))
	}
	d.Programs = p.Normalize()
	d.signing = &gateway.Signing{Ask: cfg.Git.Sign == config.Ask, Signer: gitsign.Signer{Repository: repository, Home: d.Needs.Home}}
	return d, nil
}

// maxSettings bounds the settings that programs get by variables (git-config(1), ENVIRONMENT).
const maxSettings = 16

// signEnv is env with the settings of git that have it sign with sandgate, after those that
// are there.
func (d Derived) signEnv(env []string) []string {
	if len(d.settings) == 0 {
		return env
	}
	text, _ := tools.LookupEnv(env, "GIT_CONFIG_COUNT")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n+len(d.settings) > maxSettings {
		n = 0
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "GIT_CONFIG_COUNT=") })
	for _, name := range slices.Sorted(maps.Keys(d.settings)) {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, d.settings[name]))
		n++
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}

// signScript makes the program that git runs, and says where sandgate itself lies. git gives
// it arguments of its own, so that it has to be one word.
func signScript() (script, exe string, err error) {
	if exe, err = os.Executable(); err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", "", err
	}
	dir, err := statedir.Path("git-sign")
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", "", err
	}
	script = filepath.Join(dir, "sign")
	text := "#!/bin/sh\nexec " + tools.QuoteWord(exe) + " git-sign \"$@\"\n"
	if have, err := os.ReadFile(script); err == nil && string(have) == text {
		return script, exe, nil
	}
	if err := atomicfile.WriteFile(script, []byte(text), 0o700); err != nil {
		return "", "", err
	}
	return script, exe, nil
}
