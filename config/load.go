package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// An Env holds the inputs, besides its text, that the meaning of a configuration depends on.
type Env struct {
	Cwd  string // absolute; relative paths of the command line start here
	Home string // absolute; what "~/" stands for, or "" if there is none
	// ConfigHome and AdminDir are where Find looks for sandgate/sandgate.yaml
	// and sandgate.yaml; "" is nowhere.
	ConfigHome string
	AdminDir   string
	// File is the value of --config, or "".
	File string
	// Workspace is the root of the default workspace; "" is Cwd. It applies to
	// configurations without `sandbox.paths`, and is where the workspace's file lies.
	Workspace string
	// Trusted reports, by its TrustDigest, whether a person has trusted a file of a workspace; nil
	// trusts none.
	Trusted func(file, digest string) (bool, error)
	// Presets and Profiles are the shipped names; nil leaves names unchecked.
	Presets, Profiles []string
	// ReservedTools are names that a custom tool cannot have.
	ReservedTools []string
	// CheckPattern says what is wrong with a pattern of `protect` or `hide`; nil
	// leaves them unchecked.
	CheckPattern func(pattern string) error
}

// AdminDir is where the administrator's configuration lies.
const AdminDir = "/etc/sandgate"

// HostEnv is the Env of this process. Names of presets and profiles are the
// caller's to add.
func HostEnv() (Env, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return Env{}, &placeError{err}
	}
	env := Env{Cwd: cwd, AdminDir: AdminDir}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		env.Home = home
		env.ConfigHome = filepath.Join(home, ".config")
	}
	// The XDG base directory specification: a relative path is invalid and ignored.
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		env.ConfigHome = dir
	}
	return env, nil
}

// A placeError says that there is no current directory.
type placeError struct{ err error }

func (e *placeError) Error() string {
	return "config: the current directory cannot be found: " + e.err.Error()
}
func (e *placeError) Unwrap() error { return e.err }

// Hint says what helps.
func (e *placeError) Hint() string {
	return "cd to an existing directory: this one was removed, or you cannot access one above it"
}

// Load reads a configuration file that the caller trusts. What is wrong with
// its content is an *Error.
func Load(path string, env Env) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	return read(f, path, env)
}

func read(f *os.File, name string, env Env) (*Config, error) {
	data, err := readBounded(f)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(data, name, env)
}

// readBounded reads enough of a file to see that it is too large.
func readBounded(f *os.File) ([]byte, error) { return io.ReadAll(io.LimitReader(f, maxFile+1)) }

// Parse is Load for the bytes of a file. The name is used in messages, and its
// directory for relative paths.
func Parse(data []byte, file string, env Env) (*Config, error) {
	doc, err := parseDocument(data, file)
	if err != nil {
		return nil, err
	}
	c := defaults()
	d := newDecoder(file)
	d.root(doc, c)
	c.File = absolute(file, env.Cwd)
	c.Digest = digest(data)
	return finish(c, d, filepath.Dir(c.File), env)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Default returns the configuration without a file: writes to the workspace and other commands
// need approval, reading does not, and there is no network and no way around the sandbox.
func Default(workspace string) (*Config, error) {
	env, err := HostEnv()
	if err != nil {
		return nil, err
	}
	env.Workspace = workspace
	return embedded(env)
}

func embedded(env Env) (*Config, error) {
	d := newDecoder("")
	c := defaults()
	c.Origins = d.origins
	return finish(c, d, env.Cwd, env)
}

// finish resolves paths and checks what single values cannot show.
func finish(c *Config, d *decoder, base string, env Env) (*Config, error) {
	if !d.bad["sandbox"] && !d.bad["sandbox.paths"] && !c.Set("sandbox.paths") {
		root := env.Workspace
		if root == "" {
			root = env.Cwd
		}
		c.Sandbox.Paths = []Path{{
			Name: "workspace", Root: absolute(root, env.Cwd), Mode: ReadWrite, WriteApproval: true,
		}}
	}
	c.applyPolicy()
	k := &checker{c: c, d: d, base: base, env: env}
	k.all()
	if err := newError(d.file, d.problems); err != nil {
		return nil, err
	}
	return c, nil
}

// absolute makes path absolute against dir, without looking at the disk.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// expand makes a path of the configuration absolute: "~/" is the home
// directory, and a relative path starts at base.
func expand(path, base, home string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("the path is empty")
	case strings.ContainsRune(path, 0):
		return "", errors.New("the path contains a zero byte")
	case path == "~" || strings.HasPrefix(path, "~/"):
		if home == "" {
			return "", errors.New("~ cannot be expanded: there is no home directory")
		}
		return filepath.Join(home, path[1:]), nil
	case path[0] == '~':
		return "", errors.New("~USER is not supported; write the full path")
	}
	return absolute(path, base), nil
}
