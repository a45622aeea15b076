package shell

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxBraces bounds how many words one brace expansion is unfolded into; a
// longer one is a word that only the shell knows.
const maxBraces = 64

// A word is what is known, without running anything, of one word that a command
// is given. Bash may still do something to it that cannot be known: dynamic,
// split and glob say what.
type word struct {
	// text is the word with quotes removed; of a dynamic word, its fixed beginning.
	text string
	// literal is the length of the beginning of text that holds no glob character.
	literal int
	dynamic bool // an expansion decides the rest
	split   bool // may become no word, or several
	glob    bool // text is a pattern for path names
	tilde   bool // begins with an unquoted ~
	stream  bool // a process substitution: /dev/fd/N
}

func fixedWord(s string) word { return word{text: s, literal: len(s)} }

// unknownWords stands for words of which nothing is known, not even how many.
func unknownWords() word { return word{dynamic: true, split: true} }

// fixed reports whether the word is exactly its text.
func (w word) fixed() bool { return !w.dynamic && !w.split && !w.glob }

// prefix is what the word surely begins with.
func (w word) prefix() string { return w.text[:w.literal] }

// mayBeOption reports whether a program could take the word, or a word that it
// expands to, for an option: "*" does when a file is called "-delete".
func (w word) mayBeOption() bool {
	if w.stream {
		return false
	}
	if w.fixed() {
		return len(w.text) > 1 && w.text[0] == '-'
	}
	p := w.prefix()
	return w.split || p == "" || p[0] == '-'
}

// String shows the word to a person.
func (w word) String() string {
	switch {
	case w.dynamic:
		return w.text + "…"
	case w.text == "":
		return "''"
	}
	return w.text
}

func joinWords(ws []word) string {
	var texts []string
	for _, w := range ws {
		texts = append(texts, w.String())
	}
	return strings.Join(texts, " ")
}

// words gives what bash makes of the words of a command, and looks into every
// substitution in them.
func (a *analysis) words(in []*syntax.Word) []word {
	out := make([]word, 0, len(in))
	for _, w := range in {
		if a.over { // the whole line is asked about
			return append(out, unknownWords())
		}
		out = append(out, a.expandBraces(w)...)
	}
	return out
}

// workOf is what it costs to look at words once.
func workOf(words []word) (n int) {
	for i := range words {
		n += wordWork + len(words[i].text)
	}
	return n
}

func (a *analysis) expandBraces(w *syntax.Word) []word {
	if strings.IndexByte(w.Lit(), '{') < 0 { // only plain ones are listed
		return []word{a.fold(w)}
	}
	w = &syntax.Word{Parts: w.Parts} // SplitBraces writes to it, and Walk does not know what it writes
	if !syntax.SplitBraces(w) {
		return []word{a.fold(w)}
	}
	var out []word
	for each, err := range expand.BracesSeq(nil, w) {
		if err != nil || len(out) == maxBraces {
			return []word{unknownWords()}
		}
		out = append(out, a.fold(each))
	}
	return out
}

// fold computes one word after brace expansion.
func (a *analysis) fold(w *syntax.Word) word {
	if len(w.Parts) == 1 { // the common case costs no builder
		if l, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(l.Value, "\\*?[~(") {
			a.charge(wordWork + len(l.Value))
			return fixedWord(l.Value)
		}
	}
	f := folder{a: a, alone: len(w.Parts) == 1}
	f.parts(w.Parts, false)
	if f.misread {
		a.ask("an escaped quote beside a quoted string is easily misread", "quote the argument in one piece")
	}
	out := f.word()
	a.charge(wordWork + len(out.text))
	return out
}

// A folder puts the parts of one word together.
type folder struct {
	a    *analysis
	out  word
	text strings.Builder
	// globAt is one more than the offset of the first glob character, 0 if none.
	globAt int
	begun  bool
	alone  bool // the word has one part only
	double bool // it has a part in double quotes
	// misread is set for \" next to "...": a reader, and many a simpler parser,
	// takes the wrong quote for the end of the string.
	misread bool
}

