package protocol

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumentedCodes holds docs/protocol.md against the table of codes.
func TestDocumentedCodes(t *testing.T) {
	doc, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for code, n := range numbers {
		if row := fmt.Sprintf("| `%s` | %d |", code, n); !strings.Contains(string(doc), row) {
			t.Errorf("docs/protocol.md lacks the row %s", row)
		}
	}
}
