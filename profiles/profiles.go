package profiles

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

//go:embed presets/*.yaml patterns/*.yaml operator/*.yaml
var shipped embed.FS

// Names of the shipped presets and operator profiles, sorted.
func PresetNames() []string   { return names("presets") }
func OperatorNames() []string { return names("operator") }

func names(folder string) []string {
	entries, err := shipped.ReadDir(folder)
	if err != nil {
		panic("profiles: bug: " + err.Error())
	}
	var list []string
	for _, e := range entries {
		list = append(list, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(list)
	return list
}

// An UnknownError says that nothing is shipped under a name, and what is.
type UnknownError struct {
	Kind  string // "preset", "profile"
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("profiles: no %s is called %q", e.Kind, e.Name)
}

// Hint lists what there is.
func (e *UnknownError) Hint() string { return "known are " + strings.Join(e.Known, ", ") }

// read gives a shipped file, or an *UnknownError.
func read(folder, kind, name string) ([]byte, string, error) {
	if !slices.Contains(names(folder), name) {
		return nil, "", &UnknownError{Kind: kind, Name: name, Known: names(folder)}
	}
	file := path.Join(folder, name+".yaml")
	b, err := shipped.ReadFile(file)
	return b, file, err
}

// Preset gives a shipped preset.
func Preset(name string) (sp.Preset, error) {
	i := slices.IndexFunc(shippedPresets, func(p sp.Preset) bool { return p.Name == name })
	if i < 0 {
		return sp.Preset{}, &UnknownError{Kind: "preset", Name: name, Known: PresetNames()}
	}
	p := shippedPresets[i]
	p.Grants = slices.Clone(p.Grants)
	return p, nil
}

// A grantAt is one line of `grants` or `paths`, with where it stands.
type grantAt struct {
	Path   string `yaml:"path"`
	Rights string `yaml:"rights"`
	Reason string `yaml:"reason"`
	// IfPresent is for what an operator profile takes away: see present.
	IfPresent bool `yaml:"if_present"`
	line      int
}

// UnmarshalYAML keeps the line, and is as strict as the decoder around it: a
// custom unmarshaler does not inherit KnownFields.
func (g *grantAt) UnmarshalYAML(n *yaml.Node) error {
	if err := onlyKeys(n, "path", "rights", "reason", "if_present"); err != nil {
		return err
	}
	type plain grantAt
	if err := n.Decode((*plain)(g)); err != nil {
		return err
	}
	g.line = n.Line
	return nil
}

func onlyKeys(n *yaml.Node, known ...string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want a mapping with %s", n.Line, strings.Join(known, ", "))
	}
	for i := 0; i < len(n.Content); i += 2 {
		if k := n.Content[i]; !slices.Contains(known, k.Value) {
			return fmt.Errorf("line %d: unknown key %q, known are %s", k.Line, k.Value, strings.Join(known, ", "))
		}
	}
	return nil
}

func stem(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }
