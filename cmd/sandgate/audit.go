package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/audit"
)

// auditCmd holds what the audit commands share.
type auditCmd struct {
	*app
	log    string // --log
	asJSON bool   // --json
}

func newAuditCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read and verify the audit log",
		Long: `The audit log has one entry when a call is decided and one when it ends, each
chained to the one before it by a hash. docs/audit.md describes the format.`,
		Example: "  sandgate audit tail --follow\n  sandgate audit verify",
		Args:    cobra.NoArgs,
	}
	x := &auditCmd{app: a}
	c.PersistentFlags().StringVar(&x.log, "log", "", "read the log `FILE` (default: the log in the state directory)")
	c.AddCommand(x.tail(), x.show(), x.query(), x.verify())
	return c
}

func (x *auditCmd) jsonFlag(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&x.asJSON, "json", false, "print JSON, one object a line")
	return c
}

func (x *auditCmd) path() (string, error) {
	if x.log != "" {
		return x.log, nil
	}
	path, err := audit.DefaultPath()
	if err != nil {
		return "", withHint(usageError(err), "name the log with --log")
	}
	return path, nil
}

func (x *auditCmd) tail() *cobra.Command {
	var n int
	var follow bool
	c := &cobra.Command{
		Use:     "tail",
		Short:   "Print the last entries of the log",
		Example: "  sandgate audit tail -n 20\n  sandgate audit tail --follow --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 0 {
				return usageError(fmt.Errorf("-n %d: want 0 or more", n))
			}
			path, err := x.path()
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
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is appended, until interrupted")
	return x.jsonFlag(c)
}

// followEvery is how long a new entry may wait until `audit tail --follow` shows it.
const followEvery = 200 * time.Millisecond

