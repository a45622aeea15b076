package hooks

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/sandgate/sandgate/protocol"
)

// settings is how a runtime learns of its hooks: an object "hooks" with a list for each
// event, of groups, each with a matcher and a list of commands.
type settings struct {
	file    string   // below the home directory
	home    string   // the variable that names another place for the directory of file; "" if there is none
	after   []string // what a person has to do once the hook is installed
	probe   []string // starts what tells which hooks the runtime would run; nil if all that are installed
	before  string   // the event that tools wait on
	matcher string   // of all tools
	end     string   // the event that ends a session; "" if there is none
	seconds int      // one second, in the unit of "timeout"
	block   bool     // knows onFailure, which has a hook that does not answer block
}

// endTimeout is how long the end of a session may take.
const endTimeout = 10 * time.Second

// SettingsFile is where the user's own settings are, by the home directory and the
// environment.
func (r *Runtime) SettingsFile(home string, env func(string) string) string {
	if v := r.settings.home; v != "" && filepath.IsAbs(env(v)) {
		return filepath.Join(env(v), path.Base(r.settings.file))
	}
	return filepath.Join(home, r.settings.file)
}

// AfterInstall tells a person what remains to be done for the hook to take effect.
func (r *Runtime) AfterInstall() []string { return r.settings.after }

// Install gives the settings in data with the hook in them, which is run as argv and may
// take as long as timeout. What else is there stays as it is written; a hook of ours that
// is there already is replaced. Empty data is a file that is not there.
func (r *Runtime) Install(data []byte, argv []string, timeout time.Duration) ([]byte, error) {
	doc, err := parseSettings(data)
	if err != nil {
		return nil, err
	}
	if _, err := r.remove(doc); err != nil {
		return nil, err
	}
	for _, e := range r.settings.entries(CommandLine(argv), timeout) {
		list, err := doc.list(e.event)
		if err != nil {
			return nil, err
		}
		doc.append(list, e.group)
	}
	return doc.bytes(), nil
}

// Uninstall gives the settings in data without our hooks.
func (r *Runtime) Uninstall(data []byte) ([]byte, error) {
	doc, err := parseSettings(data)
	if err != nil {
		return nil, err
	}
	emptied, err := r.remove(doc)
	if err != nil {
		return nil, err
	}
	doc.prune(emptied)
	return doc.bytes(), nil
}

type entry struct {
	event string
	group group
}

type group struct {
	Matcher string   `json:"matcher,omitempty"`
	Hooks   []action `json:"hooks"`
}

type action struct {
	Type      string `json:"type"`
	Command   string `json:"command"`
	Timeout   int    `json:"timeout"`
	OnFailure string `json:"onFailure,omitempty"`
}

func (s settings) entries(command string, timeout time.Duration) []entry {
	before := action{Type: "command", Command: command, Timeout: int(timeout.Seconds()) * s.seconds}
	if s.block {
		before.OnFailure = "block"
	}
	list := []entry{{s.before, group{s.matcher, []action{before}}}}
	if s.end != "" {
		list = append(list, entry{s.end, group{"", []action{{Type: "command", Command: command, Timeout: int(endTimeout.Seconds()) * s.seconds}}}})
	}
	return list
}

// ours reports whether a hook's command is one of this program's for the runtime, however
// it is quoted and whatever options it has.
func (r *Runtime) ours(command string) bool {
	words := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(command))
	at := slices.Index(words, "hook")
	return at > 0 && at+1 < len(words) && words[at+1] == r.Name && strings.HasPrefix(path.Base(words[at-1]), "sandgate")
}

// A document is settings that keep their form when they are changed.
type document struct {
	root   hujson.Value
	indent string // of one level; "" writes everything on one line
}

func parseSettings(data []byte) (*document, error) {
	if strings.TrimSpace(string(data)) == "" {
		data = []byte("{\n}\n")
	}
	// What two readers could read differently is not changed by guesswork.
	plain, err := hujson.Standardize(slices.Clone(data))
	if err != nil {
		return nil, fmt.Errorf("the settings are not JSON: %w", err)
	}
	if err := protocol.Unmarshal(plain, "", new(any)); err != nil {
		return nil, fmt.Errorf("the settings: %w", err)
	}
	root, err := hujson.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("the settings are not JSON: %w", err)
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("the settings are not a JSON object")
	}
	return &document{root: root, indent: indentOf(object)}, nil
}

// indentOf is by how much the members of the outermost object are indented.
func indentOf(o *hujson.Object) string {
	if len(o.Members) == 0 {
		return "  "
	}
	before := string(o.Members[0].Name.BeforeExtra)
	at := strings.LastIndexByte(before, '\n')
	if at < 0 {
		return ""
	}
	return before[at+1:]
}

