package audit

import (
	"errors"
	"io"
	"iter"
	"runtime"
)

// A parsed is a line and what parseLine makes of it.
type parsed struct {
	line  []byte
	entry Entry
	fault Fault
	err   error
}

func (p *parsed) parse() { p.entry, p.fault, p.err = parseLine(p.line) }

// How lines are handed to other processors: those at the start are parsed at once,
// since most readers want no more.
const (
	linesAtOnce = 64
	batchLines  = 512
	batchBytes  = 256 << 10
)

// parseLines reads the lines of r in their order, until its end or an error of reading.
// What a line says, and its hash, depend on no other line, so a long log is parsed by
// all processors; how a line follows the one before it is for the caller to look at.
func parseLines(r io.Reader) iter.Seq2[*parsed, error] {
	return func(yield func(*parsed, error) bool) {
		lines := newLineReader(r)
		for range linesAtOnce {
			line, err := lines.read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			p := &parsed{line: line}
			p.parse()
			if !yield(p, nil) {
				return
			}
		}
		parseMany(lines, yield)
	}
}

// A batch is lines that one processor parses.
type batch struct {
	lines []parsed
	err   error // of reading, behind the lines
	done  chan struct{}
}

// parseMany is parseLines with all processors.
func parseMany(lines *lineReader, yield func(*parsed, error) bool) {
	n := runtime.GOMAXPROCS(0)
	inOrder, work, quit := make(chan *batch, 2*n), make(chan *batch, 2*n), make(chan struct{})
	go func() {
		defer close(inOrder)
		defer close(work)
		for last := false; !last; {
			b := readBatch(lines)
			last = b.err != nil
			select {
			case inOrder <- b:
			case <-quit:
				return
			}
			work <- b // there is room for all that is in order
		}
	}()
	for range n {
		go func() {
			for b := range work {
				for i := range b.lines {
					b.lines[i].parse()
				}
				close(b.done)
			}
		}()
	}
	defer func() { // the caller may close the file as soon as we have returned
		close(quit)
		for range inOrder {
		}
	}()
	for b := range inOrder {
		<-b.done
		for i := range b.lines {
			if !yield(&b.lines[i], nil) {
				return
			}
		}
		if b.err != nil && !errors.Is(b.err, io.EOF) {
			yield(nil, b.err)
			return
		}
	}
}

func readBatch(lines *lineReader) *batch {
	b := &batch{done: make(chan struct{}), lines: make([]parsed, 0, batchLines)}
	for size := 0; len(b.lines) < batchLines && size < batchBytes; {
		line, err := lines.read()
		if err != nil {
			b.err = err
			break
		}
		size += len(line)
		b.lines = append(b.lines, parsed{line: line})
	}
	return b
}
