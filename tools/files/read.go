package files

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

const (
	// defaultRead is how much of a file one call returns unless it asks for more
	// or less, in bytes: what a model can make use of.
	defaultRead = 256 << 10
	// maxRead bounds max_bytes, so that the answer fits one message even when it
	// is base64-coded.
	maxRead = 8 << 20
)

var readDefinition = tools.Definition{
	Name: "read_file",
	Description: "Read a file. Returns its content from the given line, up to max_bytes; " +
		"the result says whether it was truncated and at which offset to continue, and has the SHA-256 of the file if it is complete. " +
		"Content that is not UTF-8 is returned as base64, unless you give its encoding.",
	InputSchema: json.RawMessage(fmt.Sprintf(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {
      "type": "string",
      "minLength": 1,
      "description": "The file, relative to the workspace or absolute. Links are followed; their target must be allowed.",
      "examples": ["src/main.go", "README.md"]
    },
    "offset": {
      "type": "integer",
      "minimum": 1,
      "description": "First line to return, counted from 1.",
      "examples": [200]
    },
    "limit": {
      "type": "integer",
      "minimum": 1,
      "description": "How many lines to return. Default: all.",
      "examples": [100]
    },
    "max_bytes": {
      "type": "integer",
      "minimum": 1,
      "maximum": %d,
      "description": "Maximum number of bytes to return. Default: %d.",
      "examples": [65536]
    },
    "encoding": {
      "type": "string",
      "enum": ["utf-8", "utf-16", "latin-1"],
      "description": "Encoding of the file; it is returned as UTF-8. Default: utf-8."
    }
  }
}`, maxRead, defaultRead)),
	Annotations: tools.Annotations{Title: "Read a file", ReadOnlyHint: true, IdempotentHint: true},
}

type reader struct{ Config }

func (r *reader) Definition() tools.Definition { return readDefinition }

// Plan implements tools.Tool.
func (r *reader) Plan(c tools.Call) (tools.Proposal, error) {
	d, err := r.Paths.DecideArgument(c.String("path"), false)
	switch {
	case err != nil:
		return tools.Proposal{}, err
	case d.Effect == tools.Deny:
		return tools.Proposal{}, blocked(d)
	}
	operation := &sandboxprofile.Operation{
		Path:      d.Path,
		MaxBytes:  r.maxBytes(c),
		FirstLine: c.Int("offset", 0),
		Lines:     c.Int("limit", 0),
	}
	if encoding := c.String("encoding"); encoding != "utf-8" {
		operation.Encoding = encoding
	}
	return tools.Proposal{
		Plan: tools.Plan{
			Tool: readDefinition.Name, Kind: tools.Sandboxed,
			Action:  sandboxprofile.Action{Kind: sandboxprofile.ReadFile, File: operation},
			Profile: r.Profile,
		},
		Request: request(readDefinition.Name, "Read from", d),
		Reach:   reach(d),
		Rule:    ruleName(d),
		Present: func(context.Context) (*approval.Presentation, error) { return presentRead(*operation), nil },
	}, nil
}

// maxBytes keeps to the output limit of the profile too: a file that is read is
// output, whichever tool reads it.
func (r *reader) maxBytes(c tools.Call) int64 {
	return min(c.Int("max_bytes", defaultRead), maxRead, r.Profile.Limits.Output)
}

// presentRead says what would be read. The content is not shown: a person who
// decides whether an agent may see it need not have it on the screen.
func presentRead(o sandboxprofile.Operation) *approval.Presentation {
	what := "read " + approval.EscapeName(o.Path)
	switch {
	case o.Lines > 0:
		first := max(o.FirstLine, 1)
		what += fmt.Sprintf(", lines %d to %d", first, first+o.Lines-1)
	case o.FirstLine > 1:
		what += fmt.Sprintf(", from line %d", o.FirstLine)
	}
	return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf("%s, at most %d bytes", what, o.MaxBytes)}
}
