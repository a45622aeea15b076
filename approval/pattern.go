package approval

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A Pattern covers more than one call: every command that begins with some words, every file in
// some directory, every host below some name. An approver can have a pattern remembered instead
// of the exact call.
//
// The language is small on purpose. A pattern can be read at a glance, it can be
// edited by hand, and all patterns that cover a thing can be counted out, so that
// looking one up costs the same however many are remembered.
type Pattern struct {
	Kind  PatternKind `json:"kind"`
	Value string      `json:"value"`
}

// PatternKind says what a pattern speaks of.
type PatternKind string

const (
	// ArgvPrefix is the first words of a command: "go test". Words are separated
	// by one space and hold nothing that a shell would read as more than a word.
	ArgvPrefix PatternKind = "argv_prefix"
	// PathGlob is an absolute path: one file, or DIR/*, DIR/*.EXT (the files in a
	// directory), DIR/**, DIR/**/*.EXT (also those further down).
	PathGlob PatternKind = "path_glob"
	// Host is "name:port", or "*.name:port" for every name below it.
	Host PatternKind = "host"
	// WholeTool is the name of the tool, and covers every call of it, whatever the
	// arguments. It is for a session or an agent.
	WholeTool PatternKind = "tool"
)

func (p Pattern) String() string { return string(p.Kind) + " " + p.Value }

// Text says in words what p covers, for the end of a line of ours. Our words come first and what
// is from outside last, quoted: a directory can be called ", until you restart it".
func (p Pattern) Text() string {
	switch p.Kind {
	case ArgvPrefix:
		return "every command that begins with " + quoted(EscapeLine(p.Value))
	case Host:
		if end, below := strings.CutPrefix(p.Value, "*"); below {
			return "every host whose name ends in " + EscapeName(end)
		}
		return "the host " + EscapeName(p.Value)
	case PathGlob:
		return pathText(p.Value)
	case WholeTool:
		return "every call, whatever its arguments, of the tool " + quoted(EscapeLine(p.Value))
	}
	return "nothing: unknown kind of pattern"
}

func pathText(value string) string {
	dir, last := path.Split(value)
	dir = strings.TrimSuffix(dir, "/")
	deep, below := strings.CutSuffix(dir, "/**")
	switch {
	case below:
		return fmt.Sprintf("every %s file in and below %s", EscapeName(last[1:]), EscapeName(deep))
	case last == "**":
		return "every file in and below " + EscapeName(dir)
	case last == "*":
		return "every file in " + EscapeName(dir)
	case strings.HasPrefix(last, "*"):
		return fmt.Sprintf("every %s file in %s", EscapeName(last[1:]), EscapeName(dir))
	}
	return "the file " + EscapeName(value)
}

// An Element is one thing that a call does, in the terms of one kind of pattern.
type Element struct {
	Kind PatternKind
	// Words are the words of one simple command (ArgvPrefix).
	Words []string
	// Name is an absolute path free of links (PathGlob), "name:port" (Host), or the
	// tool's (WholeTool).
	Name string
}

// Limits of an argv prefix: people do not read longer ones, and each word of a command up to
// the limit costs a lookup.
const (
	maxPatternWords = 8
	maxPattern      = 4096 // bytes
)

// covering counts out every pattern that covers e, the wider first.
func (e Element) covering() []Pattern {
	switch e.Kind {
	case ArgvPrefix:
		return prefixesOf(e.Words)
	case PathGlob:
		return globsOf(e.Name)
	case Host:
		return suffixesOf(e.Name)
	case WholeTool:
		return []Pattern{{WholeTool, e.Name}}
	}
	return nil
}

func prefixesOf(words []string) []Pattern {
	n := 0
	for n < min(len(words), maxPatternWords) && plainWord(words[n]) {
		n++
	}
	joined := strings.Join(words[:n], " ")
	list := make([]Pattern, n)
	for i, end := n-1, len(joined); i >= 0; i-- {
		list[i] = Pattern{ArgvPrefix, joined[:end]}
		end -= len(words[i]) + 1
	}
	return list
}

// plainWord reports whether a word stands for itself in a pattern. What would
// have to be quoted is left out, and what looks like other words: it would be two patterns to
// the eye and to us.
func plainWord(w string) bool {
	return w != "" && EscapeLine(w) == w && !strings.ContainsFunc(w, func(r rune) bool {
		return !unicode.IsPrint(r) || r == ' ' || strings.ContainsRune("'\"\\$`;&|<>(){}*?[]#~!", r)
	})
}

