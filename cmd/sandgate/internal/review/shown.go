package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/filediff"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/review"
)

// What an approver is shown of a draft; `sandgate review show` has all of it that is text.
const maxSummary, maxDiff = 8 << 10, 512 << 10

// shown is an approver's view of steps, which are all of the draft's or a part of them.
func (d *sessionDraft) shown(steps [][]changes.Step) (found review.Changes, err error) {
	all, err := json.Marshal(steps)
	if err != nil {
		return found, err
	}
	sum := sha256.Sum256(all)
	found.Digest = "sha256:" + hex.EncodeToString(sum[:])
	protect, _ := assemble.Patterns(d.cfg)
	var list []shownStep
	names := d.names()
	for i, root := range steps {
		found.Names += len(root)
		for _, s := range root {
			x := shownStep{Step: s, root: i, marks: marks(s, d.draft.Roots[i], protect)}
			x.title = filediff.Sign(s.Now, s.Was) + " " + names.text(i, pathOf(s)) + x.marks
			list = append(list, x)
		}
	}
	// What is marked stands first, before anything is cut: a person looks at that.
	var marked, others strings.Builder
	for _, x := range list {
		to, in := &others, ""
		if x.marks != "" {
			to = &marked
		}
		if x.root > 0 {
			in = "  in " + approval.EscapeName(d.draft.Roots[x.root])
		}
		fmt.Fprintln(to, x.title+in)
	}
	if marked.Len() > maxDiff/2 {
		return found, fmt.Errorf("%d changes are executable files, links, protected or open to others, more than a question can show: see `sandgate review show`", strings.Count(marked.String(), "\n"))
	}
	found.Summary = cutAtLine(marked.String()+others.String(), maxSummary)
	if over := marked.Len() - maxSummary; over > 0 {
		found.Summary += "more changes are executable files, links, protected or open to others\n"
	}
	read(list, func(root int, e *changes.Entry) ([]byte, error) { return d.plans[root].Content(e) })
	found.Diff, found.Unshown = diffText(list, d.draft.Roots, marked.String()+others.String())
	found.Part = func(names []string) (review.Changes, error) {
		part, err := d.part(names)
		if err != nil {
			return review.Changes{}, err
		}
		return d.shown(part)
	}
	return found, nil
}

// A shownStep is a step as an approver sees it.
type shownStep struct {
	changes.Step
	root  int
	title string // a sign, the name, and marks
	marks string
	lines []string
	whole bool // lines are all of what it changes
}

// pathOf is the name of a step; that of a directory has a slash at its end.
func pathOf(s changes.Step) string {
	if e := cmp.Or(s.Was, s.Now); e.IsDir() {
		return string(s.Path) + "/"
	}
	return string(s.Path)
}

// maxMisses is how many names whose texts have no room are compared before the rest, which is
// larger, is not read.
const maxMisses = 8

