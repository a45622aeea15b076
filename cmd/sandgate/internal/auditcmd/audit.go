package auditcmd

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// Command holds what the audit commands share.
type Command struct {
	*cli.App
	Log    string // --log
	AsJSON bool   // --json
}

func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read and verify the audit log",
		Long: `The audit log has one entry when a call is decided and another when it ends. Each entry
contains the hash of the one before it. docs/audit.md describes the format.`,
		Example: "  sandgate audit tail --follow\n  sandgate audit verify",
		Args:    cobra.NoArgs, // or else a misspelt subcommand would print the help and succeed
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	x := &Command{App: a}
	c.PersistentFlags().StringVar(&x.Log, "log", "", "read the log `FILE` (default: in the state directory)")
	c.AddCommand(x.tail(), x.show(), x.query(), x.verify(), x.export(), x.replay())
	return c
}

func (x *Command) jsonFlag(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&x.AsJSON, "json", false, "print JSON, one object per line")
	return c
}

func (x *Command) Path() (string, error) {
	if x.Log != "" {
		return x.Log, nil
	}
	path, err := audit.DefaultPath()
	if err != nil {
		return "", cli.WithHint(cli.UsageError(err), "name the log with --log")
	}
	return path, nil
}

func (x *Command) tail() *cobra.Command {
	var n int
	var follow bool
	c := &cobra.Command{
		Use:     "tail",
		Short:   "Print the last entries of the log",
		Example: "  sandgate audit tail -n 20\n  sandgate audit tail --follow --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 0 {
				return cli.UsageError(fmt.Errorf("-n %d: want 0 or more", n))
			}
			path, err := x.Path()
			if err != nil {
				return err
			}
			if !follow {
				return x.print(audit.Tail(path, n))
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return x.print(audit.Follow(ctx, path, n, followEvery))
		},
	}
	c.Flags().IntVarP(&n, "lines", "n", 10, "print the last `N` entries")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new entries until interrupted")
	return x.jsonFlag(c)
}

// followEvery is how long a new entry may wait until `audit tail --follow` shows it.
const followEvery = 200 * time.Millisecond

func (x *Command) show() *cobra.Command {
	c := &cobra.Command{
		Use:     "show CALL|SEQ",
		Short:   "Print everything in the log about a call, or one entry by number",
		Example: "  sandgate audit show call-7\n  sandgate audit show 42 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := x.Path()
			if err != nil {
				return err
			}
			found, err := x.collect(path, args[0])
			if err == nil && len(found) == 0 {
				err = cli.WithStatus(cli.ExitFound, fmt.Errorf("audit: no entry with call or number %q in %q", args[0], path))
			}
			if err != nil {
				return err
			}
			return x.printWhole(found)
		},
	}
	return x.jsonFlag(c)
}

// collect returns the entries whose call is name, or whose number it is.
func (x *Command) collect(path, name string) ([]audit.Entry, error) {
	seq, err := strconv.ParseUint(name, 10, 64)
	isSeq := err == nil
	var found []audit.Entry
	for e, err := range audit.Query(path, audit.Filter{}) {
		var bad *audit.ChainError
		if errors.As(err, &bad) {
			continue // verify tells about bad lines
		}
		if err != nil {
			return nil, x.Unreadable(err)
		}
		if e.Call == name || isSeq && e.Seq == seq {
			found = append(found, e)
		}
	}
	return found, nil
}

// print prints entries one a line. Bad lines are reported on stderr, and make the
// status 1 at the end.
func (x *Command) print(entries iter.Seq2[audit.Entry, error]) error {
	broken := false
	for e, err := range entries {
		var bad *audit.ChainError
		switch {
		case errors.As(err, &bad):
			broken = true
			x.App.Complain(err)
		case err != nil:
			return x.Unreadable(err)
		default:
			if err := x.PrintEntry(e); err != nil {
				return err
			}
		}
	}
	if broken {
		return &cli.StatusError{Code: cli.ExitFound}
	}
	return nil
}

func (x *Command) PrintEntry(e audit.Entry) error {
	if !x.AsJSON {
		_, err := fmt.Fprintln(x.Out, Line(e))
		return err
	}
	line, err := e.Line()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cli.JSON(x.Out), "%s\n", line)
	return err
}

func (x *Command) printWhole(entries []audit.Entry) error {
	for i, e := range entries {
		if x.AsJSON {
			if err := x.PrintEntry(e); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(x.Out)
		}
		if _, err := fmt.Fprint(x.Out, entryWhole(e)); err != nil {
			return err
		}
	}
	return nil
}

// Unreadable is a log that cannot be read at all.
func (x *Command) Unreadable(err error) error {
	err = cli.WithStatus(cli.ExitInternal, err)
	if errors.Is(err, os.ErrNotExist) {
		return cli.WithHint(err, "no call has been logged there yet; name another log with --log")
	}
	return err
}
