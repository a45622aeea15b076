package terminal

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
)

// A Signalled is the cause of a context that a signal has ended.
type Signalled struct{ syscall.Signal }

func (s Signalled) Error() string { return s.Signal.String() + " signal received" }

// UntilSignal is signal.NotifyContext with a cause that tells which signal it was. What a
// person's key has had sent is the program's to answer.
func UntilSignal(ctx context.Context, person *Console, list ...os.Signal) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, list...)
	go func() {
		for {
			select {
			case n := <-got:
				if person.sentItself(n) {
					continue
				}
				end(Signalled{n.(syscall.Signal)})
			case <-ctx.Done():
			}
			return
		}
	}()
	return ctx, func() { signal.Stop(got); end(nil) }
}

// SignalStatus is err, or, where a call was cancelled because a signal came, the status
// that a program has which ends on it. The sender need not be told.
func SignalStatus(ctx context.Context, err error) error {
	var by Signalled
	var e *protocol.Error
	if errors.As(context.Cause(ctx), &by) && errors.As(err, &e) && e.Code == protocol.CodeCancelled {
		return &cli.StatusError{Code: 128 + int(by.Signal)}
	}
	return err
}
