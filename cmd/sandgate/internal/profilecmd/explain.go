package profilecmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func newProfileExplainCmd(a *cli.App) *cobra.Command {
	var file, tool string
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain what tools can do and what that exposes",
		Long: `explain lists what a tool can read, write, run, reach and use up under the profile of a
call: the one that follows from the configuration, limited by the operator profile NAME or
the configured one. Then it lists what that exposes: each line is exposed or closed, with
the reason and how to close it. The lines do not add up to a score.

To see what this host really enforces, use ` + "`sandgate doctor`" + ".",
		Example: "  sandgate profile explain\n  sandgate profile explain hardened\n  sandgate profile explain --config sandgate.yaml --tool read_file --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := settings.LoadAndWarn(a, file, "")
			if err != nil {
				return err
			}
			own, operator, err := assemble.ProfileFor(*cfg, tool, strings.Join(args, ""))
			if err != nil {
				return err
			}
			e := sandboxprofile.Explain(sandboxprofile.Intersect(own, operator))
			if asJSON {
				return cli.PrintJSON(a.Out, e)
			}
			return printExplanation(a.Out, e)
		},
	}
	fs := c.Flags()
	fs.StringVar(&file, "config", "", "configuration `file`")
	fs.StringVar(&tool, "tool", "shell", "tool `name`: file tools see every configured path; shell and run do not see paths with suffixes")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// pageWidth is how many columns text for people takes.
const pageWidth = 80

func printExplanation(out io.Writer, e sandboxprofile.Explanation) error {
	const verbs = 22
	var b strings.Builder
	b.WriteString("A tool\n\n")
	for _, s := range e.Sections {
		hanging(&b, fmt.Sprintf("  %-*s", verbs-2, s.Verb), verbs, strings.Join(s.Items, ", "))
	}
	b.WriteString("\nWhat that exposes\n\n")
	for _, exposed := range []bool{true, false} {
		for _, x := range e.Exposure {
			if x.Exposed == exposed {
				printExposure(&b, x)
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func printExposure(b *strings.Builder, x sandboxprofile.Exposure) {
	word, indent := "closed", 11
	if x.Exposed {
		word = "EXPOSED"
	}
	hanging(b, fmt.Sprintf("  %-*s", indent-2, word), indent, x.Name+": "+x.Why)
	if x.Close != "" {
		hanging(b, strings.Repeat(" ", indent), indent+2, "to close this: "+x.Close)
	}
}

// hanging writes text behind a head, broken between words, with the lines after
// the first indented. Paths and names come from configurations: escaped.
func hanging(b *strings.Builder, head string, indent int, text string) {
	line := head
	for word := range slices.Values(strings.Split(approval.EscapeLine(text), " ")) {
		used := utf8.RuneCountInString(line)
		if used+1+utf8.RuneCountInString(word) > pageWidth && used > indent {
			fmt.Fprintln(b, strings.TrimRight(line, " "))
			line = strings.Repeat(" ", indent)
		}
		if !strings.HasSuffix(line, " ") {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(b, strings.TrimRight(line, " "))
}
