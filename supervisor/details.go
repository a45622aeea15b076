package supervisor

import (
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/tools"
)

func (s *Supervisor) details(p tools.Proposal, digest string, warnings []string) map[string]string {
	d := bounds.Details(p, digest, warnings)
	if s.keeps(p.Plan) && !s.rests(p.Plan) {
		d["undo"] = "what it changes in files can be put back"
	}
	return d
}
