package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/approval"
)

// Editable is JSON as a person edits it. Characters that would not be shown as they
// are stand there by their code points.
func Editable(args json.RawMessage, indent bool) string {
	var b bytes.Buffer
	if !indent || json.Indent(&b, args, "", "  ") != nil {
		b.Reset()
		b.Write(args)
	}
	var safe strings.Builder
	for _, r := range b.String() {
		if s := string(r); r == '\n' || approval.Escape(s) == s {
			safe.WriteRune(r)
		} else {
			safe.WriteString(jsonEscape(r))
		}
	}
	return safe.String()
}

// jsonEscape is a character as JSON spells it: a pair of surrogates above U+FFFF.
func jsonEscape(r rune) string {
	if r > 0xffff {
		r -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// SameJSON reports whether two texts are one value: an edit that changed nothing.
func SameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	same, err := json.Marshal(x)
	other, err2 := json.Marshal(y)
	return err == nil && err2 == nil && bytes.Equal(same, other)
}