// read has each step say what it changes, the small ones first: a call that fills a file with
// lines must leave room for what it does elsewhere.
func read(list []shownStep, content func(root int, e *changes.Entry) ([]byte, error)) {
	order := make([]*shownStep, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	size := func(x *shownStep) int64 { return filediff.Size(x.Now) + filediff.Size(x.Was) }
	slices.SortStableFunc(order, func(a, b *shownStep) int { return cmp.Compare(size(a), size(b)) })
	room, misses := maxDiff/2, 0
	for _, x := range order {
		x.lines = []string{"* content not shown: the question would be too long"}
		if misses == maxMisses {
			continue
		}
		lines, whole := changedLines(func(e *changes.Entry) ([]byte, error) { return content(x.root, e) }, x.Step)
		length := len(lines)
		for _, line := range lines {
			length += len(line)
		}
		if length > room {
			misses++
			continue
		}
		x.lines, x.whole = lines, whole
		room -= length
	}
}

// changedLines are a diff of one step, and whether that is all of what it changes. Lines of
// ours begin with a star, which no line of a file's does.
func changedLines(content func(*changes.Entry) ([]byte, error), s changes.Step) (lines []string, whole bool) {
	if s.Now != nil && s.Was != nil && s.Now.Attributes != s.Was.Attributes {
		lines = append(lines, fmt.Sprintf("* extended attributes, not shown: %d bytes now, %d in the draft", len(s.Now.Attributes), len(s.Was.Attributes)))
	} else if s.Now == nil && s.Was.Attributes != "" {
		lines = append(lines, fmt.Sprintf("* extended attributes, not shown: %d bytes", len(s.Was.Attributes)))
	}
	whole = len(lines) == 0
	diff, why, err := filediff.Lines(content, s.Now, s.Was)
	if err != nil {
		return append(lines, "* cannot be shown: "+approval.EscapeLine(err.Error())), false
	}
	if why != "" {
		return append(lines, fmt.Sprintf("* %s: %d bytes now, %d in the draft", why, filediff.Size(s.Now), filediff.Size(s.Was))), false
	}
	return append(lines, diff...), whole
}

// diffText gives the new state of each name, and says which of them it does not show whole. The
// names stand first where it does not have them all.
func diffText(list []shownStep, roots []string, names string) (text, unshown string) {
	var b strings.Builder
	ends := make([]int, len(list))
	for i, x := range list {
		if i == 0 || list[i-1].root != x.root {
			fmt.Fprintf(&b, "* in %s: %s\n", approval.EscapeName(roots[x.root]), stepCounts(list, x.root))
		}
		fmt.Fprintln(&b, "* "+x.title)
		for _, line := range x.lines {
			fmt.Fprintln(&b, line)
		}
		ends[i] = b.Len()
	}
	head, most := "", b.Len()
	if b.Len() > maxDiff {
		for line := range strings.Lines(cutAtLine(names, maxDiff/4)) {
			head += "* " + line
		}
		most = maxDiff / 4
	}
	var not []string
	for i, x := range list {
		if !x.whole || ends[i] > most {
			not = append(not, x.title)
		}
	}
	text = head + cutAtLine(b.String(), most)
	if len(not) == 0 {
		return text, ""
	}
	more := ""
	if len(not) > 3 {
		more = fmt.Sprintf(" and %d more", len(not)-3)
	}
	unshown = fmt.Sprintf("what becomes of %s: %s%s", cli.Plural(len(not), "name", "names"), strings.Join(not[:min(len(not), 3)], ", "), more)
	return "* no screen can show all of this: " + unshown + "\n" + text, unshown
}

func stepCounts(list []shownStep, root int) string {
	made, changed, removed := 0, 0, 0
	for _, s := range list {
		switch {
		case s.root != root:
		case s.Now == nil:
			made++
		case s.Was == nil:
			removed++
		default:
			changed++
		}
	}
	return fmt.Sprintf("%d made, %d changed, %d removed", made, changed, removed)
}

// cutAtLine keeps whole lines of at most so many bytes, and counts the rest.
func cutAtLine(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := strings.LastIndexByte(text[:most], '\n') + 1
	return text[:cut] + fmt.Sprintf("... and %d more lines: see `sandgate review show`\n", strings.Count(text[cut:], "\n"))
}

// shownNames are the names of a draft by what they look like: composed and decomposed letters
// are one to the eye. Of those that look alike none is shown as it is, in a part of a draft either.
type shownNames map[string]string

// several stands for names that look alike; no name has it.
const several = "\x00"

// maxName is how many characters of a name are shown. A longer one would push others out of a
// list that has room for so many bytes.
const maxName = 120

// looksOf are the keys of a name and of the directories above it.
func looksOf(root int, name string) (keys, names []string) {
	for i, r := range name + "/" {
		if r == '/' {
			keys, names = append(keys, fmt.Sprint(root, " ", norm.NFKC.String(name[:i]))), append(names, name[:i])
		}
	}
	return keys, names
}

func (n shownNames) add(root int, name string) {
	keys, names := looksOf(root, strings.TrimSuffix(name, "/"))
	for i, key := range keys {
		if first, seen := n[key]; !seen {
			n[key] = names[i]
		} else if first != names[i] {
			n[key] = several
		}
	}
}

// alike reports whether another name in the draft looks like a name, or like a directory above it.
func (n shownNames) alike(root int, name string) bool {
	keys, _ := looksOf(root, strings.TrimSuffix(name, "/"))
	return slices.ContainsFunc(keys, func(key string) bool { return n[key] == several })
}

// text is how a name of a root is shown: other than any other name.
func (n shownNames) text(root int, name string) string {
	if n.alike(root, name) {
		return cutName(name, approval.CodePoints)
	}
	return cutName(name, approval.EscapeName)
}

// cutName shows a long name by its beginning and its end.
func cutName(name string, show func(string) string) string {
	head, hidden, tail := approval.Ends(name, maxName)
	if hidden == "" {
		return show(name)
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s <%d characters, SHA-256 %s...> %s", show(head), utf8.RuneCountInString(hidden), hex.EncodeToString(sum[:4]), show(tail))
}

// names are all of the draft's.
func (d *sessionDraft) names() shownNames {
	n := shownNames{}
	for i, p := range d.plans {
		n.of(i, p.Steps)
	}
	return n
}

func (n shownNames) of(root int, steps []changes.Step) {
	for _, s := range steps {
		n.add(root, string(s.Path))
	}
}

// allMeant are the names that an approver writes, each as meant has it.
func (d *sessionDraft) allMeant(names []string) (all []string, err error) {
	of := d.names()
	for _, name := range names {
		meant, err := d.meant(of, name)
		if err != nil {
			return nil, err
		}
		all = append(all, meant)
	}
	return all, nil
}

// meant is the name that an approver writes. A name that looks like another has to be typed as
// it is shown: what a keyboard makes of it may be the other one.
func (d *sessionDraft) meant(names shownNames, name string) (string, error) {
	at := d.path(name)
	var meant []string
	for i, p := range d.plans {
		root := d.draft.Roots[i]
		for _, s := range p.Steps {
			path := string(s.Path)
			shown := names.text(i, path)
			switch {
			case names.alike(i, path) && (name == shown || name == strings.Trim(shown, `"`)), filepath.Join(root, path) == at && !names.alike(i, path):
				meant = append(meant, filepath.Join(root, path))
			case filepath.Join(root, path) == at:
				return "", fmt.Errorf("another name in the draft looks like %q: write it as shown, %s", name, shown)
			}
		}
	}
	switch len(meant) {
	case 0:
		return name, nil // a directory, "." or nothing
	case 1:
		return meant[0], nil
	}
	return "", fmt.Errorf("%q matches %d names in the draft", name, len(meant))
}

// texts are names on one line.
func (n shownNames) texts(list []string) string {
	shown := make([]string, len(list))
	for _, name := range list {
		n.add(0, name)
	}
	for i, name := range list {
		shown[i] = n.text(0, name)
	}
	return strings.Join(shown, ", ")
}

// marks are the things that a person looks at first.
func marks(s changes.Step, root string, protect []string) string {
	var list []string
	if s.Conflict != "" {
		list = append(list, "conflict: "+s.Conflict)
	}
	if slices.ContainsFunc(protect, func(pattern string) bool {
		return sandboxprofile.MatchPattern(pattern, filepath.Join(root, string(s.Path)))
	}) {
		list = append(list, "protected name")
	}
	if e := s.Was; e != nil {
		switch {
		case e.Link != "":
			list = append(list, "link to "+cutName(string(e.Link), strconv.Quote))
		case !e.IsDir() && e.Mode&0o111 != 0:
			list = append(list, "executable")
		}
		same := s.Now != nil && s.Now.Link == "" && s.Now.IsDir() == e.IsDir()
		switch {
		case s.Now != nil && s.Now.Link != "":
			list = append(list, "was a link to "+cutName(string(s.Now.Link), strconv.Quote))
		case s.Now != nil && s.Now.IsDir() != e.IsDir():
			list = append(list, "was a "+map[bool]string{true: "directory", false: "file"}[s.Now.IsDir()])
		}
		switch { // what it was does not say who may open it
		case e.Link != "":
		case same && s.Now.Mode != e.Mode:
			list = append(list, fmt.Sprintf("mode %o now, %o in the draft", s.Now.Mode&0o7777, e.Mode&0o7777))
		case !same && e.Mode&0o7022 != 0:
			list = append(list, fmt.Sprintf("mode %o", e.Mode&0o7777))
		}
	}
	if s.Merged {
		list = append(list, "later changes stay")
	}
	if s.OwnerChanges() {
		list = append(list, fmt.Sprintf("it belongs to %v now, to %v in the draft", s.Now.Owner, s.Was.Owner))
	}
	if lost := s.Unowned(); lost != "" {
		list = append(list, lost)
	}
	if len(list) == 0 {
		return ""
	}
	return approval.EscapeLine("  (" + strings.Join(list, "; ") + ")")
}
