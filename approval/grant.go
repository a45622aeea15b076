package approval

import "fmt"

// A Grant is the permission to do one thing. Only this package can make one, so
// a value of this type is the evidence that Decide said yes; the zero Grant
// permits nothing and carries nothing to do.
type Grant struct {
	subject  any
	digest   string
	decision Decision
}

// Granted is the plan that g permits: the very value that Call.Subject held when the call was
// decided, or that Call.Unseen gave. What runs takes its command from here and from nowhere else.
// A grant that carries a plan of another type permits nothing.
func Granted[Plan any](g Grant) (Plan, error) {
	plan, ok := g.subject.(Plan)
	if !ok {
		return plan, fmt.Errorf("approval: the grant for %q carries a plan of type %T, want %T", g.decision.ToolName, g.subject, plan)
	}
	return plan, nil
}

// Digest is the digest of the subject that was decided on.
func (g Grant) Digest() string { return g.digest }

// Decision is the record of who or what permitted it.
func (g Grant) Decision() Decision { return g.decision }
