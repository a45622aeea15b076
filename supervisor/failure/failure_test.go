package failure

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestWithCause: what ends a call is told as that, wherever the call was.
func TestWithCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	other := errors.New("no such device")
	if err := WithCause(ctx, other); err != other {
		t.Errorf("a call that goes on: %v", err)
	}
	cause := errors.New("an operator ended the call")
	cancel(cause)
	for _, err := range []error{cause, context.Canceled, fmt.Errorf("prepare: %w", cause)} {
		if e := Wire(WithCause(ctx, err)); e.Code != protocol.CodeCancelled || e.Message != cause.Error() {
			t.Errorf("%v: %+v", err, e)
		}
	}
	if err := WithCause(ctx, other); err != other {
		t.Errorf("what else goes wrong then: %v", err)
	}
}
