package tools

import (
	"cmp"
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
	// Loads is set for a name in the value of a variable. If it is a directory in which tools may write, the program may
	// load any file there: it is Unsure.
	Loads bool
	// leads is set for a word that may name a path: where it leads is held, and nothing more.
	leads bool
	// Unsure, if set, says why the call may start files that are not in the list, in place
	// of a file: no answer to it is remembered.
	Unsure string
}

// led are words of a command that prompts. A person reads where each leads; a call that needs no prompt can
// turn a link meanwhile.
func (p Paths) led(words []string) (list []Started) {
	for _, word := range words {
		if len(list) > maxLed {
			return append(list[:maxLed], Started{Unsure: "it has too many words to hold where each of them leads"})
		}
		for _, field := range append(strings.Fields(word), word) { // behind a pattern words are known as text alone
			option, value, _ := strings.Cut(field, "=")
			for _, name := range []string{option, value} {
				name = strings.Trim(name, "\"'")
				if i := strings.IndexAny(name, "*?[{$"); i >= 0 { // where its matches lie
					name = name[:strings.LastIndexByte(name[:i], '/')+1]
				}
				text := strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \n") && !exists(filepath.Join(p.Start(), name))
				if s := (Started{Name: name, Dir: p.Start(), leads: true}); name != "" && !text && !slices.Contains(list, s) {
					list = append(list, s)
				}
			}
		}
	}
	return list
}

// maxLed bounds the entry of a call in the log.
const maxLed = 256

// Hold binds a proposal that needs a prompt to the content of the files that it starts, as far as tools can
// write to them: what was shown is what runs. The content stands in the plan and in what a remembered answer
// covers, and the text is shown. words are those of the call, from paths.Start: each leads where it led.
//
// A file that does not exist yet is held too: only this program may create it.
func Hold(p Proposal, paths Paths, list []Started, words ...string) Proposal {
	if p.Request == nil && p.Unheld == nil {
		return p
	}
	held, told := heldPins{}, map[string]bool{}
	var led []Pin
	for _, s := range slices.Concat(list, paths.led(words)) {
		if isDone(paths.Until) {
			break
		}
		if s.Loads {
			s.Unsure = paths.loads(s)
		}
		pin, way, ok := paths.hold(s)
		if ok && s.leads {
			led = append(led, pin)
			continue
		}
		if ok {
			held.add(pin, way)
			told[pin.Path] = told[pin.Path] || !pin.Absent || !s.Optional
		}
		if s.Unsure == "" && ok && (!s.Optional || pin.Kind == perProcess) {
			s.Unsure = pin.unknown(s.Name)
		}
		if s.Unsure != "" {
			p.Cautions = append(slices.Clone(p.Cautions), "not all files that the line starts are shown and pinned: "+s.Unsure)
			p.Request, p.Unheld = forOnce(p.Request, s.Unsure), forOnce(p.Unheld, s.Unsure)
		}
	}
	own := p.Present
	content := map[string]any{}
	p.Plan.Pins = append(slices.Clip(p.Plan.Pins), led...)
	if len(held) > 0 {
		p.Plan.Pins = held.with(p.Plan.Pins)
	}
	for _, pin := range led { // what is remembered is for where a link has led
		if pin.Path != filepath.Clean(pin.Named) {
			content[pin.Path] = pin.state()
			told[pin.Path] = told[pin.Path] || !paths.sameRoot(pin.Path, filepath.Clean(pin.Named))
		}
	}
	for _, pin := range held {
		content[pin.Path] = pin.state()
	}
	if len(content) > 0 {
		p.Request, p.Unheld = withFiles(p.Request, content), withFiles(p.Unheld, content)
	}
	pins := p.Plan.Pins
	p.Present = func(ctx context.Context) (*approval.Presentation, error) {
		shown, err := own(ctx)
		if err != nil || shown == nil {
			return shown, err
		}
		said := map[string]Pin{}
		for _, pin := range pins { // as they are in the end: where nobody here runs the call, nothing is frozen
			if told[pin.Path] && !said[pin.Path].Frozen {
				said[pin.Path] = pin
			}
		}
		return withTexts(shown, slices.Sorted(maps.Keys(said)), said, paths), nil
	}
	return p
}

