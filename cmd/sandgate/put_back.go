package main

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// newPutBackCmd is the command that an undo runs in
// its sandbox.
func newPutBackCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "put-back DIRECTORY", Short: "Carry out, in a sandbox, what `sandgate undo` has planned", Args: cobra.ExactArgs(1), Hidden: true,
		Example: "  sandgate put-back DIRECTORY < ORDER",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := changes.PutBack(args[0], a.In); err != nil {
				return cli.WithStatus(cli.ExitFound, err)
			}
			return nil
		},
	}
}