func (x *auditCmd) show() *cobra.Command {
	c := &cobra.Command{
		Use:     "show CALL|SEQ",
		Short:   "Print all that the log has about a call, or one entry by its number",
		Example: "  sandgate audit show call-7\n  sandgate audit show 42 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := x.path()
			if err != nil {
				return err
			}
			found, err := x.collect(path, args[0])
			if err == nil && len(found) == 0 {
				err = withStatus(exitFound, fmt.Errorf("audit: no entry with call or number %q in %q", args[0], path))
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
func (x *auditCmd) collect(path, name string) ([]audit.Entry, error) {
	seq, err := strconv.ParseUint(name, 10, 64)
	isSeq := err == nil
	var found []audit.Entry
	for e, err := range audit.Query(path, audit.Filter{}) {
		var bad *audit.ChainError
		if errors.As(err, &bad) {
			continue // verify tells about bad lines
		}
		if err != nil {
			return nil, x.unreadable(err)
		}
		if e.Call == name || isSeq && e.Seq == seq {
			found = append(found, e)
		}
	}
	return found, nil
}

func (x *auditCmd) query() *cobra.Command {
	var f audit.Filter
	var since, until string
	var kinds []string
	c := &cobra.Command{
		Use:     "query",
		Short:   "Print the entries that match all of the given flags",
		Example: "  sandgate audit query --tool shell --since 2h\n  sandgate audit query --kind refused --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) (err error) {
			if f.Kinds, err = parseKinds(kinds); err != nil {
				return usageError(err)
			}
			if f.Since, err = parseMoment(since, time.Now()); err != nil {
				return usageError(fmt.Errorf("--since: %w", err))
			}
			if f.Until, err = parseMoment(until, time.Now()); err != nil {
				return usageError(fmt.Errorf("--until: %w", err))
			}
			path, err := x.path()
			if err != nil {
				return err
			}
			return x.print(audit.Query(path, f))
		},
	}
	c.Flags().StringVar(&f.Session, "session", "", "only entries of session `ID`")
	c.Flags().StringVar(&f.Call, "call", "", "only entries of call `ID`")
	c.Flags().StringVar(&f.Tool, "tool", "", "only entries of tool `NAME`")
	c.Flags().StringVar(&f.Agent, "agent", "", "only entries of agent `NAME`")
	c.Flags().StringSliceVar(&kinds, "kind", nil, "only entries of `KIND`: "+kindList())
	c.Flags().StringVar(&since, "since", "", "only entries from `TIME` on: 2h (ago), 2006-01-02 or RFC 3339")
	c.Flags().StringVar(&until, "until", "", "only entries before `TIME`")
	return x.jsonFlag(c)
}

func kindList() string {
	var names []string
	for _, k := range audit.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func parseKinds(names []string) ([]audit.Kind, error) {
	var kinds []audit.Kind
	for _, n := range names {
		k := audit.Kind(n)
		if !strings.Contains(", "+kindList()+",", ", "+n+",") {
			return nil, fmt.Errorf("--kind: no kind %q; there are %s", n, kindList())
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// parseMoment reads a duration before now, a date in local time, or an RFC 3339
// time. The empty string is the zero time.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time: want 90m, 2006-01-02 or 2006-01-02T15:04:05Z", s)
	}
	return t, nil
}

// print prints entries one a line. Bad lines are told on stderr, and make the
// status 1 at the end.
func (x *auditCmd) print(entries iter.Seq2[audit.Entry, error]) error {
	broken := false
	for e, err := range entries {
		var bad *audit.ChainError
		switch {
		case errors.As(err, &bad):
			broken = true
			x.complain(err)
		case err != nil:
			return x.unreadable(err)
		default:
			if err := x.printEntry(e); err != nil {
				return err
			}
		}
	}
	if broken {
		return &statusError{code: exitFound}
	}
	return nil
}

func (x *auditCmd) printEntry(e audit.Entry) error {
	if !x.asJSON {
		_, err := fmt.Fprintln(x.out, entryLine(e))
		return err
	}
	line, err := e.Line()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(x.out, "%s\n", line)
	return err
}

func (x *auditCmd) printWhole(entries []audit.Entry) error {
	for i, e := range entries {
		if x.asJSON {
			if err := x.printEntry(e); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(x.out)
		}
		if _, err := fmt.Fprint(x.out, entryWhole(e)); err != nil {
			return err
		}
	}
	return nil
}

func (x *auditCmd) verify() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that nothing in the log was changed, removed or added",
		Long: `Verify walks the chain of hashes from the first entry and names the first bad
line. With the checkpoint beside the log it also notices an end that was cut off.
The exit status is 1 if the log is not what was written.`,
		Example: "  sandgate audit verify\n  sandgate audit verify --json copy-of-audit.jsonl",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := x.path()
			if len(args) == 1 {
				path, err = args[0], nil
			}
			if err != nil {
				return err
			}
			return x.printReport(audit.VerifyFile(path))
		},
	}
	return x.jsonFlag(c)
}

func (x *auditCmd) printReport(r audit.Report, err error) error {
	var bad *audit.ChainError
	if err != nil && !errors.As(err, &bad) {
		return x.unreadable(err)
	}
	if x.asJSON {
		v := struct {
			OK bool `json:"ok"`
			audit.Report
			Bad *audit.ChainError `json:"bad,omitempty"`
		}{bad == nil, r, bad}
		if err := json.NewEncoder(x.out).Encode(v); err != nil {
			return err
		}
		if bad != nil {
			return &statusError{code: exitFound}
		}
		return nil
	}
	if bad != nil {
		return withStatus(exitFound, fmt.Errorf("chain broken: %w", err))
	}
	_, err = fmt.Fprintf(x.out, "chain ok, %s\n", plural(r.Entries, "entry", "entries"))
	if err == nil && len(r.Open) > 0 {
		_, err = fmt.Fprintf(x.out, "%s not ended yet\n", plural(uint64(len(r.Open)), "call", "calls"))
	}
	if r.Checkpoint == 0 && r.Entries > 0 {
		fmt.Fprintln(x.err, "sandgate: no checkpoint beside the log: an end that was cut off would not be noticed")
	}
	return err
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// unreadable is a log that cannot be read at all.
func (x *auditCmd) unreadable(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	err = withStatus(exitInternal, err)
	if errors.Is(err, os.ErrNotExist) {
		return withHint(err, "no call was logged there yet; name another log with --log")
	}
	return err
}
