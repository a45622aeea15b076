package main

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpTestServer is a third-party MCP server, as the SDK makes them.
func mcpTestServer() {
	type path struct {
		Path string `json:"path"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "stat", Description: "Say whether there is a file."}, func(_ context.Context, r *mcp.CallToolRequest, in path) (*mcp.CallToolResult, any, error) {
		_, err := os.Stat(in.Path)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(err == nil)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "write", Description: "Make an empty file."}, func(_ context.Context, r *mcp.CallToolRequest, in path) (*mcp.CallToolResult, any, error) {
		return nil, nil, os.WriteFile(in.Path, nil, 0o600)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "remove", Description: "Remove a file.", Annotations: &mcp.ToolAnnotations{DestructiveHint: ptr(true)}}, func(_ context.Context, r *mcp.CallToolRequest, in path) (*mcp.CallToolResult, any, error) {
		return nil, nil, os.Remove(in.Path)
	})
	s.AddResource(&mcp.Resource{Name: "note", URI: "note:1"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note:1", Text: "a note"}}}, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ptr[T any](v T) *T { return &v }
