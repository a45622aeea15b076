package mcpconn

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/approval"
)

// versions are the revisions of the protocol that are spoken here, the newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// A Server is a server's description of itself in its greeting.
type Server struct {
	ProtocolVersion string                     `json:"protocolVersion"`
	Capabilities    map[string]json.RawMessage `json:"capabilities"`
	ServerInfo      struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	} `json:"serverInfo"`
	Instructions string `json:"instructions,omitempty"`
}

// Initialize greets the server. The client that it meets can do nothing for it.
func (c *Conn) Initialize(ctx context.Context, version string) (Server, error) {
	var s Server
	raw, err := c.Request(ctx, "initialize", map[string]any{
		"protocolVersion": versions[0], "capabilities": struct{}{},
		"clientInfo": map[string]any{"name": "sandgate", "version": version},
	})
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fault("answered initialize with an invalid result")
	}
	if !slices.Contains(versions, s.ProtocolVersion) {
		return s, fault("speaks version %s of the protocol, which sandgate does not support", approval.EscapeName(cut(s.ProtocolVersion)))
	}
	return s, c.Notify("notifications/initialized", struct{}{})
}

// Tools lists the server's tools, each as the server wrote it.
func (c *Conn) Tools(ctx context.Context) ([]json.RawMessage, error) {
	const mostPages, mostTools = 100, 1000
	c.changed.Store(false)
	var all []json.RawMessage
	cursor, size := "", 0
	for range mostPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := c.Request(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fault("answered tools/list with something other than a list of tools")
		}
		all = append(all, page.Tools...)
		if size += len(raw); size > c.limits.List || len(all) > mostTools {
			return nil, fault("lists more than %d tools or %d bytes", mostTools, c.limits.List)
		}
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
	return nil, fault("lists its tools on more than %d pages", mostPages)
}

// Call calls a tool.
func (c *Conn) Call(ctx context.Context, tool string, args json.RawMessage) (Result, error) {
	raw, err := c.Request(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return Result{}, err
	}
	return ParseResult(raw)
}

// A Result is what a tool gives back.
type Result struct {
	Content    []Item
	Structured json.RawMessage // an object, or nil
	IsError    bool
}

// An Item is one piece of a result: a text, or bytes of a type.
type Item struct {
	Text     string
	Blob     []byte
	MIMEType string
}

// ParseResult reads the result of tools/call. Links and other things that are not
// content are given as JSON. The error is a *FaultError.
func ParseResult(raw json.RawMessage) (Result, error) {
	var wire struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Result{}, fault("answered tools/call with something other than a tool's result")
	}
	r := Result{IsError: wire.IsError}
	if len(wire.StructuredContent) > 0 && wire.StructuredContent[0] == '{' {
		r.Structured = wire.StructuredContent
	}
	for _, item := range wire.Content {
		i, err := parseItem(item)
		if err != nil {
			return Result{}, err
		}
		r.Content = append(r.Content, i)
	}
	return r, nil
}

func parseItem(raw json.RawMessage) (Item, error) {
	var wire struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     []byte `json:"data"`
		MIMEType string `json:"mimeType"`
		Resource *struct {
			URI      string `json:"uri"`
			MIMEType string `json:"mimeType"`
			Text     string `json:"text"`
			Blob     []byte `json:"blob"`
		} `json:"resource"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Item{}, fault("answered tools/call with invalid content")
	}
	switch {
	case wire.Type == "text":
		return Item{Text: wire.Text}, nil
	case wire.Type == "image" || wire.Type == "audio":
		return Item{Blob: wire.Data, MIMEType: wire.MIMEType}, nil
	case wire.Type == "resource" && wire.Resource != nil && wire.Resource.Blob != nil:
		return Item{Blob: wire.Resource.Blob, MIMEType: wire.Resource.MIMEType}, nil
	case wire.Type == "resource" && wire.Resource != nil:
		return Item{Text: wire.Resource.Text, MIMEType: wire.Resource.MIMEType}, nil
	}
	return Item{Text: string(raw)}, nil
}
