package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

// Bounds of a definition. A description is text in the model's context that people do
// not read each time; a page of text has another purpose.
const (
	maxDescription = 16 << 10
	maxSchema      = 128 << 10
)

// described is a tool as a server describes it. Other members, such as _meta and
// icons, go nowhere.
type described struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  *annotations    `json:"annotations"`
}

type annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
}

// Offered makes tools of what a server lists, in the order of their names. A bad
// definition is kept as a tool whose calls are blocked, so that a person can find out
// why.
func (s *Server) Offered(p Process, list []json.RawMessage) []*Tool {
	var all []*Tool
	for i, raw := range list {
		all = append(all, s.offered(p, i, raw))
	}
	slices.SortStableFunc(all, func(a, b *Tool) int { return strings.Compare(a.definition.Name, b.definition.Name) })
	return s.unique(all)
}

// unique refuses tools that share a name, all of them: which one is meant would be
// the server's choice.
func (s *Server) unique(all []*Tool) []*Tool {
	count := map[string]int{}
	for _, t := range all {
		count[strings.ToLower(t.definition.Name)]++
	}
	var kept []*Tool
	seen := map[string]bool{}
	for _, t := range all {
		if count[strings.ToLower(t.definition.Name)] > 1 {
			t.refuse("the server lists the name twice")
		}
		if name := t.definition.Name; !seen[name] {
			seen[name] = true
			kept = append(kept, t)
		}
	}
	return kept
}

func (s *Server) offered(p Process, i int, raw json.RawMessage) *Tool {
	var d described
	err := json.Unmarshal(raw, &d)
	if err != nil || !validOwnName(d.Name) {
		t := &Tool{server: s, process: p, own: fmt.Sprintf("tool-%d", i+1)}
		t.definition.Name = ToolName(s.Name, t.own)
		if err != nil {
			t.refuse("it is not a valid tool definition")
		} else {
			t.refuse("its name is not 1 to 128 letters, digits, '_', '-', '.' and '/'")
		}
		return t
	}
	if s := bytes.TrimSpace(d.InputSchema); len(s) == 0 || string(s) == "null" {
		d.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	t := &Tool{server: s, process: p, own: d.Name, digest: digestOf(append(canonical(d), p.Plan.Content()...))}
	t.definition = tools.Definition{
		Name: ToolName(s.Name, d.Name), Description: d.Description, InputSchema: d.InputSchema, Annotations: d.hints(),
	}
	if why := s.objection(d); why != "" {
		t.refuse(why)
	}
	t.hint, t.cautions = hint(d), s.cautions(d)
	return t
}

// refuse keeps none of the server's words.
func (t *Tool) refuse(why string) {
	if t.refused != "" {
		return
	}
	t.refused = why
	t.definition = tools.Definition{
		Name: t.definition.Name, Description: "Refused: " + why + ".", InputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: tools.Annotations{DestructiveHint: true, OpenWorldHint: true},
	}
}

// canonical is the input of a definition's digest: everything that is passed on,
// however it was written.
func canonical(d described) []byte {
	for _, schema := range []*json.RawMessage{&d.InputSchema, &d.OutputSchema} {
		v, err := decode(*schema)
		if err == nil {
			if b, err := approval.Canonical(v); err == nil {
				*schema = b
				continue
			}
		}
		*schema, _ = json.Marshal(string(*schema)) // no JSON that has a canonical form: refused, and compared as it is
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("mcp: bug: a definition does not marshal: %v", err))
	}
	return b
}

func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err
}

// hints are the annotations with the protocol's defaults: a tool without hints may do
// anything.
func (d described) hints() tools.Annotations {
	a := d.Annotations
	if a == nil {
		a = &annotations{}
	}
	value := func(b *bool, absent bool) bool {
		if b == nil {
			return absent
		}
		return *b
	}
	title := d.Title
	if title == "" {
		title = a.Title
	}
	return tools.Annotations{
		Title: title, ReadOnlyHint: value(a.ReadOnlyHint, false), DestructiveHint: value(a.DestructiveHint, true),
		IdempotentHint: value(a.IdempotentHint, false), OpenWorldHint: value(a.OpenWorldHint, true),
	}
}

