package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The person at the prompt is a target too: a request that can move the cursor,
// repaint a line, reverse the reading order or hide a word gets approved for
// something other than what runs. Everything shown goes through this file.

// maxMarks is how many combining marks may follow one character. The scripts
// that people write need no more; a tall stack covers the lines around it.
const maxMarks = 4

// Escape makes s safe to print on a terminal and hard to misread. Control
// characters, ANSI sequences, bidirectional overrides, zero-width, blank-looking
// and other invisible characters are shown as <U+202E>, bytes that are not UTF-8
// as <0xFF>. So are letters that pass for those of another alphabet, the Cyrillic
// ones in a word that mixes it with Latin, and Hebrew and Arabic ones where a terminal
// that draws them from right to left would move what stands beside them. A line feed stays, and a tab becomes an
// arrow and three spaces, so that it differs from spaces. Text that needs none of
// this comes back as it is.
func Escape(s string) string {
	if isPlain(s) {
		return s
	}
	return shown(s, false)
}

// shown is a text as Escape and, if it is strict, EscapeCommand show it. A mark whose letter has
// become a code point stands on no letter of its script any more.
func shown(s string, strict bool) string {
	for {
		visible := showInvisible(s)
		if s = showLetters(visible, strict); s == visible {
			return s
		}
	}
}

// showInvisible shows what moves the cursor, leaves no ink, or hides other text.
func showInvisible(s string) string {
	var b strings.Builder
	marks := 0
	base := ' ' // what marks stand on
	for i := 0; i < len(s); {
		if isPlain(s[i : i+1]) { // nearly all of most texts
			b.WriteByte(s[i])
			base = rune(s[i])
			i, marks = i+1, 0
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if marks = countMarks(marks, r); marks == 0 {
			base = r
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i])
			base, marks = '>', 0
		case r == '\t':
			b.WriteString("→   ")
			base, marks = ' ', 0
		case isVisible(r) && (marks == 0 || marks <= maxMarks && standsOn(r, base)):
			b.WriteRune(r)
		default:
			writeCodePoint(&b, r)
			base, marks = '>', 0 // which marks that follow stand on
		}
		i += size
	}
	return b.String()
}

// scriptOf is the script of a character, nil for ASCII.
func scriptOf(r rune) *unicode.RangeTable {
	if r < utf8.RuneSelf {
		return nil
	}
	for _, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return table
		}
	}
	return nil
}

// standsOn reports whether a mark is one of a letter's script, and adds ink to it. Beside letters of
// another script it is invisible or looks unexpected; a few marks belong to all scripts.
func standsOn(mark, base rune) bool {
	switch {
	case !unicode.IsLetter(base):
		return false
	case mark == '\u0307' && strings.ContainsRune("ij\u0131\u0237\u0456\u0458", base): // the dot that is there
		return false
	case mark >= 0x334 && mark <= 0x338, mark >= 0x20d0 && mark <= 0x20f0: // strokes through a letter
		return false
	}
	script := scriptOf(base)
	return script != nil && unicode.Is(script, mark) || unicode.In(mark, unicode.Inherited, unicode.Common)
}

func writeCodePoint(b *strings.Builder, r rune) { fmt.Fprintf(b, "<U+%04X>", r) }

// EscapeLine is EscapeCommand for text that is one line, or the end of one of ours: a description,
// a reason. Line breaks are shown as well. The caller does not have to say what such a text is,
// and no text is shown less strictly than a command: most texts contain one.
func EscapeLine(s string) string {
	return EscapeCommand(strings.ReplaceAll(s, "\n", "<U+000A>"))
}

// EscapeName is EscapeLine for a name that stands in a line of ours. One that has more than
// letters, digits and the signs of usual names is quoted: a blank at its end is seen, and what
// it says is not taken for words of ours that stand beside it.
func EscapeName(s string) string {
	for _, r := range s {
		if !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune("/._-+@=~:%,#", r) || r == utf8.RuneError {
			return quoted(EscapeLine(s))
		}
	}
	if s == "" {
		return quoted(s)
	}
	return EscapeLine(s)
}

// CodePoints is EscapeName for a name that looks like another: of what is not ASCII it shows
// the code points.
func CodePoints(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if n == 1 { // ASCII, or a byte that is not UTF-8
			b.WriteString(s[:n])
		} else {
			writeCodePoint(&b, r)
		}
		s = s[n:]
	}
	return quoted(EscapeLine(b.String()))
}

// Brief shows a text from outside that is well longer than most characters by its beginning and its
// end, each as show has it. Its end says as much as its beginning: the name of a file, what comes
// after a pipe.
//
// What counts is how long it is as it is shown: a code point takes nine times the room of a letter, and an agent that
// writes a hundred of them would push what stands beside them out of sight.
func Brief(s string, most int, show func(string) string) string {
	const least = 16
	for n := most; ; n /= 2 {
		head, hidden, tail := Ends(s, n)
		text := show(head)
		if hidden != "" {
			text = fmt.Sprintf("%s <%d more characters> %s", text, utf8.RuneCountInString(hidden), show(tail))
		}
		if n <= least || utf8.RuneCountInString(text) <= 2*most {
			return text
		}
	}
}

