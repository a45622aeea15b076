package supervisor

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
)

// parseOutput makes the structured result of a program that says that it writes
// JSON. What is no JSON value is an error, beside which the text stays in the
// result; a program that failed by itself owes none.
func (c *call) parseOutput() error {
	if !c.proposal.Plan.JSONOutput || c.result.Cause != confine.Exited {
		return nil
	}
	text := bytes.TrimSpace(c.output.bytes(protocol.Stdout))
	if c.result.Truncated || !utf8.Valid(text) || !json.Valid(text) {
		if c.result.ExitCode != 0 {
			return nil
		}
		return &protocol.Error{Code: protocol.CodeInvalidOutput,
			Message:  "the tool did not write one JSON value to its standard output",
			HintText: "the text that it wrote is in the result; the tool itself has to be corrected"}
	}
	c.structured = text
	return nil
}
