package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

// Names of members of _meta, which MCP leaves to whoever has the prefix.
const (
	metaStream   = "sandgate.dev/stream"
	metaExit     = "sandgate.dev/exit_code"
	metaPlan     = "sandgate.dev/plan_digest"
	metaDecision = "sandgate.dev/decision"
)

// resultOf is what a call did. A program that failed by itself is an error to the
// model too, which has to know; what it wrote says how.
func resultOf(r protocol.CallResult) *mcp.CallToolResult {
	out := &mcp.CallToolResult{
		Meta:    mcp.Meta{metaExit: r.ExitCode, metaPlan: r.PlanDigest, metaDecision: r.Decision},
		Content: contents(r), IsError: r.ExitCode != 0,
	}
	if isObject(r.Structured) { // MCP has no other
		out.StructuredContent = r.Structured
	}
	return out
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
		notes = append(notes, "the output is not complete")
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
	} `json:"error"`
}

// refusalOf tells the model that a call did not run, or not to its end, and what
// would be allowed. What it had done until then comes first.
func refusalOf(e *protocol.Error) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: true, Meta: mcp.Meta{}}
	if e.Result != nil {
		out.Content = contents(*e.Result)
	}
	if e.Decision != nil {
		out.Meta[metaDecision] = *e.Decision
	}
	text := withHint(e)
	if e.Decision != nil && e.Decision.Feedback != "" {
		text += "\nfeedback: " + e.Decision.Feedback
	}
	if e.Decision != nil && e.Decision.Interrupt {
		text += "\nEnd your turn now, and wait for the user."
	}
	out.Content = append(out.Content, &mcp.TextContent{Text: text})
	var r refusal
	r.Error.Code, r.Error.Message, r.Error.Hint, r.Error.PlanDigest = e.Code, e.Message, e.HintText, e.PlanDigest
	out.StructuredContent = r
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
				say(fmt.Sprintf("(%d bytes are left out here)", o.Omitted))
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