// Ends parts a text that is well longer than most characters into what Brief shows and what it hides.
func Ends(s string, most int) (head, hidden, tail string) {
	const mark = 24 // what says how much is hidden takes as much
	r := []rune(s)
	if len(r) <= most+mark {
		return s, "", ""
	}
	return string(r[:most/2]), string(r[most/2 : len(r)-most/2]), string(r[len(r)-most/2:])
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\n' && (c < 0x20 || c > 0x7e) {
			return false
		}
	}
	return true
}

func countMarks(before int, r rune) int {
	if unicode.Is(unicode.M, r) {
		return before + 1
	}
	return 0
}

// isVisible reports whether r puts ink on the screen, or is a plain space.
// unicode.IsPrint has no control, format, private, unassigned or separator characters;
// others that it accepts but that are invisible are excluded by name.
func isVisible(r rune) bool {
	switch {
	case !unicode.IsPrint(r):
		return false
	case r == '\u2800': // Braille pattern blank
		return false
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r): // Hangul fillers, ...
		return false
	case unicode.Is(unicode.Variation_Selector, r): // can carry a hidden message
		return false
	// Drawn over the cells after theirs: long dashes, whole phrases, tables of strokes.
	case r == '\u2e3a', r == '\u2e3b', r >= '\ufdf0' && r <= '\ufdff', r >= '\ua9c1' && r <= '\ua9cd', unicode.Is(unicode.Cuneiform, r):
		return false
	case r == '\ufffc', r == '\U0001d159': // object replacement, null notehead: drawn by no font
		return false
	}
	return true
}

// Display limits of a presentation built by Controller.Show. The full text is
// kept beside it.
const (
	maxShownLines = 200
	maxShownBytes = 16 << 10
)

// Truncate cuts content to at most maxLines lines and maxBytes bytes and ends it with a
// line that counts what is not shown. When something was cut, metadata has the whole
// text as "full_content" and counts the missing part in "hidden_lines" and
// "hidden_bytes"; otherwise it is nil.
func Truncate(content string, maxLines, maxBytes int) (shown string, metadata map[string]any) {
	shown = cutAtRune(cutAtLine(content, maxLines), maxBytes)
	hidden := content[len(shown):]
	if hidden == "" {
		return content, nil
	}
	lines := hiddenLines(shown, hidden)
	note := fmt.Sprintf("... %d more lines, %d bytes not shown", lines, len(hidden))
	if lines == 1 {
		note = fmt.Sprintf("... %d more bytes not shown", len(hidden))
	}
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return shown + note, map[string]any{
		"full_content": content,
		"hidden_lines": lines,
		"hidden_bytes": len(hidden),
	}
}

// hiddenLines counts what follows shown: the rest of a line is a line, unless
// all that is left of it is its line feed.
func hiddenLines(shown, hidden string) int {
	if !strings.HasSuffix(shown, "\n") && shown != "" {
		hidden = strings.TrimPrefix(hidden, "\n")
	}
	return strings.Count(strings.TrimSuffix(hidden, "\n"), "\n") + 1
}

// cutAtLine keeps the first n lines.
func cutAtLine(s string, n int) string {
	end := 0
	for range n {
		i := strings.IndexByte(s[end:], '\n')
		if i < 0 {
			return s
		}
		end += i + 1
	}
	return s[:end]
}

func cutAtRune(s string, n int) string {
	n = max(n, 0)
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax && n-back >= 0; back++ {
		if utf8.RuneStart(s[n-back]) {
			return s[:n-back]
		}
	}
	return s[:n]
}

// DescribeBinary says "Binary file: image/png (2.3 KB)" of data that is not
// text, and false of text. Data is binary when it has a NUL byte or when an
// eighth of it is not UTF-8. How it begins only gives it a name: a script that
// starts with the letters of an image format is still shown as a script.
func DescribeBinary(data []byte) (string, bool) {
	if bytes.IndexByte(data, 0) < 0 && !mostlyInvalid(data) {
		return "", false
	}
	return fmt.Sprintf("Binary file: %s (%s)", sniff(data), byteSize(len(data))), true
}

// sniff knows the formats a tool is likely to write. net/http knows more, and
// would cost every user of this package its start-up time.
func sniff(data []byte) string {
	for _, m := range [...]struct{ magic, mediaType string }{
		{"\x89PNG\r\n\x1a\n", "image/png"},
		{"\xff\xd8\xff", "image/jpeg"},
		{"GIF87a", "image/gif"},
		{"GIF89a", "image/gif"},
		{"%PDF-", "application/pdf"},
		{"PK\x03\x04", "application/zip"},
		{"\x1f\x8b", "application/gzip"},
		{"BZh", "application/x-bzip2"},
		{"\xfd7zXZ\x00", "application/x-xz"},
		{"\x28\xb5\x2f\xfd", "application/zstd"},
		{"\x7fELF", "application/x-executable"},
		{"\xcf\xfa\xed\xfe", "application/x-mach-binary"},
		{"\x00asm", "application/wasm"},
		{"SQLite format 3\x00", "application/vnd.sqlite3"},
	} {
		if bytes.HasPrefix(data, []byte(m.magic)) {
			return m.mediaType
		}
	}
	return "application/octet-stream"
}

