package hooks

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/sandgate/sandgate/protocol"
)

// MaxInput is how much of an input is read. It is more than a runtime's tools take.
const MaxInput = protocol.MaxMessage

// An event is something that a runtime says is about to happen.
type event struct {
	Name    string
	Session string // the runtime's own name for its session; "" if it gives none
	// Transcript is the file in which the runtime keeps the conversation; "" if it names
	// none, or not plainly.
	Transcript string
	Cwd        string
	Tool       string
	Input      members
}

// members are those of a JSON object, as they were written.
type members map[string]json.RawMessage

// parseEvent reads an input. It is strict with all that could be read in two ways, by the
// runtime in the one and here in the other: a member that is given twice, at any depth,
// half of a surrogate pair, text behind the object. Members that are not known here are
// passed over, since runtimes add some with every release.
func parseEvent(data []byte) (event, error) {
	var e event
	if len(data) > MaxInput {
		return e, fmt.Errorf("the input has more than %d bytes", MaxInput)
	}
	var all members
	if err := protocol.Unmarshal(data, "", &all); err != nil {
		return e, fmt.Errorf("read the input: %w", err)
	}
	var err error
	if e.Name, err = all.text("hook_event_name"); err != nil {
		return e, err
	}
	if _, ok := all["session_id"]; ok {
		if e.Session, err = all.text("session_id"); err != nil {
			return e, err
		}
	}
	// Some runtimes say null. Only a plain path counts: for anything else nothing is
	// allowed.
	if p, err := all.string("transcript_path"); err == nil && filepath.IsAbs(p) && filepath.Clean(p) == p {
		e.Transcript = p
	}
	return e, e.readTool(all)
}

// readTool reads what is about a tool, of events that are.
func (e *event) readTool(all members) (err error) {
	if _, ok := all["tool_name"]; !ok {
		return nil
	}
	if e.Tool, err = all.text("tool_name"); err != nil {
		return err
	}
	if e.Cwd, err = all.text("cwd"); err != nil {
		return err
	}
	if !filepath.IsAbs(e.Cwd) || filepath.Clean(e.Cwd) != e.Cwd || hasControl(e.Cwd) {
		return fmt.Errorf("cwd %q is not a plain absolute path", clip(e.Cwd))
	}
	raw, ok := all["tool_input"]
	if !ok || json.Unmarshal(raw, &e.Input) != nil || e.Input == nil {
		return fmt.Errorf("tool_input must be an object")
	}
	return nil
}

// text is a member that has to be a string, and not empty.
func (m members) text(name string) (string, error) {
	s, err := m.string(name)
	if err == nil && s == "" {
		err = fmt.Errorf("%s is empty", name)
	}
	return s, err
}

func (m members) string(name string) (string, error) {
	raw, ok := m[name]
	if !ok {
		return "", fmt.Errorf("%s is missing", name)
	}
	if len(raw) == 0 || raw[0] != '"' { // null would leave the string as it is
		return "", fmt.Errorf("%s must be a string", name)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// flag is a member that may be missing, and else has to be true or false.
func (m members) flag(name string) (bool, error) {
	switch raw := string(m[name]); raw {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s must be true or false", name)
	}
}

// one is the name of the one member of several names that is there. Two are ambiguous:
// which of them the runtime would take is not for us to guess.
func (m members) one(names ...string) (string, error) {
	found := ""
	for _, name := range names {
		if _, ok := m[name]; !ok {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("%s and %s are both given", found, name)
		}
		found = name
	}
	return found, nil
}

// path is the file that a member names, absolute. What the runtime and the supervisor
// could take for two different files is refused: "~", which some expand; "..", which some
// resolve before links and some after; spaces at the ends, which some cut off.
func (e event) path(names ...string) (string, error) {
	name, err := e.Input.one(names...)
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", fmt.Errorf("%s is missing", names[0])
	}
	p, err := e.Input.text(name)
	if err != nil {
		return "", err
	}
	switch {
	case hasControl(p) || strings.TrimSpace(p) != p:
		return "", ambiguous(name, p, "has control characters, or spaces at the beginning or end")
	case strings.HasPrefix(p, "~"):
		return "", ambiguous(name, p, `begins with "~"`)
	case strings.Contains("/"+p+"/", "/../"):
		return "", ambiguous(name, p, `contains ".."`)
	case filepath.IsAbs(p):
		return p, nil
	}
	return e.Cwd + "/" + p, nil
}

// directory is path for a member that may be missing: it is the working directory then.
func (e event) directory(names ...string) (string, error) {
	if name, err := e.Input.one(names...); err != nil || name == "" {
		return e.Cwd, err
	}
	return e.path(names...)
}

// An inputError is about a tool's input, and something that the model can mend.
type inputError struct{ reason, hint string }

func (e *inputError) Error() string { return e.reason }

func ambiguous(name, path, why string) error {
	return &inputError{fmt.Sprintf("%s %q %s", name, clip(path), why), "use a plain absolute path"}
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// clip keeps an input from filling a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
