package main

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestContainerExamplesParse: an example that is copied has to be what it says. Those
// for Docker and podman are run by scripts/containers examples.
func TestContainerExamplesParse(t *testing.T) {
	doc, err := os.ReadFile("../../docs/containers.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|json)\n(.*?)^```$").FindAllSubmatch(doc, -1) {
		language := string(block[1])
		found[language]++
		var value map[string]any
		parse := yaml.Unmarshal
		if language == "json" {
			parse = json.Unmarshal
		}
		if err := parse(block[2], &value); err != nil || len(value) == 0 {
			t.Errorf("%v:\n%s", err, block[2])
		}
	}
	if found["yaml"] < 3 || found["json"] < 1 {
		t.Errorf("examples found: %v", found)
	}
}
