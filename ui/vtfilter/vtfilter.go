// Package vtfilter lets through of a program's output what a terminal shows, and nothing
// that it acts on.
//
// Output of a stranger's program on a person's terminal can set the clipboard (OSC 52),
// rename the window, ask for an answer that the terminal then types (reports of the
// cursor, the title or the version), switch on reports of the mouse, hide text, or leave
// the terminal unusable. Text, colours, moving about and erasing are let through: progress
// bars are made of them.
package vtfilter

import (
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// A Writer filters what is written to it. What it lets through it writes anew from what
// was read, so that no two readings of the same bytes matter. It is for one goroutine at
// a time.
type Writer struct {
	to     io.Writer
	parser *ansi.Parser
	out    []byte

	coloured, hidden bool // a person's terminal has to be put right at the end
}

// New gives a filter in front of a terminal.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, parser: ansi.NewParser()}
	w.parser.SetDataSize(1) // strings are dropped
	w.parser.SetHandler(ansi.Handler{Print: w.print, Execute: w.control, HandleCsi: w.csi, HandleEsc: w.esc})
	return w
}

// Write implements io.Writer. It writes what is complete.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for _, b := range p {
		w.parser.Advance(b)
	}
	if len(w.out) > 0 {
		if _, err := w.to.Write(w.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close puts colours and the cursor back to what they are without a program, if the
// program has changed them. What is written under them later is not the program's.
func (w *Writer) Close() error {
	var end []byte
	if w.coloured {
		end = append(end, ansi.ResetStyle...)
	}
	if w.hidden {
		end = append(end, ansi.ShowCursor...)
	}
	w.coloured, w.hidden = false, false
	w.parser.Reset()
	if len(end) == 0 {
		return nil
	}
	_, err := w.to.Write(end)
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
	}
}

// esc lets through what saves and restores the cursor, and moves it by a line.
func (w *Writer) esc(cmd ansi.Cmd) {
	switch cmd {
	case '7', '8', 'D', 'E', 'M':
		w.out = append(w.out, ansi.ESC, byte(cmd))
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
	case 'm':
		for i, p := range params {
			if p.Param(0) == conceal && (i == 0 || !params[i-1].HasMore() && !isColour(params, i)) {
				return
			}
		}
		w.coloured = true
	case 'h' | '?'<<prefixShift, 'l' | '?'<<prefixShift:
		if len(params) != 1 || params[0].Param(0) != cursorMode {
			return
		}
		w.hidden = cmd.Final() == 'l'
	default:
		return
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
	w.out = append(w.out, cmd.Final())
}

const (
	prefixShift = 8
	cursorMode  = 25    // DECTCEM
	maxParam    = 16383 // what xterm takes
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
