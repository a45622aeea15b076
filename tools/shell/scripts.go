package shell

import (
	"regexp"
	"strings"
	"sync"
)

// Programs with a language of their own. What a script may hold is listed, as the syntax
// of command lines is: whatever is read in two ways, or does more than print, is refused.

var pureScripts = map[string]func(string) bool{"sed": func(s string) bool { return sedScript().MatchString(s) }, "awk": pureAwk, "jq": pureJq}

// holdScript holds a script, the first operand or the values of options, against what it may be.
func (f *readForm) holdScript(p parsed) string {
	if f.pure == nil {
		return ""
	}
	var scripts []word
	for _, o := range p.options {
		if hasField(f.gives, o.name) {
			scripts = append(scripts, o.value)
		}
	}
	if scripts == nil {
		scripts = p.operands[:min(1, len(p.operands))]
	}
	switch script, ok := joinFixed(scripts, "\n"); {
	case !ok:
		return "the script is not known before it runs"
	case !f.pure(script):
		return "the script may write files, run programs or read other files"
	}
	return ""
}

// sedScript is a script of which no command or flag reads or writes another file (r, R, w,
// W) or runs a program (e). Some take a delimiter in brackets for text: those are whole.
var sedScript = sync.OnceValue(func() *regexp.Regexp {
	var address, substitute []string
	for _, d := range []string{"/", "#", ",", `\|`, "@", ":", "%"} {
		text := `(?:[^\\\n` + d + `]|\\[^\n])*` + d
		pattern := d + `(?:[^\\\n\[` + d + `]|\\[^\n]|\[\^?(?:[^]^\[\\\n` + d + `]|\[:[a-z]+:\])+\])*` + d
		substitute = append(substitute, `s`+pattern+text+`[gpiIm0-9M]*`, `y`+d+text+text)
		if d == "/" {
			address = []string{`\d+(?:~\d+)?`, `\$`, pattern + `[IM]*`}
		}
	}
	where := `(?:` + strings.Join(address, "|") + `)`
	does := `(?:[dDgGhHnNpPxz=F]|[qQlL][ \t]*\d*|[btT:][ \t]*\w*|` + strings.Join(substitute, "|") + `)[ \t]*(?:[;\n}]|$)|[aic][ \t]*[^\\\s][^\\\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\{`
	return regexp.MustCompile(`^(?:[ \t\n;}]*(?:` + where + `(?:[ \t]*,[ \t]*[+~]?` + where + `)?)?[ \t!]*(?:` + does + `))*[ \t\n;}]*$`)
})

var (
	lazily = func(expr string) func() *regexp.Regexp { // most processes need none of them
		return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
	}
	awkText    = lazily(`"(?:[^"\\\n]|\\.)*"`)
	awkRegexp  = lazily(`(^|[{};(,!~\n]|&&|\|\|)[ \t]*/(?:[^/\\\n"\[\x00]|\\[^"\x00\n]|\[\^?[^]\[^/\\\n"\x00]+\])+/`)
	awkDivides = lazily(`(\$\w+|\b[A-Z]\w*|\b\d+|\b\w)[ \t]*/`)
	awkWrites  = lazily("[@`\\\\\"#]|\\bprintf?\\b[^;{}]*>|" +
		`\b(?:system|getline|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|INCLUDE|load|include|fflush|close)\b`)
)

// pureAwk reports whether an awk program only computes and prints: no system(), no pipe, no
// redirection, no getline, no indirect call or extension, and no change to the list of files
// that it reads. Text and regular expressions are taken out where nothing else can be meant:
// a quote may stand in a regular expression, and a slash may divide, so not both are left.
func pureAwk(program string) bool {
	rest := awkText().ReplaceAllString(program, "\x00")
	rest = awkRegexp().ReplaceAllString(rest, "$1 0")
	rest = awkDivides().ReplaceAllString(rest, "$1 ")
	return !strings.Contains(strings.ReplaceAll(rest, "||", ""), "|") && !awkWrites().MatchString(rest) &&
		!(strings.Contains(rest, "/") && strings.Contains(rest, "\x00"))
}

var jqReads = lazily(`[^\t\n -~]|(?:^|[^.\w])(?:import|include|ENV|input_filename|modulemeta|get_search_list)\b|(?:^|[^.$\w])env\b`)

// pureJq reports whether a jq program has no word, outside a name such as .env, that reads more than
// the operands: a module of any directory, which may hold any JSON, or the environment.
func pureJq(program string) bool { return !jqReads().MatchString(program) }
