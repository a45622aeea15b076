package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/platform"
	"github.com/sandgate/sandgate/protocol"
)

func newDoctorCmd(a *cli.App) *cobra.Command {
	var asJSON bool
	f := run.Flags{Mode: string(approval.ApproveAll), Backend: "auto"}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Test what this host enforces, and explain how to fix the rest",
		Long: `doctor builds a real sandbox and runs programs in it that try what must fail. Each line is
one probe: held (tried and enforced), absent (tried and not enforced, with a remedy) or
unknown (could not be determined). Then it lists each backend: whether it works here, which
one --backend auto chooses, and what it refuses. Finally it runs ` + "`sandgate run -- true`" + ` in the
current directory, recorded in the usual audit log, and reports the result.

Exit status: 0 if tools can be confined here, 122 if not.`,
		Example: "  sandgate doctor\n  sandgate doctor --json | jq '.probes[] | select(.status != \"held\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := doctorReport{Report: platform.Examine(cmd.Context(), "")}
			r.tryRun(cmd.Context(), a, f)
			if err := printReport(a, r, asJSON); err != nil {
				return err
			}
			if !r.Ready {
				return cli.WithStatus(cli.ExitUnavailable, nil)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&f.Config, "config", "", "configuration `file` for the run")
	return c
}

// A doctorReport is what was found on the host, and what run does there. Ready is both:
// some backend works, and the configuration that holds here runs a program with one.
type doctorReport struct {
	confine.Report
	Run doctorRun `json:"run"`
}

// A doctorRun is the result of `sandgate run -- true` in the current directory.
type doctorRun struct {
	Works      bool                 `json:"works"`
	EnforcedBy *protocol.EnforcedBy `json:"enforced_by,omitempty"`
	Error      string               `json:"error,omitempty"`
	Hint       string               `json:"hint,omitempty"`
}

// tryRun does what run does. It prints nothing itself: what a crash had left is
// reported as by run.
func (r *doctorReport) tryRun(ctx context.Context, a *cli.App, f run.Flags) {
	inside := newApp(strings.NewReader(""), io.Discard, a.Err)
	result, _, err := run.Once(ctx, inside, "sandgate doctor", f, false, []string{"true"}, review.SettleKeeps)
	switch {
	case err != nil:
		r.Run.Error = err.Error()
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			r.Run.Hint = h.Hint()
		}
	case result.EnforcedBy.Backend == confine.NoBackend:
		r.Run.EnforcedBy, r.Run.Error, r.Run.Hint = &result.EnforcedBy, confine.UnconfinedWarning, "set sandbox.require_os_sandbox to true"
	default:
		r.Run.Works, r.Run.EnforcedBy = true, &result.EnforcedBy
		r.Chosen = result.EnforcedBy.Backend
	}
	r.Ready = r.Ready && r.Run.Works
}

func printReport(a *cli.App, r doctorReport, asJSON bool) error {
	if asJSON {
		e := cli.Encoder(a.Out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, f := range r.Probes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\tremedy: %s\n", f.Remedy)
		}
	}
	fmt.Fprintln(w)
	for _, b := range r.Backends {
		printBackend(w, b, b.Name == r.Chosen, r.Found)
	}
	switch {
	case r.Ready:
		fmt.Fprintf(w, "\nTools can be confined on this host: `sandgate run` uses %s here.\n", r.Chosen)
	case r.Run.Error != "":
		hint := ""
		if r.Run.Hint != "" {
			hint = "; to fix it: " + r.Run.Hint
		}
		fmt.Fprintf(w, "\nTools cannot be confined on this host, so sandgate refuses to run them: %s%s\n", r.Run.Error, hint)
	default:
		fmt.Fprintln(w, "\nTools cannot be confined on this host, so sandgate refuses to run them.")
	}
	return w.Flush()
}

// printBackend uses two lines at most: what a place gives, and what would give more.
func printBackend(w io.Writer, b confine.BackendReport, chosen bool, found []string) {
	switch {
	case !b.Works:
		reason := b.Reason
		if len(found) > 0 && b.Name == "bwrap" { // which is what these bar
			reason = strings.Join(found, "; ")
		}
		fmt.Fprintf(w, "barred\t%s\t%s\n", b.Name, reason)
		if b.Remedy != "" {
			fmt.Fprintf(w, "\t\tfor more: %s\n", b.Remedy)
		}
		return
	case chosen:
		fmt.Fprintf(w, "works\t%s\tchosen\n", b.Name)
	default:
		fmt.Fprintf(w, "works\t%s\twith --backend %s, or if those above do not work\n", b.Name, b.Name)
	}
	var refuses []string
	for _, l := range b.Refuses {
		refuses = append(refuses, l.Part)
	}
	if len(refuses) > 0 {
		fmt.Fprintf(w, "\t\trefuses %s (see why with `sandgate doctor --json`)\n", strings.Join(refuses, ", "))
	}
}
