package shell

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandgate/sandgate/tools"
)

// What a command line may be before it is asked about unread. The walk is linear in the
// steps and the work: a body that is looked at again, for the next word of a loop or
// behind another wrapper, costs what it cost the first time. The parser recurses on open
// parentheses.
const (
	maxCommand = 64 << 10 // bytes
	maxSteps   = 4000     // statements and simple commands looked at
	maxWork    = 2 << 20  // bytes looked at, a word counting wordWork besides
	wordWork   = 16
	maxDepth   = 16 // scripts within scripts
	maxParens  = 64 // open parentheses
	maxUnroll  = 32 // words of a for loop that are looked at one by one
)

// An analysis is the walk over one command line. It collects parts, and knows of
// the shell's state only what is certain.
type analysis struct {
	p     *Policy
	parts []Part
	steps int
	work  int
	depth int // of scripts given to shells as an argument
	over  bool
	done  <-chan struct{} // closed when nobody waits for the answer
	// beyond: something in the line may do more than read.
	beyond bool
	// started are the programs that commands which only read execute.
	started []string
	// bounds are the rules whose Bound holds, by index.
	bounds []int

	// env is the state of the environment of later commands.
	env  bool
	dirs dirSet
	// arrived is where the last cd leads if it succeeds.
	arrived dirSet
	vars    vars
	// fed: the line gives what is walked its standard input.
	fed bool

	// starts collects the files that the line starts, or is nil.
	starts *startWalk
	// explain collects the result of every rule, or is nil.
	explain *[]tools.Considered
}

// Decide says what the rules make of command for the shell it is written for. It
// reads no file but to resolve paths, and runs nothing.
func (p *Policy) Decide(command, shell string) Decision { return p.decide(command, shell, nil) }

// analysing has a place for each analysis that goes on: what they take together is bounded.
var analysing = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

// takePlace waits for one. No analysis waits for another with its place taken, and each
// ends soon: maxWork.
func takePlace() (leave func()) {
	analysing <- struct{}{}
	return func() { <-analysing }
}

func (p *Policy) decide(command, shell string, explain *[]tools.Considered) (d Decision) {
	defer takePlace()()
	defer func() { // a command line must not take the supervisor down
		if r := recover(); r != nil {
			d = decide([]Part{{Text: command, Effect: min(tools.Ask, p.fallback), Rule: ruleSyntax, RuleIndex: -1,
				Reason: fmt.Sprintf("not analysed because of a bug in sandgate: %v", r)}})
		}
	}()
	return p.analyse(command, shell, explain)
}

func (p *Policy) analyse(command, shell string, explain *[]tools.Considered) Decision {
	a := &analysis{p: p, explain: explain, done: p.done, dirs: dirSet{known: []string{p.files.Start()}}}
	if p.altered != "" {
		a.ask(p.altered, "remove it from the environment")
	}
	a.script(command, p.dialectOf(shell))
	class := a.class()
	if class.Class != Read && p.fallback < tools.Allow {
		a.unheld()
	}
	d := decide(a.parts)
	d.Bounds, d.Analysis = a.bounds, class
	return d
}

// unheld leaves what only tables let run to the default, where the rest of its line does more
// than read: one sandbox holds all of a line, and nothing would hold this part to reading.
func (a *analysis) unheld() {
	for i, p := range a.parts {
		if !p.tabled || p.Effect < tools.Allow {
			continue
		}
		a.parts[i] = Part{Text: p.Text, Words: p.Words, readings: p.readings, tabled: true, Effect: a.p.fallback, Rule: ruleDefault, RuleIndex: -1,
			Reason: fmt.Sprintf("%q runs without asking only if the whole line only reads, and this line does more", p.Text), Hint: "run it as a separate command line"}
		if a.explain != nil {
			a.overruled(a.parts[i])
		}
	}
}

