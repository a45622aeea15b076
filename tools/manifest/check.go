package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// A Fault is one thing that is wrong with a definition.
type Fault struct {
	// Field is where, in the keys of the configuration: "command[2]",
	// "input_schema.properties.path.type".
	Field string
	Text  string
	Hint  string // what to write instead
}

func (f Fault) Error() string {
	if f.Hint == "" {
		return f.Field + ": " + f.Text
	}
	return f.Field + ": " + f.Text + "; " + f.Hint
}

// Check finds what is wrong with a definition, as far as it can be known without
// looking at the host.
func (s Spec) Check() []Fault {
	c := checker{spec: s}
	c.schema()
	c.command()
	c.stdin()
	c.approval()
	for i, name := range s.OptionsAllowed {
		c.argument(index("options_allowed", i), name)
	}
	return c.faults
}

type checker struct {
	spec   Spec
	faults []Fault
}

func (c *checker) fault(field, text, hint string) {
	c.faults = append(c.faults, Fault{field, text, hint})
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// CheckProgram finds what keeps words from being a program and its arguments.
func CheckProgram(words []string) []Fault {
	var faults []Fault
	switch {
	case len(words) == 0 || words[0] == "":
		return []Fault{{"command", "the command is empty", `write the program and its arguments: ["golangci-lint", "run"]`}}
	case len(words) == 1 && strings.ContainsAny(words[0], " \t"):
		faults = append(faults, Fault{index("command", 0), strconv.Quote(words[0]) + " has a space in the program's name",
			"write one list item per word; no shell splits them"})
	}
	for i, word := range words {
		if strings.ContainsRune(word, 0) {
			faults = append(faults, Fault{index("command", i), "the word contains a zero byte", ""})
		}
	}
	return faults
}

func (c *checker) command() {
	words := c.spec.Command
	c.faults = append(c.faults, CheckProgram(words)...)
	if len(words) == 0 {
		return
	}
	if strings.Contains(words[0], "{{") {
		c.fault(index("command", 0), "the program cannot come from an argument", "")
	}
	operands := false
	for i, word := range words[1:] {
		c.word(index("command", i+1), word, operands)
		operands = operands || word == "--"
	}
}

// word checks one template of the command.
func (c *checker) word(field, text string, operands bool) {
	t, err := parseTemplate(text)
	if err != nil {
		c.fault(field, err.Error(), "{{{{ stands for two braces")
		return
	}
	for _, p := range t.pieces {
		if p.arg != "" && c.argument(field, p.arg) {
			c.place(field, t, p)
		}
	}
	if !operands {
		c.option(field, t)
	}
}

// place checks that an argument fits the way in which it is used.
func (c *checker) place(field string, t template, p piece) {
	property := c.spec.property(p.arg)
	_, alone := t.alone()
	array := hasType(property, "array")
	switch {
	case p.kind != placeValue && !alone:
		c.fault(field, fmt.Sprintf("%q is only part of a word", p.arg), "write it as a separate word")
	case p.kind == placeIf:
	case p.kind == placeSpread && !array:
		c.fault(field, fmt.Sprintf("the argument %q is not an array, so ... does not apply", p.arg), "write {{"+p.arg+"}}, or give it type: array")
	case p.kind == placeSpread:
		c.scalar(field, p.arg, property["items"], "each item of ")
	case array:
		c.fault(field, fmt.Sprintf("the argument %q is an array, but this is one word", p.arg), "write {{"+p.arg+"...}} for one word each")
	default:
		c.scalar(field, p.arg, property, "")
	}
}

// scalar checks that a schema only admits what can be a word.
func (c *checker) scalar(field, arg string, schema any, what string) {
	property, _ := schema.(map[string]any)
	types := typesOf(property)
	listed := property["enum"] != nil || property["const"] != nil
	if len(types) == 0 && listed {
		return
	}
	if len(types) == 0 || slices.Contains(types, "object") || slices.Contains(types, "array") {
		c.fault(field, fmt.Sprintf("%sthe argument %q can be an object or an array, which cannot be a word", what, arg),
			"give it a type: string, integer, number or boolean; or pass the arguments with stdin: json")
	}
}

// option checks that an argument does not name an option, unless the operator
// says that it may: "--{{x}}" and "-v{{x}}" would let the agent choose.
func (c *checker) option(field string, t template) {
	prefix := t.prefix()
	if !strings.HasPrefix(prefix, "-") || strings.ContainsAny(prefix, "=") || len(t.args()) == 0 {
		return
	}
	short := len(prefix) == 2 && prefix != "--"
	for _, name := range t.args() {
		numeric := !hasType(c.spec.property(name), "string") && len(typesOf(c.spec.property(name))) > 0
		if !slices.Contains(c.spec.OptionsAllowed, name) && !c.spec.listed(name) && (!short || !numeric) {
			c.fault(field, fmt.Sprintf("the argument %q would be part of the option's name", name),
				"write --name={{"+name+"}}, or two words, or list it in options_allowed")
		}
	}
}

func (c *checker) stdin() {
	kind, arg, err := c.spec.stdin()
	switch {
	case err != nil:
		c.fault("stdin", err.Error(), `write none, json, or one argument: "{{text}}"`)
	case kind == stdinText && c.argument("stdin", arg):
		c.scalar("stdin", arg, c.spec.property(arg), "")
	}
}

func (c *checker) approval() {
	const field = "approval.description"
	t, err := parseTemplate(c.spec.Approval.Description)
	if err != nil {
		c.fault(field, err.Error(), "{{{{ stands for two braces")
	}
	for _, p := range t.pieces {
		switch {
		case p.arg == "":
		case p.kind != placeValue:
			c.fault(field, "a description can contain only values", "write {{"+p.arg+"}}")
		default:
			c.argument(field, p.arg)
		}
	}
	for i, name := range c.spec.Approval.Payload {
		c.argument(index("approval.payload", i), name)
	}
}

// argument checks that the tool has an argument of this name.
func (c *checker) argument(field, name string) bool {
	if c.spec.property(name) != nil {
		return true
	}
	properties, _ := c.spec.InputSchema["properties"].(map[string]any)
	hint := "add it to input_schema.properties"
	if meant := tools.Nearest(name, slices.Sorted(maps.Keys(properties))); meant != "" {
		hint = fmt.Sprintf("did you mean %q?", meant)
	}
	c.fault(field, fmt.Sprintf("the tool has no argument %q", name), hint)
	return false
}

// typesOf lists the JSON types that a schema names.
func typesOf(schema map[string]any) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, v := range t {
			if s, ok := v.(string); ok && s != "null" {
				list = append(list, s)
			}
		}
		return list
	}
	return nil
}

func hasType(schema map[string]any, want string) bool { return slices.Contains(typesOf(schema), want) }
