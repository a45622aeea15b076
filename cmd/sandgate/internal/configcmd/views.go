package configcmd

import (
	"fmt"
	"io"
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
		for i, suffix := range v.Suffixes {
			files += []string{", ", " "}[min(i, 1)] + approval.EscapeName(suffix)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", v.Name, approval.EscapeName(v.Root), files, v.Programs)
	}
	return tw.Flush()
}
