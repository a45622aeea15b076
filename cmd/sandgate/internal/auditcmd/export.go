package auditcmd

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

func (x *Command) export() *cobra.Command {
	var q auditQuery
	var format string
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "Verify the log, and write entries and a manifest to a new directory",
		Long: `export verifies the whole log and writes the entries that match all given flags to
DIR/entries.jsonl (or .csv). DIR/manifest.json has what is needed to prove them: the
digest of the file, the number and hash of the first and last entry, and the head of the
log. If an export has no gaps, ` + "`sandgate audit verify --export DIR`" + ` checks every link
without the log. Redacted content stays redacted. A broken log is not exported.`,
		Example: "  sandgate audit export ./evidence --since 720h\n  sandgate audit export ./sheet --format csv --tool shell",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := q.filter(time.Now())
			if err != nil {
				return cli.UsageError(err)
			}
			enc, err := exportEncoder(format)
			if err != nil {
				return cli.UsageError(err)
			}
			path, err := x.Path()
			if err != nil {
				return err
			}
			m, err := audit.Export(path, args[0], f, enc, time.Now())
			if err != nil {
				return exportStatus(err)
			}
			return x.tellExport(m, "exported")
		},
	}
	c.Flags().StringVar(&format, "format", audit.ContentLines, "jsonl (entries as they are) or csv (one row each, for a spreadsheet)")
	q.flags(c)
	return x.jsonFlag(c)
}

func exportEncoder(format string) (audit.Encoder, error) {
	switch format {
	case audit.ContentLines:
		return audit.Lines{}, nil
	case csvContent:
		return csvEncoder{}, nil
	}
	return nil, fmt.Errorf("--format %q: want jsonl or csv", format)
}

// exportStatus tells a log or an export that is not what it was from one that
// cannot be read.
func exportStatus(err error) error {
	var bad *audit.ChainError
	var differs *audit.ExportError
	if errors.As(err, &bad) || errors.As(err, &differs) {
		return cli.WithHint(cli.WithStatus(cli.ExitFound, err), "run `sandgate audit verify` for details; keep the log and the export as evidence")
	}
	return cli.WithStatus(cli.ExitInternal, err)
}

func (x *Command) tellExport(m audit.Manifest, what string) error {
	if x.AsJSON {
		return cli.PrintJSON(x.Out, m)
	}
	proof := "a selection: each entry can be verified by itself"
	if m.Complete {
		proof = "no gaps: the chain is complete"
	}
	_, err := fmt.Fprintf(x.Out, "%s %d entries (%d to %d), %s\n", what, m.Entries, m.First, m.Last, proof)
	return err
}

const csvContent = "csv"

// A csvEncoder writes one row for each entry (RFC 4180). Nearly every cell was
// chosen by an agent or a tool.
type csvEncoder struct{}

func (csvEncoder) Content() string { return csvContent }

func (csvEncoder) Begin(w io.Writer) error {
	return writeRow(w, []string{"seq", "time", "kind", "session", "call", "agent", "tool", "digest", "decision", "action", "source", "scope", "rule", "approver", "reason",
		"subject", "exit_code", "error", "prev", "hash"})
}

func (csvEncoder) Encode(w io.Writer, e audit.Entry) error {
	var f Facts
	_ = json.Unmarshal(e.Data, &f) // what does not fit stays empty; the log has it whole
	exit, code := "", ""
	if f.ExitCode != nil {
		exit = strconv.Itoa(*f.ExitCode)
	}
	if f.Error != nil {
		code = f.Error.Data.Code
	}
	d := f.Decision
	row := []string{strconv.FormatUint(e.Seq, 10), e.Time.UTC().Format(time.RFC3339Nano), string(e.Kind), e.Session, e.Call, e.Agent, e.Tool, e.Digest,
		d.ID, d.Action, d.Source, d.Scope, f.DecidedBy(), d.Approver, d.Reason, f.subject(), exit, code, e.Prev, e.Hash}
	return writeRow(w, row)
}

func writeRow(w io.Writer, cells []string) error {
	for i, c := range cells {
		cells[i] = safeCell(c)
	}
	out := csv.NewWriter(w)
	if err := out.Write(cells); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// safeCell is a cell that no spreadsheet takes for a formula (OWASP, "CSV
// injection") and no terminal obeys.
func safeCell(s string) string {
	s = approval.EscapeLine(s)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
