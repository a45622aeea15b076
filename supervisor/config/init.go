package config

import (
	_ "embed"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed starter.yaml
var starter string

// Init is a commented file to begin with. It loads as it is where the workspace
// exists; "" or "." is the directory that the file will lie in.
func Init(workspace string) []byte {
	if workspace == "" || workspace == "." {
		return []byte(starter)
	}
	return []byte(strings.Replace(starter, "root: .\n", "root: "+yamlText(workspace)+"\n", 1))
}

// yamlText writes s so that every YAML loader reads it back as text.
func yamlText(s string) string {
	raw, err := yaml.Marshal(textNode(s))
	if err != nil {
		panic("config: bug: text does not encode: " + err.Error())
	}
	return strings.TrimSuffix(string(raw), "\n")
}
