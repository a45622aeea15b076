package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"
)

// A Filter chooses entries. An empty field does not restrict; all others must hold.
type Filter struct {
	Session string    `json:"session,omitempty"`
	Call    string    `json:"call,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Kinds   []Kind    `json:"kinds,omitempty"`
	Since   time.Time `json:"since,omitzero"` // inclusive
	Until   time.Time `json:"until,omitzero"` // exclusive
}

// Match reports whether e is chosen.
func (f Filter) Match(e Entry) bool {
	same := func(want, have string) bool { return want == "" || want == have }
	return same(f.Session, e.Session) && same(f.Call, e.Call) && same(f.Tool, e.Tool) && same(f.Agent, e.Agent) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) &&
		(f.Until.IsZero() || e.Time.Before(f.Until))
}

// Query reads the entries of the log at path that f chooses, oldest first. A line
// that is not what was written comes as a *ChainError, and reading goes on behind
// it; any other error is the last. Query does not check how lines follow one
// another: that is Verify's.
func Query(path string, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r, err := openReader(path)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer r.close()
		r.line = 1
		r.drain(func(e Entry, err error) bool {
			return err == nil && !f.Match(e) || yield(e, err)
		})
	}
}

// Tail reads the last n lines of the log at path, as Query does.
func Tail(path string, n int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r, err := openReader(path)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer r.close()
		if err := r.seekLast(n); err != nil {
			yield(Entry{}, err)
			return
		}
		r.drain(yield)
	}
}

// Follow is a Tail that goes on with what is appended later, looking every so
// often, until ctx ends. When the log is replaced by another it goes on with that.
func Follow(ctx context.Context, path string, n int, every time.Duration) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r, err := openReader(path)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer func() { r.close() }()
		if err := r.seekLast(n); err != nil {
			yield(Entry{}, err)
			return
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for r.drain(yield) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := r.reopen(); err != nil {
				yield(Entry{}, err)
				return
			}
		}
	}
}

// A reader reads the complete lines of a log that may be growing.
type reader struct {
	path   string
	f      *os.File
	offset int64  // of the next line
	line   uint64 // its number, 0 if not known
}

func openReader(path string) (*reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("audit: read: %w", err)
	}
	return &reader{path: path, f: f}, nil
}

func (r *reader) close() { _ = r.f.Close() } // it was only read

// size is the size in bytes at a moment without writers.
func (r *reader) size() (int64, error) {
	unlock, err := lockShared(r.f)
	if err != nil {
		return 0, err
	}
	defer unlock()
	st, err := r.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// drain yields what is between offset and the end, and reports whether the caller
// wants more.
func (r *reader) drain(yield func(Entry, error) bool) bool {
	size, err := r.size()
	if err == nil && size < r.offset {
		err = &ChainError{Offset: size, Fault: FaultCut, Detail: fmt.Sprintf("the log once had %d bytes", r.offset)}
	}
	if err != nil {
		yield(Entry{}, fmt.Errorf("audit: read %q: %w", r.path, err))
		return false
	}
	for p, err := range parseLines(io.NewSectionReader(r.f, r.offset, size-r.offset)) {
		if err != nil {
			yield(Entry{}, fmt.Errorf("audit: read %q: %w", r.path, err))
			return false
		}
		if !yield(r.next(p)) {
			return false
		}
	}
	return true
}

// next goes past a line.
func (r *reader) next(p *parsed) (Entry, error) {
	err := p.err
	if err != nil {
		err = &ChainError{Line: r.line, Offset: r.offset, Fault: p.fault, Detail: err.Error()}
	}
	r.offset += int64(len(p.line))
	if r.line > 0 {
		r.line++
	}
	return p.entry, err
}

// reopen goes to the start of the file that path names now, if it is another.
func (r *reader) reopen() error {
	ours, err := r.f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(r.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && os.SameFile(ours, named) {
		return nil
	}
	next, err := openReader(r.path)
	if err != nil {
		return err
	}
	r.close()
	*r = *next
	return nil
}

// seekLast moves to where the last n lines begin, reading from the end.
func (r *reader) seekLast(n int) error {
	end, err := r.size()
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for left := max(n, 0) + 1; end > 0; { // the newline before the n-th line from the end counts too
		b := buf[:min(int64(len(buf)), end)]
		if _, err := r.f.ReadAt(b, end-int64(len(b))); err != nil {
			return err
		}
		for i := len(b); i >= 0; {
			i = bytes.LastIndexByte(b[:i], '\n')
			if i < 0 {
				break
			}
			if left--; left == 0 {
				r.offset = end - int64(len(b)) + int64(i) + 1
				return nil
			}
		}
		end -= int64(len(b))
	}
	r.offset = 0
	return nil
}
