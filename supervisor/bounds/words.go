package bounds

import (
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// What an approver sees beside the request itself. It is computed when a person is
// asked, and not for the many calls that rules or memory answer.

// Details are, by name: the rule that asks, what runs where, what its sandbox will
// and will not allow, and what is weaker than usual. Values are for people.
func Details(p tools.Proposal, digest string, warnings []string) map[string]string {
	d := map[string]string{"rule": p.Rule, "plan": digest}
	if e := p.Plan.Action.Exec; e != nil {
		d["directory"] = e.Dir
		d["program"] = e.Path
		for _, given := range e.Secrets {
			if !given.Unseen() {
				d["is given"] = strings.TrimPrefix(d["is given"]+", "+given.Name, ", ")
			}
		}
	}
	if f := p.Plan.Action.File; f != nil {
		d["path"] = f.Path
	}
	if len(p.Cautions) > 0 {
		d["caution"] = strings.Join(p.Cautions, "; ")
	}
	if p.Plan.Class != sandboxprofile.Unclassified {
		d["class"] = p.Plan.Class.String() + ": " + p.Plan.Class.Can()
	}
	if p.Review {
		d["review"] = "it runs on a draft, and a person decides what to keep"
	}
	if l := p.Plan.Action.Ceiling; l != nil {
		d["ceiling"] = l.String()
	}
	if p.Plan.Kind != tools.ByAgent {
		profileWords(d, p.Plan.Profile)
	}
	if len(warnings) > 0 {
		parts := make([]string, len(warnings)) // sentences, that stand in one here
		for i, w := range warnings {
			parts[i] = strings.TrimSuffix(w, ".")
		}
		d["warnings"] = strings.Join(parts, "; ")
	}
	return d
}

// profileWords are the sections of the profile's explanation by their verbs, the
// network by its mode, and what a person decides by first: what may be written.
func profileWords(d map[string]string, p sandboxprofile.Profile) {
	d["network"] = p.Network.Mode.String()
	d["may write"] = ""
	if outside := sandboxprofile.Outside(p); len(outside) > 0 {
		d["outside"] = strings.Join(outside, ", ")
	}
	for _, section := range sandboxprofile.Explain(p).Sections {
		d[section.Verb] = strings.Join(section.Items, ", ")
		if section.Verb == "changes" {
			d["may write"] = d[section.Verb]
			delete(d, section.Verb)
		}
	}
}
