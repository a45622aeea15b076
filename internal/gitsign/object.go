package gitsign

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An Object is a commit or a tag as people are asked about it.
type Object struct {
	Kind string // "commit" or "tag"
	Of   string // the tree of a commit, the object of a tag
	By   string // who committed or tagged; NAME <MAIL>
	Text string // all of it, as it is signed
}

// Compiled when there is something to sign: every start would pay for them.
var (
	objectID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`) })
	identity = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([^<>\n]*<[^<>\n]*>) [0-9]{1,20} [+-][0-9]{4}$`)
	})
)

// Parse reads what git has signed: an object as `git cat-file -p` shows it, without its
// signature. Whatever is not a commit or a tag, header by header in the order that git
// writes, is refused: a signature over anything else could mean something elsewhere.
func Parse(b []byte) (Object, error) {
	if len(b) > MaxObject {
		return Object{}, fmt.Errorf("it is larger than %d bytes", MaxObject)
	}
	text := string(b)
	if strings.ContainsRune(text, 0) {
		return Object{}, errors.New("it has a zero byte")
	}
	head, _, ok := strings.Cut(text, "\n\n")
	if !ok { // git writes the empty line also where no message follows
		return Object{}, errors.New("it is neither a commit nor a tag: no empty line ends its headers")
	}
	h := headers{lines: strings.Split(head, "\n")}
	var o Object
	if strings.HasPrefix(head, "tree ") {
		o = h.commit()
	} else {
		o = h.tag()
	}
	if h.err == nil && len(h.lines) > 0 {
		h.err = fmt.Errorf("it is neither a commit nor a tag: the header %.40q", h.lines[0])
	}
	o.Text = text
	return o, h.err
}

// headers are read from the front; the first mistake stays.
type headers struct {
	lines []string
	err   error
}

// take takes the header of a name, which has to be there and has to have this form.
func (h *headers) take(name string, form *regexp.Regexp) string {
	value, ok := h.maybe(name)
	if h.err == nil && (!ok || form != nil && !form.MatchString(value)) {
		h.err = fmt.Errorf("it is neither a commit nor a tag: no header %q in its place", name)
	}
	return value
}

func (h *headers) maybe(name string) (string, bool) {
	if len(h.lines) == 0 {
		return "", false
	}
	value, ok := strings.CutPrefix(h.lines[0], name+" ")
	if ok {
		h.lines = h.lines[1:]
	}
	return value, ok
}

func (h *headers) who(name string) string {
	if m := identity().FindStringSubmatch(h.take(name, identity())); m != nil {
		return m[1]
	}
	return ""
}

func (h *headers) commit() Object {
	o := Object{Kind: "commit", Of: h.take("tree", objectID())}
	for len(h.lines) > 0 && strings.HasPrefix(h.lines[0], "parent ") {
		h.take("parent", objectID())
	}
	h.who("author")
	o.By = h.who("committer")
	if encoding, ok := h.maybe("encoding"); ok && h.err == nil { // git shows it in other letters than a person saw
		h.err = fmt.Errorf("its message is in %.20q, and only UTF-8 is shown as it is (git config i18n.commitEncoding UTF-8)", encoding)
	}
	for { // of tags that were merged: the object, with its lines set in by one blank
		if _, ok := h.maybe("mergetag"); !ok {
			return o
		}
		for len(h.lines) > 0 && strings.HasPrefix(h.lines[0], " ") {
			h.lines = h.lines[1:]
		}
	}
}

func (h *headers) tag() Object {
	o := Object{Kind: "tag", Of: h.take("object", objectID())}
	kind := h.take("type", nil)
	if h.err == nil && !slices.Contains([]string{"commit", "tree", "blob", "tag"}, kind) {
		h.err = fmt.Errorf("it is neither a commit nor a tag: an object of type %.20q", kind)
	}
	h.take("tag", nil)
	o.By = h.who("tagger")
	return o
}