func globsOf(file string) []Pattern {
	if !path.IsAbs(file) || path.Clean(file) != file || strings.ContainsAny(file, "*?") {
		return nil
	}
	dir, ext := path.Dir(file), path.Ext(file)
	if ext == path.Base(file) { // a dot file has a name and no extension
		ext = ""
	}
	var list []Pattern
	for at := 1; ; {
		slash := strings.IndexByte(file[at:], '/')
		if slash < 0 {
			break
		}
		at += slash
		list = appendGlobs(list, file[:at]+"/**", ext, "/*")
		at++
	}
	list = appendGlobs(list, strings.TrimSuffix(dir, "/")+"/*", ext, "")
	return append(list, Pattern{PathGlob, file})
}

func appendGlobs(list []Pattern, glob, ext, star string) []Pattern {
	list = append(list, Pattern{PathGlob, glob})
	if ext != "" {
		list = append(list, Pattern{PathGlob, glob + star + ext})
	}
	return list
}

func suffixesOf(host string) []Pattern {
	var list []Pattern
	for at := range len(host) {
		if host[at] == '.' {
			list = append(list, Pattern{Host, "*" + host[at:]})
		}
	}
	return append(list, Pattern{Host, host})
}

// covers reports whether p is one of the patterns that cover e.
func (p Pattern) covers(e Element) bool {
	if p.Kind != e.Kind {
		return false
	}
	if p.Kind == ArgvPrefix { // the same, without making them all
		return startsWith(e.Words, p.Value)
	}
	return slices.Contains(e.covering(), p)
}

func startsWith(words []string, prefix string) bool {
	n := 0
	for want := range strings.SplitSeq(prefix, " ") {
		if n == min(len(words), maxPatternWords) || words[n] != want || !plainWord(want) {
			return false
		}
		n++
	}
	return true
}

// fingerprint identifies p for one tool of one connector. It cannot be that of a
// payload: the name of the tool is followed by no brace.
func (p Pattern) fingerprint(connector, tool string) Fingerprint {
	h := make([]byte, 0, 128)
	for _, s := range [...]string{"pattern", connector, tool, string(p.Kind), p.Value} {
		h = strconv.AppendInt(h, int64(len(s)), 10)
		h = append(append(h, ':'), s...)
	}
	return sha256.Sum256(h)
}

// Check returns an error if p cannot be remembered: if it is not a valid pattern, or is so wide
// that it would allow almost anything.
func (p Pattern) Check() error {
	if len(p.Value) > maxPattern {
		return fmt.Errorf("is longer than %d bytes", maxPattern)
	}
	switch p.Kind {
	case ArgvPrefix:
		return checkPrefix(p.Value)
	case PathGlob:
		return checkGlob(p.Value)
	case Host:
		return checkHost(p.Value)
	case WholeTool:
		if p.Value == "" || strings.ContainsAny(p.Value, "*?") {
			return fmt.Errorf("%q is not the name of one tool", p.Value)
		}
		return nil
	}
	return fmt.Errorf("kind %q: want argv_prefix, path_glob, host or tool", p.Kind)
}

func checkPrefix(value string) error {
	words := strings.Split(value, " ")
	for _, w := range words {
		if !plainWord(w) {
			return fmt.Errorf("%q: separate words with one space, and use only plain shell words", value)
		}
	}
	if len(words) > maxPatternWords {
		return fmt.Errorf("has more than %d words", maxPatternWords)
	}
	return tooWide(words)
}

func checkGlob(value string) error {
	literal, wild := value, ""
	if i := strings.IndexAny(value, "*?["); i >= 0 {
		slash := strings.LastIndexByte(value[:i], '/')
		literal, wild = value[:max(slash, 0)], value[max(slash, 0):]
	}
	if !path.IsAbs(literal) || path.Clean(literal) != literal {
		return fmt.Errorf("%q is not an absolute path without \"..\"", value)
	}
	wild = strings.TrimPrefix(wild, "/**")
	if wild != "" && wild != "/*" && (!strings.HasPrefix(wild, "/*.") || strings.ContainsAny(wild[3:], "*?[/.") || len(wild) == 3) {
		return fmt.Errorf("%q: after a directory, use *, *.EXT, ** or **/*.EXT", value)
	}
	if strings.HasSuffix(value, "/**/*") {
		return fmt.Errorf("%q: ** must be a path component of its own", value)
	}
	if literal != value && strings.Count(literal, "/") < 2 {
		return fmt.Errorf("%q is too wide: name a directory below %s", value, path.Dir(literal))
	}
	return nil
}

func checkHost(value string) error {
	name, port, ok := strings.Cut(value, ":")
	if !ok || port == "" || strings.Trim(port, "0123456789") != "" {
		return fmt.Errorf("%q is not name:port", value)
	}
	name, below := strings.CutPrefix(name, "*.")
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !hostRune(r) }) || strings.Contains(name, "..") ||
		strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q is not the name of a host in lower-case ASCII", value)
	}
	if below && strings.Count(strings.TrimSuffix(name, "."), ".") < 1 {
		return fmt.Errorf("%q is too wide: anyone can register a name below %q", value, name)
	}
	return nil
}

func hostRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
}
