package supervisor

import (
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/internal/must"
)

// maxMetadata is how much a runtime can say about a session or a call, in bytes of
// JSON. It is copied into every question and entry of the log.
const maxMetadata = 8 << 10

// told is metadata as approvers, bridges and the log have it: without the secrets that
// the log would leave out, and by its size alone if it is long. It is never interpreted.
func (s *Supervisor) told(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) <= maxMetadata {
		kept, err := s.cfg.Log.Redacted(raw)
		if err == nil && len(kept) <= maxMetadata {
			return kept
		}
	}
	return json.RawMessage(fmt.Sprintf(`{"omitted_bytes":%d}`, len(raw)))
}

// metadata is what the runtime says about the call, cleaned by told.
func (s *Supervisor) metadata(c *call) json.RawMessage {
	if len(c.req.Metadata) == 0 {
		return nil
	}
	if c.metadata == nil {
		c.metadata = s.told(must.JSON(c.req.Metadata))
	}
	return c.metadata
}
