package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/protocol"
)

// tool is a definition in the library's words. The schema is passed on as it is.
func tool(t protocol.Tool) *mcp.Tool {
	a := t.Annotations
	return &mcp.Tool{
		Name: string(t.Name), Title: a.Title, Description: t.Description, InputSchema: t.InputSchema,
		Annotations: &mcp.ToolAnnotations{
			Title: a.Title, ReadOnlyHint: a.ReadOnlyHint, DestructiveHint: &a.DestructiveHint,
			IdempotentHint: a.IdempotentHint, OpenWorldHint: &a.OpenWorldHint,
		},
	}
}

// Names of members of _meta, which MCP reserves for the owner of the prefix.
const (
	metaStream   = "sandgate.dev/stream"
	metaExit     = "sandgate.dev/exit_code"
	metaPlan     = "sandgate.dev/plan_digest"
	metaDecision = "sandgate.dev/decision"
)

// resultOf is the result of a call of a tool. A program that failed by itself is an
// error to the model too, which has to know; what it wrote says how.
func resultOf(tool protocol.ToolName, r protocol.CallResult) *mcp.CallToolResult {
	out := &mcp.CallToolResult{
		Meta:    mcp.Meta{metaExit: r.ExitCode, metaPlan: r.PlanDigest, metaDecision: r.Decision},
		Content: contents(r), IsError: r.ExitCode != 0,
	}
	switch {
	case !isObject(r.Structured): // MCP has no other
	case searches[tool] && len(out.Content) > 0:
		mirror(out, r.Structured, out.Content[1:], true)
	default:
		mirror(out, r.Structured, out.Content, false)
	}
	return out
}

// searches are the tools whose text, the first piece, lists what their structure does.
var searches = map[protocol.ToolName]bool{"list_files": true, "glob": true, "grep": true}

// textMember is the member of structured content that repeats the text beside it. It is
// another where a server's own structure has a member of that name.
const textMember = "text"

// mirror makes the content and the structured content of a result say the same. Some
// clients give their model the one, and some the other, so something that only one of
// them had would be lost to half of the models. missing are the pieces of the content
// that the structure does not have; told is set if the content has all of the
// structure.
func mirror(out *mcp.CallToolResult, structured json.RawMessage, missing []mcp.Content, told bool) {
	var texts strings.Builder
	whole := true
	for _, c := range missing {
		t, ok := c.(*mcp.TextContent)
		switch {
		case !ok:
			whole = false // no JSON has an image or a sound: the content alone is whole
		case sameJSON(t.Text, structured):
			told = true
		default:
			if s := texts.String(); s != "" && !strings.HasSuffix(s, "\n") {
				texts.WriteByte('\n')
			}
			texts.WriteString(t.Text)
		}
	}
	if !told {
		out.Content = append(out.Content, &mcp.TextContent{Text: string(structured)})
	}
	if whole {
		out.StructuredContent = withText(structured, texts.String())
	}
}

// withText adds the text to an object.
func withText(object json.RawMessage, text string) any {
	var members map[string]json.RawMessage
	if text == "" || json.Unmarshal(object, &members) != nil {
		return object
	}
	name := textMember
	for members[name] != nil {
		name = "sandgate_" + name
	}
	members[name], _ = json.Marshal(text) // a string always marshals
	return members
}

// sameJSON reports whether a text is a value in JSON, however it is laid out.
func sameJSON(text string, value json.RawMessage) bool {
	if !isObject(json.RawMessage(text)) {
		return false
	}
	var a, b any
	return json.Unmarshal([]byte(text), &a) == nil && json.Unmarshal(value, &b) == nil && reflect.DeepEqual(a, b)
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}

// contents are the pieces of a result, and what the model has to know besides.
func contents(r protocol.CallResult) []mcp.Content {
	list := []mcp.Content{}
	for i, c := range r.Content {
		list = append(list, content(i, c))
	}
	var notes []string
	switch {
	case r.Signal != "":
		notes = append(notes, "ended by "+r.Signal)
	case r.ExitCode != 0:
		notes = append(notes, fmt.Sprintf("exit status %d", r.ExitCode))
	}
	for _, v := range r.Violations {
		note := v.Reason
		if v.Hint != "" {
			note += "; " + v.Hint
		}
		notes = append(notes, note)
	}
	if r.Truncated {
		notes = append(notes, "the output is incomplete")
	}
	if len(notes) > 0 {
		list = append(list, &mcp.TextContent{Text: "sandgate: " + strings.Join(notes, "\nsandgate: ")})
	}
	return list
}

