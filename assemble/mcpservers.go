package assemble

import (
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/manifest"
	"github.com/sandgate/sandgate/tools/mcp"
)

// MCPServers makes the MCP servers of the configuration. Each is a program like that
// of a custom tool, with a profile of its own.
func MCPServers(cfg *config.Config, d Derived, own map[string]sandboxprofile.Rights) ([]*mcp.Server, error) {
	var list []*mcp.Server
	for i := range cfg.MCP.Servers {
		s := &cfg.MCP.Servers[i]
		t := s.Tool()
		c, err := CustomTool(cfg, d, own, &t)
		if err != nil {
			return nil, configError(fmt.Errorf("mcp.servers.%s: %w", s.Name, err))
		}
		c.Held = true
		program, err := manifest.New(c)
		if err != nil {
			return nil, configError(err)
		}
		server := mcp.Config{
			Name: s.Name, Program: program, Wall: c.Profile.Limits.Wall, Output: c.Profile.Limits.Output, Position: s.Position.String(),
			Default: effectOf(s.Approval.Default), Tools: map[string]tools.Effect{},
		}
		for glob, e := range s.Approval.Tools {
			server.Tools[glob] = effectOf(e)
		}
		for _, other := range cfg.MCP.Servers {
			server.Others = append(server.Others, other.Name)
		}
		server.Others = slices.DeleteFunc(server.Others, func(name string) bool { return name == s.Name })
		list = append(list, mcp.New(server))
	}
	return list, nil
}

// effectOf is Deny for an unknown word.
func effectOf(e config.Effect) tools.Effect {
	switch e {
	case config.Allow:
		return tools.Allow
	case config.Ask:
		return tools.Ask
	}
	return tools.Deny
}