// objection is why a definition is refused, "" if it is not.
func (s *Server) objection(d described) string {
	if len(d.Description) > maxDescription {
		return fmt.Sprintf("its description has more than %d bytes", maxDescription)
	}
	if len(d.InputSchema) > maxSchema {
		return fmt.Sprintf("its schema has more than %d bytes", maxSchema)
	}
	if other := s.shadowed(d.Name); other != "" {
		return fmt.Sprintf("its name is that of a tool of the server %s", other)
	}
	texts := []string{d.Title, d.Description}
	if d.Annotations != nil {
		texts = append(texts, d.Annotations.Title)
	}
	schema, err := decode(d.InputSchema)
	if err != nil {
		return "its schema is not JSON"
	}
	for _, text := range leaves(schema, texts) {
		if r, hides := hidden(text); hides {
			return fmt.Sprintf("its texts contain U+%04X, which is invisible", r)
		}
	}
	if _, err := tools.CompileSchema(d.InputSchema); err != nil {
		return "its schema does not compile: " + clean(err.Error())
	}
	return ""
}

// clean is one line of ours about something of theirs.
func clean(s string) string { return approval.EscapeLine(tools.Shorten(s)) }

// leaves appends every string in v, the names of members included.
func leaves(v any, to []string) []string {
	switch v := v.(type) {
	case string:
		return append(to, v)
	case []any:
		for _, item := range v {
			to = leaves(item, to)
		}
	case map[string]any:
		for name, item := range v {
			to = leaves(item, append(to, name))
		}
	}
	return to
}

// shadowed is the other server whose tool a name pretends to be, "" if none.
func (s *Server) shadowed(name string) string {
	for _, other := range s.Others {
		if len(name) > len(other) && strings.EqualFold(name[:len(other)+1], other+"_") {
			return other
		}
	}
	return ""
}

// hint is what the server's own hints say against a tool. What is not said is nothing
// against it: the operator has named the tool.
func hint(d described) string {
	a := d.Annotations
	is := func(b *bool) bool { return b != nil && *b }
	switch {
	case a == nil || is(a.ReadOnlyHint):
	case is(a.DestructiveHint):
		return "the server says that the tool is destructive"
	case is(a.OpenWorldHint):
		return "the server says that the tool reaches other systems"
	}
	return ""
}

// cautions are reasons to ask about a tool that the configuration allows, also by name.
func (s *Server) cautions(d described) []string {
	schema, _ := decode(d.InputSchema)
	for _, text := range leaves(schema, []string{d.Title, d.Description}) {
		if other := s.mentioned(text); other != "" {
			return []string{fmt.Sprintf("its description mentions tools of the server %s", other)}
		}
	}
	return nil
}

// mentioned finds the name of another server's tool in a text.
func (s *Server) mentioned(text string) string {
	text = strings.ToLower(text)
	for _, other := range s.Others {
		prefix := strings.ToLower(other) + "_"
		for rest := text; ; {
			at := strings.Index(rest, prefix)
			if at < 0 {
				break
			}
			after := rest[at+len(prefix):]
			starts := at == 0 || !letterOrDigit(rest[at-1]) && rest[at-1] != '_' && rest[at-1] != '-'
			if starts && after != "" && letterOrDigit(after[0]) {
				return other
			}
			rest = after
		}
	}
	return ""
}

// hidden finds a character that a person does not see and a model reads: control and
// format characters, tags, private use, runs of variation selectors. Joiners and
// selectors inside emoji and scripts that need them do not count.
func hidden(text string) (rune, bool) {
	before := rune(0)
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return r, true
			}
		}
		if !plain(before, r) {
			return r, true
		}
		before = r
	}
	return 0, false
}

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	textSelector       = '\ufe0e'
	emojiSelector      = '\ufe0f'
)

func plain(before, r rune) bool {
	switch r {
	case '\n', '\t', '\r', ' ', '\u00a0', '\u202f', '\u3000':
		return true
	case zeroWidthJoiner, zeroWidthNonJoiner:
		return before >= 0x80 && before != zeroWidthJoiner && before != zeroWidthNonJoiner
	case textSelector, emojiSelector:
		return before >= 0x80 && before != textSelector && before != emojiSelector || strings.ContainsRune("0123456789#*", before)
	}
	return unicode.IsPrint(r) && r != '\u2800' && // Braille pattern blank
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}

// present shows the arguments whole, and what is known of the tool beside them.
func (t *Tool) present(c tools.Call, cautions []string) func(context.Context) (*approval.Presentation, error) {
	return func(context.Context) (*approval.Presentation, error) {
		b, err := json.MarshalIndent(c.Args, "", "  ")
		if err != nil {
			return nil, err
		}
		return &approval.Presentation{
			Type: approval.Structured, Content: string(b), Language: "json",
			Metadata: map[string]any{
				"server": t.server.Name, "tool": t.own, "says the server": t.definition.Description, "definition": t.digest, "cautions": cautions,
			},
		}, nil
	}
}