// Again fails if a proposal that a person has seen would start a file now that it did not when it was shown: one
// that was not there, or could not be a program. Whether a pinned file has changed, its pin says.
func Again(p Proposal) error {
	if p.Hold == nil || p.Request == nil {
		return nil
	}
	for _, pin := range p.Hold(p).Plan.Pins {
		if !slices.ContainsFunc(p.Plan.Pins, func(was Pin) bool { was.Frozen = pin.Frozen; return was == pin }) {
			return &DriftError{Path: cmp.Or(pin.Named, pin.Path), Changed: []string{"existence or mode"}}
		}
	}
	return nil
}

// HoldAll binds a proposal that the configuration has decided to the content of the files that
// it starts, as far as tools can write to them, and to the absence of those that are not there:
// the decision rests on that. Nothing is frozen, because no one was asked.
func HoldAll(p Proposal, paths Paths, list []Started) Proposal {
	held := heldPins{}
	for _, s := range list {
		s.Optional = false
		if pin, way, ok := paths.hold(s); ok && s.Unsure == "" {
			pin.Frozen = false
			held.add(pin, way)
		}
	}
	p.Plan.Pins = held.with(p.Plan.Pins)
	return p
}

// heldPins are pins of held files, by the way to them and the file: each way through links that
// calls can turn has one.
type heldPins map[string]Pin

func (h heldPins) add(pin Pin, way []string) {
	key := strings.Join(append([]string{pin.Path}, way...), "\x00")
	if was, twice := h[key]; !twice || !was.Frozen {
		h[key] = pin
	}
}

// with are the pins of a plan with those of held files, which take the place of pins by
// times. A file is frozen once.
func (h heldPins) with(pins []Pin) []Pin {
	content, frozen := map[string]bool{}, map[string]bool{}
	for _, pin := range h {
		content[pin.Path] = content[pin.Path] || pin.SHA256 != ""
	}
	pins = slices.DeleteFunc(slices.Clone(pins), func(pin Pin) bool { return content[pin.Path] })
	for _, key := range slices.Sorted(maps.Keys(h)) {
		pin := h[key]
		pin.Frozen, frozen[pin.Path] = pin.Frozen && !frozen[pin.Path], pin.Frozen || frozen[pin.Path]
		pins = append(pins, pin)
	}
	return pins
}

// unknown says why a file that surely starts is not one whose content can be shown.
func (p Pin) unknown(name string) string {
	switch {
	case p.Absent:
		return name + " is not there yet"
	case p.Kind != "" && p.Kind != elsewhere:
		return name + " is " + p.Kind
	}
	return ""
}

