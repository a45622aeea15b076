package files

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// ifSHA256 is the schema of the argument that binds a change to what was read.
const ifSHA256 = `{
      "type": "string",
      "pattern": "^[0-9a-f]{64}$",
      "description": "Change the file only if its content has this SHA-256. read_file gives it as sha256 when it returns a whole file."
    }`

var writeDefinition = tools.Definition{
	Name: "write_file",
	Description: "Write a whole file: create it, or replace its content. " +
		"An existing file keeps its mode; after a crash, it has either the old or the new content.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path", "content"],
  "properties": {
    "path": {
      "type": "string",
      "minLength": 1,
      "description": "The file, relative to the workspace or absolute. Links are followed; their target must be allowed.",
      "examples": ["notes/today.md"]
    },
    "content": {
      "type": "string",
      "description": "The complete new content. End text with a line feed.",
      "examples": ["# Today\n\n- water the plants\n"]
    },
    "encoding": {
      "type": "string",
      "enum": ["utf-8", "base64"],
      "description": "Encoding of content. Default: utf-8; use base64 for binary files."
    },
    "make_parents": {
      "type": "boolean",
      "description": "Create missing parent directories. Otherwise a missing directory is an error."
    },
    "if_sha256": ` + ifSHA256 + `
  }
}`),
	Annotations: tools.Annotations{Title: "Write a file", DestructiveHint: true, IdempotentHint: true},
}

type writer struct{ Config }

func (w *writer) Definition() tools.Definition { return writeDefinition }

// Plan implements tools.Tool.
func (w *writer) Plan(c tools.Call) (tools.Proposal, error) {
	path := c.String("path")
	if strings.HasSuffix(path, "/") {
		return tools.Proposal{}, &tools.ArgumentError{Field: "path", Reason: "names a directory, not a file"}
	}
	d, err := w.Paths.DecideArgument(path, true)
	d = unkept(c, d)
	switch {
	case err != nil:
		return tools.Proposal{}, err
	case d.Effect == tools.Deny:
		return tools.Proposal{}, blocked(d)
	}
	content, err := w.content(c)
	if err != nil {
		return tools.Proposal{}, err
	}
	operation := &sandboxprofile.Operation{
		Path: d.Path, Content: content, MakeParents: c.Bool("make_parents"), SHA256: c.String("if_sha256"),
	}
	plan := tools.Plan{
		Tool: writeDefinition.Name, Kind: tools.Sandboxed, Profile: w.Profile,
		Action: sandboxprofile.Action{Kind: sandboxprofile.WriteFile, File: operation},
	}
	if d.Effect == tools.Ask {
		plan.Pins = replaced(operation)
	}
	return tools.Proposal{
		Plan:    plan,
		Request: request(writeDefinition.Name, "Write to", d),
		Reach:   reach(d),
		Rule:    ruleName(d),
		Present: func(ctx context.Context) (*approval.Presentation, error) {
			return presentWrite(ctx, d.Path, relative(d), content, plan.Pins)
		},
	}, nil
}

// replaced binds a write that needs a prompt to the content that it replaces, so that
// the difference that was shown is the one that is made.
func replaced(o *sandboxprofile.Operation) []tools.Pin {
	pin, err := tools.PinContent(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []tools.Pin{{Path: o.Path, Absent: true}}
	case err != nil:
		if pin, err = tools.PinFile(o.Path); err != nil {
			return nil // the sandbox's init says what it met instead
		}
	case o.SHA256 == "" && pin.Mode&0o444 != 0:
		o.SHA256 = pin.SHA256
	}
	return []tools.Pin{pin}
}

// content decodes what is to be written and holds it against the profile's
// limit for files, which binds the programs of the sandbox by setrlimit(2) and
// would not bind its init.
func (w *writer) content(c tools.Call) ([]byte, error) {
	content := []byte(c.String("content"))
	if c.String("encoding") == "base64" {
		decoded, err := base64.StdEncoding.DecodeString(c.String("content"))
		if err != nil {
			return nil, &tools.ArgumentError{Field: "content", Reason: "is not base64: " + err.Error()}
		}
		content = decoded
	}
	if limit := w.Profile.Limits.FileSize; int64(len(content)) > limit {
		return nil, &tools.ArgumentError{
			Field:  "content",
			Reason: fmt.Sprintf("is %d bytes, more than sandbox.limits.file_size, %d bytes", len(content), limit),
		}
	}
	return content, nil
}
