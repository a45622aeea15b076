package approval

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// An Outer decides for controllers that do not share its memory. It receives each call as a
// whole, even if no prompt would be needed. A Controller with an Outer decides nothing itself.
type Outer interface {
	// Decide says who or what permits the call, and by Decision.Digest what is permitted: of
	// what the call, its Unseen and its Revise have given, that which has this digest. Its
	// error is a *DeniedError, or says why nothing could be decided.
	Decide(ctx context.Context, call Call) (Decision, error)
	// Check says what Decide would do, as Controller.Check does.
	Check(call Call) (Verdict, error)
	// Recorded is Controller.Recorded.
	Recorded(requestID string) error
}

// decideOutside has the outer controller decide, and permits what the decision names.
func (c *Controller) decideOutside(ctx context.Context, call Call) (Grant, error) {
	shown := &offered{calls: []Call{call}}
	asked := call
	if call.Revise != nil {
		asked.Revise = func(args json.RawMessage) (Call, error) {
			revised, err := call.Revise(args)
			if err == nil {
				shown.add(revised)
			}
			return revised, err
		}
	}
	d, err := c.opts.Outer.Decide(ctx, asked)
	var denied *DeniedError
	switch {
	case errors.As(err, &denied):
		return Grant{}, &DeniedError{denied.Decision, denied.Code, denied.Hint, errors.Join(call.Err, denied.cause)}
	case ctx.Err() != nil:
		return c.conclude(&question{call: call}, verdictCancelled(ctx.Err()))
	case err != nil:
		return c.conclude(&question{call: call}, verdictInvalid(err))
	case d.Action.State() == StateApproved && call.Err == nil:
		if subject, ok := shown.permitted(d.Digest); ok {
			return Grant{subject: subject, digest: d.Digest, decision: d}, nil
		}
	}
	return c.conclude(&question{call: call}, verdictInvalid(errors.New("the call would do something other than what was approved")))
}

// offered are the calls that an outer controller was shown: the agent's, and what it is with
// the arguments of an approver.
type offered struct {
	mu    sync.Mutex
	calls []Call
}

func (o *offered) add(c Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
}

// permitted is the subject that has the digest.
func (o *offered) permitted(digest string) (any, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.calls {
		if c.Digest == digest {
			return c.Subject, true
		}
		if c.Unseen == nil {
			continue
		}
		if subject, its := c.Unseen(); its == digest {
			return subject, true
		}
	}
	return nil, false
}

// checkOutside is Check by the outer controller.
func (c *Controller) checkOutside(call Call) Verdict {
	v, err := c.opts.Outer.Check(call)
	if err != nil {
		refused := verdictInvalid(err)
		return Verdict{refused.effect, refused.source, refused.scope, refused.rule, refused.reason, refused.hint}
	}
	return v
}
