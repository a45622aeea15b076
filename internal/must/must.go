// Package must marshals what cannot fail to: values of our own types.
package must

import (
	"encoding/json"
	"fmt"
)

// JSON is v as JSON. That it does not marshal is a bug.
func JSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("bug: %T does not marshal: %v", v, err))
	}
	return b
}
