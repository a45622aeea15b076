package gitsign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Signer signs with the key that this user's own configuration of git names.
type Signer struct {
	Repository string // whose settings decide between several keys of the user (includeIf)
	Home       string
}

// signTime is for a key that wants to be touched, or a program that asks for a passphrase
// in a window of its own.
const signTime = 2 * time.Minute

// programDirs are where git, ssh-keygen and gpg are found. Not on PATH: a virtual environment
// in the workspace may be on it, and what lies there would run outside. For the same reason
// no program is run that settings of git name.
var programDirs = []string{"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin"}

func program(name string) (string, error) {
	for _, dir := range programDirs {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed in %s", name, strings.Join(programDirs, ", "))
}

// Key is the key of the user for a format, as the user's own settings have it. Those of the
// repository do not count: a program in the sandbox may have written them.
func (s Signer) Key(ctx context.Context, f Format) (string, error) {
	git, err := program("git")
	if err != nil {
		return "", err
	}
	// git reads those of the repository too, and they may include a file that a program made: a
	// FIFO, or one without end.
	ctx, cancel := context.WithTimeout(ctx, settingsTime)
	defer cancel()
	cmd := s.command(ctx, git, "-C", s.Repository, "config", "--list", "-z", "--show-scope", "--includes")
	out, err := output(cmd, maxSettings)
	if err != nil {
		return "", fmt.Errorf("read the settings of git: %w", err)
	}
	format, key := string(OpenPGP), ""
	fields := strings.Split(string(out), "\x00")
	for pair := range slices.Chunk(fields, 2) {
		if len(pair) < 2 || pair[0] != "global" && pair[0] != "system" {
			continue
		}
		switch name, value, _ := strings.Cut(pair[1], "\n"); name {
		case "user.signingkey":
			key = value
		case "gpg.format":
			format = value
		}
	}
	switch {
	case key == "":
		return "", errors.New("user.signingkey is not set in your own settings of git (git config --global)")
	case format != string(f):
		return "", fmt.Errorf("gpg.format is %q in your own settings of git (git config --global), and %q was asked for", format, f)
	}
	return key, nil
}

const (
	settingsTime = 10 * time.Second
	maxSettings  = 4 << 20 // bytes
)

// output is the output of a program, up to a number of bytes.
func output(cmd *exec.Cmd, most int64) ([]byte, error) {
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(pipe, most+1))
	if int64(len(out)) > most {
		err = fmt.Errorf("it prints more than %d bytes", most)
		_ = cmd.Process.Kill()
	}
	return out, errors.Join(err, cmd.Wait())
}

// command is a program without a terminal: the one that there is belongs to the program inside.
func (s Signer) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	for _, kv := range os.Environ() { // a repository of the caller's is not meant
		if !strings.HasPrefix(kv, "GIT_") || strings.HasPrefix(kv, "GIT_CONFIG_GLOBAL=") || strings.HasPrefix(kv, "GIT_CONFIG_SYSTEM=") || strings.HasPrefix(kv, "GIT_CONFIG_NOSYSTEM=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	return cmd
}

// Asked reports whether the key of r is key.
func (s Signer) Asked(r Request, key string) bool {
	if r.Format != SSH {
		return r.Key == key
	}
	if text, ok := literal(key); ok {
		return strings.TrimSpace(r.KeyText) == text
	}
	return s.file(r.Key) == s.file(key)
}

// literal is a public key that stands in the settings itself.
func literal(key string) (string, bool) {
	text, ok := strings.CutPrefix(key, "key::")
	return strings.TrimSpace(text), ok || strings.HasPrefix(key, "ssh-")
}

// file is a key's file, as git reads the path of one.
func (s Signer) file(key string) string {
	if rest, ok := strings.CutPrefix(key, "~/"); ok {
		return filepath.Join(s.Home, rest)
	}
	return key
}

// Sign signs an object that Parse has read, with a key of Key's.
func (s Signer) Sign(ctx context.Context, f Format, key string, object []byte) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	var cmd *exec.Cmd
	switch f {
	case SSH:
		keygen, err := program("ssh-keygen")
		if err != nil {
			return Reply{}, err
		}
		file := s.file(key)
		if text, ok := literal(key); ok {
			dir, err := os.MkdirTemp("", "sandgate-key-")
			if err != nil {
				return Reply{}, err
			}
			defer os.RemoveAll(dir)
			file = filepath.Join(dir, "key.pub")
			if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
				return Reply{}, err
			}
		}
		cmd = s.command(ctx, keygen, "-Y", "sign", "-n", "git", "-f", file)
	case OpenPGP:
		gpg, err := program("gpg")
		if err != nil {
			return Reply{}, err
		}
		cmd = s.command(ctx, gpg, "--batch", "--no-tty", "--status-fd=2", "-bsau", key)
	default:
		return Reply{}, fmt.Errorf("gpg.format %.20q is not signed here: ssh and openpgp are", f)
	}
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(object), &out, &said
	err := cmd.Run()
	if err == nil && !strings.HasPrefix(out.String(), "-----BEGIN ") {
		err = errors.New("it wrote no signature")
	}
	if err != nil {
		text := strings.TrimSpace(said.String())
		return Reply{}, fmt.Errorf("%s: %w: %.400s", filepath.Base(cmd.Path), err, text)
	}
	r := Reply{Signature: out.Bytes()}
	if f == OpenPGP {
		r.Status = said.Bytes()
	}
	return r, nil
}