// IsText reports whether data can be read as text: a byte that no text has, here and there, must
// not be enough to hide a script.
func IsText(data []byte) bool {
	return !mostlyInvalid(bytes.ReplaceAll(data, []byte{0}, []byte{0xff}))
}

func mostlyInvalid(data []byte) bool {
	invalid := 0
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			invalid++
		}
		rest = rest[size:]
	}
	return invalid > len(data)/8
}

// byteSize is in multiples of 1000, as "2.3 KB".
func byteSize(n int) string {
	const units = "KMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	f, unit := float64(n)/1000, 0
	for f >= 999.95 && unit < len(units)-1 {
		f, unit = f/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", f, units[unit])
}

// maxBinaryText is up to how many bytes a binary file can still be read in full.
const maxBinaryText = 64 << 10

// Unshown is the key of a presentation's metadata for what no screen shows of what is asked
// about. To allow it is a question of its own.
const Unshown = "unshown"

// Literal is the key of a presentation's metadata for a text in its content that looks like our own mark for
// invisible characters, such as <270 spaces>, but is not: to a shell it redirects, from the file 270. The same
// holds for an arrow with three blanks, because a tab is shown like that.
const Literal = "literal"

// ourMarks are those of this package and of the screens.
var ourMarks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`<(U\+[0-9A-Fa-f]{4,6}|0x[0-9A-Fa-f]{2}|[0-9]+ +(spaces|empty +lines|more +characters))>|→ {3}`)
})

// Margin is the key of a presentation's metadata for what stands before each line of a text from
// outside, where the content has lines of ours too. Those begin at the edge.
const Margin = "margin"

// binaryPresentation keeps the escaped bytes of a small file within reach: one
// NUL byte must not be enough to hide a script from the person who approves it.
func binaryPresentation(content, description string) *Presentation {
	metadata := map[string]any{"binary": true, "size": len(content)}
	if len(content) <= maxBinaryText {
		metadata["full_content"] = Escape(content)
	} else {
		metadata[Unshown] = "content of the file: " + description
	}
	return &Presentation{Type: Text, Content: description, Metadata: metadata}
}

// safePresentation is p as it may be printed: escaped, cut, the content of a
// binary file as its type and size. The full text that it keeps is escaped too,
// since a pager prints it on the same terminal.
func safePresentation(p Presentation) *Presentation {
	if text, binary := DescribeBinary([]byte(p.Content)); binary && p.Type == FileContent {
		return binaryPresentation(p.Content, text)
	}
	escape := p.Escaped
	shown, cut := Truncate(escape(p.Content), maxShownLines, maxShownBytes)
	safe := &Presentation{Type: p.Type.orText(), Content: shown, Language: EscapeLine(p.Language)}
	safe.Metadata, _ = escapeValues(p.Metadata).(map[string]any)
	whole, cutBefore := p.Metadata["full_content"].(string)
	if !cutBefore {
		whole = p.Content
	}
	delete(safe.Metadata, Literal)
	if literal := ourMarks().FindString(whole); literal != "" {
		if safe.Metadata == nil {
			safe.Metadata = map[string]any{}
		}
		safe.Metadata[Literal] = literal
	}
	if cut != nil {
		if full, ok := p.Metadata["full_content"].(string); ok { // the tool had cut it already
			cut["full_content"] = escape(full)
		}
		if safe.Metadata == nil {
			safe.Metadata = cut
		} else {
			maps.Copy(safe.Metadata, cut)
		}
	}
	return safe
}

// Escaped is a text of a presentation, its content or all of it, as it may be printed. Lines of
// ours, and the bars before those of files, stand between the lines of a command as they are.
func (p *Presentation) Escaped(text string) string {
	margin, _ := p.Metadata[Margin].(string)
	switch {
	case p.Type != Command:
		return Escape(text)
	case margin == "":
		return EscapeCommand(text)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		const bar = "│ "
		switch rest, file := strings.CutPrefix(line, bar); {
		case file:
			b.WriteString(bar + EscapeCommand(rest))
		case strings.HasPrefix(line, margin):
			b.WriteString(EscapeCommand(line))
		default:
			b.WriteString(Escape(line))
		}
	}
	return b.String()
}

func (t PresentationType) orText() PresentationType {
	switch t {
	case Diff, FileContent, Command, Structured:
		return t
	}
	return Text
}

func escapeValues(v any) any {
	switch v := v.(type) {
	case string:
		return Escape(v)
	case map[string]any:
		if v == nil {
			return v
		}
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[EscapeLine(k)] = escapeValues(e)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, e := range v {
			s[i] = escapeValues(e)
		}
		return s
	}
	return v
}

// defaultPresentation shows the payload of a request that brings no
// presentation of its own.
func defaultPresentation(r Request) Presentation {
	b, err := json.MarshalIndent(r.Payload, "", "  ")
	if err != nil {
		return Presentation{Type: Text, Content: r.Description}
	}
	return Presentation{Type: Structured, Content: string(b), Language: "json"}
}