// script analyses a whole script: the command, or one that a shell is given.
func (a *analysis) script(src string, lang dialect) {
	const plainly = "write the command in plain text, as several shorter ones if it is long"
	if lang == foreign {
		a.ask("a script for a shell other than bash, dash and sh is not analysed", "write it for bash")
	}
	if reason := unreadable(src); reason != "" {
		a.ask(reason, plainly)
	}
	if len(src) > maxCommand || parens(src) > maxParens || a.depth >= maxDepth {
		a.ask("the command is too long or too deep to be analysed", plainly)
		return
	}
	if !a.charge(4 * len(src)) { // it is parsed up to four times
		return
	}
	f, err := parse(src, bash)
	if err != nil {
		a.ask("not valid bash: "+err.Error(), "correct the syntax")
		return
	}
	if reason := unlisted(src, f, lang); reason != "" {
		a.ask(reason, "write it with simpler syntax")
	} else if lang == posix && !sameShape(f, src, posix) {
		a.ask("bash and dash read this differently", "use bash, or syntax that all shells share")
	}
	// Bash removes a line continuation before it looks for operators.
	if joined := strings.ReplaceAll(src, "\\\n", ""); joined != src && !sameShape(f, joined, bash) {
		a.ask("a line continuation inside an operator", "write the operator in one piece")
	}
	a.walk(f)
}

// walk walks a script that was parsed.
func (a *analysis) walk(f *syntax.File) {
	outer := a.vars
	a.vars = assignments(f)
	a.exported(a.vars.named)
	a.depth++
	for _, s := range f.Stmts {
		a.top(s)
	}
	a.depth--
	a.vars = outer
}

// sameShape reports whether the parser makes the same of src, in a dialect, as f is.
func sameShape(f *syntax.File, src string, lang dialect) bool {
	g, err := parse(src, lang)
	return err == nil && shape(f) == shape(g)
}

// shape is a syntax tree without its positions.
func shape(f *syntax.File) string {
	var b strings.Builder
	whole := func(s string) string { return strings.ReplaceAll(s, "\\\n", "") }
	syntax.Walk(f, func(n syntax.Node) bool {
		if l, ok := n.(*syntax.Lit); ok { // in pieces or in one, it is the same text
			b.WriteString(whole(l.Value))
			return false
		}
		fmt.Fprintf(&b, "\x00%T", n)
		switch n := n.(type) {
		case *syntax.SglQuoted:
			b.WriteString(strconv.Quote(whole(n.Value)))
			fmt.Fprint(&b, n.Dollar)
		case *syntax.DblQuoted:
			fmt.Fprint(&b, n.Dollar)
		case *syntax.BinaryCmd:
			b.WriteString(n.Op.String())
		case *syntax.Redirect:
			b.WriteString(n.Op.String())
		case *syntax.ParamExp:
			fmt.Fprint(&b, n.Length, n.Excl, n.Exp != nil && n.Exp.Op > 0)
		case *syntax.Stmt:
			fmt.Fprint(&b, n.Background, n.Negated)
		case *syntax.Comment:
			return false
		}
		return true
	})
	return b.String()
}

var parsers = map[dialect]*sync.Pool{bash: newParsers(syntax.LangBash), posix: newParsers(syntax.LangPOSIX)}

func newParsers(lang syntax.LangVariant) *sync.Pool {
	return &sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)) }}
}

func parse(src string, lang dialect) (*syntax.File, error) {
	parser := parsers[lang].Get().(*syntax.Parser)
	defer parsers[lang].Put(parser)
	return parser.Parse(strings.NewReader(src), "")
}

// unreadable finds characters that make a command line look other than it is:
// terminal controls, invisible and direction-changing characters, spaces that
// the shell does not take for spaces.
func unreadable(src string) string {
	for i, r := range src {
		switch {
		case r == '\n' || r == '\t' || r == ' ':
		case r < 0x7f && r >= 0x20:
		case r == unicode.ReplacementChar && !strings.HasPrefix(src[i:], "\uFFFD"):
			return "the command is not valid UTF-8"
		case unicode.Is(unicode.C, r), unicode.Is(unicode.Z, r):
			return fmt.Sprintf("the command contains a character that does not look like what it is: U+%04X", r)
		}
	}
	return ""
}

// parens is the deepest nesting of parentheses that src could have, quoted or
// not.
func parens(src string) int {
	deepest, depth := 0, 0
	for _, r := range src {
		if r == '(' {
			depth++
		} else if r == ')' {
			depth = max(depth-1, 0)
		}
		deepest = max(deepest, depth)
	}
	return deepest
}

// step counts work, and reports false when there was too much of it.
func (a *analysis) step() bool {
	a.steps++
	return a.charge(wordWork)
}