func content(i int, c protocol.Content) mcp.Content {
	meta := mcp.Meta{}
	if c.Stream != "" {
		meta[metaStream] = string(c.Stream)
	}
	kind, _, _ := strings.Cut(c.MIMEType, "/")
	switch {
	case c.Type != protocol.ContentBlob:
		return &mcp.TextContent{Text: c.Text, Meta: meta}
	case kind == "image":
		return &mcp.ImageContent{Data: c.Blob, MIMEType: c.MIMEType, Meta: meta}
	case kind == "audio":
		return &mcp.AudioContent{Data: c.Blob, MIMEType: c.MIMEType, Meta: meta}
	}
	mime := c.MIMEType
	if mime == "" {
		mime = "application/octet-stream"
	}
	return &mcp.EmbeddedResource{Meta: meta, Resource: &mcp.ResourceContents{
		URI: fmt.Sprintf("sandgate:content/%d", i), MIMEType: mime, Blob: c.Blob,
	}}
}

// refusal is the structured content of a call that was refused or stopped.
type refusal struct {
	Error struct {
		Code       protocol.Code `json:"code"`
		Message    string        `json:"message"`
		Hint       string        `json:"hint,omitempty"`
		PlanDigest string        `json:"plan_digest,omitempty"`
		Feedback   string        `json:"feedback,omitempty"`
		EndTurn    bool          `json:"end_turn,omitempty"` // the model is to end its turn and wait for the user
	} `json:"error"`
}

// refusalOf tells the model that a call did not run, or not to its end, and what
// would be allowed. What it had done until then comes first.
func refusalOf(e *protocol.Error) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: true, Meta: mcp.Meta{}}
	if e.Result != nil {
		out.Content = contents(*e.Result)
	}
	before := out.Content
	var r refusal
	r.Error.Code, r.Error.Message, r.Error.Hint, r.Error.PlanDigest = e.Code, e.Message, e.HintText, e.PlanDigest
	text := withHint(e)
	if d := e.Decision; d != nil {
		out.Meta[metaDecision] = *d
		r.Error.Feedback, r.Error.EndTurn = d.Feedback, d.Interrupt
		if d.Feedback != "" {
			text += "\nfeedback: " + d.Feedback
		}
		if d.Interrupt {
			text += "\nEnd your turn now, and wait for the user."
		}
	}
	out.Content = append(out.Content, &mcp.TextContent{Text: text})
	structured, _ := json.Marshal(r) // strings always marshal
	mirror(out, structured, before, true)
	return out
}

func withHint(e *protocol.Error) string {
	text := "sandgate: " + string(e.Code) + ": " + e.Message
	if e.HintText != "" {
		text += "\nhint: " + e.HintText
	}
	return text
}

// progress passes a call's output and state on, if the client has asked for it.
// The notifications of one call come in order, each with a greater number.
func progress(ctx context.Context, r *mcp.CallToolRequest) Watch {
	token := r.Params.GetProgressToken()
	if token == nil {
		return Watch{}
	}
	var mu sync.Mutex
	n := 0.0
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		n++
		// A client that is gone has no more calls: the error says nothing new.
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: text})
	}
	return Watch{
		Output: func(o protocol.ToolOutput) {
			if o.Omitted > 0 {
				say(fmt.Sprintf("(%d bytes left out)", o.Omitted))
			}
			if b := o.Bytes(); len(b) > 0 {
				say(strings.ToValidUTF8(string(b), "\uFFFD"))
			}
		},
		State: func(s protocol.ToolState) {
			switch s.State {
			case protocol.Pending:
				say("waiting for an approver")
			case protocol.Running:
				say("running")
			}
		},
	}
}
