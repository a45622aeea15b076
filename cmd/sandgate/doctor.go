package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/confine"
)

func newDoctorCmd(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Try what this host enforces, and say what to do about the rest",
		Long: `doctor builds a real sandbox and lets programs in it try what must not work.
Each line is one probe: held (tried, and enforced), absent (tried, and not
enforced, with the remedy) or unknown (could not be found out). Then each backend:
whether it works here, which one auto chooses, and what it refuses.

Exit status: 0 if tools can be confined here, 122 if not.`,
		Example: "  sandgate doctor\n  sandgate doctor --json | jq '.probes[] | select(.status != \"held\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := confine.Examine(cmd.Context(), "")
			if err := a.printReport(r, asJSON); err != nil {
				return err
			}
			if !r.Ready {
				return withStatus(exitUnavailable, nil)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) printReport(r confine.Report, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, f := range r.Probes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\tremedy: %s\n", f.Remedy)
		}
	}
	fmt.Fprintln(w)
	for _, b := range r.Backends {
		printBackend(w, b, b.Name == r.Chosen)
	}
	if r.Ready {
		fmt.Fprintln(w, "\nTools can be confined on this host.")
	} else {
		fmt.Fprintln(w, "\nTools cannot be confined on this host: sandgate refuses to run them.")
	}
	return w.Flush()
}

func printBackend(w io.Writer, b confine.BackendReport, chosen bool) {
	switch {
	case !b.Works:
		fmt.Fprintf(w, "barred\t%s\t%s\n", b.Name, b.Reason)
		if b.Remedy != "" {
			fmt.Fprintf(w, "\t\tremedy: %s\n", b.Remedy)
		}
	case chosen:
		fmt.Fprintf(w, "works\t%s\tchosen\n", b.Name)
	default:
		fmt.Fprintf(w, "works\t%s\twith --backend %s, or where those above do not work\n", b.Name, b.Name)
	}
	for _, l := range b.Refuses {
		fmt.Fprintf(w, "\t\trefuses %s: %s\n", l.Part, l.Reason)
	}
}
