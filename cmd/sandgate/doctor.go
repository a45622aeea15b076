package main

import (
	"encoding/json"
	"fmt"
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
enforced, with the remedy) or unknown (could not be found out).

Exit status: 0 if tools can be confined here, 122 if not.`,
		Example: "  sandgate doctor\n  sandgate doctor --json | jq '.probes[] | select(.status != \"held\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := confine.Probe(cmd.Context(), "")
			ready := confine.Ready(findings)
			if err := a.printFindings(findings, ready, asJSON); err != nil {
				return err
			}
			if !ready {
				return withStatus(exitUnavailable, nil)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) printFindings(findings []confine.Finding, ready, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Ready  bool              `json:"ready"`
			Probes []confine.Finding `json:"probes"`
		}{ready, findings})
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\tremedy: %s\n", f.Remedy)
		}
	}
	if ready {
		fmt.Fprintln(w, "\nTools can be confined on this host.")
	} else {
		fmt.Fprintln(w, "\nTools cannot be confined on this host: sandgate refuses to run them.")
	}
	return w.Flush()
}
