package files

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

const (
	// maxEditable is the size of a file beyond which editing it is refused, in
	// bytes: both versions are held in the memory of a sandbox's init.
	maxEditable = 32 << 20
	// maxEdits bounds the edits of one call.
	maxEdits = 200
)

// editSchema is the schema of one edit, without the braces around it.
const editSchema = `"old_string": {
      "type": "string",
      "minLength": 1,
      "description": "The text to replace, exactly as in the file, including indentation, spaces and line ends. It must occur once, unless you give replace_all or expected_count, so include some surrounding lines.",
      "examples": ["\treturn nil\n}\n\nfunc stop() {"]
    },
    "new_string": {
      "type": "string",
      "description": "The replacement text. Empty deletes the old text.",
      "examples": ["\treturn err\n}\n\nfunc stop() {"]
    },
    "expected_count": {
      "type": "integer",
      "minimum": 1,
      "description": "How often old_string must occur. All occurrences are replaced; if the number differs, nothing changes.",
      "examples": [3]
    },
    "replace_all": {
      "type": "boolean",
      "description": "Replace every occurrence of old_string."
    }`

const editPathSchema = `"path": {
      "type": "string",
      "minLength": 1,
      "description": "The file, relative to the workspace or absolute. Links are followed; their target must be allowed.",
      "examples": ["src/main.go"]
    }`

var editDefinition = tools.Definition{
	Name: "edit_file",
	Description: "Replace text in an existing file. The match is exact; if old_string is missing or occurs more than once, " +
		"nothing changes and the error says so. For several changes to one file, use multi_edit.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path", "old_string", "new_string"],
  "properties": {
    ` + editPathSchema + `,
    ` + editSchema + `,
    "if_sha256": ` + ifSHA256 + `
  }
}`),
	Annotations: tools.Annotations{Title: "Edit a file", DestructiveHint: true},
}

var multiEditDefinition = tools.Definition{
	Name: "multi_edit",
	Description: "Make several replacements in one file, in order: each works on the result of the previous one. " +
		"If one of them does not match, none is made.",
	InputSchema: json.RawMessage(fmt.Sprintf(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["path", "edits"],
  "properties": {
    `+editPathSchema+`,
    "edits": {
      "type": "array",
      "minItems": 1,
      "maxItems": %d,
      "description": "The replacements, in order.",
      "examples": [[{"old_string": "colour", "new_string": "color", "replace_all": true}, {"old_string": "v1\n", "new_string": "v2\n"}]],
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["old_string", "new_string"],
        "properties": {
    `+editSchema+`
        }
      }
    },
    "if_sha256": `+ifSHA256+`
  }
}`, maxEdits)),
	Annotations: tools.Annotations{Title: "Edit a file in several places", DestructiveHint: true},
}

type editor struct{ Config }

func (e *editor) Definition() tools.Definition { return editDefinition }

// Plan implements tools.Tool.
func (e *editor) Plan(c tools.Call) (tools.Proposal, error) {
	d, err := e.decideEdit(c)
	if err != nil {
		return tools.Proposal{}, err
	}
	edit, fault := editOf(c)
	if fault != nil {
		return tools.Proposal{}, fault
	}
	return e.planEdits(c, editDefinition.Name, d, []sandboxprofile.Edit{edit}), nil
}

type multiEditor struct{ Config }

func (m *multiEditor) Definition() tools.Definition { return multiEditDefinition }

// Plan implements tools.Tool.
func (m *multiEditor) Plan(c tools.Call) (tools.Proposal, error) {
	d, err := m.decideEdit(c)
	if err != nil {
		return tools.Proposal{}, err
	}
	items, _ := c.Args["edits"].([]any)
	var edits []sandboxprofile.Edit
	for i, item := range items {
		args, _ := item.(map[string]any)
		edit, fault := editOf(tools.Call{Args: args})
		if fault != nil {
			fault.Field = fmt.Sprintf("edits/%d/%s", i, fault.Field)
			return tools.Proposal{}, fault
		}
		edits = append(edits, edit)
	}
	return m.planEdits(c, multiEditDefinition.Name, d, edits), nil
}

// editOf reads one edit from arguments.
func editOf(c tools.Call) (sandboxprofile.Edit, *tools.ArgumentError) {
	e := sandboxprofile.Edit{
		Old: c.String("old_string"), New: c.String("new_string"),
		Count: c.Int("expected_count", 0), All: c.Bool("replace_all"),
	}
	switch {
	case e.Old == e.New:
		return e, &tools.ArgumentError{Field: "new_string", Reason: "is the same as old_string", Hint: "give the new text"}
	case e.All && e.Count > 0:
		return e, &tools.ArgumentError{
			Field: "replace_all", Reason: "cannot be combined with expected_count", Hint: "remove replace_all: expected_count already replaces that many",
		}
	}
	return e, nil
}

