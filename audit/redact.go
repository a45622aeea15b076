package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Rule finds one sort of secret in a text.
type Rule struct {
	Name string
	// Pattern is a regular expression in RE2 syntax. What its group "secret"
	// matches is replaced; the whole match if that group took no part in it.
	Pattern string
	// Hints are strings of which every match contains at least one, in this case
	// of letters. They keep the pattern from being tried on texts that cannot match.
	Hints []string
	// Match and NoMatch are texts in which the rule must and must not find a
	// secret. NewRedactor checks them.
	Match, NoMatch []string
}

// A Redactor replaces secrets by [redacted:RULE:LENGTH], with the length of the
// secret in bytes. It knows secrets by their form and by the names of what holds
// them; a secret that looks like any word and has no telling name stays. It is
// safe for concurrent use.
type Redactor struct {
	rules []rule
	// hints are those of all rules, hinted is whether every rule has some.
	hints  spotter
	hinted bool
	// field matches the names of JSON members, flag the options and variable the
	// environment variables whose value is a secret, whatever it looks like.
	field, flag, variable func() *regexp.Regexp
}

// A rule compiles its pattern when it first meets one of its hints: most
// processes log a few entries without a secret in them, and to compile all of the
// patterns would take a good part of the time that they live.
type rule struct {
	Rule
	re func() *regexp.Regexp
}

// Names of the rules that go by a name and not by a form.
const (
	ruleField    = "secret-field"
	ruleFlag     = "secret-flag"
	ruleVariable = "env-assignment"
)

// NewRedactor makes a redactor with the given rules, which are tried in order,
// besides the rules on names. It fails if a pattern is bad or a rule does not
// live up to its examples.
func NewRedactor(rules []Rule) (*Redactor, error) {
	for _, r := range rules {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("audit: redaction rule %q: %w", r.Name, err)
		}
	}
	return trustedRedactor(rules), nil
}

// DefaultRedactor makes a redactor with the shipped rules and more, which are
// tried after them and have to live up to their examples.
func DefaultRedactor(more []Rule) (*Redactor, error) {
	if _, err := NewRedactor(more); err != nil {
		return nil, err
	}
	return trustedRedactor(slices.Concat(DefaultRules(), more)), nil
}

// trustedRedactor takes the examples on trust: those of the shipped rules are
// checked by a test.
func trustedRedactor(rules []Rule) *Redactor {
	r := &Redactor{
		field:    lazily(`^(?:` + fieldNames + `)$`),
		flag:     lazily(`^--?(?:` + flagNames + `)$`),
		variable: lazily(`^(?:` + variableNames + `)=`),
	}
	r.hinted = true
	for _, s := range rules {
		r.rules = append(r.rules, rule{s, lazily(s.Pattern)})
		r.hinted = r.hinted && len(s.Hints) > 0
		r.hints.look(s.Hints...)
	}
	return r
}

func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func (s Rule) check() error {
	if _, err := regexp.Compile(s.Pattern); err != nil {
		return err
	}
	c := rule{s, lazily(s.Pattern)}
	for _, text := range s.Match {
		if c.apply(text) == text {
			return fmt.Errorf("finds nothing in its example %q", text)
		}
	}
	for _, text := range s.NoMatch {
		if c.apply(text) != text {
			return fmt.Errorf("finds a secret in its counterexample %q", text)
		}
	}
	return nil
}

func (r *rule) possible(text string) bool {
	if len(r.Hints) == 0 {
		return true
	}
	for _, h := range r.Hints {
		if strings.Contains(text, h) {
			return true
		}
	}
	return false
}

func (r *rule) apply(text string) string {
	if !r.possible(text) {
		return text
	}
	re := r.re()
	group := max(0, re.SubexpIndex("secret"))
	var b strings.Builder
	done := 0
	for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[2*group], m[2*group+1]
		if from < 0 { // the other branch of an alternative: its match is the secret
			from, to = m[0], m[1]
		}
		if from == to || isMark(text[from:to]) {
			continue
		}
		b.WriteString(text[done:from])
		b.WriteString(redacted(r.Name, to-from))
		done = to
	}
	b.WriteString(text[done:])
	return b.String()
}

const redactedMark = "[redacted:"

