package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Registry is the set of tools that one supervisor offers. It does not change
// once it is made, and is safe for concurrent use.
type Registry struct {
	tools  map[string]registered
	names  []string // sorted
	digest string
}

type registered struct {
	tool       Tool
	definition Definition
	schema     func() (*Schema, error)
}

// NewRegistry compiles every tool's input schema. It fails on a schema that does
// not compile, on two tools of one name, and on a name that MCP would not take.
func NewRegistry(list ...Tool) (*Registry, error) {
	r, err := ShippedRegistry(list...)
	if err != nil {
		return nil, err
	}
	for _, name := range r.names {
		if _, err := r.tools[name].schema(); err != nil {
			return nil, fmt.Errorf("tools: register %q: %w", name, err)
		}
	}
	return r, nil
}

// ShippedRegistry is NewRegistry for tools whose schemas are known to compile: each is
// compiled when it is first called, which most are not.
func ShippedRegistry(list ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]registered, len(list))}
	for _, tool := range list {
		if err := r.add(tool); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.names)
	b, err := json.Marshal(r.Definitions())
	if err != nil {
		return nil, fmt.Errorf("tools: digest of the definitions: %w", err)
	}
	sum := sha256.Sum256(b)
	r.digest = "sha256:" + hex.EncodeToString(sum[:])
	return r, nil
}

func (r *Registry) add(tool Tool) error {
	def := tool.Definition()
	if !validToolName(def.Name) {
		return fmt.Errorf("tools: register %q: a name is 1 to 64 letters, digits, '_', '-' or '.'", clip(def.Name))
	}
	if _, taken := r.tools[def.Name]; taken {
		return fmt.Errorf("tools: register %q: another tool has that name", def.Name)
	}
	r.tools[def.Name] = registered{tool, def, sync.OnceValues(func() (*Schema, error) { return CompileSchema(def.InputSchema) })}
	r.names = append(r.names, def.Name)
	return nil
}

func validToolName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
	})
}

// Definitions lists every tool, sorted by name.
func (r *Registry) Definitions() []Definition {
	list := make([]Definition, 0, len(r.names))
	for _, name := range r.names {
		list = append(list, r.tools[name].definition)
	}
	return list
}

// Digest identifies the definitions: an agent or an approval that remembers it
// learns that a tool's name, words or schema changed. "sha256:<hex>".
func (r *Registry) Digest() string { return r.digest }

// Plan finds the tool, validates the arguments and asks the tool for its plan.
// The error is an *UnknownToolError, an *ArgumentError, or the tool's own.
func (r *Registry) Plan(c Call) (Proposal, error) {
	entry, ok := r.tools[c.Tool]
	if !ok {
		return Proposal{}, r.unknown(c.Tool)
	}
	if err := entry.validate(c.Args); err != nil {
		return Proposal{}, err
	}
	p, err := entry.tool.Plan(c)
	if c.Cancelled() { // what was planned may be of half a text
		return Proposal{}, context.Canceled
	}
	return p, err
}

func (r registered) validate(args map[string]any) error {
	schema, err := r.schema()
	if err != nil {
		return fmt.Errorf("tools: %q: %w", r.definition.Name, err)
	}
	return schema.Validate(args)
}

// Tool gives one tool, or nil.
func (r *Registry) Tool(name string) Tool { return r.tools[name].tool }

// Definition gives the definition of one tool. The error is an *UnknownToolError.
func (r *Registry) Definition(name string) (Definition, error) {
	entry, ok := r.tools[name]
	if !ok {
		return Definition{}, r.unknown(name)
	}
	return entry.definition, nil
}

func (r *Registry) unknown(name string) error {
	return &UnknownToolError{Name: name, Meant: Nearest(name, r.names), Known: slices.Clone(r.names)}
}

// An UnknownToolError says that no tool has the name that a call used.
type UnknownToolError struct {
	Name  string
	Meant string // the known name nearest to it, or ""
	Known []string
}

func (e *UnknownToolError) Error() string { return fmt.Sprintf("unknown tool %q", clip(e.Name)) }

// Hint tells a model what it can call instead.
func (e *UnknownToolError) Hint() string {
	if e.Meant != "" {
		return fmt.Sprintf("did you mean %q?", e.Meant)
	}
	return "known tools: " + strings.Join(e.Known, ", ")
}