// charge counts bytes that are looked at, and reports false when there were too many: an
// agent must not keep the supervisor busy, or fill its memory, with one line.
func (a *analysis) charge(work int) bool {
	a.work += work
	if (a.steps > maxSteps || a.work > maxWork || tools.Call{Done: a.done}.Cancelled()) && !a.over {
		a.over = true
		a.ask("the command has too many parts to be analysed", "split it into several")
	}
	return !a.over
}

// ask notes something that no rule can allow: it gets what the default says, or is
// asked about where it could be a way around a stricter rule.
func (a *analysis) ask(reason, hint string) {
	effect := a.p.fallback
	if a.p.guarded {
		effect = min(tools.Ask, effect)
	}
	a.add(Part{Effect: effect, Rule: ruleSyntax, RuleIndex: -1, Reason: reason, Hint: hint})
}

func (a *analysis) add(p Part) {
	a.beyond = a.beyond || p.Rule == ruleSyntax
	a.parts = append(a.parts, p)
}

// A dirSet is where the shell can be: one of a few directories, or anywhere.
type dirSet struct {
	known    []string
	anywhere bool
}

// one is the directory if there is only one it can be, else "".
func (d dirSet) one() string {
	if len(d.known) == 1 && !d.anywhere {
		return d.known[0]
	}
	return ""
}

// moved reports whether the shell can be elsewhere than in start.
func (d dirSet) moved(start string) bool { return d.one() != start }

func (d dirSet) with(dir string) dirSet {
	if slices.Contains(d.known, dir) {
		return d
	}
	if len(d.known) >= 4 {
		return dirSet{anywhere: true}
	}
	return dirSet{known: append(d.known[:len(d.known):len(d.known)], dir), anywhere: d.anywhere}
}

// or is the union of two sets.
func (d dirSet) or(e dirSet) dirSet {
	for _, dir := range e.known {
		d = d.with(dir)
	}
	d.anywhere = d.anywhere || e.anywhere
	return d
}

// checkPath asks the path rules about a word that names a file, from every
// directory that the shell can be in. Of a pattern that is read it asks about the
// directory that the matches are in: where a link among them leads is the sandbox's to say.
func (a *analysis) checkPath(w word, write bool) (tools.Effect, string, string) {
	if !a.charge(2 * wordWork) {
		return tools.Ask, "the command has too many parts to be analysed", "split it into several"
	}
	pattern := w.glob && !write
	w.glob = w.glob && write
	name, reason := a.pathOf(w)
	if pattern && reason == "" {
		name, reason = globDir(w, name)
	}
	if reason != "" {
		return tools.Ask, reason, "write the full path"
	}
	if a.dirs.anywhere && !strings.HasPrefix(name, "/") {
		return tools.Ask, "a relative path, and the directory is not known", "use an absolute path"
	}
	effect, why, hint := tools.Allow, "", ""
	for _, dir := range a.knownDirs(name) {
		if e, r, h := a.p.files.Check(name, dir, write); e < effect {
			effect, why, hint = e, r, h
		}
	}
	return effect, why, hint
}

func (a *analysis) knownDirs(name string) []string {
	if strings.HasPrefix(name, "/") {
		return []string{"/"}
	}
	return a.dirs.known
}

// pathOf gives the path that a word names, or why it is not known. A pattern has none:
// a match can be a link, or a directory that other rules are for.
func (a *analysis) pathOf(w word) (name, reason string) {
	switch {
	case w.dynamic || w.split:
		return "", "a path that is not known before the shell runs"
	case w.glob:
		return "", "a pattern whose matches are not known before the shell runs"
	case w.tilde:
		rest, ok := strings.CutPrefix(w.text, "~")
		if !ok || rest != "" && rest[0] != '/' {
			return "", "another user's home directory"
		}
		return a.p.files.Home() + rest, ""
	}
	return w.text, ""
}

// globDir is where the matches of the pattern w lie, whose text is name. A pattern for
// hidden files is not followed, as ".e*" is a spelling of ".env".
func globDir(w word, name string) (dir, reason string) {
	literal := w.literal + len(name) - len(w.text)
	dir, rest := "", name
	if i := strings.LastIndexByte(name[:literal], '/'); i >= 0 {
		dir, rest = name[:i+1], name[i+1:]
	}
	if strings.Contains("/"+rest, "/.") {
		return "", "a pattern that matches hidden files, or leaves its directory"
	}
	if dir == "" {
		return ".", ""
	}
	return dir, ""
}
