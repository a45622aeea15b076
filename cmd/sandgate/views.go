package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// pathViews says what file tools and programs see of each path of the configuration,
// by the profiles under which they run.
func pathViews(cfg *config.Config, d derived, operator sandboxprofile.Profile) []protocol.PathView {
	files, programs := sandboxprofile.Intersect(d.files, operator), sandboxprofile.Intersect(d.programs, operator)
	var list []protocol.PathView
	for _, p := range cfg.Sandbox.Paths {
		list = append(list, protocol.PathView{
			Name: p.Name, Root: p.Root, Suffixes: p.Suffixes,
			FileTools: access(files.Rights(p.Root)), Programs: access(programs.Rights(p.Root)),
		})
	}
	return list
}

func access(r sandboxprofile.Rights) protocol.Access {
	switch {
	case r&sandboxprofile.Read == 0:
		return protocol.AccessNone
	case r&sandboxprofile.Write == 0:
		return protocol.AccessRead
	}
	return protocol.AccessFull
}

// printPathViews shows views to people.
func printPathViews(w io.Writer, workdir string, list []protocol.PathView) error {
	fmt.Fprintf(w, "programs start in %s, and so do relative paths of the file tools\n", approval.EscapeLine(workdir))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PATH\tDIRECTORY\tFILE TOOLS\tPROGRAMS")
	for _, v := range list {
		files := string(v.FileTools)
		if len(v.Suffixes) > 0 {
			files += ", " + strings.Join(v.Suffixes, " ")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", v.Name, approval.EscapeLine(v.Root), approval.EscapeLine(files), v.Programs)
	}
	return tw.Flush()
}
