package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// shells lists what completion scripts can be made for.
var shells = []string{"bash", "zsh", "fish"}

func newCompletionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a shell completion script",
		Long: `Print a script that teaches a shell to complete sandgate's commands and flags.

Try it in a running bash with the first example. To keep it, write it to where
the shell looks: /etc/bash_completion.d/sandgate, a directory of zsh's fpath
under the name _sandgate, or ~/.config/fish/completions/sandgate.fish.`,
		Example: `  source <(sandgate completion bash)
  sandgate completion zsh > "${fpath[1]}/_sandgate"
  sandgate completion fish > ~/.config/fish/completions/sandgate.fish`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			return a.complete(c.Root(), args[0])
		},
	}
}

func (a *app) complete(root *cobra.Command, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(bare(a.out), true)
	case "zsh":
		return root.GenZshCompletion(bare(a.out))
	case "fish":
		return root.GenFishCompletion(bare(a.out), true)
	}
	return withHint(usageError(fmt.Errorf("completion: unknown shell %q", shell)), "one of bash, zsh, fish")
}
