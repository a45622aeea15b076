package fileops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/sandboxprofile"
)

const (
	// blockSize is how much of a file is held and searched at a time, in bytes.
	blockSize = 128 << 10
	// maxLine is how much of one line is searched, with a simple pattern.
	maxLine = 1 << 20
	// maxSteps is how long matching may go on without a look at the time: bytes
	// multiplied by the size of the pattern.
	maxSteps = 1 << 27
	// maxShown is how much of one line is shown.
	maxShown = 500
)

// grepNode searches one entry of a directory.
func (w *walk) grepNode(dir Dir, node Node, rel string) {
	if node.Type != TypeFile {
		return // a link's target is searched where it lies; the rest would block or have effects
	}
	file, err := dir.OpenFile(node.Name)
	if err != nil {
		w.skip(w.display(rel), "cannot be read: "+err.Error())
		return
	}
	defer file.Close()
	w.grepFile(file, w.display(rel), node.Name)
}

// grepFile searches one file, shown as name.
func (w *walk) grepFile(file File, name, last string) {
	if len(w.Suffixes) > 0 && !slices.ContainsFunc(w.Suffixes, func(s string) bool { return strings.HasSuffix(last, s) }) {
		w.skip(name, "tools may only read "+strings.Join(w.Suffixes, ", ")+" files here")
		return
	}
	w.found.Files++
	g := &grep{walk: w, name: name, number: 1, longest: min(maxLine, maxSteps/w.lines.Size)}
	switch err := g.read(io.LimitReader(file, file.Size())); {
	case errors.Is(err, errBinary):
		w.found.Binary++
	case err != nil && !errors.Is(err, errEnough):
		w.skip(name, "cannot be read: "+err.Error())
	}
}

var (
	errBinary = errors.New("a zero byte: not text")
	errEnough = errors.New("nothing more is wanted of this file")
)

// grep is the search of one file.
type grep struct {
	*walk
	name   string
	number int64 // of the next line
	// longest is how much of a line is searched.
	longest int
	// before are the latest lines, for the context of a match to come.
	before [][]byte
	// after is how many lines are still wanted behind a match.
	after int64
	told  bool // that a line was cut
}

// read goes through the file block by block, each of whole lines. A line longer than
// longest is cut there, and the rest is not searched.
func (g *grep) read(r io.Reader) error {
	buf := g.buf[:0]
	if cap(buf) == 0 {
		buf = make([]byte, 0, blockSize)
	}
	defer func() { g.buf = buf }()
	for cutting := false; ; {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf))
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), len(buf)+blockSize)])
		fresh := buf[len(buf) : len(buf)+n]
		if bytes.IndexByte(fresh, 0) >= 0 {
			return errBinary
		}
		if g.over() {
			return errEnough
		}
		buf = buf[:len(buf)+n]
		if cutting {
			buf, cutting = dropLine(buf)
		}
		whole := bytes.LastIndexByte(buf, '\n') + 1
		switch {
		case errors.Is(err, io.EOF):
			return g.block(buf)
		case err != nil:
			return err
		case whole == 0 && len(buf) < g.longest:
			continue // a long line goes on
		case whole == 0:
			whole, cutting = len(buf), true
			g.cut()
		}
		if err := g.block(buf[:whole]); err != nil {
			return err
		}
		buf = append(buf[:0], buf[whole:]...)
	}
}

// cut tells once that a line was cut.
func (g *grep) cut() {
	if !g.told {
		g.skip(g.name, fmt.Sprintf("has lines of more than %d bytes, which are searched that far", g.longest))
	}
	g.told = true
}

// dropLine removes the rest of a line that was cut, and reports whether it still goes on.
func dropLine(buf []byte) (rest []byte, more bool) {
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		return buf[:0], true
	}
	return append(buf[:0], buf[end+1:]...), false
}

