package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// shells lists what completion scripts can be made for.
var shells = []string{"bash", "zsh", "fish"}

func newCompletionCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a shell completion script",
		Long: `completion prints a script that completes sandgate's commands and flags.

To try it in a running bash, use the first example. To keep it, save the script where the
shell looks for it: /etc/bash_completion.d/sandgate, a directory of zsh's fpath under the
name _sandgate, or ~/.config/fish/completions/sandgate.fish.`,
		Example: `  source <(sandgate completion bash)
  sandgate completion zsh > "${fpath[1]}/_sandgate"
  sandgate completion fish > ~/.config/fish/completions/sandgate.fish`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			return complete(a, c.Root(), args[0])
		},
	}
}

func complete(a *cli.App, root *cobra.Command, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(cli.Bare(a.Out), true)
	case "zsh":
		return root.GenZshCompletion(cli.Bare(a.Out))
	case "fish":
		return root.GenFishCompletion(cli.Bare(a.Out), true)
	}
	return cli.WithHint(cli.UsageError(fmt.Errorf("completion: unknown shell %q", shell)), "one of bash, zsh, fish")
}
