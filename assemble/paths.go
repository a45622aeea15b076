package assemble

import (
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// PathViews says what file tools and programs see of each path of the configuration,
// by the profiles under which they run.
func PathViews(cfg *config.Config, d Derived, operator sandboxprofile.Profile) []protocol.PathView {
	files, programs := sandboxprofile.Intersect(d.Files, operator), sandboxprofile.Intersect(d.Programs, operator)
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
