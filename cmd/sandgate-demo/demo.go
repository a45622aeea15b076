package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// A demo plays a list of calls.
type demo struct {
	out   io.Writer
	steps []step
	ask   func(protocol.Approval) protocol.ApprovalsDecide

	outcomes []outcome // so far; its length is the index of the call under way
	strays   []error   // questions that the list did not foresee
}

func newDemo(out io.Writer, steps []step) *demo { return &demo{out: out, steps: steps} }

// play connects both ends and makes the calls, one after the other.
func (d *demo) play(ctx context.Context, o options) error {
	operator, err := client.DialApprover(ctx, o.operatorSocket, client.WithProgram("sandgate-demo operator", ""))
	if err != nil {
		return err
	}
	defer operator.Close()
	events, err := operator.Subscribe(ctx)
	if err != nil {
		return err
	}
	agent, err := client.DialAgent(ctx, o.socket, client.WithProgram("sandgate-demo agent", ""))
	if err != nil {
		return err
	}
	defer agent.Close()
	session, err := agent.OpenSession(ctx, protocol.SessionOpen{Agent: "demo"})
	if err != nil {
		return err
	}
	for _, s := range d.steps {
		if err := d.call(ctx, session, operator, events, s); err != nil {
			return err
		}
	}
	_, err = session.Close(ctx)
	return err
}

// call makes one call and answers for it if that is asked, until it ends. A
// refusal is an outcome; an error is the end of the demo.
func (d *demo) call(ctx context.Context, session *client.Session, operator *client.Approver, events <-chan client.Event, s step) error {
	fmt.Fprintf(d.out, "\n%2d  %s\n    %s\n", len(d.outcomes)+1, s.Say, approval.EscapeLine(s.line()))
	type end struct {
		result protocol.CallResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := session.Call(ctx, s.Tool, s.Args, client.WithTimeout(time.Duration(s.TimeoutMS)*time.Millisecond))
		ended <- end{r, err}
	}()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return client.ErrClosed
			}
			if err := d.answer(ctx, operator, e); err != nil {
				return err
			}
		case e := <-ended:
			return d.end(s, e.result, e.err)
		}
	}
}

// answer shows a request as an approver sees it, and answers it.
func (d *demo) answer(ctx context.Context, operator *client.Approver, e client.Event) error {
	if e.Kind != client.Requested {
		return nil
	}
	full, err := operator.Show(ctx, e.Approval.ID)
	if err != nil {
		return err
	}
	show(d.out, full)
	_, err = operator.Decide(ctx, d.ask(full))
	return err
}

// outputLines is how much of a result is printed.
const outputLines = 8

// end notes how a call ended, and prints it.
func (d *demo) end(s step, r protocol.CallResult, err error) error {
	o := outcome{step: s, result: r}
	if err != nil && !errors.As(err, &o.err) {
		return err
	}
	text, _ := approval.Truncate(o.said(), outputLines, 1<<10)
	indent(d.out, "    | ", approval.Escape(text))
	if o.err != nil && o.err.HintText != "" {
		indent(d.out, "    | hint for the model: ", approval.EscapeLine(o.err.HintText))
	}
	fmt.Fprintf(d.out, "    = %s\n", o.code())
	d.outcomes = append(d.outcomes, o)
	return nil
}