func (f *folder) word() word {
	w := f.out
	w.text = f.text.String()
	w.literal = len(w.text)
	if f.globAt > 0 {
		w.literal = f.globAt - 1
		w.glob = true
	}
	return w
}

func (f *folder) parts(parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		f.part(p, quoted)
		f.begun = true
	}
}

func (f *folder) part(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		f.literal(p.Value, quoted)
	case *syntax.SglQuoted:
		f.single(p)
	case *syntax.DblQuoted:
		f.double = true
		f.parts(p.Parts, true)
	case *syntax.ParamExp:
		f.param(p, quoted)
	case *syntax.CmdSubst:
		f.a.subshell(p.Stmts)
		f.unknown(!quoted)
	case *syntax.ArithmExp:
		f.a.inside(p)
		f.unknown(false)
	case *syntax.ProcSubst:
		f.a.subshell(p.Stmts)
		f.add("/dev/fd/")
		f.out.stream = !f.begun
		f.unknown(false)
	default: // not listed
		f.a.inside(p)
		f.unknown(true)
	}
}

func (f *folder) add(s string) {
	switch {
	case f.out.dynamic:
	case f.a.charge(len(s)): // the value of a variable can be long, and stand there often
		f.text.WriteString(s)
	default:
		f.unknown(true)
	}
}

func (f *folder) unknown(split bool) {
	f.out.dynamic = true
	f.out.split = f.out.split || split
}

func (f *folder) param(p *syntax.ParamExp, quoted bool) {
	f.a.inside(p)
	v, known := f.a.value(p)
	switch {
	case known && v.fixed() && (quoted || plainValue(v.text)):
		f.add(v.text)
	case known && v.glob && quoted && !f.begun:
		f.add(v.text)
		f.globAt = v.literal + 1
	default:
		f.unknown(!number(p) && (!quoted || manyWords(p)))
	}
}

// manyWords reports whether the expansion gives several words even in quotes:
// "$@", "${a[@]}", "${!prefix@}".
func manyWords(p *syntax.ParamExp) bool {
	return p.Param == nil || p.Param.Value == "@" || p.Index != nil || p.Excl || p.Names != 0
}

// plainValue reports whether a value stays one word, and itself, when it is
// expanded without quotes.
func plainValue(s string) bool {
	if s == "" {
		return false
	}
	return !strings.ContainsAny(s, " \t\n*?[\\~")
}

// literal adds unquoted text, or text in double quotes, where a backslash
// protects fewer characters.
func (f *folder) literal(s string, quoted bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			f.misread = f.misread || !quoted && s[i] == '"' && f.double
			f.escaped(s[i], quoted)
		case !quoted && c == '~' && i == 0 && !f.begun:
			f.out.tilde = true
			f.add("~")
		case !quoted && c == '~' && i > 0 && strings.IndexByte("=:", s[i-1]) >= 0:
			f.unknown(false) // x=~ and x=a:~ expand as an assignment would
		case !quoted && f.isGlob(s, i):
			f.markGlob()
			f.add(string(c))
		default:
			f.text1(c)
		}
	}
}

func (f *folder) text1(c byte) {
	if !f.out.dynamic {
		f.text.WriteByte(c)
	}
}

func (f *folder) escaped(c byte, quoted bool) {
	if c == '\n' {
		return // a line continuation
	}
	if quoted && strings.IndexByte("$`\"\\", c) < 0 {
		f.text1('\\')
	}
	f.text1(c)
}

func (f *folder) markGlob() {
	if f.out.dynamic {
		f.out.split = true
		return
	}
	if f.globAt == 0 {
		f.globAt = f.text.Len() + 1
	}
}

// isGlob reports whether the character at i makes a path name pattern. The word
// "[" is the command of that name.
func (f *folder) isGlob(s string, i int) bool {
	switch s[i] {
	case '*', '?':
		return true
	case '[':
		return !f.alone || len(s) > 1
	}
	return false
}

func (f *folder) single(q *syntax.SglQuoted) {
	if !q.Dollar {
		f.add(q.Value)
		return
	}
	s, ok := decodeANSI(q.Value)
	f.add(s)
	if !ok {
		f.unknown(false)
	}
}
