package shell

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed programs.txt
var programsText string

// tables are what programs.txt says; its head says how it is written.
type tables struct {
	reads    map[string]*readForm
	rules    map[string]*grammar // what a rule covers: the options of reads included
	wrappers map[string]*wrapper
	coded    map[string]string
	globals  map[string]*globalGrammar
	subs     map[string]bool // programs whose first word is a sub-command
	inert    map[string]bool // no option runs a program or loads code
	families [][]string
	same     [][]string // names of one sub-command
	lists    map[string]map[string]bool
	interps  map[string]keyed // the lines interp and carry
	carriers map[string]keyed
}

// known is the table of programs. It does not change.
var known = sync.OnceValue(func() *tables { return mustLoad(programsText) })

func mustLoad(text string) *tables {
	t := &tables{
		map[string]*readForm{}, map[string]*grammar{}, map[string]*wrapper{}, map[string]string{}, map[string]*globalGrammar{},
		map[string]bool{}, map[string]bool{}, nil, nil, map[string]map[string]bool{}, map[string]keyed{}, map[string]keyed{},
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, ",\n\t", ","), "\n\t", " ")
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" {
			if err := t.line(f[0], strings.Split(f[1], ","), f[2:]); err != nil {
				panic(fmt.Sprintf("shell: bug: programs.txt: %q: %v", line, err))
			}
		}
	}
	for name, form := range t.reads {
		g := form.and(t.rules[name])
		t.rules[name] = &g
	}
	return t
}

func (t *tables) line(kind string, names, pairs []string) error {
	switch kind {
	case "family":
		t.families = append(t.families, names)
		return nil
	case "same":
		t.same = append(t.same, names)
		return nil
	case "list":
		t.lists[names[0]] = fieldSet(strings.ReplaceAll(pairs[0], ",", " "))
		return nil
	case "code":
		for _, name := range strings.Split(pairs[0], ",") {
			t.coded[name] = names[0]
			t.sub(name)
		}
		return nil
	}
	for _, name := range names {
		if kind != "carry" { // which says nothing else of the program
			t.sub(name)
		}
		if err := t.program(kind, name, pairs); err != nil {
			return err
		}
		if kind == "read" {
			t.reads[name].pure = pureScripts[names[0]]
		}
	}
	return nil
}

// in reports whether a list of the table has word.
func (t *tables) in(list, word string) bool { return t.lists[list][word] }

func (t *tables) sub(name string) {
	if program, _, ok := strings.Cut(name, "/"); ok {
		t.subs[program] = true
	}
}

func (t *tables) program(kind, name string, pairs []string) error {
	var set func(key, value, list string) bool
	switch kind {
	case "inert":
		t.inert[name] = true
		return nil
	case "read":
		t.reads[name] = &readForm{}
		set = t.reads[name].set
	case "rule":
		if t.rules[name] == nil {
			t.rules[name] = &grammar{}
		}
		set = t.rules[name].set
	case "wrap":
		t.wrappers[name] = &wrapper{}
		set = t.wrappers[name].set
	case "global":
		t.globals[name] = &globalGrammar{}
		set = t.globals[name].set
	case "interp":
		t.interps[name] = keyed{}
		set = t.interps[name].set
	case "carry":
		t.carriers[name] = keyed{}
		set = t.carriers[name].set
	default:
		return fmt.Errorf("no such kind %q", kind)
	}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		if !set(key, value, strings.ReplaceAll(value, ",", " ")) {
			return fmt.Errorf("no such key %q", key)
		}
	}
	return nil
}

// put sets what a key is the name of.
func put(key, value string, texts map[string]*string, switches map[string]*bool) bool {
	if s := switches[key]; s != nil {
		*s = true
		return true
	}
	if t := texts[key]; t != nil {
		*t += value
		return true
	}
	return false
}

func (g *grammar) set(key, value, list string) bool {
	letters := map[string]*string{"flags": &g.flags, "data": &g.data, "paths": &g.paths, "optional": &g.optional}
	names := map[string]*string{"long": &g.long, "longdata": &g.longData, "longpaths": &g.longPaths, "longoptional": &g.longOptional}
	switches := map[string]*bool{"numbers": &g.numbers, "single": &g.single, "alone": &g.alone, "stop": &g.stop}
	return put(key, value, letters, switches) || put(key, " "+list, names, nil)
}

// and is g with what more adds. What g says of an option holds.
func (g grammar) and(more *grammar) grammar {
	if more == nil {
		return g
	}
	letters, names := g.flags+g.data+g.paths+g.optional, strings.Join([]string{g.long, g.longData, g.longPaths, g.longOptional}, " ")
	missing := func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(letters, r) {
				return -1
			}
			return r
		}, s)
	}
	absent := func(s string) string {
		return " " + strings.Join(slices.DeleteFunc(strings.Fields(s), func(n string) bool { return hasField(names, n) }), " ")
	}
	g.flags, g.data, g.optional = g.flags+missing(more.flags), g.data+missing(more.data), g.optional+missing(more.optional)
	g.long, g.longData, g.longOptional = g.long+absent(more.long), g.longData+absent(more.longData), g.longOptional+absent(more.longOptional)
	g.numbers = g.numbers || more.numbers
	return g
}

func (f *readForm) set(key, value, list string) bool {
	if key == "operands" {
		f.operands = operandKind(slices.Index(strings.Fields(operandKinds), value))
		return f.operands >= 0
	}
	texts := map[string]*string{"gives": &f.gives, "pairs": &f.pairs, "pathpairs": &f.pathPairs, "first": &f.first, "needs": &f.needs}
	return put(key, list, texts, map[string]*bool{"bare": &f.bare}) || f.grammar.set(key, value, list)
}

func (w *wrapper) set(key, value, list string) bool {
	if key == "skip" {
		n, err := strconv.Atoi(value)
		w.skip = n
		return err == nil
	}
	texts := map[string]*string{"script": &w.script, "lookup": &w.lookup, "environ": &w.environ}
	switches := map[string]*bool{"assigns": &w.assigns, "own": &w.own, "joined": &w.joined, "appends": &w.appends, "bare": &w.alone}
	return put(key, list, texts, switches) || w.grammar.set(key, value, list)
}

func (g *globalGrammar) set(key, _, list string) bool {
	texts := map[string]*string{"harmless": &g.harmless, "flags": &g.flags, "values": &g.values, "relocates": &g.relocates, "settings": &g.settings}
	return put(key, list, texts, nil)
}

// about reports whether a table says what a program does with its words.
func (t *tables) about(base string) bool {
	return t.rules[base] != nil || t.wrappers[base] != nil || t.coded[base] != "" || t.subs[base] || t.inert[base]
}

// likeness is a program of which base is a version or a variant, where the one runs
// code or other programs: python3.11, perl5.36.0, vim.tiny, bash-static, original-awk.
func likeness(base string) string {
	for _, name := range []string{
		base, strings.TrimRight(base, "0123456789.-"), strings.TrimPrefix(base, "original-"),
		base[:max(0, strings.LastIndexAny(base, ".-"))],
	} {
		if name = strings.TrimRight(name, "0123456789.-"); known().coded[name] != "" || known().wrappers[name] != nil || strings.HasSuffix(name, "awk") {
			return name
		}
	}
	return base
}

func fieldSet(s string) map[string]bool {
	set := map[string]bool{}
	for f := range strings.FieldsSeq(s) {
		set[f] = true
	}
	return set
}
