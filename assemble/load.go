package assemble

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/config/trust"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Env is the environment that a configuration depends on, for this process.
func Env() (config.Env, error) {
	env, err := config.HostEnv()
	if err != nil {
		return env, internalError(err)
	}
	env.CheckPattern = checkPattern
	env.Presets, env.Profiles = profiles.PresetNames(), profiles.OperatorNames()
	env.ReservedTools = ReservedTools()
	env.Trusted = trusted
	return env, nil
}

// trusted implements config.Env.Trusted.
func trusted(file, digest string) (bool, error) {
	path, err := trust.DefaultPath()
	if err != nil {
		return false, err
	}
	return trust.At(path).Trusts(file, digest)
}

// checkPattern is sandboxprofile.ParsePattern without the pattern in its error:
// the configuration's own message names it.
func checkPattern(pattern string) error {
	err := sandboxprofile.ParsePattern(pattern)
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// Load is the one way to get a configuration: what applies
// if file is named with --config, and workspace with --workspace; "" is neither.
func Load(file, workspace string) (*config.Config, config.Found, error) {
	env, err := Env()
	if err != nil {
		return nil, config.Found{}, err
	}
	env.File, env.Workspace = file, workspace
	c, found, err := config.Resolve(env)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, found, hinted(configError(err), "sandgate does not start without knowing that file: give this user access to the directory, or set HOME and XDG_CONFIG_HOME to directories that the user can read")
	case errors.Is(err, syscall.ENOTCONN):
		return nil, found, hinted(configError(err), "the server of that file system does not respond: mount it again, or work in another directory")
	case err != nil:
		return nil, found, configError(err)
	}
	return c, found, nil
}

// UnusedText says in a line for people that a value of a file has no effect.
func UnusedText(n config.Notice) string {
	return approval.EscapeLine(fmt.Sprintf("%s: %s: not used, as the file is not trusted: %s", n.Position, n.Field, n.Text))
}

// Self is who calls a supervisor of this process without a socket.
func Self() unixsock.Peer {
	return unixsock.Self()
}
