package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// The formats of an argument that names a file: one that the program reads, and
// one that it writes.
const (
	formatPath         = "path"
	formatWritablePath = "writable-path"
)

// arguments are those of one call, defaults filled in and paths resolved.
type arguments struct {
	values map[string]any
	asks   []pathAsk
	paths  []string    // that the arguments name, as they resolved
	pins   []tools.Pin // that they still do
	writes bool        // one of those that are pinned is to be written
}

// reach is the files that the arguments name. A remembered pattern may deny them and
// allows nothing: it would outlive the definition that it was an answer to, and
// cover whatever the other arguments say.
func (a arguments) reach() approval.Reach {
	r := approval.Reach{Left: func([]approval.Pattern) int { return 1 }, NotWhole: "it would outlive the definition of the tool"}
	for _, path := range a.paths {
		r.Elements = append(r.Elements, approval.Element{Kind: approval.PathGlob, Name: path})
	}
	return r
}

// A pathAsk is a path rule that wants a person to be asked about an argument.
type pathAsk struct{ arg, rule string }

func (a arguments) asked() []string {
	var names []string
	for _, ask := range a.asks {
		names = append(names, ask.arg)
	}
	return names
}

// rule names what in the configuration decides about the call.
func (a arguments) rule(tool string) string {
	if len(a.asks) > 0 {
		return a.asks[0].rule
	}
	return "tools." + tool
}

// arguments prepares the arguments of a call, which satisfy the schema. null is
// the same as leaving an argument out.
func (t *tool) arguments(given map[string]any) (arguments, error) {
	a := arguments{values: maps.Clone(given)}
	if a.values == nil {
		a.values = map[string]any{}
	}
	maps.DeleteFunc(a.values, func(_ string, v any) bool { return v == nil })
	properties, _ := t.InputSchema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := t.property(name)
		if _, ok := a.values[name]; !ok && property["default"] != nil {
			a.values[name] = property["default"]
		}
		if err := t.resolve(&a, name, property); err != nil {
			return a, err
		}
	}
	return a, nil
}

// resolve replaces the path in an argument, or in each item of an array, by
// where it leads.
func (t *tool) resolve(a *arguments, name string, property map[string]any) error {
	v, given := a.values[name]
	if format, ok := pathFormat(property); given && ok {
		path, err := t.path(a, name, name, v, format == formatWritablePath)
		a.values[name] = path
		return err
	}
	items, _ := property["items"].(map[string]any)
	format, ok := pathFormat(items)
	list, isList := v.([]any)
	if !ok || !isList {
		return nil
	}
	resolved := make([]any, len(list))
	for i, item := range list {
		path, err := t.path(a, name, name+"/"+strconv.Itoa(i), item, format == formatWritablePath)
		if err != nil {
			return err
		}
		resolved[i] = path
	}
	a.values[name] = resolved
	return nil
}

func pathFormat(schema map[string]any) (string, bool) {
	format, _ := schema["format"].(string)
	return format, format == formatPath || format == formatWritablePath
}

// path holds one path against the rules and the tool's own profile.
func (t *tool) path(a *arguments, arg, field string, v any, write bool) (string, error) {
	given, ok := v.(string)
	if !ok {
		return "", &tools.ArgumentError{Field: field, Reason: "is not a path"}
	}
	d, err := t.Paths.Decide(given, write)
	if err != nil {
		return "", tools.InField(err, field)
	}
	label := "sandbox.paths"
	if d.Rule != nil {
		label = d.Rule.Label()
	}
	need := sandboxprofile.Read
	if write {
		need |= sandboxprofile.Write
	}
	switch {
	case d.Effect == tools.Deny:
		return "", &approval.Blocked{Reason: d.Reason, Rule: label, Hint: d.Hint}
	case t.Profile.Rights(d.Path)&need != need:
		return "", &approval.Blocked{Reason: fmt.Sprintf("%q is outside the paths that the tool %s may use", given, t.Name),
			Rule: "tools." + t.Name + ".sandbox", Hint: "name another path, or use another tool"}
	case d.Effect == tools.Ask:
		a.asks = append(a.asks, pathAsk{arg, label})
	}
	a.paths = append(a.paths, d.Path)
	if pin, ok := tools.PinPath(d.Path, t.AllPaths); ok {
		a.pins, a.writes = append(a.pins, pin), a.writes || write
	}
	return d.Path, nil
}

// maxWord is the most bytes that Linux passes in one argument without its NUL:
// MAX_ARG_STRLEN of execve(2).
const maxWord = 128<<10 - 1

