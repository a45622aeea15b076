package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
)

// MaxHeld is the largest file, in bytes, that is held by its content.
const MaxHeld = 64 << 20

// A Started names a file that a call starts or carries out.
type Started struct {
	Name string // as the call names it
	Dir  string // that a relative Name starts from
	// Doubtful is set for a word that may be one: it is held if it is there and can be
	// executed, or begins with "#!".
	Doubtful bool
	// Optional is set for a file that need not be there, as a Makefile under another
	// name: it is nothing to hold then.
	Optional bool
	// Written is set for a file that the program may rewrite itself, as npm does with
	// package.json: it is looked at once more when the call begins, and not frozen.
	Written bool
	// Sought is set for an Optional name that the program looks for by itself, before others
	// perhaps: that it is not there was approved, too.
	Sought bool
	// Anything is set for a directory of which the program may start or load any file. It
	// holds nothing: Changeable counts it. It is Doubtful where no table knows the program.
	Anything bool
	// Unsure, if set, says why the call may start files that are not in the list, in place
	// of a file: no answer to it is remembered.
	Unsure string
}

// Hold binds a proposal that somebody is asked about to the content of the files that
// it starts, as far as tools can write to them: what was shown is what runs. The content
// stands in the plan and in what a remembered answer covers, and the text is shown.
//
// A file that is not there yet is held too: the program may make it, and nobody else.
func Hold(p Proposal, paths Paths, list []Started) Proposal {
	if p.Request == nil && p.Unheld == nil {
		return p
	}
	present := p.Present
	p.Present = func(ctx context.Context) (*approval.Presentation, error) {
		shown, err := present(ctx)
		if err != nil || shown == nil {
			return shown, err
		}
		q := *shown
		q.Content = unframed(shown.Content)
		return &q, nil
	}
	held, untold := map[string]Pin{}, map[string]bool{}
	for _, s := range list {
		if s.Unsure == "" {
			s.Unsure = paths.unknown(s)
		}
		if s.Unsure != "" {
			p.Cautions = append(slices.Clone(p.Cautions), "not all files that the line starts are shown and held: "+s.Unsure)
			p.Request, p.Unheld = forOnce(p.Request, s.Unsure), forOnce(p.Unheld, s.Unsure)
		}
		if s.Name == "" {
			continue
		}
		if isDone(paths.Until) {
			break
		}
		pin, ok := paths.hold(s)
		if was, twice := held[pin.Path]; ok && (!twice || !was.Frozen) {
			held[pin.Path] = pin
			untold[pin.Path] = pin.Absent && s.Optional
		}
	}
	if len(held) == 0 {
		return p
	}
	content := map[string]any{}
	p.Plan.Pins = withHeld(p.Plan.Pins, held)
	for path, pin := range held {
		content[path] = pin.state()
	}
	p.Request, p.Unheld = withFiles(p.Request, content), withFiles(p.Unheld, content)
	own, pins := p.Present, p.Plan.Pins
	p.Present = func(ctx context.Context) (*approval.Presentation, error) {
		shown, err := own(ctx)
		if err != nil || shown == nil {
			return shown, err
		}
		said := map[string]Pin{}
		for _, pin := range pins { // as they are in the end: where nobody here runs the call, nothing is frozen
			if _, ok := held[pin.Path]; ok && !untold[pin.Path] {
				said[pin.Path] = pin
			}
		}
		if len(said) == 0 {
			return shown, nil
		}
		return withTexts(shown, slices.Sorted(maps.Keys(said)), said, paths), nil
	}
	return p
}

// HoldAll binds a proposal that the configuration has decided to the content of the files
// that it starts, as far as tools can write to them. Nothing is frozen: nobody was asked.
func HoldAll(p Proposal, paths Paths, list []Started) Proposal {
	held := map[string]Pin{}
	for _, s := range list {
		if pin, ok := paths.hold(s); ok && s.Unsure == "" {
			pin.Frozen = false
			held[pin.Path] = pin
		}
	}
	p.Plan.Pins = withHeld(p.Plan.Pins, held)
	return p
}

// unknown says why a file that surely starts is not one whose content can be shown: it is not
// there yet, or is a directory, of which the program chooses files.
func (p Paths) unknown(s Started) string {
	if s.Doubtful || s.Optional {
		return ""
	}
	if s.Dir != "" {
		p.Cwd = s.Dir
	}
	path, err := p.resolve(s.Name)
	if err != nil || !p.Writable(path) || !p.shows(path) {
		return ""
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return s.Name + " is not there yet"
	case err == nil && info.IsDir():
		return s.Name + " is a directory"
	}
	return ""
}

// withHeld are the pins of a plan with those of held files, which take the place of pins by
// times.
func withHeld(pins []Pin, held map[string]Pin) []Pin {
	pins = slices.DeleteFunc(slices.Clone(pins), func(pin Pin) bool { return held[pin.Path].SHA256 != "" })
	for _, path := range slices.Sorted(maps.Keys(held)) {
		pins = append(pins, held[path])
	}
	return pins
}

