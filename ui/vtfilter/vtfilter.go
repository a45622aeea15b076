// Package vtfilter lets through of a program's output what a terminal shows, and nothing
// that it acts on.
//
// Output of a stranger's program on a person's terminal can set the clipboard (OSC 52),
// rename the window, ask for an answer that the terminal then types (reports of the
// cursor, the title or the version), switch on reports of the mouse, hide text, or leave
// the terminal unusable. Text, colours, moving about and erasing are let through: progress
// bars are made of them. A program that has the whole screen also gets what editors and
// pagers are made of, and it is undone when the program ends.
package vtfilter

import (
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/parser"
)

// A Writer filters what is written to it. What it lets through it writes anew from what
// was read, so that no two readings of the same bytes matter. It is for one goroutine at
// a time.
type Writer struct {
	to     io.Writer
	reader *ansi.Parser
	out    []byte
	modes  []mode // that a program may change
	screen bool

	// What of a person's terminal has to be put right at the end.
	changed                            map[int]bool // modes that are not as they were
	coloured, characters, keys, insert bool
	region, cursor                     bool

	moved bool // the cursor may stand in front of, or above, what a program has written
}

// A mode is one of DECSET, and whether it is set without a program.
type mode struct {
	number int
	usual  bool
}

// What a program may change anywhere, and what one may that has the whole screen, in the
// order in which it is undone. The mouse, the focus and pasting become input of the program
// only, since what a person types goes to it.
var (
	cursorModes = []mode{{25, true}}
	screenModes = append([]mode{
		{1, false}, {5, false}, {7, true}, {12, false}, {1000, false}, {1002, false}, {1003, false}, {1004, false}, {1006, false},
		{2004, false}, {2026, false}, {47, false}, {1047, false}, {1048, false}, {1049, false},
	}, cursorModes...)
)

// NewScreen gives a filter in front of a terminal that a program has for itself.
func NewScreen(to io.Writer) *Writer {
	w := New(to)
	w.modes, w.screen = screenModes, true
	return w
}

// New gives a filter in front of a terminal.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, reader: ansi.NewParser(), modes: cursorModes, changed: map[int]bool{}}
	w.reader.SetDataSize(1) // strings are dropped
	w.reader.SetHandler(ansi.Handler{Print: w.print, Execute: w.control, HandleCsi: w.csi, HandleEsc: w.esc})
	return w
}

