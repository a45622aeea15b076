package protocol

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxDepth bounds how deeply objects and arrays may be nested.
const maxDepth = 128

// Unmarshal reads one JSON value into v, and refuses whatever could be read in
// two ways: see the package comment. The errors are a *FieldError that names
// the member below root ("params"), or an *Error with parse_error.
func Unmarshal(data []byte, root string, v any) error {
	if err := checkSyntax(data); err != nil {
		return err
	}
	return unmarshalValid(data, root, v)
}

func checkSyntax(data []byte) error {
	if !utf8.Valid(data) {
		return Errorf(CodeParseError, "the message is not well-formed UTF-8")
	}
	if valid(data) {
		return nil
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(data, new(json.RawMessage))
	if errors.As(err, &syntax) {
		return Errorf(CodeParseError, "the message is not one JSON value: byte %d: %v", syntax.Offset, err)
	}
	return Errorf(CodeParseError, "the message is not one JSON value")
}

// unmarshalValid is Unmarshal for data that is known to be JSON.
func unmarshalValid(data []byte, root string, v any) error {
	w := walker{data: data}
	if err := w.value(reflect.TypeOf(v).Elem(), root, 0); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return asFieldError(err, root)
	}
	return nil
}

// asFieldError keeps what encoding/json still finds (a time that is none, base64
// that is none) in the same form as the walker's own findings.
func asFieldError(err error, root string) error {
	var field *FieldError
	if errors.As(err, &field) {
		return field
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return &FieldError{Path: join(root, typ.Field), Reason: "must not be a JSON " + typ.Value}
	}
	return &FieldError{Path: root, Reason: strings.TrimPrefix(err.Error(), "json: ")}
}

// A walker compares a JSON text with the Go type that it is meant for. The text
// is known to be valid JSON, so the walker only looks for what is wrong with
// its meaning.
type walker struct {
	data []byte
	pos  int
}

// free is the type of a value that may have any shape.
var free = reflect.TypeFor[any]()

var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// shape is the type that a JSON text for t must look like: free where the type
// reads itself or takes anything.
func shape(t reflect.Type) (s reflect.Type, nullable bool) {
	for t.Kind() == reflect.Pointer {
		t, nullable = t.Elem(), true
	}
	if t == rawType || t.Kind() == reflect.Interface {
		return free, true
	}
	p := reflect.PointerTo(t)
	if p.Implements(textType) {
		return reflect.TypeFor[string](), nullable
	}
	if p.Implements(unmarshalerType) {
		return free, true
	}
	return t, nullable
}

func (w *walker) value(t reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return &FieldError{Path: path, Reason: fmt.Sprintf("nested more than %d levels deep", maxDepth)}
	}
	t, nullable := shape(t)
	switch c := w.peek(); {
	case c == '{':
		return w.object(t, path, depth)
	case c == '[':
		return w.array(t, path, depth)
	case c == '"':
		_, err := w.str(t, path)
		return err
	case c == 'n' && !nullable:
		return mismatch(t, path, "null")
	case c == 't' || c == 'f' || c == 'n':
		return w.word(t, path)
	default:
		return w.number(t, path)
	}
}

func (w *walker) object(t reflect.Type, path string, depth int) error {
	if t != free && t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return mismatch(t, path, "an object")
	}
	w.pos++ // {
	seen := map[string]bool{}
	for w.peek() != '}' {
		name, err := w.str(free, path)
		if err != nil {
			return err
		}
		member := join(path, name)
		if seen[name] {
			return &FieldError{Path: member, Reason: "given twice"}
		}
		seen[name] = true
		inner, err := memberType(t, name, member)
		if err != nil {
			return err
		}
		w.peek()
		w.pos++ // :
		if err := w.value(inner, member, depth+1); err != nil {
			return err
		}
		w.comma()
	}
	w.pos++ // }
	return nil
}

func (w *walker) array(t reflect.Type, path string, depth int) error {
	inner := free
	if t != free {
		if t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.Uint8 {
			return mismatch(t, path, "an array")
		}
		inner = t.Elem()
	}
	w.pos++ // [
	for i := 0; w.peek() != ']'; i++ {
		if err := w.value(inner, path+"["+strconv.Itoa(i)+"]", depth+1); err != nil {
			return err
		}
		w.comma()
	}
	w.pos++ // ]
	return nil
}

