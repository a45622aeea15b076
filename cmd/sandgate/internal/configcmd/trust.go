package configcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/config/trust"
)

type trustFlags struct{ list, revoke, yes, json bool }

func newConfigTrustCmd(a *cli.App) *cobra.Command {
	var f trustFlags
	c := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Trust a workspace's sandgate.yaml as it is now",
		Long: `trust records that you have read FILE (default: sandgate.yaml in the current directory)
and want all of it to apply, including what widens permissions. It shows what the file
would widen, and asks. The record covers the file's content, its location, and where its
paths lead. When any of these changes, the file can only narrow again. Limits of the
administrator's file still apply.

A running supervisor keeps the configuration that it started with.`,
		Example: "  sandgate config trust\n  sandgate config trust ~/work/project/sandgate.yaml --yes\n  sandgate config trust --list --json\n  sandgate config trust --revoke",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file := config.FileName
			if len(args) == 1 {
				file = args[0]
			}
			path, err := trust.DefaultPath()
			if err != nil {
				return cli.WithStatus(cli.ExitInternal, err)
			}
			store := trust.At(path)
			switch {
			case f.list && len(args) == 0:
				return listTrusted(a, store, f.json)
			case f.list:
				return cli.UsageError(errors.New("config trust: --list does not take FILE"))
			case f.json:
				return cli.UsageError(errors.New("config trust: --json needs --list"))
			case f.revoke:
				return revokeTrust(a, store, file)
			}
			return trustFile(a, store, file, f.yes)
		},
	}
	c.Flags().BoolVar(&f.list, "list", false, "list trusted files, and whether they have changed")
	c.Flags().BoolVar(&f.revoke, "revoke", false, "stop trusting FILE: it can only narrow permissions again")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&f.json, "json", false, "with --list: print JSON")
	c.MarkFlagsMutuallyExclusive("list", "revoke", "yes")
	return c
}

// trust shows what file would do, asks, and records it as it was shown.
func trustFile(a *cli.App, store *trust.Store, file string, yes bool) error {
	shown, err := readUntrusted(file)
	if err != nil {
		return err
	}
	switch already, err := store.Trusts(shown.file, shown.digest); {
	case err != nil:
		return cli.UsageError(err)
	case already:
		_, err := fmt.Fprintf(a.Out, "%s is trusted already\n", shown.file)
		return err
	}
	shown.print(a.Err)
	if !yes {
		if err := terminal.Confirm("config trust", "trust it as it is now?", "read the file, then add --yes"); err != nil {
			return err
		}
	}
	if err := store.Add(trust.Entry{File: shown.file, Digest: shown.digest, Since: time.Now().UTC().Truncate(time.Second)}); err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	_, err = fmt.Fprintf(a.Out, "trusted %s\n", shown.file)
	return err
}

// An untrusted is a file of a workspace, and what it would do if it were trusted.
type untrusted struct {
	file, digest string
	content      string
	unused       []config.Notice
}

// readUntrusted loads what applies where file lies, with no trust in the file. The
// digest is of what was read for that, once.
func readUntrusted(file string) (untrusted, error) {
	var u untrusted
	env, err := workspaceOf(file)
	if err != nil {
		return u, err
	}
	found := false
	env.Trusted = func(file, digest string) (bool, error) {
		u.file, u.digest, found = file, digest, true
		return false, nil
	}
	c, _, err := config.Resolve(env)
	switch {
	case err != nil:
		return u, cli.UsageError(err)
	case !found:
		if _, err := os.Lstat(env.WorkspaceFile()); err != nil {
			return u, cli.WithHint(cli.UsageError(fmt.Errorf("config trust: %w", err)), "`sandgate config init` writes one")
		}
		return u, cli.UsageError(fmt.Errorf("config trust: %s already applies as the user's or the administrator's file", env.WorkspaceFile()))
	}
	u.unused = c.Unused
	for _, s := range c.Sources {
		if s.Tier == config.TierWorkspace {
			u.content = s.Digest
		}
	}
	return u, nil
}

// workspaceOf is the Env in whose workspace file lies.
func workspaceOf(file string) (config.Env, error) {
	env, err := assemble.Env()
	if err != nil {
		return env, err
	}
	if filepath.Base(file) != config.FileName {
		return env, cli.WithHint(cli.UsageError(fmt.Errorf("config trust: %s: in a workspace, sandgate only reads a file named %s", file, config.FileName)),
			"name it with --config to use it")
	}
	env.Workspace = filepath.Dir(file)
	return env, nil
}

func (u untrusted) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s\n", approval.EscapeName(u.file), u.content)
	if len(u.unused) == 0 {
		fmt.Fprintln(w, "does not widen what applies now")
		return
	}
	fmt.Fprintln(w, "would widen what applies:")
	for _, n := range u.unused {
		fmt.Fprintf(w, "  %d:%d: %s: %s\n", n.Position.Line, n.Position.Column, approval.EscapeName(n.Field), approval.EscapeLine(n.Text))
	}
}

func revokeTrust(a *cli.App, store *trust.Store, file string) error {
	env, err := workspaceOf(file)
	if err != nil {
		return err
	}
	file = env.WorkspaceFile()
	was, err := store.Revoke(file)
	switch {
	case err != nil:
		return cli.WithStatus(cli.ExitInternal, err)
	case !was:
		return cli.WithHint(cli.UsageError(fmt.Errorf("config trust: %s was not trusted", file)), "list trusted files with `sandgate config trust --list`")
	}
	_, err = fmt.Fprintf(a.Out, "%s can only narrow permissions from now on\n", file)
	return err
}

// A trustedFile is a file that somebody has vouched for, and its state now.
type trustedFile struct {
	trust.Entry
	State string `json:"state"` // trusted, changed, gone, broken
}

func listTrusted(a *cli.App, store *trust.Store, asJSON bool) error {
	entries, err := store.List()
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	list := []trustedFile{}
	for _, e := range entries {
		list = append(list, trustedFile{e, stateOf(e)})
	}
	if asJSON {
		return cli.PrintJSON(a.Out, map[string]any{"files": list})
	}
	for _, f := range list {
		fmt.Fprintf(a.Out, "%-8s %s  %s\n", f.State, f.Since.Format(time.DateOnly), approval.EscapeLine(f.File))
	}
	return nil
}

func stateOf(e trust.Entry) string {
	if _, err := os.Lstat(e.File); errors.Is(err, os.ErrNotExist) {
		return "gone"
	}
	switch now, err := readUntrusted(e.File); {
	case err != nil:
		return "broken"
	case now.digest != e.Digest:
		return "changed"
	}
	return "trusted"
}
