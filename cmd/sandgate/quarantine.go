package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/confine/quarantine"
)

// quarantineCmd is shared by its subcommands.
type quarantineCmd struct {
	*cli.App
	asJSON bool
}

func newQuarantineCmd(a *cli.App) *cobra.Command {
	x := &quarantineCmd{App: a}
	c := &cobra.Command{
		Use:   "quarantine",
		Short: "Inspect, restore or delete files that calls planted",
		Long: `Calls can leave files that your own programs would run later, such as a git hook or a
shell startup file. sandgate moves them into the quarantine before the call's result is
sent. The quarantine is in the state directory ($XDG_STATE_HOME/sandgate/quarantine), with
one item per call that records where each file was and why it was taken. Do not trust
these files: inspect them before you restore them.`,
		Example: "  sandgate quarantine list\n  sandgate quarantine show ID\n  sandgate quarantine restore ID 0",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.PersistentFlags().BoolVar(&x.asJSON, "json", false, "print JSON")
	c.AddCommand(x.list(), x.show(), x.restore(), x.drop())
	return c
}

func (x *quarantineCmd) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List items, oldest first", Args: cobra.NoArgs,
		Example: "  sandgate quarantine list --json",
		RunE: x.withStore(func(s *quarantine.Store, _ []string) error {
			items, err := s.List()
			if err != nil {
				return cli.WithStatus(cli.ExitInternal, err)
			}
			if x.asJSON {
				return cli.PrintJSON(x.Out, append([]quarantine.Item{}, items...))
			}
			return printItems(x.Out, items)
		}),
	}
}

func (x *quarantineCmd) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one item: each file, its digest and where its content is", Args: cobra.ExactArgs(1),
		Example: "  sandgate quarantine show ID",
		RunE: x.withStore(func(s *quarantine.Store, args []string) error {
			item, err := s.Get(args[0])
			if err != nil {
				return quarantineStatus(err)
			}
			if x.asJSON {
				return cli.PrintJSON(x.Out, item)
			}
			return printItem(x.Out, item)
		}),
	}
}

func (x *quarantineCmd) restore() *cobra.Command {
	return &cobra.Command{
		Use: "restore ID [N]", Short: "Restore an item, or entry N of it, to where it was", Args: cobra.RangeArgs(1, 2),
		Long: `restore never overwrites a file, and refuses an item that changed after it was taken. Once
a file is back, it is protected from the next call on: tools cannot change it.`,
		Example: "  sandgate quarantine restore ID 0",
		RunE: x.withStore(func(s *quarantine.Store, args []string) error {
			entries, err := chosen(s, args)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if err := s.Restore(args[0], e.N); err != nil {
					return quarantineStatus(err)
				}
				fmt.Fprintf(x.Err, "sandgate: restored %s\n", approval.EscapeName(e.Path))
			}
			return nil
		}),
	}
}

func (x *quarantineCmd) drop() *cobra.Command {
	return &cobra.Command{
		Use: "drop ID...", Short: "Delete items and their content", Args: cobra.MinimumNArgs(1),
		Example: "  sandgate quarantine drop ID",
		RunE: x.withStore(func(s *quarantine.Store, ids []string) error {
			for _, id := range ids {
				if err := s.Drop(id); err != nil {
					return quarantineStatus(err)
				}
			}
			return nil
		}),
	}
}

// chosen are the entries that restore's arguments name: those of the item that
// are still kept, or one of them.
func chosen(s *quarantine.Store, args []string) ([]quarantine.Entry, error) {
	item, err := s.Get(args[0])
	if err != nil {
		return nil, quarantineStatus(err)
	}
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 || n >= len(item.Entries) {
			return nil, cli.WithHint(cli.UsageError(fmt.Errorf("%q is not an entry of %s", args[1], item.ID)), "see `sandgate quarantine show "+item.ID+"`")
		}
		return item.Entries[n : n+1], nil
	}
	var kept []quarantine.Entry
	for _, e := range item.Entries {
		if e.Kept() {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

func (x *quarantineCmd) withStore(do func(*quarantine.Store, []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		s, err := assemble.OpenQuarantine()
		if err != nil {
			return err
		}
		return do(s, args)
	}
}

// quarantineStatus tells a name that is not there from what could not be done.
func quarantineStatus(err error) error {
	if errors.Is(err, quarantine.ErrNotFound) {
		return cli.WithHint(cli.WithStatus(cli.ExitUsage, err), "see `sandgate quarantine list`")
	}
	return cli.WithStatus(cli.ExitFound, err)
}

func printItems(w io.Writer, items []quarantine.Item) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tCALL\tENTRIES\tFIRST")
	for _, x := range items {
		call, first := "", "the quarantine is empty"
		if len(x.Entries) > 0 {
			call, first = approval.EscapeName(x.Entries[0].Call), approval.EscapeName(x.Entries[0].Path)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", x.ID, call, len(x.Entries), first)
	}
	return tw.Flush()
}

func printItem(w io.Writer, x quarantine.Item) error {
	for _, e := range x.Entries {
		fmt.Fprintf(w, "%d  %s\n", e.N, approval.EscapeName(e.Path))
		tw := tabwriter.NewWriter(w, 3, 0, 2, ' ', 0)
		row := func(name, value string) {
			if value != "" {
				fmt.Fprintf(tw, "   %s\t%s\n", name, approval.EscapeLine(value))
			}
		}
		row("why", e.Reason)
		row("call", e.Call)
		row("taken", e.Taken.Format(time.RFC3339))
		row("what", fmt.Sprintf("%s %s, %s, %d bytes", e.Kind, e.Mode, cli.Plural(e.Files, "file", "files"), e.Size))
		row("leads to", e.Target)
		row("sha256", e.SHA256)
		if e.Kept() {
			row("now at", x.Content(e.N))
		} else {
			row("now at", "no longer there")
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}