// argv makes the argument vector.
func (t *tool) argv(a arguments) ([]string, error) {
	argv := []string{t.Command[0]}
	operands := false // behind "--" nothing is read as an option
	for _, w := range t.words {
		words, err := t.expand(w, a)
		if err != nil {
			return nil, err
		}
		for _, word := range words {
			if err := t.checkWord(w, word, operands); err != nil {
				return nil, err
			}
		}
		argv = append(argv, words...)
		operands = operands || len(w.args()) == 0 && w.prefix() == "--"
	}
	return argv, nil
}

// expand gives the words that one template stands for: one, none if an argument
// that it names is absent, or those of an array.
func (t *tool) expand(w template, a arguments) ([]string, error) {
	if p, alone := w.alone(); alone {
		switch v, given := a.values[p.arg]; p.kind {
		case placeIf:
			if !given || v == false {
				return nil, nil
			}
			return []string{p.then}, nil
		case placeSpread:
			return spread(p.arg, v)
		}
	}
	for _, name := range w.args() {
		if v, given := a.values[name]; given {
			if _, ok := plainText(v); !ok {
				return nil, &tools.ArgumentError{Field: name, Reason: "must be text, a number or a boolean to be a word of a command"}
			}
		}
	}
	word, complete := w.fill(func(name string) (string, bool) { return plainText(a.values[name]) })
	if !complete {
		return nil, nil
	}
	return []string{word}, nil
}

func spread(name string, v any) ([]string, error) {
	list, _ := v.([]any)
	words := make([]string, 0, len(list))
	for i, item := range list {
		text, ok := plainText(item)
		if !ok {
			return nil, &tools.ArgumentError{Field: name + "/" + strconv.Itoa(i), Reason: "must be text, a number or a boolean to be a word of a command"}
		}
		words = append(words, text)
	}
	return words, nil
}

// checkWord refuses what execve(2) cannot pass, and a word that only a value
// made an option. Where the template begins with text, that text says what the
// word is.
func (t *tool) checkWord(w template, word string, operands bool) error {
	field := strings.Join(w.args(), ", ")
	if field == "" {
		return nil
	}
	switch {
	case strings.ContainsRune(word, 0):
		return &tools.ArgumentError{Field: field, Reason: "contains a NUL byte"}
	case !utf8.ValidString(word):
		return &tools.ArgumentError{Field: field, Reason: "is not valid UTF-8"}
	case len(word) > maxWord:
		return &tools.ArgumentError{Field: field, Reason: fmt.Sprintf("becomes a word of %d bytes; at most %d can be passed", len(word), maxWord),
			Hint: "write the data to a file, and give the file's name"}
	case strings.HasPrefix(word, "-") && w.prefix() == "" && !operands && !t.mayBeOption(w):
		return &tools.ArgumentError{Field: field, Reason: "begins with a dash and would be read as an option",
			Hint: "for a file, write ./ before the name"}
	}
	return nil
}

// mayBeOption reports whether every argument of the word is one that the
// operator lets be an option, or whose values the operator listed.
func (t *tool) mayBeOption(w template) bool {
	for _, p := range w.pieces {
		if p.kind == placeIf {
			continue // the operator's own text
		}
		if p.arg != "" && !slices.Contains(t.OptionsAllowed, p.arg) && !t.listed(p.arg) {
			return false
		}
	}
	return true
}

// listed reports whether the schema lists the values of an argument or its items.
func (s Spec) listed(name string) bool {
	property := s.property(name)
	if items, ok := property["items"].(map[string]any); ok {
		property = items
	}
	return property["enum"] != nil || property["const"] != nil
}

// input is the program's standard input, or nil.
func (t *tool) input(a arguments) ([]byte, error) {
	switch t.stdinKind {
	case stdinJSON:
		b, err := json.Marshal(a.values)
		if err != nil {
			return nil, &tools.ArgumentError{Reason: "they are not JSON: " + err.Error()}
		}
		return b, nil
	case stdinText:
		v, given := a.values[t.stdinArg]
		if !given {
			return nil, nil
		}
		text, ok := plainText(v)
		if !ok || !utf8.ValidString(text) {
			return nil, &tools.ArgumentError{Field: t.stdinArg, Reason: "is not text"}
		}
		return []byte(text), nil
	}
	return nil, nil
}

// plainText is a scalar as a word. A number is written in decimal whichever way
// the agent spelt it: 1e3 is 1000.
func plainText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return decimal(v), true
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return strconv.FormatInt(i, 10), true
		}
		f, err := v.Float64()
		return decimal(f), err == nil
	}
	return "", false
}

// decimal writes small numbers without an exponent, as JavaScript does.
func decimal(f float64) string {
	if math.Abs(f) < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