// planEdits plans a change of one file. Whether the edits match tells something about
// the content, so nothing is looked for here: the sandbox's init does that, with the
// rights of the profile and after the decision. The plan has the file's identity, so
// that the file that was shown is the one that is changed.
func (c Config) planEdits(call tools.Call, tool string, d tools.PathDecision, edits []sandboxprofile.Edit) tools.Proposal {
	operation := &sandboxprofile.Operation{
		Path: d.Path, Edits: edits, SHA256: call.String("if_sha256"), MaxBytes: min(maxEditable, c.Profile.Limits.FileSize),
	}
	plan := tools.Plan{
		Tool: tool, Kind: tools.Sandboxed, Profile: c.Profile,
		Action: sandboxprofile.Action{Kind: sandboxprofile.EditFile, File: operation},
	}
	if pin, ok := pinBase(d.Path); ok {
		plan.Pins = []tools.Pin{pin}
		operation.Base = &sandboxprofile.Base{
			Device: pin.Device, Inode: pin.Inode, Size: pin.Size,
			ModTime: pin.ModTime, ChangeTime: pin.ChangeTime, Mode: pin.Mode,
		}
	}
	// A store into a shared mapping moves no time: an approval is bound to the content as
	// well.
	if pin, err := tools.PinContent(d.Path); d.Effect == tools.Ask && err == nil && operation.SHA256 == "" && pin.Mode&0o444 != 0 {
		operation.SHA256 = pin.SHA256
	}
	return tools.Proposal{
		Plan:    plan,
		Request: request(tool, "Edit", d),
		Reach:   reach(d),
		Rule:    ruleName(d),
		Present: func(ctx context.Context) (*approval.Presentation, error) {
			return presentEdit(ctx, relative(d), *operation, plan.Pins)
		},
	}
}

// decideEdit asks for both kinds of access: an edit that matches or does not
// tells what is in the file. The stricter answer holds.
func (c Config) decideEdit(call tools.Call) (tools.PathDecision, error) {
	path := call.String("path")
	if strings.HasSuffix(path, "/") {
		return tools.PathDecision{}, &tools.ArgumentError{Field: "path", Reason: "names a directory, not a file"}
	}
	d, err := c.Paths.DecideArgument(path, true)
	if err != nil {
		return d, err
	}
	if read, err := c.Paths.DecideArgument(path, false); err != nil {
		return d, err
	} else if read.Effect < d.Effect {
		d = read
	}
	if d.Effect == tools.Deny {
		return d, blocked(d)
	}
	return unkept(call, d), nil
}

// tick is longer than the step of the clock that a kernel stamps files with: a
// timer interrupt, at most 10 ms.
const tick = 12 * time.Millisecond

// pinBase pins the file that is to be changed. A file changed within the last
// tick could change again and keep its times, so we wait until that is over.
// Without a file there is nothing to pin; the init says what it met instead.
func pinBase(path string) (tools.Pin, bool) {
	pin, err := tools.PinFile(path)
	for tries := 0; err == nil && tries < 3; tries++ {
		age := time.Since(time.Unix(0, pin.ChangeTime))
		if age < 0 || age >= tick {
			break
		}
		time.Sleep(tick - age)
		pin, err = tools.PinFile(path)
	}
	return pin, err == nil
}

// presentEdit shows what the edits would change, as a difference if one can be
// made. It says when the call will fail, so that nobody ponders over it.
func presentEdit(ctx context.Context, name string, o sandboxprofile.Operation, pins []tools.Pin) (*approval.Presentation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	old, err := readOld(o.Path)
	if err != nil {
		return presentEdits(name, o, "cannot be read: "+reason(err)), nil
	}
	if was, special := describe(old.content, old.size); special {
		return presentEdits(name, o, "changes "+was), nil
	}
	edited, _, err := o.Edit(old.content)
	if err != nil {
		return presentEdits(name, o, "will fail: "+err.Error()), nil
	}
	for _, pin := range pins {
		if err := pin.Verify(); err != nil {
			return presentEdits(name, o, "will fail: the file changed after the call was made"), nil
		}
	}
	if tooLarge(string(old.content), string(edited)) {
		return presentEdits(name, o, fmt.Sprintf("changes a file of %d lines", strings.Count(string(old.content), "\n"))), nil
	}
	return difference(name, old.content, edited), nil
}

// presentEdits shows the edits alone, each as if its old text were a whole file.
func presentEdits(name string, o sandboxprofile.Operation, note string) *approval.Presentation {
	var text strings.Builder
	for i, e := range o.Edits { // no line of a diff begins with a star, so none looks like the head of an edit
		fmt.Fprintf(&text, "* edit %d of %s", i+1, approval.EscapeName(name))
		switch {
		case e.All:
			text.WriteString(", every occurrence")
		case e.Count > 1:
			fmt.Fprintf(&text, ", in %d places", e.Count)
		}
		if !tooLarge(e.Old, e.New) {
			_, diff, _ := strings.Cut(udiff.Unified("", "", e.Old, e.New), "\n@@ -") // the places are those in the edit
			text.WriteString("\n@@ of the edit: -" + strings.ReplaceAll(diff, "\n@@ -", "\n@@ of the edit: -"))
			continue
		}
		text.WriteString("\n@@ too large to compare: the new text, then the old text @@\n")
		for line := range strings.Lines(e.New) {
			text.WriteString("+" + strings.TrimSuffix(line, "\n") + "\n")
		}
		for line := range strings.Lines(e.Old) {
			text.WriteString("-" + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return &approval.Presentation{
		Type: approval.Diff, Content: text.String(), Language: "diff", Metadata: map[string]any{"note": note},
	}
}
