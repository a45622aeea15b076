package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 20

// decode reads exactly one YAML document into v, with no unknown keys, and no
// aliases: a small file could describe an enormous one with them.
func decode(file string, b []byte, v any) error {
	if len(b) > maxFile {
		return fmt.Errorf("profiles: %s: larger than %d bytes", file, maxFile)
	}
	if bytes.IndexByte(b, '*') >= 0 { // which begins an alias
		var doc yaml.Node
		if err := yaml.Unmarshal(b, &doc); err != nil {
			return fmt.Errorf("profiles: %s: %w", file, err)
		}
		if line := aliasIn(&doc); line > 0 {
			return fmt.Errorf("profiles: %s:%d: aliases are not supported", file, line)
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("profiles: %s: is empty", file)
		}
		return fmt.Errorf("profiles: %s: %w", file, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("profiles: %s: more than one document", file)
	}
	return nil
}

func aliasIn(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return n.Line
	}
	for _, c := range n.Content {
		if line := aliasIn(c); line > 0 {
			return line
		}
	}
	return 0
}