// str reads a string and refuses lone surrogates, which encoding/json would
// silently turn into U+FFFD: two different texts would then read the same.
func (w *walker) str(t reflect.Type, path string) (string, error) {
	if t != free && t.Kind() != reflect.String && t.Kind() != reflect.Slice {
		return "", mismatch(t, path, "a string")
	}
	w.peek()
	start := w.pos
	escaped := false
	for w.pos++; w.data[w.pos] != '"'; w.pos++ {
		if w.data[w.pos] == '\\' {
			escaped = true
			w.pos++
		}
	}
	w.pos++
	raw := w.data[start:w.pos]
	if !escaped {
		return string(raw[1 : len(raw)-1]), nil
	}
	if loneSurrogate(raw) {
		return "", &FieldError{Path: path, Reason: "contains half of a surrogate pair"}
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// loneSurrogate reports whether a valid JSON string holds a \uD800 to \uDFFF
// that is not one of a pair.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		switch unit := hex4(raw[i+1:]); {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			rest := raw[i+5:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
				return true
			}
			if low := hex4(rest[2:]); low < 0xDC00 || low >= 0xE000 {
				return true
			}
			i += 6
		}
		i += 4
	}
	return false
}

func hex4(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32) // JSON is valid: these are four hex digits
	return n
}

func (w *walker) word(t reflect.Type, path string) error {
	c := w.data[w.pos]
	for w.pos < len(w.data) && w.data[w.pos] >= 'a' && w.data[w.pos] <= 'z' {
		w.pos++
	}
	if c != 'n' && t != free && t.Kind() != reflect.Bool {
		return mismatch(t, path, "a boolean")
	}
	return nil
}

func (w *walker) number(t reflect.Type, path string) error {
	start := w.pos
	for w.pos < len(w.data) && bytes.IndexByte([]byte("+-.0123456789eE"), w.data[w.pos]) >= 0 {
		w.pos++
	}
	if t == free {
		return nil
	}
	text := string(w.data[start:w.pos])
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(text, 10, t.Bits()); err != nil {
			return &FieldError{Path: path, Reason: "must be an integer of at most 64 bits, not " + cut(text)}
		}
		return nil
	case reflect.Float64:
		return nil
	}
	return mismatch(t, path, "a number")
}

// peek skips white space and returns the byte at hand.
func (w *walker) peek() byte {
	for bytes.IndexByte([]byte(" \t\r\n"), w.data[w.pos]) >= 0 {
		w.pos++
	}
	return w.data[w.pos]
}

func (w *walker) comma() {
	if w.peek() == ',' {
		w.pos++
	}
}

// memberType is the type that the member called name has in t.
func memberType(t reflect.Type, name, path string) (reflect.Type, error) {
	if t == free {
		return free, nil
	}
	if t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	members := membersOf(t)
	if inner, ok := members[name]; ok {
		return inner, nil
	}
	known := slices.Sorted(maps.Keys(members))
	return nil, &FieldError{Path: path, Reason: "unknown field", Hint: "known fields: " + strings.Join(known, ", ")}
}

// membersOf are the JSON members of a struct and their types. What a type has is found
// once: finding it costs more than reading a message.
func membersOf(t reflect.Type) map[string]reflect.Type {
	if members, ok := knownMembers.Load(t); ok {
		return members.(map[string]reflect.Type)
	}
	members := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			members[tag] = f.Type
		}
	}
	knownMembers.Store(t, members)
	return members
}

// knownMembers has a map[string]reflect.Type for each reflect.Type, of which a program
// has a few dozen.
var knownMembers sync.Map

func mismatch(t reflect.Type, path, got string) error {
	return &FieldError{Path: path, Reason: "must be " + describe(t) + ", not " + got}
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a base64 string"
		}
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	default:
		return "a number"
	}
}

// join appends a member's name to a path. A name that would not read as one
// word is quoted, so that no name can pretend to be another path.
func join(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return path + "[" + strconv.QuoteToASCII(cut(name)) + "]"
	}
	if path == "" {
		return cut(name)
	}
	return path + "." + cut(name)
}

// cut keeps what a peer sent from filling an error message.
func cut(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