// Write implements io.Writer. It writes what is complete.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for i := 0; i < len(p); i++ {
		if w.reader.State() == parser.GroundState { // most of it is plain
			end := i
			for end < len(p) && p[end] >= ' ' && p[end] < 0x7f {
				end++
			}
			w.out = append(w.out, p[i:end]...)
			if i = end; i == len(p) {
				break
			}
		}
		w.reader.Advance(p[i])
	}
	if len(w.out) > 0 {
		if _, err := w.to.Write(w.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close puts colours, the cursor and whatever else the program has changed back to what
// they are without it. What is written under them later is not the program's.
func (w *Writer) Close() error {
	var end []byte
	for _, c := range []struct {
		changed *bool
		back    string
	}{
		{&w.coloured, ansi.ResetStyle}, {&w.characters, "\x1b(B\x1b)B\x0f"}, {&w.keys, "\x1b>"}, {&w.insert, "\x1b[4l"},
		{&w.region, "\x1b7\x1b[r\x1b8"}, {&w.cursor, "\x1b[0 q"},
	} {
		if *c.changed {
			end = append(end, c.back...)
		}
		*c.changed = false
	}
	for _, m := range w.modes {
		if w.changed[m.number] {
			final := map[bool]string{true: "h", false: "l"}[m.usual]
			end = append(end, "\x1b[?"+strconv.Itoa(m.number)+final...)
		}
	}
	clear(w.changed)
	w.reader.Reset()
	if len(end) == 0 {
		return nil
	}
	_, err := w.to.Write(end)
	return err
}

// Yield is Close for what is asked in the middle of the program's output: behind it nothing of the program's
// stands beside or below what is written next.
func (w *Writer) Yield() error {
	err := w.Close()
	if err == nil && w.moved {
		w.moved = false
		_, err = io.WriteString(w.to, "\r\n"+ansi.EraseScreenBelow)
	}
	return err
}

// print is for a character. Controls that are encoded as characters (C1) begin sequences
// in some terminals.
func (w *Writer) print(r rune) {
	if !unicode.IsControl(r) {
		w.out = utf8.AppendRune(w.out, r)
	}
}

// control lets through what moves the cursor in text. Others have the terminal answer
// (ENQ) or change its characters (SO, SI).
func (w *Writer) control(b byte) {
	switch b {
	case '\n', '\r', '\t', '\b', '\v', '\f', '\a':
		w.out = append(w.out, b)
	case so, si:
		if w.screen {
			w.characters = true
			w.out = append(w.out, b)
		}
	}
}

const so, si = 0x0e, 0x0f

// esc lets through what saves and restores the cursor, and moves it by a line.
func (w *Writer) esc(cmd ansi.Cmd) {
	switch cmd {
	case '7', '8', 'D', 'E', 'M':
		w.moved = true
		w.out = append(w.out, ansi.ESC, byte(cmd))
	case '=', '>', 'H': // the keypad's keys, a tabulator
		if w.screen {
			w.keys = w.keys || cmd != 'H'
			w.out = append(w.out, ansi.ESC, byte(cmd))
		}
	case '0' | '('<<intermediateShift, 'B' | '('<<intermediateShift, '0' | ')'<<intermediateShift, 'B' | ')'<<intermediateShift: // lines, ASCII
		if w.screen {
			w.characters = true
			w.out = append(w.out, ansi.ESC, cmd.Intermediate(), cmd.Final())
		}
	}
}

const conceal = 8 // of SGR: text in the colour of what is behind it

// csi lets through control sequences that only change what is seen (ECMA-48, and
// ctlseqs of xterm).
func (w *Writer) csi(cmd ansi.Cmd, params ansi.Params) {
	switch cmd {
	case 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'Z', 'a', 'd', 'e', 'f', '`', // the cursor
		'J', 'K', 'L', 'M', 'P', 'X', '@', 'S', 'T', // erase, insert, scroll
		's', 'u': // save and restore
		w.moved = true
	case 'm':
		for i, p := range params {
			if p.Param(0) == conceal && (i == 0 || !params[i-1].HasMore() && !isColour(params, i)) {
				return
			}
		}
		w.coloured = true
	case 'h' | '?'<<prefixShift, 'l' | '?'<<prefixShift:
		if !w.setModes(params, cmd.Final() == 'h') {
			return
		}
	default:
		if !w.screen || !w.ofScreens(cmd, params) {
			return
		}
	}
	w.out = append(w.out, ansi.ESC, '[')
	if p := cmd.Prefix(); p != 0 {
		w.out = append(w.out, p)
	}
	for i, p := range params {
		if n := p.Param(-1); n >= 0 {
			w.out = strconv.AppendInt(w.out, int64(min(n, maxParam)), 10)
		}
		switch {
		case i == len(params)-1:
		case p.HasMore():
			w.out = append(w.out, ':')
		default:
			w.out = append(w.out, ';')
		}
	}
	if i := cmd.Intermediate(); i != 0 {
		w.out = append(w.out, i)
	}
	w.out = append(w.out, cmd.Final())
}

// setModes notes what becomes of modes, and reports whether each is one of ours.
func (w *Writer) setModes(params ansi.Params, on bool) bool {
	usual := map[int]bool{}
	for _, m := range w.modes {
		usual[m.number] = m.usual
	}
	for _, p := range params {
		if _, ours := usual[p.Param(0)]; !ours {
			return false
		}
	}
	for _, p := range params {
		w.changed[p.Param(0)] = usual[p.Param(0)] != on
	}
	return len(params) > 0
}

// ofScreens reports whether a sequence is one that programs need which have the screen.
func (w *Writer) ofScreens(cmd ansi.Cmd, params ansi.Params) bool {
	switch cmd {
	case 'r': // the region that scrolls
		w.region = true
	case 'b', 'g': // repeat a character, clear tabulators
	case 'h', 'l': // insert
		if len(params) != 1 || params[0].Param(0) != 4 {
			return false
		}
		w.insert = cmd == 'h'
	case 'q' | ' '<<intermediateShift: // the cursor's form
		w.cursor = true
	default:
		return false
	}
	return true
}

const (
	prefixShift       = 8
	intermediateShift = 16
	maxParam          = 16383 // what xterm takes
)

// isColour reports whether params[i] is part of a colour that began before it: 38;5;N or
// 38;2;R;G;B, and the same with 48 and 58.
func isColour(params ansi.Params, i int) bool {
	for at := 0; at < i; {
		switch params[at].Param(0) {
		default:
			at++
			continue
		case 38, 48, 58:
		}
		if params[at].HasMore() || at+1 >= len(params) {
			at++
			continue
		}
		width := 2
		switch params[at+1].Param(0) {
		case 5:
			width = 3
		case 2:
			width = 5
		}
		if i < at+width {
			return true
		}
		at += width
	}
	return false
}
