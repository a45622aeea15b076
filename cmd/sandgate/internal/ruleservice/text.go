package ruleservice

import (
	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
)

// Subject is the subject of a rule. What is not ours in it is quoted where it has more than
// a name has.
func Subject(r protocol.Rule) string {
	subject, is := r.Name, ""
	switch {
	case r.Shell != "":
		subject, is = approval.EscapeName(r.Shell), "shell"
	case r.Connector != "" && r.Tool != "":
		subject, is = approval.EscapeName(r.Connector+"/"+r.Tool), "tool"
	case r.Connector != "":
		subject, is = approval.EscapeName(r.Connector), "connector"
	case r.Tool != "":
		subject, is = approval.EscapeName(r.Tool), "tool"
	}
	if is != "" {
		subject = is + ": " + subject
	}
	if r.Exact {
		subject += " (exact)"
	}
	if r.ReadOnly {
		subject += " (read only)"
	}
	if r.Agent != "" {
		subject += " of agent " + approval.EscapeName(r.Agent)
	}
	return subject
}

// Text is a rule in one line.
func Text(r protocol.Rule) string {
	return cli.Join(" ", string(r.Effect), Subject(r), cli.Paren(cli.Join("; ", r.Reason, r.Origin)))
}
