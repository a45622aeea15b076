package profiles

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

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
func read(folder, kind, name string) ([]byte, error) {
	if !slices.Contains(names(folder), name) {
		return nil, &UnknownError{Kind: kind, Name: name, Known: names(folder)}
	}
	return shipped.ReadFile(path.Join(folder, name+".yaml"))
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
