package failure

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
)

// TestAShortageIsRetryableAndTold: the agent may call again, and the operator sees it
// for a while.
func TestAShortageIsRetryableAndTold(t *testing.T) {
	var s Shortages
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	short := &confine.Shortage{Op: "start bubblewrap", Err: unix.EAGAIN}
	if e := Wire(short); e.Code != protocol.CodeTooManyRequests || e.HintText == "" {
		t.Errorf("%+v", e)
	}
	for _, err := range []error{nil, errors.New("broken"), &confine.Unenforceable{Part: "user namespaces", Reason: "barred"}} {
		if s.Note(err, start) || s.Warnings(start) != nil {
			t.Errorf("%v is no shortage", err)
		}
	}
	if e := Wire(errors.New("broken")); e.Code != protocol.CodeSandboxFailed {
		t.Errorf("%+v", e)
	}
	if !s.Note(short, start) || s.Note(short, start.Add(time.Second)) {
		t.Error("the first of two is news, the second is not")
	}
	w := s.Warnings(start.Add(time.Minute))
	if len(w) != 1 || !strings.Contains(w[0], "2 calls") || !strings.Contains(w[0], "start bubblewrap") {
		t.Errorf("%q", w)
	}
	if w := s.Warnings(start.Add(time.Hour)); w != nil {
		t.Errorf("after an hour: %q", w)
	}
}
