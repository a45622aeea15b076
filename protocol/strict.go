package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds how deeply objects and arrays may be nested.
const maxDepth = 128

// Unmarshal reads one JSON value into v, and refuses whatever could be read in
// two ways: see the package comment. The errors are a *FieldError that names
// the member below root ("params"), or an *Error with parse_error.
func Unmarshal(data []byte, root string, v any) error {
	if err := unmarshal(data, root, v); err != nil {
		return err
	}
	return checkDepth(data, root)
}

// checkDepth refuses what is nested deeper than maxDepth; the library goes down to 10,000.
func checkDepth(data []byte, root string) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), loosely)
	for d.StackDepth() <= maxDepth {
		if _, err := d.ReadToken(); err != nil {
			return nil // the end
		}
	}
	return &FieldError{Path: pathOf(root, d.StackPointer()), Reason: fmt.Sprintf("nested more than %d levels deep", maxDepth)}
}

// strictly adds to what the library refuses by itself: members given twice, names that
// differ in case, ill-formed UTF-8, lone surrogates and trailing data.
var strictly = jsonv2.JoinOptions(
	jsonv2.RejectUnknownMembers(true),
	jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(refuseNull)),
)

// loosely takes any JSON, whatever it can be read as.
var loosely = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// unmarshal is Unmarshal for data whose depth is known to be within bounds.
func unmarshal(data []byte, root string, v any) error {
	if err := jsonv2.Unmarshal(data, v, strictly); err != nil {
		return explain(err, data, root)
	}
	return nil
}

var errNull = errors.New("null")

// refuseNull refuses null for a value: the library would read it as the zero value, which
// another reader need not do.
func refuseNull(d *jsontext.Decoder, v any) error {
	if d.PeekKind() == jsontext.KindNull && !nullable(reflect.TypeOf(v).Elem()) {
		return errNull
	}
	return errors.ErrUnsupported // the library reads it
}

// nullable reports whether null is a value of t, or t reads itself.
func nullable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// explain turns an error of the library into one of this package.
func explain(err error, data []byte, root string) error {
	if own, ok := errors.AsType[*FieldError](err); ok {
		return own
	}
	if !utf8.Valid(data) {
		return Errorf(CodeParseError, "the message is not well-formed UTF-8")
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return parseError(err)
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field := &FieldError{Path: pathOf(root, syntax.JSONPointer), Reason: "contains half of a surrogate pair"}
		if syntax.Err == jsontext.ErrDuplicateName {
			field.Reason = "given twice"
		}
		return field
	}
	wrong, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return &FieldError{Path: root, Reason: err.Error()}
	}
	field := &FieldError{Path: pathOf(root, wrong.JSONPointer)}
	want := describe(wrong.GoType)
	switch {
	case wrong.Err == jsonv2.ErrUnknownName:
		field.Reason, field.Hint = "unknown field", "known fields: "+strings.Join(membersOf(wrong.GoType), ", ")
	case wrong.Err == errNull:
		field.Reason = "must be " + want + ", not null"
	case wrong.GoType.Kind() == reflect.Int64 && wrong.JSONKind == jsontext.KindNumber:
		field.Reason = "must be an integer of at most 64 bits, not " + cut(string(wrong.JSONValue))
	case wrong.Err != nil:
		field.Reason = wrong.Err.Error()
	default:
		field.Reason = "must be " + want + ", not " + kinds[wrong.JSONKind]
	}
	return field
}

func parseError(err error) *Error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return Errorf(CodeParseError, "the message is not one JSON value: byte %d: %v", syntax.Offset, err)
	}
	return Errorf(CodeParseError, "the message is not one JSON value")
}

var kinds = map[jsontext.Kind]string{
	jsontext.KindNull: "null", jsontext.KindFalse: "a boolean", jsontext.KindTrue: "a boolean",
	jsontext.KindString: "a string", jsontext.KindNumber: "a number",
	jsontext.KindBeginObject: "an object", jsontext.KindBeginArray: "an array",
}

// describe says what a JSON text for t must be.
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
	case reflect.Pointer:
		return describe(t.Elem())
	}
	return "a number"
}

// membersOf are the names of a struct's members in JSON.
func membersOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pathOf is a pointer into the message as errors write it: "params.args.lines[2]". A name
// that would not read as one word is quoted, so that no name can pretend to be another path.
func pathOf(path string, p jsontext.Pointer) string {
	for name := range p.Tokens() {
		switch {
		case name != "" && strings.Trim(name, "0123456789") == "":
			path += "[" + cut(name) + "]"
		case name == "" || strings.ContainsFunc(name, notOfWords):
			path += "[" + strconv.QuoteToASCII(cut(name)) + "]"
		case path == "":
			path = cut(name)
		default:
			path += "." + cut(name)
		}
	}
	return path
}

func notOfWords(r rune) bool {
	return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// cut keeps what a peer sent from filling an error message.
func cut(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
