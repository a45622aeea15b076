package present

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/approval"
)

// Editable is JSON as a person edits it. What would be shown as a code point in a command stands
// there by it: what is copied or left alone in an edit is what it looks like.
func Editable(args json.RawMessage, indent bool) string {
	var b bytes.Buffer
	if !indent || json.Indent(&b, args, "", "  ") != nil {
		b.Reset()
		b.Write(args)
	}
	text := plainSigns(strings.ToValidUTF8(b.String(), "\ufffd"))
	for { // a code point is Latin letters, beside which another letter may be one
		shown := approval.EscapeCommand(text)
		if shown == text {
			return text
		}
		var safe strings.Builder
		for _, r := range text {
			rest, same := strings.CutPrefix(shown, string(r))
			if !same {
				rest, same = strings.CutPrefix(shown, fmt.Sprintf("<U+%04X>", r))
				if !same { // a tab
					rest = strings.TrimPrefix(shown, approval.EscapeCommand(string(r)))
				}
				safe.WriteString(jsonEscape(r))
			} else {
				safe.WriteRune(r)
			}
			shown = rest
		}
		if safe.String() == text {
			return text
		}
		text = safe.String()
	}
}

// plainSigns has the three signs that programs spell as code points in JSON, for the sake of
// browsers, stand as they are: nobody reads `make \u0026\u0026 make test`.
func plainSigns(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		spelled := text[i:min(i+6, len(text))]
		sign, known := map[string]byte{`\u0026`: '&', `\u003c`: '<', `\u003e`: '>'}[strings.ToLower(spelled)]
		if known {
			b.WriteByte(sign)
			i += 5
			continue
		}
		b.WriteString(text[i : i+2]) // a backslash that is itself spelled with one, too
		i++
	}
	return b.String()
}

// jsonEscape is a character as JSON spells it: a pair of surrogates above U+FFFF.
func jsonEscape(r rune) string {
	if r > 0xffff {
		r -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// SameJSON reports whether two texts are one value: an edit that changed nothing. What Go
// would round or replace, a long number or half a character, is compared as it is written.
func SameJSON(a, b json.RawMessage) bool {
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// canonical is a text without what JSON does not count: space, the order of members, and
// the spelling of characters.
func canonical(text []byte) ([]byte, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	same, err := json.Marshal(v)
	if err != nil || !bytes.ContainsRune(same, utf8.RuneError) {
		return same, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	return []byte(Editable(compact.Bytes(), false)), err
}