// block searches whole lines; the last of a file may have no line feed.
func (g *grep) block(b []byte) error {
	if g.skips(b) {
		g.number += int64(bytes.Count(b, []byte("\n")))
		if !bytes.HasSuffix(b, []byte("\n")) {
			g.number++ // the line that was cut
		}
		g.remember(lastLines(b, g.Before)...)
		return nil
	}
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		if err := g.line(line); err != nil {
			return err
		}
		if g.lines.Size*len(line) > maxSteps/16 && g.over() {
			return errEnough
		}
		b = rest
	}
	return nil
}

// skips reports whether nothing in b is wanted, by a quick look.
func (g *grep) skips(b []byte) bool {
	if g.after > 0 {
		return false
	}
	lacks, scratch := g.lines.Lacks(b, g.scratch)
	g.scratch = scratch
	return lacks || g.lines.Block != nil && len(b)*g.lines.Size <= maxSteps && !g.lines.Block.Match(b)
}

// lastLines gives the last n lines of b, which is not empty.
func lastLines(b []byte, n int64) [][]byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	var lines [][]byte
	for at := len(b); n > 0 && at >= 0; n-- {
		b = b[:at]
		at = bytes.LastIndexByte(b, '\n')
		lines = append(lines, b[at+1:])
	}
	slices.Reverse(lines)
	return lines
}

// remember keeps lines for the context of a match to come.
func (g *grep) remember(lines ...[]byte) {
	for _, line := range lines {
		if g.Before > 0 {
			g.before = append(g.before, slices.Clone(line[:min(len(line), maxShown+1)]))
		}
	}
	if extra := len(g.before) - int(g.Before); extra > 0 {
		g.before = slices.Delete(g.before, 0, extra)
	}
}

// line looks at one line.
func (g *grep) line(line []byte) error {
	if len(line) > g.longest {
		g.cut()
		line = line[:g.longest]
	}
	at := g.lines.Line.FindIndex(line)
	defer func() { g.number++ }()
	switch {
	case at != nil && g.FilesOnly:
		if g.add(sandboxprofile.Line{Path: g.name}); g.found.Stopped == "" {
			g.found.Matches++
		}
		return errEnough
	case at != nil:
		return g.match(line, at[0])
	case g.after > 0:
		g.after--
		g.add(sandboxprofile.Line{Path: g.name, Number: g.number, Text: shown(line, 0), Context: true})
	default:
		g.remember(line)
	}
	if g.found.Stopped != "" {
		return errEnough
	}
	return nil
}

// match adds a matching line and the context before it.
func (g *grep) match(line []byte, at int) error {
	if g.found.Matches >= g.Limit {
		g.found.Stopped = sandboxprofile.StoppedAtLimit
		return errEnough
	}
	for i, before := range g.before {
		number := g.number - int64(len(g.before)-i)
		g.add(sandboxprofile.Line{Path: g.name, Number: number, Text: shown(before, 0), Context: true})
	}
	g.before, g.after = nil, g.After
	g.add(sandboxprofile.Line{Path: g.name, Number: g.number, Text: shown(line, at)})
	if g.found.Stopped != "" {
		return errEnough
	}
	g.found.Matches++
	return nil
}

// add puts a line into the result. With FilesOnly each is one of Limit; context
// is bounded by its matches.
func (g *grep) add(l sandboxprofile.Line) {
	have := int64(0)
	if g.FilesOnly {
		have = int64(len(g.found.Lines))
	}
	if g.room(have, int64(len(l.Path)+len(l.Text))) {
		g.found.Lines = append(g.found.Lines, l)
	}
}

// shown is a line as it is given: at most maxShown bytes around the byte at.
func shown(line []byte, at int) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= maxShown {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	from := min(max(0, at-maxShown/4), len(line)-maxShown)
	for from > 0 && from < len(line) && !utf8.RuneStart(line[from]) {
		from--
	}
	to := min(from+maxShown, len(line))
	for to < len(line) && to > from && !utf8.RuneStart(line[to]) {
		to--
	}
	text := strings.ToValidUTF8(string(line[from:to]), "\uFFFD")
	if from > 0 {
		text = "[...]" + text
	}
	if to < len(line) {
		text += "[...]"
	}
	return text
}