// Changeable are the files of a list that calls may change. A call that reaches beyond the
// workspace, and that runs without a prompt, starts none of them: a program that may write
// such a file would have the call's rights. A place where the file tools ask before a write
// is no exception: a rule or a remembered answer may let commands write there.
//
// What is not known counts as such a file: a program that may start anything of its
// directory, and a line that does not say what it starts. And a file that only the
// workspace's own configuration keeps from being written counts too: it came with it.
func (p Paths) Changeable(list []Started) []string {
	files := p.changeable(list)
	if p.Above != nil {
		above := *p.Above
		above.Cwd, above.Until, above.Scratch = p.Start(), p.Until, p.Scratch
		for _, name := range above.changeable(list) {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files
}

func (p Paths) changeable(list []Started) (files []string) {
	free := func(r *PathRule) bool { return r.Write }
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
		from := p
		from.Cwd = cmp.Or(s.Dir, p.Cwd)
		if s.Unsure == "" && !s.Doubtful && from.Private(s.Name) {
			files = append(files, s.Name+", which is private to the call")
		} else if s.Unsure != "" {
			add("unknown files ("+s.Unsure+")", all)
		} else if s.Anything {
			dir := filepath.Join(s.Dir, s.Name)
			for _, rule := range all { // a program looks below where it is, and above
				if below(rule.Root, dir) || below(dir, rule.Root) {
					add("anything in "+rule.Root, []*PathRule{rule})
				}
			}
		} else if pin, way, ok := p.hold(s); ok {
			add(pin.Path, p.rulesFor(pin.Path))
			if pin.Kind == perProcess {
				add(pin.Named, all)
			}
			for _, link := range way {
				add(link, p.rulesFor(link))
			}
		}
	}
	return files
}

// Beyond is the caution about them, or where there are none, about programs that run together: where
// one of them can write, no reading of its words says that it leaves no orders (HOME/.curlrc) for the next.
func Beyond(files []string) string {
	if len(files) == 0 {
		return "it reaches beyond the workspace, and one of its programs can control the next one"
	}
	return "it reaches beyond the workspace, and starts files that calls may change: " + strings.Join(files, ", ")
}

// Lends is the same of a tool that has more than every command has unasked.
func Lends(files []string) string {
	return "it has permissions that other calls only get after a prompt, and starts files that calls may change: " + strings.Join(files, ", ")
}

// forOnce is a request whose answer holds for one call, since it starts more than is held.
func forOnce(r *approval.Request, why string) *approval.Request {
	if r == nil {
		return nil
	}
	q := *r
	q.Once = "not all files that the call starts are pinned: " + why
	if q.Payload = maps.Clone(r.Payload); q.Payload != nil { // no answer to the same words from when all were
		q.Payload["unpinned"] = why
	}
	return &q
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

// Kinds of files in the place of a file that is held by its content.
const (
	elsewhere  = "elsewhere" // a link leads to what no tool can change, or may see
	absent     = "absent"
	directory  = "a directory"
	loop       = "a loop of links"
	perProcess = "a name that means a different file in each process"
	outOfReach = "out of reach"
)

// hold pins what a name stands for, if a tool could change that: the file, or a link on the
// way to it. way are those links.
func (p Paths) hold(s Started) (pin Pin, way []string, ok bool) {
	if s.Dir != "" {
		p.Cwd = s.Dir
	}
	named, err := absolute(s.Name, p.Start(), p.Home)
	if err != nil || checkPath(s.Name) != nil || s.Anything || s.Loads {
		return Pin{}, nil, false
	}
	path, kind, mode := lookAt(named, func(link string) {
		if p.Writable(link) {
			way = append(way, link)
		}
	})
	if s.leads {
		return Pin{Path: path, Named: named, Kind: elsewhere}, way, kind != perProcess && (len(way) > 0 || p.Writable(path) || p.Writable(filepath.Clean(named)))
	}
	pin = Pin{Path: path, Named: named, Kind: kind}
	switch own := p.Writable(path) && p.shows(path); {
	case kind == perProcess:
		return pin, way, !s.Doubtful || !strings.HasPrefix(named, "/dev/")
	case !own && kind != loop:
		pin.Kind = elsewhere
		return pin, way, len(way) > 0
	case kind == absent:
		pin.Kind, pin.Absent = "", true
		return pin, way, !s.Doubtful && (!s.Optional || s.Sought && !s.Written)
	case kind != "":
		return pin, way, !s.Doubtful && (!s.Optional || s.Sought || kind != directory) && (own || len(way) > 0)
	case s.Doubtful && mode&0o111 == 0 && !startsLikeScript(path):
		return Pin{}, nil, false
	}
	if pin, _, err = readPinned(path, nil, p.Until); err != nil { // it is too large or cannot be read: it is the same file, at least
		if pin, err = PinFile(path); err != nil {
			pin = Pin{Path: path, Kind: outOfReach}
		}
	}
	pin.Named, pin.Frozen = named, pin.SHA256 != "" && !s.Written && !s.Doubtful
	return pin, way, true
}

// loads says that a name is a directory whose files tools may change.
func (p Paths) loads(s Started) string {
	p.Cwd = cmp.Or(s.Dir, p.Cwd)
	abs, err := absolute(s.Name, p.Start(), p.Home)
	path, kind, _ := lookAt(abs, nil)
	if err != nil || !p.Private(s.Name) && (kind != directory || !p.Writable(path)) {
		return ""
	}
	return "a variable names the directory " + s.Name
}

// OfProcess reports whether a name may be what the process that opens it is given, as its standard input is, or
// what another one has in memory: no file that anyone could have been asked about.
func (p Paths) OfProcess(path string) bool {
	abs, err := absolute(path, p.Start(), p.Home)
	if err != nil {
		return false
	}
	leads, kind, _ := lookAt(abs, nil)
	return kind == perProcess || leads != os.DevNull && (below("/dev", leads) || below("/proc", leads)) && len(p.rulesFor(leads)) == 0
}

// sameRoot reports whether the same rules are for two paths.
func (p Paths) sameRoot(a, b string) bool {
	x, y := p.rulesFor(a), p.rulesFor(b)
	return len(x) == len(y) && (len(x) == 0 || x[0] == y[0])
}

// lookAt follows a name, and names the kind of file if it is not a regular one. It tells of
// each link on the way.
func lookAt(named string, link func(path string)) (path, kind string, mode fs.FileMode) {
	path, err := resolveBelow("/", named, link)
	var failure *resolveError
	switch {
	case errors.As(err, &failure) && failure.reason == ofEachProcess:
		return filepath.Clean(named), perProcess, 0
	case err != nil:
		return filepath.Clean(named), loop, 0
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR): // below a file there is nothing
		return path, absent, 0
	case err != nil:
		return path, outOfReach, 0
	case info.IsDir():
		kind = directory
	case info.Mode()&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case !info.Mode().IsRegular():
		kind = "a device or a socket"
	}
	return path, kind, info.Mode()
}

// LeadsElsewhere reports whether a name leads where no tool can change anything, or sees nothing.
func (p Pin) LeadsElsewhere() bool { return p.Kind == elsewhere && p.Named != p.Path }

// LeadsAsNamed reports whether a pin only says that a name leads to the path that it spells.
func (p Pin) LeadsAsNamed() bool { return p.Kind == elsewhere && filepath.Clean(p.Named) == p.Path }

// PinPath pins where a resolved path leads, to itself, if a tool could have a link lead elsewhere.
func PinPath(resolved string, paths Paths) (Pin, bool) {
	return Pin{Path: resolved, Named: resolved, Kind: elsewhere}, paths.Writable(resolved)
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

// An untilReader reads until its caller stops waiting.
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
	if p.Named == "" && p.SHA256 == "" && !p.Absent {
		return nil
	}
	path, kind, _ := lookAt(cmp.Or(p.Named, p.Path), nil)
	switch {
	case path != p.Path:
		return &DriftError{Path: p.Named, Changed: []string{"links"}}
	case p.Kind == elsewhere:
		return nil
	case p.Absent && kind != absent:
		return &DriftError{Path: p.Path, Changed: []string{"existence"}}
	case p.Kind != "" && p.Kind != kind:
		return &DriftError{Path: p.Path, Changed: []string{"type"}}
	case p.SHA256 == "":
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

// Content is a digest of the content of a plan's held files, or "".
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

// state is the part of a file's state that a remembered answer covers.
func (p Pin) state() string {
	switch {
	case p.Absent:
		return absent
	case p.Kind == elsewhere:
		return "leads " + elsewhere
	case p.Kind != "":
		return "is " + p.Kind
	case p.SHA256 == "":
		return fmt.Sprintf("size %d, changed %d", p.Size, p.ChangeTime)
	}
	return fmt.Sprintf("sha256:%s mode %04o", p.SHA256, p.Mode)
}

// maxTexts is how much of the text of files, in bytes, goes into a presentation.
const maxTexts = 1 << 20

// withTexts shows what the held files say below what was to be shown. The approver sees
// what the pins hold: a file that has changed since says so. Only lines of ours begin at the
// edge, so that no text looks like the head of a file: the lines of a file stand behind a bar, and
// those of the call behind a margin. A call of one line has room for no head beside it.
func withTexts(shown *approval.Presentation, order []string, held map[string]Pin, paths Paths) *approval.Presentation {
	text := strings.TrimSuffix(shown.Content, "\n")
	if len(order) == 0 && !strings.Contains(text, "\n") {
		return shown
	}
	q := *shown
	q.Metadata = maps.Clone(shown.Metadata)
	if q.Metadata == nil {
		q.Metadata = map[string]any{}
	}
	q.Metadata[approval.Margin] = margin
	var b strings.Builder
	b.WriteString(margin + strings.ReplaceAll(text, "\n", "\n"+margin))
	files := []any{}
	named := map[string]int{}
	for _, path := range order {
		named[filepath.Base(path)]++
	}
	texts, whys := textsOf(order, held, maxTexts-len(text))
	var unshown []string
	for _, path := range order {
		pin := held[path]
		name := fileName(paths, pin)
		title := name + ", " + howHeld(pin)
		if n := named[filepath.Base(path)]; n > 1 {
			title += fmt.Sprintf(" (one of %d files of this name that the line may start)", n)
		}
		if why := whys[path]; why != "" {
			title += ": " + why
			unshown = append(unshown, name+" ("+why+")")
		}
		b.WriteString("\n\n── " + title)
		for line := range strings.Lines(texts[path]) {
			b.WriteString("\n│ " + strings.TrimSuffix(line, "\n"))
		}
		files = append(files, map[string]any{"path": path, "state": pin.state(), "frozen": pin.Frozen})
	}
	q.Content = b.String() + "\n"
	if len(files) > 0 {
		q.Metadata["files"] = files
	}
	if len(unshown) > 0 {
		more := ""
		if n := len(unshown) - maxNamed; n > 0 {
			unshown, more = unshown[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		q.Metadata[approval.Unshown] = "what it starts: " + strings.Join(unshown, ", ") + more
	}
	return &q
}

const (
	// margin stands before each line of a call.
	margin = "  "
	// maxNamed is how many of the files that are not shown are named.
	maxNamed = 3
	tooLong  = "too long to be shown"
)

// textsOf are the texts of files, or why they are not shown. The short ones come first: none
// takes the room of another.
func textsOf(order []string, held map[string]Pin, room int) (texts, whys map[string]string) {
	texts, whys = map[string]string{}, map[string]string{}
	for _, path := range order {
		texts[path], whys[path] = held[path].text()
	}
	byLength := slices.Clone(order)
	slices.SortStableFunc(byLength, func(a, b string) int { return len(texts[a]) - len(texts[b]) })
	for _, path := range byLength {
		if room -= len(texts[path]); room < 0 {
			texts[path], whys[path] = "", cmp.Or(whys[path], tooLong)
		}
	}
	return texts, whys
}

// text is the text of a held file, or why it cannot be shown.
func (p Pin) text() (text, why string) {
	switch {
	case p.Absent, p.Kind == elsewhere:
		return "", ""
	case p.Kind != "":
		return "", "its content cannot be known before it runs"
	case p.SHA256 == "":
		return "", "it is too large or cannot be read"
	}
	var content strings.Builder
	if err := p.Copy(&content); err != nil {
		return "", approval.EscapeLine(err.Error())
	}
	what, _ := approval.DescribeBinary([]byte(content.String()))
	switch {
	case !approval.IsText([]byte(content.String())):
		return "", what
	case content.Len() > maxTexts:
		return "", tooLong
	}
	return content.String(), ""
}

// fileName is the name of a held file in a line of ours.
func fileName(paths Paths, pin Pin) string {
	for i := range paths.Rules {
		if rel, err := filepath.Rel(paths.Rules[i].Root, pin.Path); err == nil && filepath.IsLocal(rel) {
			return approval.EscapeName(rel)
		}
	}
	return approval.EscapeName(pin.Path)
}

// howHeld says what holds for a file while the call waits and runs.
func howHeld(pin Pin) string {
	switch {
	case pin.Absent:
		return "which is not there yet"
	case pin.Kind == elsewhere:
		return "to which " + approval.EscapeName(pin.Named) + " has to lead when the call begins"
	case pin.Kind != "":
		return "which is " + pin.Kind
	case pin.SHA256 == "":
		return "whose content is not pinned"
	case pin.Frozen:
		return "which cannot change while the call runs"
	}
	return "which must not have changed when the call starts"
}
