package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// An Option shapes the request that Simple and Require make.
type Option func(*requestShape)

type requestShape struct {
	description func(args map[string]any) string
	payload     func(args map[string]any) map[string]any
	exclude     []string
	group       func(args map[string]any) string
}

// Describe makes the description from the arguments.
func Describe(f func(args map[string]any) string) Option {
	return func(s *requestShape) { s.description = f }
}

// Exclude leaves arguments out of the payload and of the generated description:
// secrets, and content that varies between calls that are "the same again".
// Remembering an answer then covers every value of what is left out.
func Exclude(keys ...string) Option {
	return func(s *requestShape) { s.exclude = append(s.exclude, keys...) }
}

// Payload makes the payload from the arguments; Exclude then does not apply to it.
func Payload(f func(args map[string]any) map[string]any) Option {
	return func(s *requestShape) { s.payload = f }
}

// Group names the group of requests that belong on one screen with this one.
func Group(f func(args map[string]any) string) Option {
	return func(s *requestShape) { s.group = f }
}

// Simple makes the request of a tool that has nothing special to say: the
// description is the tool's name with its arguments, the payload is all of them.
func Simple(toolName string, args map[string]any, options ...Option) *Request {
	var s requestShape
	for _, o := range options {
		o(&s)
	}
	return s.request(toolName, args)
}

func (s requestShape) request(toolName string, args map[string]any) *Request {
	kept := maps.Clone(args)
	if kept == nil {
		kept = map[string]any{}
	}
	for _, k := range s.exclude {
		delete(kept, k)
	}
	r := &Request{ToolName: toolName, Payload: kept}
	if s.description != nil {
		r.Description = s.description(args)
	} else {
		r.Description = describe(toolName, kept)
	}
	if s.payload != nil {
		r.Payload = s.payload(args)
	}
	if s.group != nil {
		r.GroupID = s.group(args)
	}
	return r
}

// maxDescription is in bytes; a description is one line on a screen.
const maxDescription = 200

func describe(toolName string, args map[string]any) string {
	words := make([]string, 0, len(args))
	for _, k := range slices.Sorted(maps.Keys(args)) {
		words = append(words, k+"="+compactJSON(args[k]))
	}
	d := EscapeLine(toolName + "(" + strings.Join(words, ", ") + ")")
	for most := maxDescription; ; most-- {
		cut := cutAtRune(d, most)
		if cut == d {
			return d
		}
		// What was cut off may have kept a letter from moving our words.
		if line := fmt.Sprintf("%s... (%d more bytes)", cut, len(d)-len(cut)); EscapeLine(line) == line {
			return line
		}
	}
}

func compactJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("<%v>", err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A Tool is a Go function that an agent can call by name.
type Tool interface {
	Name() string
	Run(ctx context.Context, args map[string]any) (any, error)
}

// NewTool makes a Tool of a function.
func NewTool(name string, run func(ctx context.Context, args map[string]any) (any, error)) Tool {
	return funcTool{name, run}
}

type funcTool struct {
	name string
	run  func(context.Context, map[string]any) (any, error)
}

func (t funcTool) Name() string { return t.name }

func (t funcTool) Run(ctx context.Context, args map[string]any) (any, error) {
	return t.run(ctx, args)
}

// A Guarded is a tool that asks for approval of each of its calls.
type Guarded struct {
	Tool
	shape requestShape
}

// Require makes tool approval-aware: each call asks, with a request shaped by the options. The
// tool itself does not change, and its Run does not ask: use Controller.Run, which asks first.
func Require(tool Tool, options ...Option) Guarded {
	g := Guarded{Tool: tool}
	for _, o := range options {
		o(&g.shape)
	}
	return g
}

// CheckApproval implements Aware.
func (g Guarded) CheckApproval(c Context) (*Request, error) {
	return g.shape.request(g.Name(), c.Args), nil
}

// Run decides on one call of t and runs it if it may happen. call needs no more
// than a session; the tool's name, the request and the subject are filled in.
// A tool that is not Aware is asked about by its name and all its arguments.
//
// The arguments are copied first, and the copy is both what is shown and what
// runs: changing args while a person reads the prompt changes nothing.
func (c *Controller) Run(ctx context.Context, t Tool, args map[string]any, call Call) (any, error) {
	approved := cloneArgs(args)
	aware, ok := t.(Aware)
	if !ok {
		aware = Require(t)
	}
	call.ToolName = t.Name()
	call.Request, call.Err = aware.CheckApproval(Context{ToolName: t.Name(), Args: cloneArgs(approved)})
	call.Subject, call.Digest = approved, digest(approved)
	grant, err := c.Decide(ctx, call)
	if err != nil {
		return nil, err
	}
	granted, err := Granted[map[string]any](grant)
	if err != nil {
		return nil, err
	}
	return t.Run(ctx, granted)
}

func cloneArgs(args map[string]any) map[string]any {
	clone, _ := cloneJSON(args).(map[string]any)
	return clone
}

// cloneJSON copies maps and slices of every type, all the way down.
func cloneJSON(v any) any {
	from := reflect.ValueOf(v)
	switch {
	case from.Kind() == reflect.Map && !from.IsNil():
		to := reflect.MakeMapWithSize(from.Type(), from.Len())
		for it := from.MapRange(); it.Next(); {
			to.SetMapIndex(it.Key(), cloneElem(it.Value()))
		}
		return to.Interface()
	case from.Kind() == reflect.Slice && !from.IsNil():
		to := reflect.MakeSlice(from.Type(), from.Len(), from.Len())
		for i := range from.Len() {
			to.Index(i).Set(cloneElem(from.Index(i)))
		}
		return to.Interface()
	}
	return v
}

func cloneElem(e reflect.Value) reflect.Value {
	if e.Kind() == reflect.Interface && e.IsNil() {
		return e
	}
	return reflect.ValueOf(cloneJSON(e.Interface()))
}

// digest is the SHA-256 of the canonical JSON of v, as "sha256:<hex>", or "" if v has
// no canonical form.
func digest(v any) string {
	b, err := Canonical(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
