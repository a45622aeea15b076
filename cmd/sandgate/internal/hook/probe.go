package hook

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/sandgate/sandgate/adapters/hooks"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// probeHook asks a runtime's own program whether it would run our hook here.
func probeHook(ctx context.Context, a *cli.App, runtime *hooks.Runtime) error {
	dir, err := os.Getwd()
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := runtime.Prober()
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	if err := cmd.Start(); err != nil {
		return cli.WithStatus(cli.ExitInternal, fmt.Errorf("start %s: %w", p.Argv[0], err))
	}
	err = p.Ask(dir, in, out)
	in.Close() // it ends, and what it has started
	time.AfterFunc(time.Second, cancel)
	_ = cmd.Wait()
	if err != nil {
		hint := fmt.Sprintf("sandgate does not control %s until the hook runs: start it in a terminal and trust the hook, or install it with `sandgate hook %[1]s --install --write`", runtime.Name)
		return cli.WithStatus(cli.ExitFound, cli.WithHint(fmt.Errorf("%s: %w", runtime.Name, err), hint))
	}
	fmt.Fprintf(a.Err, "sandgate: %s runs the hook before each tool\n", runtime.Name)
	return nil
}
