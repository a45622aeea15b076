package configcmd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// printPathViews shows views to people.
func printPathViews(w io.Writer, workdir string, list []protocol.PathView) error {
	fmt.Fprintf(w, "programs start in %s, and so do relative paths of the file tools\n", approval.EscapeName(workdir))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PATH\tDIRECTORY\tFILE TOOLS\tPROGRAMS")
	for _, v := range list {
		files := string(v.FileTools)
		if len(v.Suffixes) > 0 {
			files += ", " + strings.Join(v.Suffixes, " ")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", v.Name, approval.EscapeName(v.Root), approval.EscapeLine(files), v.Programs)
	}
	return tw.Flush()
}
