package main

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
)

// newInDraftCmd is the command that
// startMounted starts.
func newInDraftCmd(a *cli.App) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "in-draft --dir DIRECTORY DRAFT -- ARG...", Short: "Carry out, over a draft, what `sandgate run --review` starts", Args: cobra.MinimumNArgs(2), Hidden: true,
		Example: "  sandgate in-draft --dir . DRAFT -- run -- true",
		RunE:    func(_ *cobra.Command, args []string) error { return draft.Inside(args[0], dir, args[1:]) },
	}
	c.Flags().StringVar(&dir, "dir", ".", "the working `directory`")
	return c
}
