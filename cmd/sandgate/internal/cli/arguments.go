package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// CallArguments makes one object from --json and the KEY=VALUE words.
func CallArguments(object string, stdin io.Reader, pairs []string) (map[string]any, error) {
	args := map[string]any{}
	if object == "-" {
		b, err := io.ReadAll(io.LimitReader(stdin, protocol.MaxMessage))
		if err != nil {
			return nil, fmt.Errorf("--json -: %w", err)
		}
		object = string(b)
	}
	if object != "" {
		if err := decodeJSON(object, &args); err != nil || args == nil {
			return nil, fmt.Errorf("--json: not a JSON object: %w", errors.Join(err, requireObject(args)))
		}
	}
	for _, word := range pairs {
		key, value, err := splitArgument(word)
		if err != nil {
			return nil, err
		}
		if _, ok := args[key]; ok {
			return nil, fmt.Errorf("argument %q is given twice", key)
		}
		args[key] = value
	}
	return args, nil
}

func requireObject(args map[string]any) error {
	if args == nil {
		return errors.New("it is null")
	}
	return nil
}

// splitArgument reads KEY=VALUE or KEY:=JSON.
func splitArgument(word string) (key string, value any, err error) {
	key, text, ok := strings.Cut(word, "=")
	if !ok || key == "" || key == ":" {
		return "", nil, fmt.Errorf("argument %q: want KEY=VALUE or KEY:=JSON", word)
	}
	name, isJSON := strings.CutSuffix(key, ":")
	if !isJSON {
		return key, text, nil
	}
	if err := decodeJSON(text, &value); err != nil {
		return "", nil, fmt.Errorf("argument %q: not JSON: %w", name, err)
	}
	return name, value, nil
}

// decodeJSON reads exactly one value, strictly, with numbers as they are written.
func decodeJSON(text string, v any) error {
	if err := protocol.Unmarshal([]byte(text), "", new(any)); err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}
