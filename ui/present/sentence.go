package present

import (
	"fmt"
	"reflect"

	"github.com/sandgate/sandgate/approval"
)

// A Sentence is words of ours around texts from outside, none of which reads as ours. Only the
// functions of this file make one of what is not a constant.
type Sentence string

// Say makes a sentence. Each text from outside among the parts is a Name in it; numbers and
// sentences stand as they are.
func Say(format string, parts ...any) Sentence {
	said := make([]any, len(parts))
	for i, p := range parts {
		said[i] = p
		if v := reflect.ValueOf(p); v.Kind() == reflect.String && v.Type() != reflect.TypeFor[Sentence]() {
			said[i] = Name(v.String())
		}
	}
	return Sentence(fmt.Sprintf(format, said...))
}

// Name is a text from outside in a sentence: quoted, unless it is a plain word, and one that is
// long by its beginning and its end, so that it pushes none of our words out.
func Name(text string) Sentence {
	return Sentence(approval.Brief(text, maxBrief, func(s string) string { return Blanks(approval.EscapeName(s)) }))
}

// Whole is Name for a sentence that is asked about: nothing is answered of which a part is left out.
func Whole(text string) Sentence { return Sentence(Blanks(approval.EscapeName(text))) }

// End is a text from outside that ends a sentence: a message, a description. Nothing of ours comes
// after it.
func End(text string) Sentence { return Sentence(Brief(line(text))) }

// WholeEnd is End for a sentence that is asked about.
func WholeEnd(text string) Sentence { return Sentence(line(text)) }

// Approver is who answered. No agent has a word in it.
func Approver(who string) Sentence { return Sentence(line(who)) }

// maxBrief is how many characters of a text are shown where all of it is elsewhere.
const maxBrief = 160

// Brief is a text that is escaped already by its beginning and its end, if it is long.
func Brief(text string) string { return approval.Brief(text, maxBrief, approval.EscapeLine) }

// line is a text from outside on a line of ours, behind our words.
func line(text string) string { return Blanks(approval.EscapeLine(text)) }
