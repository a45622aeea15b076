package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Spec is one entry of `tools` in the configuration: what the operator wrote.
// Whatever is in it decides whether a remembered answer still holds: so it is not config.Tool,
// which has places in files and grants as they are written.
type Spec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Command is the argument vector, each word a template. The first word is the
	// program and has no placeholder.
	Command []string `json:"command"`
	// OptionsAllowed names arguments whose values may begin with a dash.
	OptionsAllowed []string `json:"options_allowed,omitempty"`
	// InputSchema is the JSON Schema of the arguments; nil takes none.
	InputSchema map[string]any `json:"input_schema,omitempty"`
	// Stdin is "" or "none", "json" for all arguments as one JSON object, or a
	// template of one argument: "{{text}}".
	Stdin string `json:"stdin,omitempty"`
	// JSONOutput says that the program writes one JSON value to its standard
	// output, which becomes the structured result.
	JSONOutput bool              `json:"json_output,omitempty"`
	Approval   Approval          `json:"approval"`
	Secrets    []Secret          `json:"secrets,omitempty"`
	Env        map[string]string `json:"env,omitempty"` // beyond the environment of every program
}

// Approval says when a call of the tool is asked about, and in which words.
type Approval struct {
	Required bool `json:"required"`
	// Payload names the arguments that make two calls the same to a remembered
	// answer; nil is all of them.
	Payload []string `json:"payload,omitempty"`
	// Description is a template.
	Description string `json:"description,omitempty"`
}

// A Secret is a file of the operator's whose content only the program gets: it is not
// in its arguments, nor in the plan, the prompt or the log.
type Secret struct {
	Name string `json:"name"` // of the environment variable
	File string `json:"file"` // absolute, links resolved
	// Env gives the content in the variable itself, where the program's children
	// and /proc show it. Otherwise the variable NAME_FILE names a descriptor.
	Env bool `json:"env,omitempty"`
}

// EnvNames lists the variables that a call adds to the environment of every
// program, for the tool's profile.
func (s Spec) EnvNames() []string {
	var names []string
	for name := range s.Env {
		names = append(names, name)
	}
	for _, secret := range s.Secrets {
		names = append(names, secret.variable())
	}
	slices.Sort(names)
	return names
}

func (s Secret) variable() string {
	if s.Env {
		return s.Name
	}
	return s.Name + "_FILE"
}

// digest identifies the definition and the profile that it runs under, as
// "sha256:<hex>", the credentials that it may use included. It is part of every
// payload, so that an answer that was remembered for another definition does not match.
func (s Spec) digest(p sandboxprofile.Profile, credentials []sandboxprofile.Secret) string {
	b, err := json.Marshal(struct {
		Spec
		Credentials []sandboxprofile.Secret `json:"credentials,omitempty"`
	}{s, credentials}) // maps come out sorted
	if err != nil {
		panic(fmt.Sprintf("manifest: bug: a definition does not marshal: %v", err))
	}
	sum := sha256.Sum256(append(b, p.Digest()...))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// standard is the input that a program gets.
type stdinKind uint8

const (
	stdinNone stdinKind = iota
	stdinJSON
	stdinText // one argument's value
)

// stdin reads Spec.Stdin; of stdinText it gives the argument too.
func (s Spec) stdin() (kind stdinKind, arg string, err error) {
	switch s.Stdin {
	case "", "none":
		return stdinNone, "", nil
	case "json":
		return stdinJSON, "", nil
	}
	t, err := parseTemplate(s.Stdin)
	if err != nil {
		return stdinNone, "", err
	}
	p, alone := t.alone()
	if !alone || p.kind != placeValue {
		return stdinNone, "", fmt.Errorf("%q is not a valid value for stdin", s.Stdin)
	}
	return stdinText, p.arg, nil
}

// property is the schema of one argument, or nil if there is none of that name.
func (s Spec) property(name string) map[string]any {
	properties, _ := s.InputSchema["properties"].(map[string]any)
	p, ok := properties[name]
	if !ok {
		return nil
	}
	schema, _ := p.(map[string]any)
	if schema == nil {
		schema = map[string]any{}
	}
	return schema
}

// schema is the input schema that agents see and calls are held against. It is
// closed: an argument that the operator did not name is refused, unless the
// schema says otherwise.
func (s Spec) schema() (json.RawMessage, error) {
	closed := map[string]any{"type": "object", "additionalProperties": false}
	for k, v := range s.InputSchema {
		closed[k] = v
	}
	if _, written := s.InputSchema["additionalProperties"]; !written && s.extends() {
		delete(closed, "additionalProperties") // it would forbid what these name
	}
	return json.Marshal(closed)
}

// extends reports whether keywords beside properties can name arguments.
func (s Spec) extends() bool {
	return slices.ContainsFunc([]string{"patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref", "if"},
		func(k string) bool { _, ok := s.InputSchema[k]; return ok })
}

func (s Spec) description() string {
	if text := strings.TrimSpace(s.Description); text != "" {
		return text
	}
	return "Run " + strings.Join(s.Command, " ")
}
