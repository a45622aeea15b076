package configcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/atomicfile"
)

func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check, create and explain configuration files",
		Long: `sandgate merges up to three configuration files:

  - the administrator's, /etc/sandgate/sandgate.yaml, which must be owned by root and
    limits the others;
  - yours, $XDG_CONFIG_HOME/sandgate/sandgate.yaml, or the one named with --config;
  - sandgate.yaml in the workspace. Until you trust it, it can only narrow permissions:
    anyone who can write to the workspace could otherwise decide what is allowed.

Without any file, the built-in default applies.`,
		Example: "  sandgate config init\n  sandgate config check sandgate.yaml",
		Args:    cobra.NoArgs, // or else a misspelt subcommand would print the help and succeed
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newConfigCheckCmd(a), newConfigDiffCmd(a), newConfigInitCmd(a), newConfigSchemaCmd(a), newConfigShowCmd(a), newConfigTrustCmd(a))
	return c
}

func newConfigInitCmd(a *cli.App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a commented starter configuration",
		Long: `init writes sandgate.yaml into DIR (default: the current directory), with DIR as the
workspace. The new file allows the registries of the package managers that it finds in
DIR, and asks about any other host. The file only narrows permissions until you run
` + "`sandgate config trust`" + " or name it with --config.",
		Example: "  sandgate config init\n  sandgate config init ~/work/project --force",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return initConfig(a, filepath.Join(dir, config.FileName), force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return c
}

func initConfig(a *cli.App, path string, force bool) error {
	files := settings.NamesIn(filepath.Dir(path))
	text := config.Init("", files...)
	if force {
		if err := atomicfile.WriteFile(path, text, 0o600); err != nil {
			return cli.UsageError(fmt.Errorf("config init: %w", err))
		}
	} else if err := settings.CreateFile(path, text); errors.Is(err, fs.ErrExist) {
		return cli.WithHint(cli.UsageError(fmt.Errorf("config init: %w", err)), "--force overwrites it")
	} else if err != nil {
		return cli.UsageError(fmt.Errorf("config init: %w", err))
	}
	listed := ""
	if names, hosts := config.Registries(files); len(hosts) > 0 {
		listed = fmt.Sprintf("allowed hosts, because of %s: %s\n", strings.Join(names, ", "), strings.Join(hosts, ", "))
	}
	_, err := fmt.Fprintf(a.Out, "wrote %s\n%sto use it: sandgate config trust %s\n", path, listed, path)
	return err
}

func newConfigSchemaCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files, for editors",
		Long: `schema prints the JSON Schema (draft 2020-12) of sandgate.yaml. Editors with a YAML
language server complete and check keys with it; put this line on top of the file:
  # yaml-language-server: $schema=./sandgate.schema.json`,
		Example: "  sandgate config schema > sandgate.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := cli.Bare(a.Out).Write(config.Schema())
			return err
		},
	}
}
