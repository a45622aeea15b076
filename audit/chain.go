package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Fault says what is wrong with a line.
type Fault string

const (
	FaultTorn    Fault = "torn"     // the last line has no newline: it was not written to its end
	FaultTooLong Fault = "too_long" // longer than MaxLine
	FaultJSON    Fault = "json"     // not a JSON object of this format
	FaultHash    Fault = "hash"     // the line is not what it was when it was hashed
	FaultVersion Fault = "version"  // written by a newer sandgate
	FaultSeq     Fault = "seq"      // an entry is missing, repeated, or out of its place
	FaultPrev    Fault = "prev"     // the entry was not chained to the one before it
	// FaultCut is a log that ends before its checkpoint.
	FaultCut Fault = "cut"
	// FaultCheckpoint is a checkpoint that cannot be read, or that names another log.
	FaultCheckpoint Fault = "checkpoint"
)

// A ChainError names the first bad line of a log.
type ChainError struct {
	// Line counts from 1, and is also the Seq that the line should have had. It is
	// 0 where the log was not read from its start.
	Line   uint64 `json:"line,omitzero"`
	Offset int64  `json:"offset"` // of the line's first byte
	Fault  Fault  `json:"fault"`
	Detail string `json:"detail"`
}

func (e *ChainError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("byte %d: %s: %s", e.Offset, e.Fault, e.Detail)
	}
	return fmt.Sprintf("line %d (byte %d): %s: %s", e.Line, e.Offset, e.Fault, e.Detail)
}

// A chain is a place in a log: what the next line has to continue.
type chain struct {
	seq    uint64 // of the last entry, 0 before the first
	hash   string // of the last entry
	offset int64  // of the first byte after it
}

func newChain() chain { return chain{hash: ZeroHash} }

// advance moves c past e, whose line, newline included, has n bytes.
func (c *chain) advance(e *Entry, n int) {
	c.seq, c.hash = e.Seq, e.Hash
	c.offset += int64(n)
}

// next checks the line that follows c, newline included, and moves past it.
func (c *chain) next(line []byte) (Entry, error) {
	p := parsed{line: line}
	p.parse()
	return c.link(&p)
}

// link is next for a line that is parsed.
func (c *chain) link(p *parsed) (Entry, error) {
	if p.err != nil {
		return Entry{}, c.fault(p.fault, p.err.Error())
	}
	e := p.entry
	if e.Seq != c.seq+1 {
		return Entry{}, c.fault(FaultSeq, fmt.Sprintf("it says %d", e.Seq))
	}
	if e.Prev != c.hash {
		return Entry{}, c.fault(FaultPrev, fmt.Sprintf("it follows %.12s..., the entry before it is %.12s...", e.Prev, c.hash))
	}
	c.advance(&e, len(p.line))
	return e, nil
}

func (c *chain) fault(f Fault, detail string) *ChainError {
	return &ChainError{Line: c.seq + 1, Offset: c.offset, Fault: f, Detail: detail}
}

// parseLine reads one line by itself, whatever comes before it. The hash comes
// first: of a line that was changed, nothing else that it says is worth telling. The
// entry may share memory with the line.
func parseLine(line []byte) (Entry, Fault, error) {
	body, terminated := bytes.CutSuffix(line, []byte{'\n'})
	if !terminated && len(line) < MaxLine {
		return Entry{}, FaultTorn, fmt.Errorf("%d bytes without a newline", len(line))
	}
	if len(line) > MaxLine || !terminated {
		return Entry{}, FaultTooLong, fmt.Errorf("more than %d bytes", MaxLine)
	}
	hashed, claim, ok := splitSeal(body)
	switch {
	case ok && string(claim) == hashOf(hashed):
		return decodeEntry(body)
	case !json.Valid(body):
		return Entry{}, FaultJSON, errors.New("not JSON")
	case !ok:
		return Entry{}, FaultHash, errors.New("the line does not end in a hash")
	}
	return Entry{}, FaultHash, fmt.Errorf("it claims %.12s… and its content gives %.12s…", claim, hashOf(hashed))
}

// decodeEntry reads a line whose hash is right. The entry may share memory with body.
func decodeEntry(body []byte) (Entry, Fault, error) {
	if e, ok := decodeOwn(body); ok {
		return e, "", nil
	}
	return decodeAny(body)
}

func decodeAny(body []byte) (Entry, Fault, error) {
	var e Entry
	if err := json.Unmarshal(body, &e); err != nil {
		return Entry{}, FaultJSON, err
	}
	if e.Version != FormatVersion {
		return Entry{}, FaultVersion, fmt.Errorf("format %d, this program reads %d", e.Version, FormatVersion)
	}
	return e, "", nil
}

// A lineReader reads lines with their newlines and holds no more than MaxLine
// bytes of one, whatever the file holds.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader { return &lineReader{bufio.NewReaderSize(r, 64<<10)} }

// read returns the next line. A result without a newline at its end is the torn
// end of the file, or, with MaxLine bytes or more, the start of a line that is too
// long. The error is io.EOF only when nothing is left.
func (l *lineReader) read() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(line) >= MaxLine {
				return line, nil
			}
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		default:
			return nil, err
		}
	}
}
