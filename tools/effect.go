package tools

import "github.com/sandgate/sandgate/approval"

// Effect is the decision of a rule about a call.
type Effect = approval.Effect

const (
	Deny  = approval.Deny
	Ask   = approval.Ask
	Allow = approval.Allow
)
