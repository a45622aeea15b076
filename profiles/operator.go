package profiles

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Operator is the text of a shipped operator profile; package config reads it.
func Operator(name string) ([]byte, error) { return read("operator", "profile", name) }

// Reason is the sentence of a shipped operator profile.
func Reason(name string) (string, error) {
	b, err := Operator(name)
	if err != nil {
		return "", err
	}
	var f struct {
		Reason string `yaml:"reason"`
	}
	err = yaml.Unmarshal(b, &f)
	return f.Reason, err
}

// Source is the text of a shipped operator profile, to begin one's own with: under
// another name it loads from a file that is called so.
func Source(name, as string) ([]byte, error) {
	b, err := Operator(name)
	if err != nil {
		return nil, err
	}
	if as != strings.TrimSuffix(path.Base(as), path.Ext(as)) || as == "" || strings.ContainsAny(as, " \t\n\"'#:{}[]") {
		return nil, fmt.Errorf("profiles: %q is not the name of a profile: use the name of its file, without .yaml", as)
	}
	own, found := "name: "+name+"\n", false
	text := strings.SplitAfter(string(b), "\n")
	for i, line := range text {
		if line == own && !found {
			text[i], found = "name: "+as+"\n", true
		}
	}
	if !found {
		return nil, fmt.Errorf("profiles: bug: %s has no line %q", name, own)
	}
	return []byte(strings.Join(text, "")), nil
}
