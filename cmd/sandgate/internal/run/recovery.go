package run

import (
	"fmt"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

// maxPlantedTold bounds the lines about what an earlier call has left: that can be thousands.
const maxPlantedTold = 10

// PrintRecovery says what an earlier crash left in the audit log, in the workspace
// and unanswered.
func PrintRecovery(a *cli.App, r *assemble.Running) {
	for _, p := range r.Planted[:min(len(r.Planted), maxPlantedTold)] {
		now := "in the same place"
		if p.Kept != "" {
			now = "at " + approval.EscapeName(p.Kept)
		}
		fmt.Fprintf(a.Err, "sandgate: a call that an earlier sandgate did not finish left %s, now %s: it %s\n", approval.EscapeName(p.Path), now, approval.EscapeLine(p.Reason))
	}
	if more := len(r.Planted) - maxPlantedTold; more > 0 {
		fmt.Fprintf(a.Err, "sandgate: and %d more: see `sandgate quarantine list`\n", more)
	}
	rec := r.Recovery
	if t := rec.Torn; t != nil {
		fmt.Fprintf(a.Err, "sandgate: the audit log ended in the middle of a line; moved %d bytes to %s\n", t.Bytes, approval.EscapeName(t.File))
	}
	for _, e := range rec.Interrupted {
		fmt.Fprintf(a.Err, "sandgate: interrupted: call %s (%s) was running when sandgate stopped unexpectedly\n",
			approval.EscapeName(e.Call), approval.EscapeName(e.Tool))
	}
	if n := r.Orphans(); n > 0 {
		fmt.Fprintf(a.Err, "sandgate: %d requests were pending when sandgate stopped unexpectedly and are now recorded as cancelled; see `sandgate audit query --kind answer`\n", n)
	}
}
