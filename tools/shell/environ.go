package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// onlyText is a value that means nothing to those who read it as more than text: make expands
// what begins with "$", bash evaluates "a[$(cmd)]", "PATH=0" and "PATH--" where it compares numbers,
// and a name with a "/" leads to another file.
var onlyText = lazily(`^[A-Za-z0-9_.,:@%]*(-[A-Za-z0-9_.,:@%]+)*$`)

// ofText are the locales in which no quote or backslash is the second byte of a character.
var ofText = lazily(`^(C|POSIX|.*\.(UTF-8|utf8))?$`)

// harmless reports whether a program that is given the variable does what it does without it,
// in other words perhaps. A time zone may be the path of a file, which is parsed.
func harmless(name string, v word) bool {
	text, locale := v.text, strings.HasPrefix(name, "LC_")
	if name == "TZ" && !path.IsAbs(text) { // Europe/Berlin
		text = strings.ReplaceAll(text, "/", "_")
	}
	return (locale || known().in("harmless", name)) && v.fixed() && onlyText().MatchString(text) && !strings.Contains(text, "..") &&
		!strings.HasPrefix(text, ":") && (!locale && name != "LANG" || ofText().MatchString(text))
}

// ofTheLine reports whether name can only be a variable that the line made up. Those of the shells
// and of the environment are in capitals: bash evaluates what some of them are set to ("RANDOM=a[$(cmd)]"),
// and others decide what is run.
func ofTheLine(name string) bool { return isName(name) && strings.ToUpper(name) != name }

// assignment reports whether NAME=value changes what the command may do that it stands before.
func (a *analysis) assignment(as *syntax.Assign) bool {
	v := fixedWord("")
	if as.Value != nil {
		v = a.fold(as.Value)
	}
	a.inside(as)
	return as.Name != nil && !harmless(as.Name.Value, v)
}

// exported notes what a script makes of the variables that came in the environment: each
// later program has their new value, as it has that of `NAME=value program`.
func (a *analysis) exported(names []string) {
	for _, name := range names {
		a.env = a.env || a.p.exported[name] && !harmless(name, fixedWord("C"))
	}
}