// isMark reports whether s is a mark that redacted returns.
func isMark(s string) bool {
	return strings.HasPrefix(s, redactedMark) && strings.IndexByte(s, ']') == len(s)-1
}

func redacted(rule string, n int) string { return fmt.Sprintf("%s%s:%d]", redactedMark, rule, n) }

// String returns text without the secrets in it.
func (r *Redactor) String(text string) string {
	for i := range r.rules {
		text = r.rules[i].apply(text)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Bounds on what one entry keeps of a caller's data.
const (
	// maxString is the longest string in bytes that is kept whole, keepString how
	// much is kept of a longer one.
	maxString  = 16 << 10
	keepString = 4 << 10
	// maxData is the largest data in bytes.
	maxData = 512 << 10
)

// JSON encodes v without secrets. Strings above 16 KiB are cut, with their length
// and SHA-256 (after redaction) in place of the rest; data above 512 KiB is left
// out in the same way.
func (r *Redactor) JSON(v any) (json.RawMessage, error) {
	b, err := encodeJSON(v)
	if err != nil {
		return nil, err
	}
	if r.clean(b) {
		return b, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // a float64 would change large numbers
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	b, err = encodeJSON(r.value("", tree))
	if err != nil || len(b) <= maxData {
		return b, err
	}
	return encodeJSON(map[string]string{"cut": cutNote(string(b))})
}

// clean reports whether nothing in the JSON text b can need redaction or cutting.
// Most entries are clean, and need not be taken apart. An escaped character may
// hide anything; a name that tells of a secret is a word of nameHints.
func (r *Redactor) clean(b []byte) bool {
	if !r.hinted || len(b) > maxString || bytes.Contains(b, []byte(`\u`)) || bytes.Contains(b, []byte(`\/`)) {
		return false
	}
	return !r.hints.in(b) && !nameSpotter().in(b)
}

// value redacts v, which a JSON object holds under name, "" for none.
func (r *Redactor) value(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[r.text(k)] = r.member(k, e)
		}
		return out
	case []any:
		return r.list(name, v)
	case string:
		return r.text(v)
	}
	return v
}

func (r *Redactor) member(name string, v any) any {
	if r.field().MatchString(name) {
		return conceal(ruleField, v)
	}
	return r.value(name, v)
}

// list redacts an array. In an argument vector the secret is the element after
// its option; in an environment the variable's whole value is.
func (r *Redactor) list(name string, v []any) any {
	out := make([]any, len(v))
	afterFlag := false
	for i, e := range v {
		s, isString := e.(string)
		switch {
		case isString && afterFlag:
			out[i] = conceal(ruleFlag, s)
		case isString && isEnvironment(name):
			out[i] = r.assignment(s)
		default:
			out[i] = r.value(name, e)
		}
		afterFlag = isString && r.flag().MatchString(s)
	}
	return out
}

func isEnvironment(name string) bool {
	return strings.EqualFold(name, "env") || strings.EqualFold(name, "environ")
}

func (r *Redactor) assignment(s string) string {
	name, value, ok := strings.Cut(s, "=")
	if ok && r.variable().MatchString(s) {
		return name + "=" + conceal(ruleVariable, value).(string)
	}
	return r.text(s)
}

// conceal replaces every string and number in v.
func conceal(rule string, v any) any {
	switch v := v.(type) {
	case string:
		if v == "" || isMark(v) {
			return v
		}
		return redacted(rule, len(v))
	case json.Number:
		return redacted(rule, len(v))
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = conceal(rule, v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = conceal(rule, v[k])
		}
		return out
	}
	return v
}

// text redacts s, then cuts it: the other way round half a secret would remain.
func (r *Redactor) text(s string) string {
	s = r.String(s)
	if len(s) <= maxString {
		return s
	}
	return strings.ToValidUTF8(s[:keepString], "") + cutNote(s)
}

// cutPrefix begins what stands for the rest of a long string.
const cutPrefix = "[cut:"

// Altered reports whether a text from a log may not be the text that was logged:
// a secret was taken out, or it was cut. A text that itself has such a mark in it
// counts as altered.
func Altered(logged []byte) bool {
	return bytes.Contains(logged, []byte(redactedMark)) || bytes.Contains(logged, []byte(cutPrefix))
}

func cutNote(s string) string {
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf(cutPrefix+"%d:sha256:%s]", len(s), hex.EncodeToString(sum[:]))
}