func (d *document) bytes() []byte { return d.root.Pack() }

// line is what comes before something at the given depth.
func (d *document) line(depth int) hujson.Extra {
	if d.indent == "" {
		return nil
	}
	return hujson.Extra("\n" + strings.Repeat(d.indent, depth))
}

func (d *document) object() *hujson.Object { return d.root.Value.(*hujson.Object) }

// hooks is the object of all hooks, or nil.
func (d *document) hooks() (*hujson.Object, error) {
	v := member(d.object(), "hooks")
	if v == nil {
		return nil, nil
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("hooks is not an object")
	}
	return o, nil
}

// list is that of an event, made if it is not there.
func (d *document) list(event string) (*hujson.Array, error) {
	hooks, err := d.hooks()
	if err != nil {
		return nil, err
	}
	if hooks == nil {
		hooks = &hujson.Object{}
		d.add(d.object(), "hooks", hooks, 1)
	}
	v := member(hooks, event)
	if v == nil {
		list := &hujson.Array{}
		d.add(hooks, event, list, 2)
		return list, nil
	}
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, fmt.Errorf("hooks.%s is not a list", event)
	}
	return list, nil
}

func (d *document) add(o *hujson.Object, name string, v hujson.ValueTrimmed, depth int) {
	if len(o.Members) == 0 {
		o.AfterExtra = d.line(depth - 1)
	}
	space := hujson.Extra(" ")
	if d.indent == "" {
		space = nil
	}
	o.Members = append(o.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: d.line(depth), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: space, Value: v},
	})
}

// groupDepth is how deep a group lies: in the settings, in hooks, in the event's list.
const groupDepth = 3

func (d *document) append(list *hujson.Array, g group) {
	if len(list.Elements) == 0 {
		list.AfterExtra = d.line(groupDepth - 1)
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if d.indent != "" {
		e.SetIndent(strings.Repeat(d.indent, groupDepth), d.indent)
	}
	_ = e.Encode(g) // strings and numbers
	v, err := hujson.Parse([]byte(strings.TrimSpace(text.String())))
	if err != nil {
		panic("hooks: bug: " + err.Error())
	}
	list.Elements = append(list.Elements, hujson.Value{BeforeExtra: d.line(groupDepth), Value: v.Value})
}

// remove takes out our hooks, and names the events that have no others.
func (r *Runtime) remove(d *document) (emptied []string, err error) {
	hooks, err := d.hooks()
	if err != nil || hooks == nil {
		return nil, err
	}
	for _, event := range []string{r.settings.before, r.settings.end} {
		v := member(hooks, event)
		if v == nil {
			continue
		}
		list, ok := v.Value.(*hujson.Array)
		if !ok {
			return nil, fmt.Errorf("hooks.%s is not a list", event)
		}
		if r.removeFrom(list) && len(list.Elements) == 0 {
			emptied = append(emptied, event)
		}
	}
	return emptied, nil
}

// prune takes out events, and the object of all hooks if there are no others.
func (d *document) prune(events []string) {
	hooks, err := d.hooks()
	if err != nil || len(events) == 0 {
		return
	}
	for _, event := range events {
		drop(hooks, event)
	}
	if len(hooks.Members) == 0 {
		drop(d.object(), "hooks")
	}
}

// removeFrom reports whether there was anything to remove.
func (r *Runtime) removeFrom(list *hujson.Array) (removed bool) {
	list.Elements = slices.DeleteFunc(list.Elements, func(v hujson.Value) bool {
		g, ok := v.Value.(*hujson.Object)
		if !ok {
			return false
		}
		actions := member(g, "hooks")
		if actions == nil {
			return false
		}
		a, ok := actions.Value.(*hujson.Array)
		if !ok {
			return false
		}
		before := len(a.Elements)
		a.Elements = slices.DeleteFunc(a.Elements, func(v hujson.Value) bool { return r.ours(commandOf(v)) })
		removed = removed || len(a.Elements) < before
		return len(a.Elements) < before && len(a.Elements) == 0
	})
	return removed
}

// commandOf is the command of a hook, or "".
func commandOf(v hujson.Value) string {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return ""
	}
	command := member(o, "command")
	if command == nil {
		return ""
	}
	text, _ := command.Value.(hujson.Literal)
	if text.Kind() != '"' {
		return ""
	}
	return text.String()
}

func member(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if nameOf(o.Members[i]) == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

func drop(o *hujson.Object, name string) {
	o.Members = slices.DeleteFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == name })
}
