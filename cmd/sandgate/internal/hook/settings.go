package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/adapters/hooks"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/internal/atomicfile"
)

// changeSettings prints or writes a runtime's settings with the hook, or without it.
func changeSettings(a *cli.App, f hookFlags, cmd *cobra.Command, runtime *hooks.Runtime) error {
	path, err := f.settingsPath(runtime)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	before, perm, err := readSettings(path)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	var after []byte
	if f.install {
		after, err = installHook(f, cmd, runtime, before)
	} else {
		after, err = runtime.Uninstall(before)
	}
	if err != nil {
		return cli.WithHint(cli.UsageError(fmt.Errorf("%s: %w", path, err)), "fix the file, or name another with --settings")
	}
	if f.install {
		for _, note := range runtime.AfterInstall() {
			fmt.Fprintf(a.Err, "sandgate: note: %s\n", note)
		}
	}
	if !f.write {
		_, err := cli.Bare(a.Out).Write(after)
		return err
	}
	if string(after) == string(before) {
		fmt.Fprintf(a.Err, "sandgate: %s is up to date\n", path)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	if err := atomicfile.WriteFile(path, after, perm); err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	fmt.Fprintf(a.Err, "sandgate: wrote %s\n", path)
	return nil
}

// settingsPath is the file itself where it is a link, as in collections of settings that
// are kept elsewhere.
func (f *hookFlags) settingsPath(runtime *hooks.Runtime) (string, error) {
	path := f.settings
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = runtime.SettingsFile(home, os.Getenv)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return resolved, err
}

// readSettings gives a file and its mode; one that is not there is empty.
func readSettings(path string) ([]byte, fs.FileMode, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	return data, st.Mode().Perm(), nil
}

// installHook puts the hook in, with the flags that were given beside --install.
func installHook(f hookFlags, cmd *cobra.Command, runtime *hooks.Runtime, settings []byte) ([]byte, error) {
	program, err := ownPath()
	if err != nil {
		return nil, err
	}
	argv := []string{program, "hook", runtime.Name}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "install", "write", "settings":
		case "socket":
			if path, err := f.socketPath(); err == nil {
				argv = append(argv, "--socket="+path)
			}
		default:
			argv = append(argv, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	return runtime.Install(settings, argv, f.timeout+hookSlack)
}
