package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/internal/units"
)

func newCacheCmd(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "cache",
		Short: "List and empty the caches of workspaces",
		Long: `Each workspace has a cache directory for compilers and package managers, below the state
directory ($XDG_STATE_HOME/sandgate/cache). Only sandboxes of that workspace see it. All
caches together take up to ` + units.Size(assemble.MaxCaches).String() + "; beyond that, the least recently used ones are emptied.",
		Example: "  sandgate cache\n  sandgate cache clear\n  sandgate cache clear --all",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := everyCache()
			switch {
			case err != nil:
				return err
			case asJSON:
				return cli.PrintJSON(a.Out, append([]assemble.KeptCache{}, list...))
			case len(list) == 0:
				fmt.Fprintln(a.Out, "no workspace has a cache")
				return nil
			}
			tw := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "WORKSPACE\tUSED\tSIZE\tDIRECTORY")
			for _, c := range list {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", approval.EscapeName(c.Workspace), c.Used.Local().Format(time.DateTime), c.Amount(), approval.EscapeLine(c.Dir))
			}
			return tw.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(newCacheClearCmd(a))
	return c
}

func newCacheClearCmd(a *cli.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:     "clear",
		Short:   "Empty the cache of this workspace",
		Example: "  sandgate cache clear\n  sandgate cache clear --all",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := everyCache()
			if err != nil {
				return err
			}
			if !all {
				cfg, err := settings.LoadAndWarn(a, "", "")
				if err != nil {
					return err
				}
				own := filepath.Dir(assemble.CacheOf(cfg))
				list = slices.DeleteFunc(list, func(c assemble.KeptCache) bool { return c.Dir != own })
			}
			for _, c := range list {
				err := c.Use(func() error { return assemble.RemoveTree(filepath.Dir(c.Dir), filepath.Base(c.Dir)) })
				if errors.Is(err, syscall.EWOULDBLOCK) {
					err = cli.WithHint(fmt.Errorf("the cache of %s is in use", c.Workspace), "stop the sandgate that runs there, then try again")
				}
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return cli.WithStatus(cli.ExitInternal, err)
				}
				fmt.Fprintf(a.Out, "emptied: %s, %s\n", approval.EscapeName(c.Workspace), c.Amount())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "empty the caches of all workspaces")
	return c
}

func everyCache() ([]assemble.KeptCache, error) {
	dir, err := assemble.CachesDir()
	if err != nil {
		return nil, err
	}
	list, err := assemble.KeptCaches(dir)
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return list, nil
}