// Changeable are the files of a list that calls may change without a question. A call that
// reaches beyond the workspace, and that nobody is asked about, starts none of them: who may
// write such a file would have what the call has.
//
// What is not known counts as such a file: a program that may start anything of its
// directory, and a line that does not say what it starts. And a file that only the
// workspace's own configuration keeps from being written counts too: it came with it.
func (p Paths) Changeable(list []Started) []string {
	files := p.changeable(list)
	if p.Above != nil {
		above := *p.Above
		above.Cwd, above.Until = p.Start(), p.Until
		for _, name := range above.changeable(list) {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files
}

func (p Paths) changeable(list []Started) (files []string) {
	free := func(r *PathRule) bool { return r.Write && !r.WriteApproval }
	add := func(name string, rules []*PathRule) {
		if slices.ContainsFunc(rules, free) && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	var all []*PathRule
	for i := range p.Rules {
		all = append(all, &p.Rules[i])
	}
	for _, s := range list {
		if s.Unsure != "" {
			add("what its text does not tell ("+s.Unsure+")", all)
		} else if s.Anything {
			dir := filepath.Join(s.Dir, s.Name)
			for _, rule := range all { // a program looks below where it is, and above
				if below(rule.Root, dir) || below(dir, rule.Root) {
					add("anything in "+rule.Root, []*PathRule{rule})
				}
			}
		} else if pin, ok := p.hold(s); ok {
			add(pin.Path, p.rulesFor(pin.Path))
		}
	}
	return files
}

// Beyond is the caution about them.
func Beyond(files []string) string {
	return "it reaches beyond the workspace, and starts what calls may change without a question: " + strings.Join(files, ", ")
}

// forOnce is a request whose answer holds for one call, since it starts more than is held.
func forOnce(r *approval.Request, why string) *approval.Request {
	if r == nil {
		return nil
	}
	q := *r
	q.Once = "not all files that the call starts are held: " + why
	return &q
}

// unframed shows what would look like the frame around a file's text as code points, where
// it begins a line of the agent's: only we say that a file is held.
func unframed(text string) string {
	var b strings.Builder
	begins := true
	for _, r := range text {
		if begins && (r >= 0x2500 && r <= 0x259f || strings.ContainsRune("\u01c0\u01c1\u2223\u2225\u23b8\u23b9\u23d0\u2758\u2759\u275a\uff5c\uffe8\u2e3a\u2e3b\u2e3d\u2014\u2015", r)) {
			fmt.Fprintf(&b, "<U+%04X>", r)
			begins = false // more of them in the line is drawing, and begins none
			continue
		}
		begins = r == '\n' || begins && (unicode.IsSpace(r) || !unicode.IsPrint(r))
		b.WriteRune(r)
	}
	return b.String()
}

// withFiles is a request whose payload has the content of files.
func withFiles(r *approval.Request, content map[string]any) *approval.Request {
	if r == nil {
		return nil
	}
	q := *r
	q.Payload = maps.Clone(r.Payload)
	if q.Payload == nil {
		q.Payload = map[string]any{}
	}
	q.Payload["files"] = content
	return &q
}

// hold pins one file, if a tool could change what is there.
func (p Paths) hold(s Started) (Pin, bool) {
	if s.Dir != "" {
		p.Cwd = s.Dir
	}
	named, err := absolute(s.Name, p.Start(), p.Home)
	if err != nil {
		return Pin{}, false
	}
	path, err := p.resolve(s.Name)
	if err != nil || !p.Writable(path) || !p.shows(path) {
		return Pin{}, false
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.Doubtful && (!s.Optional || s.Sought && !s.Written):
		return Pin{Path: path, Named: named, Absent: true}, true
	case err != nil || !info.Mode().IsRegular():
		return Pin{}, false
	case s.Doubtful && info.Mode()&0o111 == 0 && !startsLikeScript(path):
		return Pin{}, false
	}
	pin, _, err := readPinned(path, nil, p.Until)
	if err != nil { // it is too large, or cannot be read: it is the same file, at least
		if pin, err = PinFile(path); err != nil {
			return Pin{}, false
		}
	}
	pin.Named, pin.Frozen = named, pin.SHA256 != "" && !s.Written && !s.Doubtful
	return pin, true
}

func startsLikeScript(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}

// PinContent pins a file by what is in it: a mapped page changes that and moves no time
// of the file's. Another file with the same content and mode is as good.
func PinContent(path string) (Pin, error) {
	pin, _, err := readPinned(path, nil, nil)
	return pin, err
}

// An untilReader reads until nobody waits for it.
type untilReader struct {
	io.Reader
	done <-chan struct{}
}

func (r untilReader) Read(p []byte) (int, error) {
	if isDone(r.done) {
		return 0, context.Canceled
	}
	return r.Reader.Read(p)
}

// readPinned reads a file of at most MaxHeld bytes, and gives what it is pinned by.
func readPinned(path string, to io.Writer, done <-chan struct{}) (Pin, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Pin{}, 0, fmt.Errorf("pin: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return Pin{}, 0, fmt.Errorf("pin: %w", err)
	case !info.Mode().IsRegular():
		return Pin{}, 0, fmt.Errorf("pin %q: not a regular file but %s", path, info.Mode().Type())
	}
	sum := sha256.New()
	w := io.Writer(sum)
	if to != nil {
		w = io.MultiWriter(sum, to)
	}
	n, err := io.Copy(w, io.LimitReader(untilReader{f, done}, MaxHeld+1))
	switch {
	case err != nil:
		return Pin{}, 0, fmt.Errorf("pin %q: %w", path, err)
	case n > MaxHeld:
		return Pin{}, 0, fmt.Errorf("pin %q: more than %d bytes", path, MaxHeld)
	}
	pin := Pin{Path: path, Size: n, Mode: uint32(info.Mode().Perm()), SHA256: hex.EncodeToString(sum.Sum(nil))}
	return pin, n, nil
}

// Copy writes the pinned content to w. Its error is a *DriftError if the file holds
// something else, and what was written is then of no use.
func (p Pin) Copy(w io.Writer) error {
	now, _, err := readPinned(p.Path, w, nil)
	if err != nil {
		return &DriftError{Path: p.Path, Err: err}
	}
	return p.compare(now)
}

// verifyContent is Verify for a pin of content.
func (p Pin) verifyContent() error {
	if resolved, err := resolveLinks(p.Named); p.Named != "" && (err != nil || resolved != p.Path) {
		return &DriftError{Path: p.Named, Changed: []string{"links"}}
	}
	if p.Absent {
		if _, err := os.Lstat(p.Path); !errors.Is(err, fs.ErrNotExist) {
			return &DriftError{Path: p.Path, Changed: []string{"existence"}}
		}
		return nil
	}
	if p.SHA256 == "" {
		return nil
	}
	return p.Copy(io.Discard)
}

func (p Pin) compare(now Pin) error {
	var changed []string
	if p.SHA256 != now.SHA256 {
		changed = append(changed, "content")
	}
	if p.Mode != now.Mode {
		changed = append(changed, "mode")
	}
	if len(changed) > 0 {
		return &DriftError{Path: p.Path, Changed: changed}
	}
	return nil
}

// Content is what the held files of a plan hold, as a digest; "" if it has none.
func (p Plan) Content() string {
	var list []string
	for _, pin := range p.Pins {
		if pin.Named != "" {
			list = append(list, pin.Path, pin.state())
		}
	}
	if list == nil {
		return ""
	}
	sum := sha256.Sum256(mustMarshal(list))
	return hex.EncodeToString(sum[:])
}

// state is what a remembered answer covers of a file.
func (p Pin) state() string {
	switch {
	case p.Absent:
		return "absent"
	case p.SHA256 == "":
		return fmt.Sprintf("size %d, changed %d", p.Size, p.ChangeTime)
	}
	return fmt.Sprintf("sha256:%s mode %04o", p.SHA256, p.Mode)
}

// maxTexts is how much of the text of files, in bytes, goes into a presentation.
const maxTexts = 1 << 20

// withTexts shows what the held files say below what was to be shown. The approver sees
// what the pins hold: a file that has changed since says so.
func withTexts(shown *approval.Presentation, order []string, held map[string]Pin, paths Paths) *approval.Presentation {
	q := *shown
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(shown.Content, "\n"))
	files := []any{}
	named := map[string]int{}
	for _, path := range order {
		named[filepath.Base(path)]++
	}
	for _, path := range order {
		pin := held[path]
		title, text := fileTitle(paths, pin), ""
		if n := named[filepath.Base(path)]; n > 1 {
			title += fmt.Sprintf(" (one of %d of this name that the line may start)", n)
		}
		if pin.SHA256 != "" {
			var content strings.Builder
			if err := pin.Copy(&content); err != nil {
				title += ": " + err.Error()
			} else if was, binary := approval.DescribeBinary([]byte(content.String())); binary {
				title += ": " + was
			} else {
				text = content.String()
			}
		}
		if b.Len()+len(text) > maxTexts {
			title, text = title+": too long to be shown", ""
		}
		b.WriteString("\n\n── " + approval.EscapeLine(title))
		for line := range strings.Lines(text) { // none looks like a line of ours
			b.WriteString("\n│ " + strings.TrimSuffix(line, "\n"))
		}
		files = append(files, map[string]any{"path": path, "state": pin.state(), "frozen": pin.Frozen})
	}
	q.Content = strings.TrimSuffix(b.String(), "\n") + "\n"
	q.Metadata = maps.Clone(shown.Metadata)
	if q.Metadata == nil {
		q.Metadata = map[string]any{}
	}
	q.Metadata["files"] = files
	return &q
}

// fileTitle is the line above the text of a file.
func fileTitle(paths Paths, pin Pin) string {
	name := pin.Path
	for i := range paths.Rules {
		if rel, err := filepath.Rel(paths.Rules[i].Root, pin.Path); err == nil && filepath.IsLocal(rel) {
			name = rel
			break
		}
	}
	switch {
	case pin.Absent:
		return name + ", which is not there yet"
	case pin.SHA256 == "":
		return name + ", which is not held by its content: it is too large, or cannot be read"
	case pin.Frozen:
		return name + ", which stays as it is here while the call runs"
	}
	return name + ", as it has to be when the call begins"
}
