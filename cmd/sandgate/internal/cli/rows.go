package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/ui/present"
)

// All that a command writes to a terminal goes through rows, since newApp puts them in place of
// the terminal. A terminal breaks a long line by itself, and what follows the break begins in
// column 0, as a row of ours does. An agent that chooses the length of a name or a command
// could choose that place, and forge a whole row in a log: an approval that nobody gave. So
// rows break lines themselves. What follows a break has a mark before it.
type rows struct {
	file *os.File
	at   *column
}

// A column is where standard output and standard error stand, on the terminal that they share.
type column struct {
	mu    sync.Mutex
	cells int
}

// inRows puts rows in place of each writer that is a terminal.
func inRows(writers ...*io.Writer) {
	at := &column{}
	for _, w := range writers {
		if file, ok := (*w).(*os.File); ok && IsTerminal(file) {
			*w = rows{file, at}
		}
	}
}

// Bare is the file itself, for what needs each byte as it is and has no text of an agent's in a
// line of ours: programs, screens that break lines themselves, and what other programs read.
func Bare(w io.Writer) io.Writer {
	if r, ok := w.(rows); ok {
		return r.file
	}
	return w
}

// Encoder writes JSON, which is the same value wherever it goes.
func Encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(JSON(w))
	e.SetEscapeHTML(false)
	return e
}

// JSON is for the text of JSON. A terminal gets it in ASCII, with the rest as code points: some of them take
// U+009B for the beginning of a sequence, and all turn the order of other letters around. What other
// programs read has its bytes.
func JSON(w io.Writer) io.Writer {
	if r, ok := w.(rows); ok {
		return ascii{r.file}
	}
	return w
}

type ascii struct{ to io.Writer }

// Write implements io.Writer. No part begins within a character.
func (a ascii) Write(text []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(text) {
		if r < unicode.MaxASCII {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	if _, err := io.WriteString(a.to, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// OurCodes are the escape sequences that commands write themselves. All others are shown.
var OurCodes = []string{Green, Red, Dim, Plain}

// Write implements io.Writer. A line may come in parts, of which none begins within a character.
func (r rows) Write(text []byte) (int, error) {
	width, _, _ := TerminalSize(r.file)
	r.at.mu.Lock()
	defer r.at.mu.Unlock()
	var b strings.Builder
	r.at.shape(&b, string(text), max(width, 2*present.Width(present.Margin)))
	if _, err := io.WriteString(r.file, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (c *column) shape(b *strings.Builder, text string, width int) {
	for text != "" {
		n := strings.IndexAny(text, "\n\r\t\x1b")
		if n < 0 {
			n = len(text)
		}
		if n == 0 {
			n = c.special(b, text, width)
		} else {
			c.fill(b, approval.Escape(text[:n]), width)
		}
		text = text[n:]
	}
}

// special writes what moves the cursor or sets a colour, and reports how many bytes it was.
func (c *column) special(b *strings.Builder, text string, width int) int {
	const tab = 8
	switch {
	case text[0] == '\n':
		b.WriteString("\r\n") // a program has the terminal, perhaps: it does not add the return then
		c.cells = 0
		return 1
	case strings.HasPrefix(text, "\r\n"):
		return 1
	case text[0] == '\t':
		c.fill(b, strings.Repeat(" ", tab-c.cells%tab), width)
		return 1
	}
	for _, code := range OurCodes {
		if strings.HasPrefix(text, code) {
			b.WriteString(code)
			return len(code)
		}
	}
	c.fill(b, approval.Escape(text[:1]), width)
	return 1
}

// fill writes a part of a line, and breaks it where it has no room, behind a blank if there is one near.
func (c *column) fill(b *strings.Builder, text string, width int) {
	margin := present.Width(present.Margin)
	for text != "" {
		room := width - c.cells
		n := present.Fill(text, room)
		if fits := present.Width(text[:n]) <= room; fits || c.cells <= margin {
			if blank := strings.LastIndexByte(text[:n], ' '); n < len(text) && blank >= n*2/3 {
				n = blank + 1
			}
			b.WriteString(text[:n])
			c.cells += present.Width(text[:n])
			text = text[n:]
		}
		if text != "" {
			b.WriteString("\r\n" + present.Margin)
			c.cells = margin
		}
	}
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f any) bool {
	if _, ok := f.(rows); ok {
		return true
	}
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// TerminalSize is the size of a terminal in cells; for a pipe it is zero.
func TerminalSize(w io.Writer) (width, height int, ok bool) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, 0, false
	}
	_, err := OnTerminal(file, func(fd int) (_ struct{}, err error) {
		width, height, err = term.GetSize(fd)
		return struct{}{}, err
	})
	if width <= 0 { // a terminal that does not say
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	return width, height, err == nil
}

const (
	Green = "\x1b[32m"
	Red   = "\x1b[31m"
	Dim   = "\x1b[2m"
	Plain = "\x1b[0m"
)

// OnTerminal does something with a descriptor, and leaves it as it is for reading: File.Fd
// would make reads block forever, and closing the file would not end them.
func OnTerminal[T any](f *os.File, do func(fd int) (T, error)) (got T, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return got, err
	}
	if outer := raw.Control(func(fd uintptr) { got, err = do(int(fd)) }); outer != nil {
		return got, outer
	}
	return got, err
}
