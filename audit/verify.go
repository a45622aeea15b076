package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A Report is the result of a walk along the chain. If the walk ended at a bad line, the report
// covers the entries before it.
type Report struct {
	Entries uint64       `json:"entries"`
	First   time.Time    `json:"first,omitzero"`
	Last    time.Time    `json:"last,omitzero"`
	Head    string       `json:"head"` // hash of the last entry
	Size    int64        `json:"size"` // bytes up to the end of the last entry
	Kinds   map[Kind]int `json:"kinds"`
	Open    []CallID     `json:"open,omitempty"` // calls with a decision and no end
	// Checkpoint is the number of the entry that the log is known to have
	// reached; a log that ends before it was cut. 0 without a checkpoint.
	Checkpoint uint64 `json:"checkpoint"`
}

// A CallID names a call; call identifiers are unique in a session only.
type CallID struct {
	Session string `json:"session,omitempty"`
	Call    string `json:"call"`
}

// Verify walks the chain in r from its first entry. The error is a *ChainError
// when the log is broken, and otherwise one of reading r. It does not know how
// long the log should be: see VerifyFile.
func Verify(r io.Reader) (Report, error) {
	return verify(r, nil)
}

// verify calls at with each entry and the place after it, if at is not nil.
func verify(r io.Reader, at func(Entry, chain) error) (Report, error) {
	report := Report{Kinds: map[Kind]int{}}
	calls := openCalls{}
	c, err := walk(newChain(), r, func(e Entry, from, to chain) error {
		report.add(e)
		calls.apply(e, from.offset)
		if at == nil {
			return nil
		}
		return at(e, to)
	})
	report.Head, report.Size = c.hash, c.offset
	report.Open = calls.ids()
	return report, err
}

func (r *Report) add(e Entry) {
	if r.Entries == 0 {
		r.First = e.Time
	}
	r.Last = e.Time
	r.Entries++
	r.Kinds[e.Kind]++
}

// walk reads entries from r, which starts at c, until the end or the first bad
// line, and returns the place after the last good one.
func walk(c chain, r io.Reader, visit func(e Entry, from, to chain) error) (chain, error) {
	for p, err := range parseLines(r) {
		if err != nil {
			return c, err
		}
		from := c
		e, err := c.link(p)
		if err != nil {
			return c, err
		}
		if err := visit(e, from, c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// VerifyFile verifies the log at path and holds it against the checkpoint beside
// it, if there is one. It may run while the log is being written: it looks at what
// was there when it began.
func VerifyFile(path string) (Report, error) {
	report, err := verifyFile(path)
	if err != nil {
		return report, fmt.Errorf("audit: verify %q: %w", path, err)
	}
	return report, nil
}

func verifyFile(path string) (Report, error) { return verifyFileWith(path, nil) }

// verifyFileWith is verifyFile that hands on each entry, if visit is not nil.
func verifyFileWith(path string, visit func(Entry) error) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	size, cp, err := snapshot(f, path)
	if err != nil {
		return Report{}, err
	}
	return verifyAgainst(io.NewSectionReader(f, 0, size), cp, visit)
}

// verifyAgainst verifies a log that must contain the entry which cp names, where
// cp says it is. A nil cp asks for nothing.
func verifyAgainst(r io.Reader, cp *checkpoint, visit func(Entry) error) (Report, error) {
	reached := cp == nil || cp.Seq == 0
	report, err := verify(r, func(e Entry, c chain) error {
		if cp != nil && c.seq == cp.Seq {
			reached = true
			if err := cp.matches(c); err != nil {
				return err
			}
		}
		if visit == nil {
			return nil
		}
		return visit(e)
	})
	if cp != nil {
		report.Checkpoint = cp.Seq
	}
	if err == nil && !reached {
		err = cp.cut(report)
	}
	return report, err
}

// snapshot returns the size and the checkpoint that belong together. Writers are
// kept out for as long as that takes, so that no line is seen half written.
func snapshot(f *os.File, path string) (int64, *checkpoint, error) {
	unlock, err := lockShared(f)
	if err != nil {
		return 0, nil, err
	}
	defer unlock()
	st, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	cp, err := readCheckpoint(path)
	if errors.Is(err, os.ErrNotExist) {
		return st.Size(), nil, nil
	}
	return st.Size(), cp, err
}
