package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// CallArguments makes one object from --json and the words after the tool's name: KEY=VALUE, and
// from the dash-th on, if there was a --, a command. One word is a whole command line, several are
// a program and its arguments, which quote writes as one.
func CallArguments(tool, object string, stdin io.Reader, words []string, dash int, quote func(argv []string) string) (map[string]any, error) {
	args, pairs := map[string]any{}, words
	if dash >= 0 {
		if tool != "shell" && tool != "run_background" {
			return nil, fmt.Errorf("a command after -- is for the tools shell and run_background, not for %q", tool)
		}
		pairs, words = words[:dash], words[dash:]
		if len(words) == 0 {
			return nil, errors.New("no command after --")
		}
	}
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
	if dash < 0 {
		return args, nil
	}
	if _, ok := args["command"]; ok {
		return nil, errors.New("the argument command and a command after -- are both given")
	}
	args["command"] = words[0]
	if len(words) > 1 {
		args["command"] = quote(words)
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
