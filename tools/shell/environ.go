package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// envClass is what setting an environment variable can do to a program.
type envClass int8

const (
	envHarmless  envClass = iota
	envUnknown            // a variable that this package knows nothing about
	envDangerous          // known to choose what is run, loaded or read
)

// classify says what setting name to value could do.
func classify(name string, value word) envClass {
	if known().in("harmless", name) || strings.HasPrefix(name, "LC_") {
		return classifyValue(name, value)
	}
	if known().in("dangerous", name) || known().fits("prefixes", strings.HasPrefix, name) || known().fits("suffixes", strings.HasSuffix, name) {
		return envDangerous
	}
	return envUnknown
}

// classifyValue looks at the value of a harmless variable: a locale or time zone
// may be the path of a file, which is parsed.
func classifyValue(name string, v word) envClass {
	locale := strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LANG") || name == "TERM"
	switch {
	case !locale && name != "TZ":
		return envHarmless
	case !v.fixed():
		return envUnknown
	case strings.Contains(v.text, "..") || strings.HasPrefix(v.text, ":") || path.IsAbs(v.text), locale && strings.Contains(v.text, "/"):
		return envDangerous
	}
	return envHarmless
}

// assignment judges NAME=value. A variable of the shell's own is nobody's concern, if
// it is none that decides what programs do.
func (a *analysis) assignment(as *syntax.Assign, forCommand bool) envClass {
	v := fixedWord("")
	if as.Value != nil {
		v = a.fold(as.Value)
	}
	a.inside(as)
	if as.Name == nil {
		return envHarmless
	}
	class := classify(as.Name.Value, v)
	if class == envDangerous {
		a.ask("sets "+as.Name.Value+", which decides what programs do", "run the command without it")
	}
	if !forCommand && class == envUnknown {
		if a.p.exported[as.Name.Value] {
			a.env = envUnknown
		}
		return envHarmless
	}
	return class
}

// exported notes what a script makes of the variables that came in the environment: each
// later program has their new value, as it has that of `NAME=value program`.
func (a *analysis) exported(names []string) {
	for _, name := range names {
		if a.p.exported[name] && classify(name, fixedWord("C")) != envHarmless {
			a.env = envUnknown
		}
	}
}
