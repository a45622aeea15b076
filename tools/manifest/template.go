package manifest

import (
	"fmt"
	"regexp"
	"strings"
)

// A template is a text with places for arguments. It is parsed once and filled
// in one pass: a value that looks like a placeholder stays the text that it is.
//
//	{{name}}          the value of the argument name
//	{{name...}}       as a whole word: one word for each item of the array name
//	{{name ? --opt}}  as a whole word: --opt, if the argument is given and not false
//	{{{{              two braces, as they are
type template struct {
	pieces []piece
}

// A piece is literal text, or a place for an argument.
type piece struct {
	literal string // if arg is ""
	arg     string
	kind    placeKind
	then    string // of placeIf: the text
}

// placeKind says what a placeholder stands for.
type placeKind uint8

const (
	placeValue  placeKind = iota // the value, as text
	placeSpread                  // every item of an array, each a word
	placeIf                      // a fixed text, if the argument is given
)

var (
	argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	spreadPlace  = regexp.MustCompile(`^(\S*?)\s*\.\.\.$`)
	ifPlace      = regexp.MustCompile(`^(\S*)\s*\?\s*(.*)$`)
)

// parseTemplate parses text. Its error says what is wrong with the braces.
func parseTemplate(text string) (template, error) {
	var t template
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{{")
		t.literal(before)
		if !found {
			break
		}
		if escaped, ok := strings.CutPrefix(after, "{{"); ok {
			t.literal("{{")
			rest = escaped
			continue
		}
		inside, more, closed := strings.Cut(after, "}}")
		if !closed {
			return template{}, fmt.Errorf("%q has no closing braces", "{{"+after)
		}
		p, err := parsePlace(strings.TrimSpace(inside))
		if err != nil {
			return template{}, err
		}
		t.pieces = append(t.pieces, p)
		rest = more
	}
	return t, nil
}

// literal adds text to the literal piece at the end.
func (t *template) literal(text string) {
	switch last := len(t.pieces) - 1; {
	case text == "":
	case last >= 0 && t.pieces[last].arg == "":
		t.pieces[last].literal += text
	default:
		t.pieces = append(t.pieces, piece{literal: text})
	}
}

func parsePlace(inside string) (piece, error) {
	p := piece{arg: inside}
	if m := spreadPlace.FindStringSubmatch(inside); m != nil {
		p = piece{arg: m[1], kind: placeSpread}
	} else if m := ifPlace.FindStringSubmatch(inside); m != nil {
		p = piece{arg: m[1], kind: placeIf, then: m[2]}
	}
	switch {
	case strings.Contains(inside, "{"):
		return p, fmt.Errorf("a placeholder inside a placeholder: %q", "{{"+inside)
	case !argumentName.MatchString(p.arg):
		return p, fmt.Errorf("%q is not an argument's name", p.arg)
	case p.kind == placeIf && p.then == "":
		return p, fmt.Errorf("%q: the text after the question mark is missing", "{{"+inside+"}}")
	}
	return p, nil
}

// args lists the arguments that the template names, in order.
func (t template) args() []string {
	var names []string
	for _, p := range t.pieces {
		if p.arg != "" {
			names = append(names, p.arg)
		}
	}
	return names
}

// alone is the template's only piece, if it is a place.
func (t template) alone() (piece, bool) {
	if len(t.pieces) == 1 && t.pieces[0].arg != "" {
		return t.pieces[0], true
	}
	return piece{}, false
}

// prefix is the literal text that every word made of the template begins with.
func (t template) prefix() string {
	if len(t.pieces) > 0 {
		return t.pieces[0].literal
	}
	return ""
}

// fill gives the text with each value put in, and false if one is absent.
func (t template) fill(value func(name string) (string, bool)) (string, bool) {
	var out strings.Builder
	for _, p := range t.pieces {
		text := p.literal
		if p.arg != "" {
			v, ok := value(p.arg)
			if !ok {
				return "", false
			}
			text = v
		}
		out.WriteString(text)
	}
	return out.String(), true
}
