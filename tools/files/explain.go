package files

import "github.com/sandgate/sandgate/tools"

// Explain implements tools.Explainer for every file tool.
func (c Config) Explain(call tools.Call) ([]tools.Considered, error) {
	path := call.String("path")
	if path == "" {
		path = "." // where the searches begin
	}
	return c.Paths.Explain(path, writes[call.Tool])
}

// writes are the tools that need the right to write.
var writes = map[string]bool{writeDefinition.Name: true, editDefinition.Name: true, multiEditDefinition.Name: true}
